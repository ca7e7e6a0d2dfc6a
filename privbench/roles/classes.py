"""The kind of a table (people, look-up …) by the head noun of its name and by its columns.

Look-ups, small public lists that other tables point to, are recognised by a score. Candidates are
only proposed, since the catalog does not show their size and content.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase

from privbench.roles.facts import TableFacts, is_calendar, is_readable, is_short
from privbench.schema import Column
from privbench.words import listed, personal_kinds, words


class TableKind(Enum):
    """A kind of tables: what they are called, and how suitable they are as owners."""

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
    VERSIONS = ("versions of a schema", 0)
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
PEOPLE = frozenset({TableKind.SUBJECT, TableKind.WORK})
PERSON_LIKE = PEOPLE | {
    TableKind.ROLE,
    TableKind.PROXY,
    TableKind.GUEST,
    TableKind.ORG,
    TableKind.FIGURE,
}
_MAY_EXTEND = PEOPLE | {TableKind.THING}
#: Kinds that are roots unless a key says otherwise.
ROOT_KINDS = PEOPLE | {TableKind.FIGURE, TableKind.ORG}
#: Kinds that never own, except by a key that is the primary key.
NEVER_OWN = frozenset({TableKind.LOOKUP, TableKind.VERSIONS, TableKind.INFRA})
#: Kinds of tables that may be short lists of names without being public; and that are the places
#: and things that a code stands for, where it is their key.
NAMED_BY_USERS = frozenset({TableKind.THING, TableKind.PLAIN, TableKind.STRUCTURE})
#: The least score of a look-up candidate.
LEAST = 5
_SHORT_TYPES = frozenset({"int2", "char"})
#: A catalogue of codes has no more attributes than this, unless its name says that it is one.
_FEW = 5
#: And a list of names no more than this.
_PLAIN = 3
#: What a supplier's table says of a company.
_BUSINESS = {"address", "phone"}
_BLOBS = frozenset({"json", "jsonb", "xml", "bytea", "tsvector"})
#: Reasons of which a candidate needs at least one, whatever its score.
_EVIDENCE = frozenset({"listed name", "comment", "short key"})


@dataclass(frozen=True)
class LookupScore:
    """How much a table looks like a look-up."""

    reasons: tuple[str, ...]  # reasons of the score, with points: ``listed name +3``
    proposed: bool  # whether the table is a candidate
    listed: bool = True  # whether its points suffice, without its being a catalogue
    shaped: bool = False  # whether they suffice whatever it is called, and no person shows


def lookup_scores(
    tables: Mapping[str, TableFacts], people: frozenset[str]
) -> dict[str, LookupScore]:
    """Score every table as a look-up; `people` are tables whose names say that they hold people.

    A look-up refers to other look-ups alone: a table that refers to a person or an event is none.
    """
    referenced = {
        key.parent
        for name, facts in tables.items()
        if name in people or facts.identifying
        for key in facts.keys
        # Of a row that one person at most refers to, it is that person's.
        if any({*unique.columns} <= {*key.key.columns} for unique in facts.table.unique_sets)
    }
    people |= referenced
    scores = {name: _lookup_score(facts, people) for name, facts in tables.items()}
    while outside := [
        name
        for name, score in scores.items()
        if score.proposed
        and not score.listed
        and not all(scores[key.parent].proposed for key in tables[name].keys)
    ]:
        scores |= {name: replace(scores[name], proposed=False) for name in outside}
    return scores


def _lookup_score(facts: TableFacts, people: frozenset[str]) -> LookupScore:
    scored = [*_by_names(facts), *_links(facts), *_shape(facts)]
    evidence = _EVIDENCE & {reason for reason, _ in scored}
    shaped = sum(points for _, points in scored) >= LEAST
    enough = bool(evidence) and shaped
    referred = bool(facts.incoming or evidence - {"short key"})
    reasons = [f"{reason} {points:+d}" for reason, points in scored]
    points_do, catalogue = enough and referred, _catalogue(facts)
    if catalogue and not points_do:
        reasons.insert(0, catalogue)
    private = _of_people(facts, people)
    proposed = (bool(catalogue) or points_do) and not private
    return LookupScore(tuple(reasons), proposed, points_do, shaped and not private)


def _of_people(facts: TableFacts, people: frozenset[str]) -> bool:
    """Whether a table describes people, organisations or events, or links tables that do."""
    names = (listed("tables", kind) for kind in ("event", "organisation", "figure"))
    listed_else = any(facts.head in some for some in names) and not (
        facts.ends & (listed("tables", "catalogue") | listed("tables", "trade"))
        or (_is_prefixed(facts) and not facts.keys)
    )
    return (
        bool(facts.personal - (_BUSINESS if facts.ends & listed("tables", "trade") else set()))
        or facts.is_junction
        or facts.name in people
        or listed_else
        or bool(facts.ends & (listed("tables", "secretive") | listed("tables", "own")))
        or any(_tells_persons(column) for column in facts.attributes)
        or _tells_places(facts)
        or (bool(facts.ends & listed("tables", "told")) and not _is_coded(facts))
        or (facts.head == "code" and not _nouns_of_people().isdisjoint(facts.noun))
        or any(key.parent in people or key.to_person for key in facts.keys)
    )


def _tells_places(facts: TableFacts) -> bool:
    """Whether columns say where a thing is, who answers for it or what it rents for."""
    if facts.ends & (listed("tables", "geography") | listed("tables", "trade")):
        return False
    apart = listed("columns", "apart")
    return any(apart & {*words(column.name)} for column in facts.attributes)


def _is_coded(facts: TableFacts) -> bool:
    """Whether a list is called one, has a readable key, or a column without a value twice."""
    return bool(facts.table.uniques) or is_readable(facts.table) or _is_prefixed(facts)


def _nouns_of_people() -> frozenset[str]:
    return listed("tables", "subject") | listed("tables", "work")


def _tells_persons(column: Column) -> bool:
    """Whether a column's text is a person (``seller``), or the number of a single thing."""
    name_words = words(column.name)
    single = {*name_words} & listed("columns", "single")
    people = {*name_words[-1:]} & _nouns_of_people()
    return column.type.category == "S" and bool(people or single)


