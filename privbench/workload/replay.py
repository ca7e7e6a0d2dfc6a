"""Run a workload on several databases, in turns, and time it query by query."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, TypedDict

import psycopg

from privbench.errors import ConnectionFailed, UsageError
from privbench.pgsql import SETTINGS
from privbench.workload import safety
from privbench.workload.database import Database
from privbench.workload.query import Refusal, Workload, WorkloadQuery
from privbench.workload.results import QueryAnswer, QueryResult, Replay, ReplayLog
from privbench.workload.safety import NONE, Trust
from privbench.workload.session import ALIGNED, NOTHING, Before, ReplaySession, summarise

#: Called with a step, how many of its kind are done, and how many there are.
Tell = Callable[[str, int, int], None]

#: Name of the second set of runs on the first database, which give a replay its noise floor.
AGAIN = "source again"


def silent(step: str, done: int, total: int) -> None:
    """Report nothing."""


class ReplayOptions(TypedDict, total=False):
    """How `replay` runs queries; what is not given is as there."""

    repeats: int  # timed runs a query and side, at least 1
    warmup: int  # untimed runs before them
    timeout: float  # seconds that one run may take, as the servers' ``statement_timeout``
    explain: bool  # also keep EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) of one further run
    # Also run the first database against itself, which shows how much of a discrepancy of run times
    # is the machine's noise.
    floor: bool
    before: Before  # steps before each run
    # Functions that the operator lets the queries call beyond the lists, and whether refused
    # queries are left out.
    trust: Trust


def replay(
    workload: Workload,
    dsns: Mapping[str, str],
    repeats: int = 3,
    warmup: int = 1,
    timeout: float = 60.0,
    tell: Tell = silent,
    *,
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
    finish: bool = True,
    explain: bool = False,
    floor: bool = False,
    before: Before = NOTHING,
    trust: Trust = NONE,
) -> Replay:
    """Run every query on every database; results come in the order of the workload.

    Queries run without locking clauses and EXPLAIN, see `safety.replayed`. Options that are not
    listed here are those of `ReplayOptions`.

    The runs of one query are interleaved in rounds of one run on each side, in an order that
    changes from round to round and from query to query, so that a disturbance or a warmer cache
    favours no side. A run that passes the time-out, or fails, ends that query on that side alone.

    With ``floor`` the first database takes a second part, `AGAIN`, in the same rounds and on a
    connection of its own. Where all databases are one and the same, any two parts are then
    exchangeable: run times of the first against the second database, and of the first against
    itself, come from one distribution.

    * ``dsns``: DSN by the database's name in the result; the first one's session settings hold on
      all of them, but for those in ``settings``.
    * ``tell`` is called after every query that was run.
    * ``log``: file of JSON lines, written as the replay runs; an interrupted replay resumes from it
      until it is marked done, at the end (``finish``) or by `ReplayLog.finish`.

    Raises:
        UsageError: Queries do more than read, two queries share an id, the log is another
            replay's, or the command before a run failed.
        ConnectionFailed: A database cannot be reached.
        DatabaseError: A side refuses the common settings, or the statement before a run.
    """
    _check(workload, dsns, repeats, timeout)
    digest = workload.digest
    parts = {**dsns, AGAIN: next(iter(dsns.values()))} if floor else dict(dsns)
    with sessions(parts) as opened:
        common = _align(opened, settings or {}, timeout)
        judging = {name: opened[name] for name in dsns}
        workload, changed, refused = _judge(workload, judging, common["search_path"], trust)
        sides = {name: opened[name].describe() for name in dsns}
        header = {
            "replay": 1,
            "workload": digest,
            "sides": {name: [s.database, s.version, s.catalog] for name, s in sides.items()},
            "settings": common,
            "plan": [repeats, warmup, timeout],
            "explain": explain,
            "floor": floor,
            "before": str(before),
        }
        book = ReplayLog.open(log, header)
        results = []
        for number, query in enumerate(workload, 1):
            result = book.found.get(query.id)
            if result is None:
                result = _rounds(query, number, opened, (warmup, repeats), before, explain)
                book.add(result)
                tell("queries", number, len(workload))
            results.append(result)
        if log is not None and finish:
            ReplayLog.finish(log)
    done = len(book.found)
    return Replay(
        sides,
        common,
        workload,
        tuple(results),
        repeats,
        warmup,
        timeout,
        done,
        str(before),
        refused,
        changed,
    )


def _check(workload: Workload, dsns: Mapping[str, str], repeats: int, timeout: float) -> None:
    if not dsns or repeats < 1 or not timeout > 0:
        raise UsageError("a replay needs a database, at least one repeat and a time-out above 0.")
    ids = [query.id for query in workload]
    if len(set(ids)) != len(ids):
        raise UsageError(f"two queries of workload {workload.name} share an id.")


def _judge(
    workload: Workload, opened: Mapping[str, ReplaySession], path: str, trust: Trust
) -> tuple[Workload, dict[str, str], tuple[Refusal, ...]]:
    """The queries as they run, what was left out of their texts, and those that are refused.

    A workload that does more than read on any side is refused before anything of it runs, unless
    the operator has such queries left out; then some query must be left.
    """
    changes = list(map(safety.replayed, workload))
    workload = replace(workload, queries=tuple(query for query, _ in changes))
    changed = {query.id: words for query, words in changes if words}
    judges = {
        name: Database(session.connection, path, trust, replays=True).judge
        for name, session in opened.items()
    }
    refused = safety.refusals(workload, judges) if trust.skip else []
    if not trust.skip:
        safety.check(workload, judges)
    for session in opened.values():
        session.connection.rollback()
    out = {item.id for item in refused}
    kept = tuple(query for query in workload if query.id not in out)
    if refused and not kept:
        raise safety.refused(workload, refused)
    return replace(workload, queries=kept), changed, tuple(refused)


@contextmanager
def sessions(dsns: Mapping[str, str]) -> Iterator[dict[str, ReplaySession]]:
    """A session for each name, closed at the end."""
    with ExitStack() as stack:
        opened = {}
        for name, dsn in dsns.items():
            opened[name] = ReplaySession(dsn)
            stack.callback(opened[name].close)
        yield opened


def _align(
    opened: dict[str, ReplaySession], settings: Mapping[str, str], timeout: float
) -> dict[str, str]:
    first = next(iter(opened.values()))
    # SETTINGS come last and win, so that servers parse queries as the judge did.
    common = {**first.settings(ALIGNED), **settings, **SETTINGS}
    for session in opened.values():
        known = session.settings(tuple(common))
        common = {name: value for name, value in common.items() if name in known}
    for session in opened.values():
        session.align(common, timeout)
    return dict(sorted(common.items()))


def _rounds(
    query: WorkloadQuery,
    number: int,
    opened: Mapping[str, ReplaySession],
    rounds: tuple[int, int],
    before: Before,
    explain: bool,
) -> QueryResult:
    """Run all rounds of one query on all sides, untimed ones first."""
    runs: dict[str, list[QueryAnswer]] = {name: [] for name in opened}
    left = list(opened)
    for name in chain.from_iterable(islice(orders(list(opened), number), sum(rounds))):
        if name not in left:
            continue
        with _lost(query, name):
            opened[name].prepare(before, name)
            runs[name].append(opened[name].run(query.sql))
        if runs[name][-1].status != "ok":
            left.remove(name)
            # A query that failed on the first database would fail there again, so the second part
            # is skipped.
            if name == next(iter(runs)) and AGAIN in left:
                left.remove(AGAIN)
    plans: dict[str, Any] = {}
    for name in left if explain else []:
        if name != AGAIN:
            with _lost(query, name):
                plans[name] = opened[name].explain(query.sql)
    answers = {
        name: summarise(found, rounds[0], plans.get(name)) for name, found in runs.items() if found
    }
    return QueryResult(query.id, answers)


@contextmanager
def _lost(query: WorkloadQuery, name: str) -> Iterator[None]:
    try:
        yield
    except (psycopg.OperationalError, ConnectionFailed):
        raise ConnectionFailed(
            f"the connection to the {name} was lost at query {query.id}.",
            remedy="Run the same command again: it goes on where it stopped.",
        ) from None


def orders(names: list[str], start: int = 0) -> Iterator[list[str]]:
    """An endless sequence of orders of the sides, one for each round.

    In as many rounds as there are sides, each side takes each place once. The next rounds do the
    same in reversed order, so that each side follows each other side equally often. ``start`` says
    which half comes first.

    >>> [" ".join(order) for order in islice(orders(["a", "b", "c"]), 6)]
    ['a b c', 'b c a', 'c a b', 'c b a', 'b a c', 'a c b']
    """
    for half in count(start):
        turned = names if half % 2 == 0 else names[::-1]
        for shift in range(len(names)):
            yield turned[shift:] + turned[:shift]
