"""Logs of ``log_destination = jsonlog``: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from privbench.workload.capture.messages import Entry


def detects(head: Sequence[str]) -> bool:
    """Whether these first lines are of such a log."""
    return bool(head) and "error_severity" in _object(head[0])


def entries(lines: Iterable[str]) -> Iterator[Entry]:
    """The LOG entries; lines that are cut off are passed over."""
    for line in lines:
        item = _object(line)
        if item.get("error_severity") == "LOG":
            yield Entry(
                str(item.get("message", "")),
                str(item.get("detail", "")),
                item.get("dbname"),
                item.get("application_name"),
            )


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