def is_secretive(facts: TableFacts, kind: TableKind) -> bool:
    """Return whether a table holds settings, sessions, logs or jobs, which may contain secrets."""
    named = facts.ends & listed("tables", "secretive") and not (facts.keys or facts.personal)
    return kind is TableKind.INFRA or bool(named)


def _catalogue(facts: TableFacts) -> str:
    """Why a table is a catalogue that others refer to, or nothing.

    It shows no person, no dated event, no text that somebody wrote and no document; its name is one
    of a catalogue, its key a code, or it has the shape of a look-up with a name.
    """
    primary = [facts.table.column(name) for name in facts.table.primary_columns]
    names = [words(column.name) for column in facts.attributes]
    last = {name[-1] for name in names if name}
    if (
        not facts.incoming
        or (facts.keys and facts.head in listed("tables", "event"))
        or last & listed("columns", "free")
        or any(column.type.base in _BLOBS for column in facts.table.columns)
        or any(column.type.category == "D" for column in facts.attributes)
        or any(personal_kinds(column.name, column.type.category) for column in primary)
    ):
        return ""
    if facts.ends & listed("tables", "trade"):
        money = listed("columns", "money")
        return "" if any(money & {*name} for name in names) else "trade partner"
    if any(facts.ends & listed("tables", name) for name in ("private", "proxy", "subject", "work")):
        return ""
    if facts.ends & (listed("tables", "catalogue") | listed("tables", "lookup")):
        return "catalogue"
    codes = len(primary) > 1 or all(c.type.category != "S" or is_short(c) for c in primary)
    rest = [column for column in facts.attributes if column not in primary]
    # Several codes may be a place (ward and bed), of which texts tell who is there.
    descriptive = len(primary) > 1 and (len(rest) > 1 or any(c.type.category != "N" for c in rest))
    if facts.is_natural and codes and not descriptive and len(facts.attributes) <= _FEW:
        return "key of codes"
    plain = facts.ends & listed("tables", "structure") and len(facts.attributes) <= _PLAIN
    return "plain list" if plain and last & listed("columns", "label") else ""


def _by_names(facts: TableFacts) -> Iterator[tuple[str, int]]:
    dated = is_calendar(facts.table)
    if dated or facts.ends & listed("tables", "lookup") or _is_prefixed(facts):
        yield "listed name", 5 if dated else 3
    comment = (facts.table.comment or "").lower()
    if any(phrase in comment for phrase in listed("tables", "words", "lookup_comment")):
        yield "comment", 4


def _is_prefixed(facts: TableFacts) -> bool:
    prefix = words(facts.table.name.name)[:1]
    return not listed("tables", "words", "lookup_prefix").isdisjoint(prefix)


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
    if any(name_words and name_words[-1] in listed("columns", "label") for name_words in names):
        yield "name or description", 1
    if any(set(name_words) & listed("columns", "money") for name_words in names):
        yield "money", -2
    if any(column.type.base in _BLOBS for column in facts.table.columns):
        yield "document or binary column", -1


def _is_short(column: Column) -> bool:
    return column.type.base in _SHORT_TYPES or is_short(column)


