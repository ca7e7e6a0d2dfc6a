"""From the catalog to a proposal of roles; never reads rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from privbench.roles import implied, lookups
from privbench.roles.choose import Place, choose, rivals
from privbench.roles.classes import PEOPLE, PERSON_LIKE, Kind, classify, people_by_name
from privbench.roles.facts import KeyFacts, TableFacts, gather
from privbench.roles.lookups import LookupScore
from privbench.roles.proposal import Proposal, TableProposal
from privbench.schema import Schema

#: Where part of a person's data may lie although the key points away from the person.
_HOLDERS = frozenset({Kind.SATELLITE, Kind.PROXY, Kind.GUEST, Kind.SUBJECT})


@dataclass(frozen=True)
class _Findings:
    tables: Mapping[str, TableFacts]
    scores: Mapping[str, LookupScore]
    kinds: Mapping[str, Kind]
    places: Mapping[str, Place]


def propose(schema: Schema) -> Proposal:
    """Propose an owner, or none, for every table of a schema.

    Args:
        schema: The catalog's picture; comments are read for hints.

    Returns:
        The proposal. Where no table seems to hold people, parties or organisations, the unit is
        ``row`` and nothing owns anything.
    """
    tables = gather(schema)
    people = people_by_name(tables)
    scores = {name: lookups.score(facts, people) for name, facts in tables.items()}
    kinds = classify(tables, scores)
    found = _Findings(tables, scores, kinds, choose(tables, kinds))
    has_people = any(kind in PERSON_LIKE for kind in kinds.values())
    return Proposal(
        {name: _table(found, facts, has_people) for name, facts in tables.items()},
        "owner" if has_people else "row",
        implied.find(tables),
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
        ties=_ties(found, facts) if has_people else (),
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


def _ties(found: _Findings, facts: TableFacts) -> tuple[str, ...]:
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
    """Tables of other units that a person points to for part of that person's own data."""
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
