"""Which tables look like look-ups: small public lists that other tables point to.

A candidate is only ever proposed: its size and its content are unknown to the catalog.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from privbench.roles.facts import TableFacts
from privbench.roles.names import listed, words
from privbench.schema import Column

#: Least score of a candidate.
LEAST = 5
_SHORT_TYPES = frozenset({"int2", "char"})
_BLOBS = frozenset({"json", "jsonb", "xml", "bytea", "tsvector"})
#: Reasons without one of which a score counts for nothing.
_EVIDENCE = frozenset({"listed name", "comment", "short key"})


@dataclass(frozen=True)
class LookupScore:
    """How much a table looks like a look-up.

    Attributes:
        reasons: What was counted, with points: ``listed name +3``.
        proposed: Whether the table is a candidate.
    """

    reasons: tuple[str, ...]
    proposed: bool


def score(facts: TableFacts, people: frozenset[str]) -> LookupScore:
    """Score one table.

    Args:
        facts: The table.
        people: Tables whose names say that they hold people.
    """
    found = [*_names(facts), *_links(facts), *_shape(facts)]
    evidence = _EVIDENCE & {reason for reason, _ in found}
    enough = bool(evidence) and sum(points for _, points in found) >= LEAST
    referred = bool(facts.incoming or evidence - {"short key"})
    reasons = tuple(f"{reason} {points:+d}" for reason, points in found)
    return LookupScore(reasons, enough and referred and not _of_people(facts, people))


def _of_people(facts: TableFacts, people: frozenset[str]) -> bool:
    """Whether a table speaks of people, organisations or events, or links what does."""
    names = (listed("tables", kind) for kind in ("event", "organisation", "figure"))
    return (
        bool(facts.personal)
        or facts.masked
        or facts.is_junction
        or facts.name in people
        or any(facts.head in some for some in names)
        or any(key.parent in people for key in facts.keys)
    )


def _names(facts: TableFacts) -> Iterator[tuple[str, int]]:
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
