"""Logs of ``log_destination = csvlog``."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence

from privbench.errors import UsageError
from privbench.workload.capture.messages import Entry

# Columns by position; later versions append theirs.
_DATABASE, _SEVERITY, _MESSAGE, _DETAIL, _APPLICATION = 2, 11, 13, 14, 22
_LEAST = 23
_SEVERITIES = frozenset({"DEBUG", "LOG", "INFO", "NOTICE", "WARNING", "ERROR", "FATAL", "PANIC"})
_LONGEST_FIELD = 2**30


def detects(head: Sequence[str]) -> bool:
    """Whether these first lines are of such a log."""
    row = next(csv.reader(head), [])
    return len(row) >= _LEAST and row[_SEVERITY].rstrip("12345") in _SEVERITIES


def entries(lines: Iterable[str]) -> Iterator[Entry]:
    """The LOG entries.

    Raises:
        UsageError: A field does not end.
    """
    csv.field_size_limit(_LONGEST_FIELD)
    try:
        for row in csv.reader(lines):
            if len(row) >= _LEAST and row[_SEVERITY] == "LOG":
                yield Entry(row[_MESSAGE], row[_DETAIL], row[_DATABASE] or None, row[_APPLICATION])
    except csv.Error as error:
        raise UsageError(f"the csv log cannot be read ({error}).") from None
