"""``run``: a workload on one database."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import Any

from privbench.workload import Replay, Workload, read, replay
from privbench.workload.before import NOTHING, Before
from privbench.workload.load import load
from privbench.workload.replay import OnResult

_NAME = "database"


def run(
    workload: str,
    dsn: str,
    *,
    repeats: int = 3,
    warmup: int = 1,
    timeout: float = 60.0,
    before: Before = NOTHING,
    explain: bool = False,
    concurrency: int = 0,
    on_result: OnResult | None = None,
) -> dict[str, Any]:
    """Run a workload and keep counts and times.

    Args:
        workload: A file or folder in any known format.
        dsn: The database; only read.
        repeats: Timed runs a query.
        warmup: Untimed runs before them.
        timeout: Seconds that one run may take.
        before: What is done before each run.
        explain: Also keep EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) of every query.
        concurrency: Clients that then run the workload at once; 0 leaves that out.
        on_result: Told of every query that ran.

    Returns:
        A JSON object: the database, the settings, per query the count and the seconds, and under
        ``load`` queries a second of each round and median seconds a query.

    Raises:
        UsageError: The workload cannot be read, or does more than read.
        DatabaseError: The database refused.
    """
    queries = read(workload)
    found = replay(
        queries,
        {_NAME: dsn},
        repeats,
        warmup,
        timeout,
        on_result,
        explain=explain,
        before=before,
    )
    return {
        "workload": queries.name,
        "database": asdict(found.sides[_NAME]),
        "settings": found.settings,
        "repeats": found.repeats,
        "warmup": found.warmup,
        "timeout": found.timeout,
        "before": found.before or None,
        "results": [{"id": result.id, **asdict(result.answers[_NAME])} for result in found.results],
        "load": _load(queries, found, dsn, concurrency, before) if concurrency else None,
    }


def _load(
    queries: Workload, ran: Replay, dsn: str, clients: int, before: Before
) -> dict[str, Any] | None:
    sound = {result.id for result in ran.results if result.answers[_NAME].status == "ok"}
    chosen = [query for query in queries if query.id in sound]
    if not chosen:
        return None
    found = load(
        chosen,
        {_NAME: dsn},
        clients,
        ran.repeats,
        ran.warmup,
        ran.timeout,
        settings=ran.settings,
        before=before,
    )
    rounds = found.rounds[_NAME]
    return {
        "clients": clients,
        "throughput": [each.throughput for each in rounds],
        "latency": {
            query.id: float(seconds)
            for query, seconds in zip(chosen, found.latencies(_NAME), strict=True)
            if isfinite(seconds)
        },
    }
