"""Proposals on schemas of the kinds that people have.

The cases are in ``proposals.txt``, and those after public schemas in ``experts.txt``.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from privbench.config import Config
from privbench.errors import ConfigError
from privbench.roles import TableKind, propose, render
from privbench.roles.references import targets
from privbench.schema import Schema
from privbench.words import own_words

Read = Callable[[str], Schema]


def _cases(file):
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


def _short(name):
    return str(name).removeprefix("public.")


def _owners(proposal):
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
        assert tables[name].kind is TableKind[kind]
    for name, words in (line.split(":", 1) for line in said["tie"]):
        assert len(tables[name].second_owners) == bool(words)
        assert all(word.strip() in "".join(tables[name].second_owners) for word in words.split(";"))
    for name, words in (line.split(": ") for line in said["spread"]):
        for line, word in zip(tables[name].spread, words.split("; "), strict=True):
            assert word in line
    if said["implied"]:
        implied = [
            f"{_short(name)}.{item.columns[0]}: "
            + _short(", ".join(to.table for _, to in targets(item)))
            for name, items in proposal.undeclared.items()
            for item in items
        ]
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


HOUSE = """
azubis: id pk; kuerzel text; since date
beleg: id pk; erfasst_von ! -> azubis; summe numeric
antrag: id pk; gestellt_von -> azubis; text text
artikelstamm: id pk; bezeichnung text; gewicht numeric; hoehe numeric; breite numeric; tiefe numeric
bestellung: id pk; azubi_id ! -> azubis; artikelstamm_id ! -> artikelstamm
"""


def test_words_of_a_config_are_read_as_those_of_the_lists(read):
    page = (Path(__file__).parents[2] / "docs" / "roles.md").read_text(encoding="utf-8")
    (toml,) = re.findall(r"```toml\n(\[words\].*?)```", page, flags=re.S)
    own, schema = Config.loads(toml).words, read(HOUSE)
    plain = propose(schema)
    assert (plain.unit, plain.lookups) == ("row", ())
    with own_words(own):
        said = propose(schema)
    owners = ["antrag: azubis by gestellt_von", "bestellung: azubis by azubi_id"]
    assert _owners(said) == owners
    assert said.tables["public.azubis"].kind is TableKind.SUBJECT
    assert said.lookups == ("public.artikelstamm",)
    # Without their words the maker owns, and the applicant does not.
    with own_words({"person": own["person"]}):
        assert _owners(propose(schema)) == ["beleg: azubis by erfasst_von", owners[1]]
    assert propose(schema) == plain


def test_words_of_a_config_outrank_the_lists_and_have_to_be_read_as_a_word_of_theirs(read):
    schema = read("client: id pk; title text\nrun: id pk; client_id ! -> client; points")
    kinds = []
    for own in ({}, {"Product": ["Client"]}):
        with own_words(own):
            kinds.append(propose(schema).tables["public.client"].kind)
    assert kinds[0] is TableKind.SUBJECT
    assert kinds[1] is TableKind.LOOKUP
    for word in ("custmer", ""):
        with pytest.raises(ConfigError, match="which no list has"), own_words({word: ["azubi"]}):
            pass
    for text in ("a b", "x1", "a_b", "x"):
        with pytest.raises(ConfigError, match="words"):
            Config.loads(f"[words]\nuser = ['{text}']")


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
