"""What kind of thing a table holds, by the head noun of its name and by its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from fnmatch import fnmatchcase

from privbench.roles.facts import TableFacts
from privbench.roles.lookups import LookupScore
from privbench.roles.names import listed


class Kind(Enum):
    """Kinds of tables: what they are called and how good an owner they make."""

    SUBJECT = ("person", 10)
    ROLE = ("role of a person", 9)
    PROXY = ("stands for a person", 8)
    WORK = ("person at work", 6)
    GUEST = ("has personal columns", 6)
    ORG = ("organisation", 4)
    FIGURE = ("public figure", 3)
    EVENT = ("event", 1)
    THING = ("thing", 1)
    LINK = ("junction", 1)
    SATELLITE = ("address", 1)
    STRUCTURE = ("part of the house", 0)
    LOOKUP = ("look-up", 0)
    INFRA = ("table of a tool", 0)

    def __init__(self, label: str, worth: float) -> None:
        self.label = label
        self.worth = worth

    @property
    def article(self) -> str:
        """The article before the label."""
        return "an" if self.label[0] in "aeiou" else "a"


#: People, and what a unit may be named after where there are none.
PEOPLE = frozenset({Kind.SUBJECT, Kind.WORK})
PERSON_LIKE = PEOPLE | {Kind.ROLE, Kind.PROXY, Kind.GUEST, Kind.ORG, Kind.FIGURE}
_PLAIN = PEOPLE | {Kind.THING}
#: Kinds that are roots unless a key says otherwise.
ROOT_KINDS = PEOPLE | {Kind.FIGURE, Kind.ORG}
#: Kinds that never own, except by a key that is the primary key.
NEVER_OWN = frozenset({Kind.LOOKUP, Kind.INFRA})


def people_by_name(tables: Mapping[str, TableFacts]) -> frozenset[str]:
    """Tables whose names, with what stands beside them, say that they hold people."""
    return frozenset(name for name, facts in tables.items() if _person(facts) is not None)


def classify(
    tables: Mapping[str, TableFacts], lookups: Mapping[str, LookupScore]
) -> dict[str, Kind]:
    """The kind of every table.

    Args:
        tables: Facts by table.
        lookups: Look-up scores by table.
    """
    # By name: a table may speak of another that speaks of it, and the first is decided first.
    tables = dict(sorted(tables.items()))
    kinds = {name: next(_by_name(facts, lookups[name])) for name, facts in tables.items()}
    for name, facts in tables.items():
        if kinds[name] in _PLAIN and not facts.marked and _extends_person(facts, kinds):
            kinds[name] = Kind.ROLE
    return kinds


def _by_name(facts: TableFacts, lookup: LookupScore) -> Iterator[Kind]:
    """Kinds by name and columns alone, the surest first; the last is that of all tables."""
    patterns, name = listed("tables", "words", "infrastructure"), facts.table.name.name.lower()
    if not facts.keys and any(fnmatchcase(name, pattern) for pattern in patterns):
        yield Kind.INFRA
    if facts.is_junction:
        yield Kind.LINK
    person = _person(facts)
    if person is not None:
        yield person
    if len(facts.identifying & {"email", "phone", "name", "birth", "identity"}) >= 2:
        yield from (kind for kind in _named(facts) if kind in (Kind.PROXY, Kind.FIGURE))
        if not facts.ends & (listed("tables", "organisation") | listed("tables", "structure")):
            yield Kind.GUEST
    if lookup.proposed:
        yield Kind.LOOKUP
    yield from _named(facts)
    if len(facts.marked) >= 2 and facts.identifying:
        yield Kind.GUEST
    yield Kind.THING


def _named(facts: TableFacts) -> Iterator[Kind]:
    """Kinds that the head noun is listed under, the surest first."""
    ends = facts.ends
    if facts.head in listed("tables", "figure"):
        yield Kind.FIGURE
    if facts.head in listed("tables", "event"):
        yield Kind.EVENT
    if ends & listed("tables", "proxy"):
        yield Kind.PROXY
    if facts.head in listed("tables", "organisation") and (facts.incoming or facts.marked):
        yield Kind.ORG
    if facts.head in listed("tables", "structure"):
        yield Kind.STRUCTURE
    if facts.head in listed("tables", "satellite"):
        yield Kind.SATELLITE


def _person(facts: TableFacts) -> Kind | None:
    """SUBJECT or WORK if the table's name means people and other facts confirm that."""
    head = facts.head
    is_subject = head in listed("tables", "subject")
    if facts.is_junction or not (is_subject or head in listed("tables", "work")):
        return None
    confirmed = (
        facts.marked
        or head in listed("tables", "core")
        or (head not in listed("tables", "ambiguous") and facts.incoming)
    )
    if not confirmed:
        return None
    return Kind.SUBJECT if is_subject else Kind.WORK


def _extends_person(facts: TableFacts, kinds: Mapping[str, Kind]) -> bool:
    """Whether a table named after people points to the people it speaks of."""
    named = facts.head in listed("tables", "subject") | listed("tables", "work")
    return named and any(kinds[key.parent] in PEOPLE and not key.deputy for key in facts.keys)