def classify(
    tables: Mapping[str, TableFacts], lookups: Mapping[str, LookupScore]
) -> dict[str, TableKind]:
    """Return the kind of every table."""
    # Sorted by name: if two tables describe each other, the result depends on their order.
    tables = dict(sorted(tables.items()))
    kinds = {name: next(_by_name(facts, lookups[name])) for name, facts in tables.items()}
    for name in called_people(tables):
        kinds[name] = (
            TableKind.SUBJECT if kinds[name] in (TableKind.THING, TableKind.PLAIN) else kinds[name]
        )
    for name, facts in tables.items():
        if kinds[name] is TableKind.EVENT and _is_guests(facts, kinds):
            kinds[name] = TableKind.GUEST
    for name in _compounds(tables, kinds):
        to_people = any(kinds[key.parent] in PEOPLE for key in tables[name].keys)
        kinds[name] = TableKind.ROLE if to_people else TableKind.LINK
    for name, facts in tables.items():
        if kinds[name] in _MAY_EXTEND and not facts.marked and _extends_person(facts, kinds):
            kinds[name] = TableKind.ROLE
    return kinds


def _by_name(facts: TableFacts, lookup: LookupScore) -> Iterator[TableKind]:
    """Possible kinds by name and columns, the surest first; the last one fits every table."""
    name = facts.table.name.name.lower()
    for kind, words_of in ((TableKind.VERSIONS, "versions"), (TableKind.INFRA, "infrastructure")):
        patterns = listed("tables", "words", words_of)
        if not facts.keys and any(fnmatchcase(name, pattern) for pattern in patterns):
            yield kind
    if facts.is_junction:
        yield TableKind.LINK
    person = person_kind(facts)
    if person is not None:
        yield person
    if len(facts.identifying & {"email", "phone", "name", "birth", "identity"}) >= 2:
        yield from (
            kind for kind in _kinds_by_name(facts) if kind in (TableKind.PROXY, TableKind.FIGURE)
        )
        if not facts.ends & (listed("tables", "organisation") | listed("tables", "structure")):
            yield TableKind.GUEST
    if lookup.proposed:
        yield TableKind.LOOKUP
    yield from _kinds_by_name(facts)
    if facts.identifying and (len(facts.marked) >= 2 or "person" in facts.personal):
        yield TableKind.GUEST
    yield TableKind.PLAIN if facts.is_plain and not _named_after_people(facts) else TableKind.THING


def _kinds_by_name(facts: TableFacts) -> Iterator[TableKind]:
    """Kinds that the head noun is listed under, the surest first."""
    ends = facts.ends
    if facts.head in listed("tables", "figure"):
        yield TableKind.FIGURE
    if facts.head in listed("tables", "event"):
        yield TableKind.EVENT
    if ends & listed("tables", "proxy"):
        yield TableKind.PROXY
    if facts.head in listed("tables", "organisation") and (facts.incoming or facts.marked):
        yield TableKind.ORG
    if facts.head in listed("tables", "structure"):
        yield TableKind.STRUCTURE
    if facts.head in listed("tables", "satellite"):
        yield TableKind.SATELLITE


def person_kind(facts: TableFacts) -> TableKind | None:
    """Return SUBJECT or WORK if a table's name means people and other facts confirm it, or None."""
    head = facts.head
    is_subject = head in listed("tables", "subject")
    named = any(words(column.name) == (head, "name") for column in facts.attributes)
    if facts.is_junction or not (is_subject or head in listed("tables", "work")):
        return None
    confirmed = (
        facts.marked
        or named
        or head in listed("tables", "core")
        or (head not in listed("tables", "ambiguous") and facts.incoming)
    )
    if not confirmed:
        return None
    return TableKind.SUBJECT if is_subject else TableKind.WORK


def _compounds(tables: Mapping[str, TableFacts], kinds: Mapping[str, TableKind]) -> list[str]:
    """Tables like ``project_members``: details of another table, not people of their own."""
    known = {facts.noun for facts in tables.values()}
    return [
        name
        for name, facts in tables.items()
        if kinds[name] in {*PEOPLE, TableKind.ORG, TableKind.PROXY}
        and not facts.marked
        and facts.keys
        and any(facts.noun[:size] in known for size in range(1, len(facts.noun)))
    ]


def _is_guests(facts: TableFacts, kinds: Mapping[str, TableKind]) -> bool:
    """Whether an event shows people who are in no other table (enrolments with sex and age)."""
    to_people = any(kinds[key.parent] in PERSON_LIKE for key in facts.keys)
    return len(facts.marked) >= 2 and bool(facts.identifying) and not to_people


def called_people(tables: Mapping[str, TableFacts]) -> frozenset[str]:
    """Return the tables that keys say are people (``user_id``), whatever they are called."""
    return frozenset(key.parent for facts in tables.values() for key in facts.keys if key.to_person)


def is_catalogue(facts: TableFacts, kind: TableKind) -> bool:
    """Return whether a table is a list of codes, which owns nothing."""
    return kind in NAMED_BY_USERS and facts.is_natural


def _extends_person(facts: TableFacts, kinds: Mapping[str, TableKind]) -> bool:
    """Whether a table named after people points to the people it describes."""
    to_people = any(kinds[key.parent] in PEOPLE and not key.deputy for key in facts.keys)
    return to_people and _named_after_people(facts)


def _named_after_people(facts: TableFacts) -> bool:
    return facts.head in _nouns_of_people()
