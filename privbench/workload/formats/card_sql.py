"""``card||SQL``: one query a line with its true answer before it (STATS-CEB, SAM).

A line without ``||`` in front is a query without a stated answer. Lines that are empty or start
with ``--`` are skipped.
"""

from __future__ import annotations

import re
from pathlib import Path

from privbench.errors import UsageError
from privbench.files import write_text
from privbench.workload.formats.base import (
    CONFIDENTIAL,
    WorkloadFormat,
    marked,
    read_lines,
    read_text,
)
from privbench.workload.query import Query, Workload

_LINE = re.compile(r"\s*(?:(\d+)(?:\.0*)?)?\s*\|\|(.*)\Z", re.DOTALL)


def _detects(path: Path) -> bool:
    """Whether the first line with a query starts with ``number||``."""
    if not path.is_file():
        return False
    return _LINE.match(next(iter(_lines(path)), "")) is not None


def _read(path: Path) -> Workload:
    """Read one query a line; ids are q1, q2, … in their order."""
    queries = [_query(f"q{number}", line) for number, line in enumerate(_lines(path), 1)]
    return Workload(path.stem, tuple(queries), marked(read_text(path)))


def _write(workload: Workload, path: Path) -> None:
    """Write one query a line."""
    long = next((query.id for query in workload if "\n" in query.sql.strip()), None)
    if long:
        raise UsageError(
            f"query {long} has several lines, which card||SQL cannot hold.",
            remedy="Write a folder of .sql files instead.",
        )
    lines = [f"{'' if q.card is None else q.card}||{q.sql.strip()}\n" for q in workload]
    mark = f"-- {CONFIDENTIAL}\n" if workload.confidential else ""
    write_text(path, mark + "".join(lines))


def _lines(path: Path) -> list[str]:
    return [line for line in read_lines(path) if not line.lstrip().startswith("--")]


def _query(name: str, line: str) -> Query:
    found = _LINE.match(line)
    if found is None:
        return Query(name, line.strip())
    card, sql = found.groups()
    return Query(name, sql.strip(), int(card) if card else None)


FORMAT = WorkloadFormat("card-sql", _detects, _read, _write)
