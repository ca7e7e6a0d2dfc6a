"""Capture from a server's logs, line by line: a log of any size, in memory that does not grow."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from privbench.errors import UsageError
from privbench.postgres.connect import APPLICATION
from privbench.workload.capture import csvlog, jsonlog, stderrlog
from privbench.workload.capture.gather import Capture, Gatherer
from privbench.workload.capture.messages import Entry, execution

_LOOK = 2000
_OURS = "privbench ran it"
_OTHER = "it ran in another database"
_SHOW = (
    "Set log_min_duration_statement = 0 (or auto_explain.log_min_duration = 0) and"
    " lc_messages = 'C' for a while, or name the log's --prefix."
)


def capture_logs(
    paths: Sequence[str | Path],
    *,
    prefix: str | None = None,
    database: str | None = None,
    samples: int = 1,
    seed: int = 0,
) -> Capture:
    """Read statements with their parameters from logs in csv, JSON or plain form.

    Args:
        paths: Files, gzipped ones too; their forms are told by their first lines.
        prefix: ``log_line_prefix`` of plain logs; by default common ones are tried.
        database: Leave out the statements of other databases.
        samples: How many executions of a text become queries, each with its own literals.
        seed: Decides which executions.

    Raises:
        UsageError: A file cannot be read, or no statement was found.
    """
    gatherer = Gatherer(samples, seed)
    told = False
    for entry in _entries(paths, prefix):
        found = execution(entry)
        if found is None:
            continue
        told = True
        if isinstance(found, str):
            gatherer.skip(found)
        elif entry.application == APPLICATION:
            gatherer.skip(_OURS, found.calls)
        elif database is not None and entry.database not in (database, None):
            gatherer.skip(_OTHER, found.calls)
        else:
            gatherer.add(found)
    if not told:
        raise UsageError("the logs tell of no statement.", remedy=_SHOW)
    return gatherer.capture(Path(paths[0]).name.partition(".")[0])


def _entries(paths: Sequence[str | Path], prefix: str | None) -> Iterator[Entry]:
    for path in paths:
        head = list(islice(_lines(Path(path)), _LOOK))
        yield from _read(head, _lines(Path(path)), prefix)


def _read(head: Sequence[str], lines: Iterable[str], prefix: str | None) -> Iterator[Entry]:
    if prefix is None and jsonlog.detects(head):
        return jsonlog.entries(lines)
    if prefix is None and csvlog.detects(head):
        return csvlog.entries(lines)
    return stderrlog.entries(lines, stderrlog.pattern(prefix, head))


def _lines(path: Path) -> Iterator[str]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        # Line ends as they are: a quoted field of a csv log may hold carriage returns.
        with opened(path, "rt", encoding="utf-8", errors="replace", newline="") as file:
            yield from file
    except OSError as error:
        raise UsageError(f"cannot read the log {path}: {error.strerror or error}.") from error
