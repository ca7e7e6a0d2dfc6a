"""The format of MSCN: each line ``tables#joins#predicates#card`` is a query.

It was published with "Learned Cardinalities" (Kipf et al., CIDR 2019). Tables (``title t``) and
joins (``t.id=mc.movie_id``) are separated by commas; so are predicates and the parts of each,
``column,operator,value``; the answer comes last. The SQL text that runs is built from these parts.
"""

from __future__ import annotations

import re
from pathlib import Path

from privbench.errors import UsageError
from privbench.files import write_text
from privbench.workload.formats.base import WorkloadFormat, beyond, read_text
from privbench.workload.query import Workload, WorkloadQuery
from privbench_lab.formats.conjunctive import (
    NUMBER,
    Condition,
    Conjunction,
    Value,
    conjunction,
)

_LINE = re.compile(r"([^#]+)#([^#]*)#(.*)#\s*+(?:(\d{1,18})(?:\.0*)?)?\s*\Z")
_TABLE = re.compile(r'[\w.$"]+(?: +(?:AS +)?[\w$"]+)?', re.IGNORECASE)
_JOIN = re.compile(r'([\w.$"]+) *= *([\w.$"]+)')
_PREDICATE = re.compile(
    r"""([\w.$"]+),(<=|>=|<>|!=|=|<|>),      # column, operator
    ('(?:[^']|'')*'(?:::[\w ]+(?:\([\d,\ ]*\))?)?|[^,]*)   # a value in quotes, or up to a comma
    (?:,|\Z)""",
    re.VERBOSE,
)
_QUOTED = re.compile(r"'((?:[^']|'')*)'(?:::(.+))?\Z")


def _detects(path: Path) -> bool:
    """Whether the first line of the file is a query in the MSCN format."""
    if not path.is_file():
        return False
    first = next(iter(_lines(path)), "")
    return _LINE.match(first) is not None and "||" not in first


def _lines(path: Path) -> list[str]:
    """The lines of a file that are not blank."""
    # splitlines() would also split at a form feed or line separator within a literal.
    lines = (line.removesuffix("\r") for line in read_text(path).split("\n"))
    return [line for line in lines if line.strip()]


def _read(path: Path) -> Workload:
    """Read one query a line; ids are q1, q2, …."""
    lines = enumerate(_lines(path), 1)
    return Workload(path.stem, tuple(_query(i, line, path) for i, line in lines))


def _write(workload: Workload, path: Path) -> None:
    """Write one query a line."""
    lines = [_line(query) for query in workload]
    write_text(path, "".join(f"{line}\n" for line in lines))


def _query(number: int, line: str, path: Path) -> WorkloadQuery:
    try:
        found = _matched(_LINE, line, "is not of the form tables#joins#predicates#card")
        tables, joins, predicates, card = found.groups()
        parts = Conjunction(
            tuple(_table(text) for text in tables.split(",")),
            tuple(_join(text) for text in joins.split(",") if joins.strip()),
            _predicates(predicates.strip()),
        )
    except ValueError as error:
        raise UsageError(f"query {number} of {path} {error}.") from None
    return WorkloadQuery(f"q{number}", parts.sql, int(card) if card else None)


def _matched(form: re.Pattern[str], text: str, otherwise: str) -> re.Match[str]:
    found = form.fullmatch(text.strip())
    if found is None:
        raise ValueError(otherwise)
    return found


def _table(text: str) -> tuple[str, str]:
    name, _, alias = _matched(_TABLE, text, "has a table that cannot be read")[0].partition(" ")
    return name, alias.strip()


def _join(text: str) -> tuple[str, str]:
    found = _matched(_JOIN, text, "has a join that cannot be read")
    return found[1], found[2]


def _predicates(text: str) -> tuple[Condition, ...]:
    found, place = [], 0
    while place < len(text):
        item = _PREDICATE.match(text, place)
        if item is None:
            raise ValueError("has a predicate that cannot be read")
        found.append(Condition(item[1], item[2], _value(item[3])))
        place = item.end()
    return tuple(found)


def _value(text: str) -> Value:
    quoted = _QUOTED.match(text)
    if quoted is not None:
        return Value(quoted[1].replace("''", "'"), quoted=True, cast=quoted[2] or "")
    return Value(text, quoted=not NUMBER.match(text))


def _line(query: WorkloadQuery) -> str:
    parts = conjunction(query, "mscn")
    fault = next((fault for item in parts.conditions if (fault := _fault(item))), None)
    if fault:
        raise beyond(query, "mscn", fault)
    tables = ",".join(f"{name} {alias}".rstrip() for name, alias in parts.tables)
    joins = ",".join(f"{left}={right}" for left, right in parts.joins)
    predicates = ",".join(f"{c.column},{c.operator},{c.value.sql}" for c in parts.conditions)
    return f"{tables}#{joins}#{predicates}#{'' if query.card is None else query.card}"


def _fault(item: Condition) -> str | None:
    if item.value.by_code:
        return 'it orders strings by COLLATE "C"'
    if any(mark in item.value.sql for mark in ",#\n\r"):
        return "a literal holds a comma, a # or a line break"
    return None


FORMAT = WorkloadFormat("mscn", _detects, _read, _write)
