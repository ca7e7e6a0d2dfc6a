"""``run``: a workload on one database."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from privbench.workload import read, replay
from privbench.workload.replay import OnResult


def run(
    workload: str,
    dsn: str,
    *,
    repeats: int = 3,
    timeout: float = 60.0,
    on_result: OnResult | None = None,
) -> dict[str, Any]:
    """Run a workload and keep counts and times.

    Args:
        workload: A file or folder in any known format.
        dsn: The database; only read.
        repeats: Timed runs a query.
        timeout: Seconds that one run may take.
        on_result: Told of every query that ran.

    Returns:
        A JSON object: the database, the settings, and per query the count and the seconds.

    Raises:
        UsageError: The workload cannot be read, or does more than read.
        DatabaseError: The database refused.
    """
    queries = read(workload)
    found = replay(
        queries, {"database": dsn}, repeats=repeats, timeout=timeout, on_result=on_result
    )
    return {
        "workload": queries.name,
        "database": asdict(found.sides["database"]),
        "settings": found.settings,
        "repeats": found.repeats,
        "timeout": found.timeout,
        "results": [
            {"id": result.id, **asdict(result.answers["database"])} for result in found.results
        ],
    }
