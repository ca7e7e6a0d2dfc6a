"""Capture from a server's logs, line by line: a log of any size, in memory that does not grow."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from glob import glob, has_magic
from itertools import islice
from pathlib import Path
from typing import Any

from privbench.errors import UsageError
from privbench.postgres.connect import APPLICATION
from privbench.workload.capture import stderrlog
from privbench.workload.capture.gather import Capture, Gatherer
from privbench.workload.capture.messages import Entry, execution

# First lines that tell a log's form.
_LOOK = 2000
# Columns of a csv log by position; later versions append theirs.
_DATABASE, _SEVERITY, _MESSAGE, _DETAIL, _APPLICATION = 2, 11, 13, 14, 22
_LEAST = 23
_SEVERITIES = frozenset({"DEBUG", "LOG", "INFO", "NOTICE", "WARNING", "ERROR", "FATAL", "PANIC"})
_LONGEST_FIELD = 2**30
_LOG = re.compile(r"\.(?:log|csv|json)(?:[.-]\d+)?(?:\.gz)?\Z")
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
        paths: Files, patterns of them (``*``, ``?``), or folders, whose files of logs are read;
            gzipped ones too. The first lines show the form.
        prefix: ``log_line_prefix`` of plain logs; by default common ones are tried.
        database: Leave out the statements of other databases.
        samples: How many executions of a text become queries, each with its own literals.
        seed: Decides which executions.

    Raises:
        UsageError: A file cannot be read, or no statement was found, or none of that database.
    """
    gatherer = Gatherer(samples, seed)
    reported = False
    databases: set[str | None] = set()
    files = _files(paths)
    for entry in _entries(files, prefix):
        found = execution(entry)
        if found is None:
            continue
        reported = True
        databases.add(entry.database)
        if isinstance(found, str):
            gatherer.skip(found)
        elif entry.application == APPLICATION:
            gatherer.skip(_OURS, found.calls)
        elif database is not None and entry.database != database:
            gatherer.skip(_OTHER, found.calls)
        else:
            gatherer.add(found)
    if not reported:
        raise UsageError("the logs hold no statement.", remedy=_SHOW)
    if database is not None and database not in databases:
        named = ", ".join(sorted(name for name in databases if name is not None))
        raise UsageError(
            f"the logs hold no statement of the database {database!r}.",
            remedy=f"They name these: {named}."
            if named
            else "They do not say the database: put %d into log_line_prefix, or name --prefix.",
        )
    return gatherer.capture(files[0].name.partition(".")[0])


def _files(paths: Sequence[str | Path]) -> list[Path]:
    """The files that are meant, in the order of their names."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            some = [file for file in path.iterdir() if _LOG.search(file.name) and file.is_file()]
        elif path.exists() or not has_magic(str(path)):
            some = [path]
        else:
            some = [Path(name) for name in glob(str(path), recursive=True)]
        if not some:
            raise UsageError(f"there is no log in {path}.")
        found += sorted(some)
    return found


def _entries(paths: Sequence[Path], prefix: str | None) -> Iterator[Entry]:
    for path in paths:
        head = list(islice(_lines(path), _LOOK))
        if head:
            yield from _read(head, _lines(path), prefix)


def _read(head: Sequence[str], lines: Iterable[str], prefix: str | None) -> Iterator[Entry]:
    """The LOG entries of a log whose form its first lines tell."""
    row = next(csv.reader(head), []) if prefix is None else []
    if prefix is None and "error_severity" in _object(head[0]):
        return _of_json(lines)
    if len(row) >= _LEAST and row[_SEVERITY].rstrip("12345") in _SEVERITIES:
        return _of_csv(lines)
    return stderrlog.entries(lines, stderrlog.pattern(prefix, head))


def _of_csv(lines: Iterable[str]) -> Iterator[Entry]:
    """Those of ``log_destination = csvlog``."""
    csv.field_size_limit(_LONGEST_FIELD)
    try:
        for row in csv.reader(lines):
            if len(row) >= _LEAST and row[_SEVERITY] == "LOG":
                yield Entry(row[_MESSAGE], row[_DETAIL], row[_DATABASE] or None, row[_APPLICATION])
    except csv.Error as error:
        raise UsageError(f"the csv log cannot be read ({error}).") from None


def _of_json(lines: Iterable[str]) -> Iterator[Entry]:
    """Those of ``log_destination = jsonlog``, one object a line; cut off ones are passed over."""
    for item in map(_object, lines):
        if item.get("error_severity") == "LOG":
            message, detail = (str(item.get(name, "")) for name in ("message", "detail"))
            yield Entry(message, detail, item.get("dbname"), item.get("application_name"))


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _lines(path: Path) -> Iterator[str]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        # Line ends as they are: a quoted field of a csv log may hold carriage returns.
        with opened(path, "rt", encoding="utf-8", errors="replace", newline="") as file:
            yield from file
    except OSError as error:
        raise UsageError(f"cannot read the log {path}: {error.strerror or error}.") from error
