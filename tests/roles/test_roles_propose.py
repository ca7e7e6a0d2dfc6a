"""Proposals on schemas of the kinds that people have.

The cases are in ``proposals.txt``, and those after public schemas in ``experts.txt``.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from privbench.roles import Kind, Proposal, propose, render
from privbench.schema import Schema

Read = Callable[[str], Schema]


def _cases(file: str) -> dict[str, tuple[str, dict[str, list[str]]]]:
    """By title: the schema, and what is said of the proposal, by kind."""
    found = {}
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    for part in text.split("\n== ")[1:]:
        title, *lines = part.strip().splitlines()
        said = defaultdict(list)
        for line in lines:
            if line.startswith("= "):
                kind, _, rest = line.removeprefix("= ").partition(" ")
                said[kind].append(rest)
        found[title] = ("\n".join(line for line in lines if not line.startswith("= ")), said)
    return found


CASES = _cases("proposals.txt")
EXPERTS = _cases("experts.txt")


def _short(name: object) -> str:
    return str(name).removeprefix("public.")


def _owners(proposal: Proposal) -> list[str]:
    """``table: owner by columns`` of every owned table, without the schema's name."""
    return sorted(
        f"{_short(name)}: {_short(item.owner)} by {', '.join(item.own)}"
        for name, item in proposal.tables.items()
        if item.own is not None
    )


@pytest.mark.parametrize("case", CASES)
def test_what_is_proposed(case, read):
    schema, said = read(CASES[case][0]), CASES[case][1]
    proposal = propose(schema)
    tables = {_short(name): item for name, item in proposal.tables.items()}
    assert proposal.unit in (said["unit"] or ["owner"]) or said["unit"] == ["any"]
    assert _owners(proposal) == sorted(said["own"])
    assert _owners(propose(Schema(tuple(reversed(schema.tables))))) == sorted(said["own"])
    if said["lookup"]:
        names = [] if said["lookup"] == ["none"] else said["lookup"]
        assert sorted(map(_short, proposal.lookups)) == sorted(names)
    if said["public"]:
        assert {*map(_short, proposal.public())} == {*said["public"]} - {"none"}
    for line in said["kind"]:
        name, kind = line.split(": ")
        assert tables[name].kind is Kind[kind]
    for name, words in (line.split(":", 1) for line in said["tie"]):
        assert len(tables[name].second_owners) == bool(words)
        assert all(word.strip() in "".join(tables[name].second_owners) for word in words.split(";"))
    for name, words in (line.split(": ") for line in said["spread"]):
        for line, word in zip(tables[name].spread, words.split("; "), strict=True):
            assert word in line
    if said["implied"]:
        implied = [f"{_short(i.table)}.{i.column}: {_short(i.parent)}" for i in proposal.undeclared]
        assert sorted(implied) == sorted(said["implied"])
    for name, columns in (line.split(": ") for line in said["natural"]):
        assert [*map(_short, tables[name].natural)] == columns.split("; ")
    for name, answers in (line.split(": ") for line in said["doubt"]):
        assert tables[name].question()[1] == answers.split("; ")
    text = render(proposal)
    assert all(words in text for words in said["text"])
    for name, item in tables.items():
        assert item.reason == item.reason.strip().partition("\n")[0] != ""
        assert re.search(rf"^ *(?:└ )?{re.escape(name)} +{re.escape(item.reason)}$", text, re.M)


@pytest.mark.parametrize("case", EXPERTS)
def test_an_expert_agrees(case, read):
    text, said = EXPERTS[case]
    proposal = propose(read(text))
    assert proposal.unit in (said["unit"] or ["owner"]) or said["unit"] == ["any"]
    owners = dict(line.split(": ") for line in said["own"])
    owners |= dict(line.split(": ") for line in said["gets"])
    expected = sorted(f"{name}: {owner}" for name, owner in owners.items() if owner != "-")
    assert _owners(proposal) == expected
    public = {*said["public"]} - {"none", *said["private"]}
    assert {*map(_short, proposal.public())} == public
