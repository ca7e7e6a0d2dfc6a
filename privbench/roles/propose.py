"""From the catalog to a proposal of roles; never reads rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from privbench.roles.choose import Place, choose, rivals
from privbench.roles.classes import (
    PEOPLE,
    PERSON_LIKE,
    Kind,
    LookupScore,
    classify,
    lookup_score,
    person_kind,
)
from privbench.roles.facts import KeyFacts, TableFacts, gather
from privbench.roles.names import words
from privbench.roles.proposal import Proposal, TableProposal, UndeclaredKey
from privbench.schema import Column, Schema

#: Where part of a person's data may lie although the key points away from the person.
_HOLDERS = frozenset({Kind.SATELLITE, Kind.PROXY, Kind.GUEST, Kind.SUBJECT})
#: Names of columns that stand in many tables and refer to none.
_TOO_COMMON = frozenset({"id", "name", "code"})


@dataclass(frozen=True)
class _Findings:
    tables: Mapping[str, TableFacts]
    scores: Mapping[str, LookupScore]
    kinds: Mapping[str, Kind]
    places: Mapping[str, Place]


def propose(schema: Schema) -> Proposal:
    """Propose an owner, or none, for every table of a schema, whose comments are read for hints.

    Where no table seems to hold people, parties or organisations, the unit is ``row`` and nothing
    owns anything.
    """
    tables = gather(schema)
    people = frozenset(name for name, facts in tables.items() if person_kind(facts) is not None)
    scores = {name: lookup_score(facts, people) for name, facts in tables.items()}
    kinds = classify(tables, scores)
    found = _Findings(tables, scores, kinds, choose(tables, kinds))
    has_people = any(kind in PERSON_LIKE for kind in kinds.values())
    return Proposal(
        {name: _table(found, facts, has_people) for name, facts in tables.items()},
        "owner" if has_people else "row",
        _undeclared_keys(tables),
    )


def _table(found: _Findings, facts: TableFacts, has_people: bool) -> TableProposal:
    place, score = found.places[facts.name], found.scores[facts.name]
    own = place.own if has_people else None
    return TableProposal(
        table=facts.name,
        kind=found.kinds[facts.name],
        own=own.key.columns if own else None,
        owner=own.parent if own else None,
        keys=tuple((key.key.columns, key.parent) for key in facts.keys),
        reason=_reason(found, facts, own),
        lookup_reasons=score.reasons,
        second_owners=_second_owners(found, facts) if has_people else (),
        spread=_spread(found, facts) if has_people else (),
    )


def _reason(found: _Findings, facts: TableFacts, own: KeyFacts | None) -> str:
    kind, place = found.kinds[facts.name], found.places[facts.name]
    label = kind.label
    if kind is Kind.GUEST or (kind in PEOPLE and facts.personal):
        label += f" ({', '.join(sorted(facts.personal))})"
    if own is not None:
        because = f": {', '.join(place.reasons)}" if place.reasons else ""
        return f"{label}, owned through {own.columns}{because}"
    if place.own is not None or not place.reasons:
        return f"{label}, a root"
    return f"{label}, a root ({'; '.join(place.reasons)})"


def _second_owners(found: _Findings, facts: TableFacts) -> tuple[str, ...]:
    place = found.places[facts.name]
    owner = (
        f"owned by {place.own.parent} through {place.own.columns}"
        if place.own is not None
        else "a root"
    )
    return tuple(
        f"{owner}, but {key.columns} reaches {key.parent}"
        + ("" if found.places[key.parent].own is None else f" of {found.places[key.parent].root}")
        for key in rivals(facts, found.places, found.kinds)
    )


def _spread(found: _Findings, facts: TableFacts) -> tuple[str, ...]:
    """References from a person to personal data in other units, one line each.

    Such a person's data lies in several units, and is protected per unit only.
    """
    if found.kinds[facts.name] not in PERSON_LIKE - {Kind.ORG}:
        return ()
    root = found.places[facts.name].root
    return tuple(
        f"{key.columns} points to {key.parent}, whose rows are in units of "
        f"{found.places[key.parent].root}"
        for key in facts.keys
        if not key.deputy
        and _holds_personal_data(found, key.parent)
        and found.places[key.parent].root != root
    )


def _holds_personal_data(found: _Findings, table: str) -> bool:
    kind, facts = found.kinds[table], found.tables[table]
    return kind in _HOLDERS or (kind in (Kind.THING, Kind.EVENT) and bool(facts.personal))


def _undeclared_keys(tables: Mapping[str, TableFacts]) -> tuple[UndeclaredKey, ...]:
    """Undeclared references: the same column name is a key elsewhere, or names a table."""
    siblings = _siblings(tables)
    targets = _targets(tables)
    return tuple(
        found
        for facts in tables.values()
        for column in facts.table.columns
        if (found := _undeclared_key(facts, column, siblings, targets)) is not None
    )


def _siblings(tables: Mapping[str, TableFacts]) -> dict[str, set[str]]:
    """Where single-column keys of each column name point to."""
    found: dict[str, set[str]] = {}
    for facts in tables.values():
        for key in facts.keys:
            if len(key.key.columns) == 1:
                found.setdefault(key.key.columns[0].lower(), set()).add(key.parent)
    return found


def _targets(tables: Mapping[str, TableFacts]) -> dict[tuple[str, ...], tuple[str, Column]]:
    """Tables with a primary key of one column, by the words of ``<table>_id``."""
    found: dict[tuple[str, ...], tuple[str, Column]] = {}
    for name, facts in tables.items():
        if facts.key_column:
            found.setdefault((*words(facts.table.name.name), "id"), (name, facts.key_column))
    return found


def _undeclared_key(
    facts: TableFacts,
    column: Column,
    siblings: Mapping[str, set[str]],
    targets: Mapping[tuple[str, ...], tuple[str, Column]],
) -> UndeclaredKey | None:
    is_key = column == facts.key_column or column.name in facts.table.key_columns
    if is_key or column.name.lower() in _TOO_COMMON:
        return None
    same = siblings.get(column.name.lower(), set())
    if len(same) == 1 and facts.name not in same:
        reason = "a column of this name is a foreign key elsewhere"
        return UndeclaredKey(facts.name, column.name, next(iter(same)), reason)
    target = targets.get(words(column.name))
    if target is None or target[0] == facts.name:
        return None
    if target[1].type.category != column.type.category:
        return None
    return UndeclaredKey(
        facts.name, column.name, target[0], "called after the table, of a like type"
    )
