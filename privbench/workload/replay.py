"""Run a workload on several databases, interleaved, and time it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg

from privbench.errors import ConnectionFailed, UsageError
from privbench.postgres.connect import connect
from privbench.workload import safety
from privbench.workload.query import Query, Workload
from privbench.workload.results import QueryResult, Replay, ReplayLog, Side
from privbench.workload.session import ALIGNED, Run, Session, summarise

#: Called after each query with its result, how many are done, and how many there are.
OnResult = Callable[[QueryResult, int, int], None]


def replay(
    workload: Workload,
    dsns: Mapping[str, str],
    repeats: int = 3,
    warmup: int = 1,
    timeout: float = 60.0,
    on_result: OnResult | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
    finish: bool = True,
    explain: bool = False,
    row_limit: int = 1_000_000,
) -> Replay:
    """Run every query on every database.

    The runs of one query are interleaved: one on each side, then the next on each side in the
    opposite order, so that a disturbance or a warmer cache favours no side. A run that passes the
    time-out, or fails, ends that query on that side alone.

    Args:
        workload: Queries that only read.
        dsns: DSN by the database's name in the result; the first one's session settings hold on
            all of them.
        repeats: Timed runs a query and side, at least 1.
        warmup: Untimed runs before them.
        timeout: Seconds that one run may take, as the servers' ``statement_timeout``.
        on_result: Told of every new result.
        settings: Session settings that override the first side's.
        log: JSON lines written as the replay goes; a broken replay is taken up from them.
        finish: Mark the log done at the end, so that the next replay begins anew. Without it the
            results can be taken up again until `ReplayLog.finish` is called.
        explain: Also keep EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) of one further run.
        row_limit: Rows after which a fetch is cut off.

    Returns:
        Results in the order of the workload.

    Raises:
        UsageError: A query does more than read, two queries share an id, or the log is another
            replay's.
        ConnectionFailed: A database cannot be reached.
        DatabaseError: A side refuses the common settings.
    """
    _check(workload, dsns, repeats, timeout)
    with _sessions(dsns, row_limit) as sessions:
        common = _align(sessions, settings or {}, timeout)
        sides = {name: session.describe() for name, session in sessions.items()}
        book = ReplayLog.open(log, _header(workload, sides, common, (repeats, warmup, timeout)))
        results = []
        for number, query in enumerate(workload, 1):
            result = book.found.get(query.id)
            if result is None:
                result = _one(query, sessions, repeats, warmup, explain)
                book.add(result)
                if on_result is not None:
                    on_result(result, number, len(workload))
            results.append(result)
        if log is not None and finish:
            ReplayLog.finish(log)
    return Replay(sides, common, tuple(results), repeats, warmup, timeout, len(book.found))


def _check(workload: Workload, dsns: Mapping[str, str], repeats: int, timeout: float) -> None:
    if not workload.queries:
        raise UsageError(f"the workload {workload.name} holds no query.")
    if not dsns or repeats < 1 or not timeout > 0:
        raise UsageError("a replay needs a database, at least one repeat and a time-out above 0.")
    ids = [query.id for query in workload]
    if len(set(ids)) != len(ids):
        raise UsageError(f"two queries of workload {workload.name} share an id.")
    safety.check(workload)


@contextmanager
def _sessions(dsns: Mapping[str, str], row_limit: int) -> Iterator[dict[str, Session]]:
    with ExitStack() as stack:
        yield {
            name: Session(stack.enter_context(connect(dsn, autocommit=True)), row_limit)
            for name, dsn in dsns.items()
        }


def _align(
    sessions: dict[str, Session], settings: Mapping[str, str], timeout: float
) -> dict[str, str]:
    first = next(iter(sessions.values()))
    common = {**first.settings(ALIGNED), **settings}
    for session in sessions.values():
        known = session.settings(tuple(common))
        common = {name: value for name, value in common.items() if name in known}
    for session in sessions.values():
        session.align(common, timeout)
    return dict(sorted(common.items()))


def _header(
    workload: Workload,
    sides: dict[str, Side],
    settings: dict[str, str],
    plan: tuple[int, int, float],
) -> dict[str, Any]:
    return {
        "replay": 1,
        "workload": workload.digest,
        "sides": {
            name: [side.database, side.version, side.catalog] for name, side in sides.items()
        },
        "settings": settings,
        "plan": list(plan),
    }


def _one(
    query: Query, sessions: dict[str, Session], repeats: int, warmup: int, explain: bool
) -> QueryResult:
    runs: dict[str, list[Run]] = {name: [] for name in sessions}
    open_sides = list(sessions)
    for name in chain.from_iterable(_order(list(sessions), warmup + repeats)):
        if name in open_sides:
            runs[name].append(_run(query, name, sessions[name]))
            if runs[name][-1].status != "ok":
                open_sides.remove(name)
    plans = {name: sessions[name].explain(query.sql) for name in open_sides if explain}
    return QueryResult(
        query.id, {name: summarise(runs[name], warmup, plans.get(name)) for name in sessions}
    )


def _run(query: Query, name: str, session: Session) -> Run:
    try:
        return session.run(query.sql)
    except psycopg.OperationalError:
        raise ConnectionFailed(
            f"the connection to the {name} was lost at query {query.id}.",
            remedy="Run the same command again: it goes on where it stopped.",
        ) from None


def _order(names: list[str], rounds: int) -> Iterator[list[str]]:
    """Names in their order and in the opposite order by turns."""
    for number in range(rounds):
        yield names if number % 2 == 0 else names[::-1]
