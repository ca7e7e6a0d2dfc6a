"""The kind of a table (people, look-up …) by the head noun of its name and by its columns.

Look-ups, small public lists that other tables point to, are recognised by a score. Candidates are
only proposed, since the catalog does not show their size and content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase

from privbench.roles.facts import TableFacts
from privbench.schema import Column
from privbench.words import listed, words


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
    PLAIN = ("plain thing", -1)  # has the shape of a look-up: its rows may be few

    def __init__(self, label: str, worth: float) -> None:
        self.label = label
        self.worth = worth

    @property
    def article(self) -> str:
        """The article before the label."""
        return "an" if self.label[0] in "aeiou" else "a"


#: Kinds of tables that hold people; and below, these and the kinds that may stand for people if no
#: table holds people.
PEOPLE = frozenset({Kind.SUBJECT, Kind.WORK})
PERSON_LIKE = PEOPLE | {Kind.ROLE, Kind.PROXY, Kind.GUEST, Kind.ORG, Kind.FIGURE}
_MAY_EXTEND = PEOPLE | {Kind.THING}
#: Kinds that are roots unless a key says otherwise.
ROOT_KINDS = PEOPLE | {Kind.FIGURE, Kind.ORG}
#: Kinds that never own, except by a key that is the primary key.
NEVER_OWN = frozenset({Kind.LOOKUP, Kind.INFRA})


#: The least score of a look-up candidate.
LEAST = 5
_SHORT_TYPES = frozenset({"int2", "char"})
_BLOBS = frozenset({"json", "jsonb", "xml", "bytea", "tsvector"})
#: Reasons of which a candidate needs at least one, whatever its score.
_EVIDENCE = frozenset({"listed name", "comment", "short key"})


@dataclass(frozen=True)
class LookupScore:
    """How much a table looks like a look-up."""

    reasons: tuple[str, ...]  # reasons of the score, with points: ``listed name +3``
    proposed: bool  # whether the table is a candidate


def lookup_score(facts: TableFacts, people: frozenset[str]) -> LookupScore:
    """Score one table; `people` are the tables whose names say that they hold people."""
    found = [*_by_names(facts), *_links(facts), *_shape(facts)]
    evidence = _EVIDENCE & {reason for reason, _ in found}
    enough = bool(evidence) and sum(points for _, points in found) >= LEAST
    referred = bool(facts.incoming or evidence - {"short key"})
    reasons = tuple(f"{reason} {points:+d}" for reason, points in found)
    return LookupScore(reasons, enough and referred and not _of_people(facts, people))


def _of_people(facts: TableFacts, people: frozenset[str]) -> bool:
    """Whether a table describes people, organisations or events, or links tables that do."""
    names = (listed("tables", kind) for kind in ("event", "organisation", "figure"))
    return (
        bool(facts.personal)
        or facts.is_junction
        or facts.name in people
        or any(facts.head in some for some in names)
        or any(key.parent in people for key in facts.keys)
    )


def _by_names(facts: TableFacts) -> Iterator[tuple[str, int]]:
    prefix = words(facts.table.name.name)[:1]
    if facts.ends & listed("tables", "lookup") or set(prefix) & listed(
        "tables", "words", "lookup_prefix"
    ):
        yield "listed name", 3
    comment = (facts.table.comment or "").lower()
    if any(phrase in comment for phrase in listed("tables", "words", "lookup_comment")):
        yield "comment", 4


def _links(facts: TableFacts) -> Iterator[tuple[str, int]]:
    if not facts.keys:
        yield "no outgoing key", 1
    if facts.incoming:
        yield "referred to", 1
    if facts.incoming >= 4:
        yield "by four or more keys", 1


def _shape(facts: TableFacts) -> Iterator[tuple[str, int]]:
    count = len(facts.attributes)
    if count <= 3:
        yield f"{count} attributes", 2
    elif count <= 5:
        yield f"{count} attributes", 1
    elif count > 8:
        yield f"{count} attributes", -2
    if facts.key_column and _is_short(facts.key_column):
        yield "short key", 1
    if facts.table.uniques:
        yield "unique column", 1
    names = [words(column.name) for column in facts.attributes]
    if any(found and found[-1] in listed("columns", "label") for found in names):
        yield "name or description", 1
    if any(set(found) & listed("columns", "money") for found in names):
        yield "money", -2
    if any(column.type.base in _BLOBS for column in facts.table.columns):
        yield "document or binary column", -1


def _is_short(column: Column) -> bool:
    if column.type.base in _SHORT_TYPES:
        return True
    length = column.type.length
    return column.type.base in ("bpchar", "varchar") and length is not None and length <= 10


def classify(
    tables: Mapping[str, TableFacts], lookups: Mapping[str, LookupScore]
) -> dict[str, Kind]:
    """The kind of every table."""
    # Sorted by name: if two tables describe each other, the result depends on their order.
    tables = dict(sorted(tables.items()))
    kinds = {name: next(_by_name(facts, lookups[name])) for name, facts in tables.items()}
    for name in _compounds(tables, kinds):
        to_people = any(kinds[key.parent] in PEOPLE for key in tables[name].keys)
        kinds[name] = Kind.ROLE if to_people else Kind.LINK
    for name, facts in tables.items():
        if kinds[name] in _MAY_EXTEND and not facts.marked and _extends_person(facts, kinds):
            kinds[name] = Kind.ROLE
    return kinds


def _by_name(facts: TableFacts, lookup: LookupScore) -> Iterator[Kind]:
    """Possible kinds by name and columns, the surest first; the last one fits every table."""
    patterns, name = listed("tables", "words", "infrastructure"), facts.table.name.name.lower()
    if not facts.keys and any(fnmatchcase(name, pattern) for pattern in patterns):
        yield Kind.INFRA
    if facts.is_junction:
        yield Kind.LINK
    person = person_kind(facts)
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
    yield Kind.PLAIN if facts.is_plain and not _named_after_people(facts) else Kind.THING


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


def person_kind(facts: TableFacts) -> Kind | None:
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


def _compounds(tables: Mapping[str, TableFacts], kinds: Mapping[str, Kind]) -> list[str]:
    """Tables like ``project_members``: details of another table, not people of their own."""
    known = {facts.noun for facts in tables.values()}
    return [
        name
        for name, facts in tables.items()
        if kinds[name] in {*PEOPLE, Kind.ORG, Kind.PROXY}
        and not facts.marked
        and facts.keys
        and any(facts.noun[:size] in known for size in range(1, len(facts.noun)))
    ]


def _extends_person(facts: TableFacts, kinds: Mapping[str, Kind]) -> bool:
    """Whether a table named after people points to the people it describes."""
    to_people = any(kinds[key.parent] in PEOPLE and not key.deputy for key in facts.keys)
    return to_people and _named_after_people(facts)


def _named_after_people(facts: TableFacts) -> bool:
    return facts.head in listed("tables", "subject") | listed("tables", "work")
