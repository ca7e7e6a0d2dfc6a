"""Run a workload on several databases, in turns, and time it query by query."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import psycopg

from privbench.errors import ConnectionFailed, UsageError
from privbench.options import ReplayOptions, with_fields_of
from privbench.pgsql import SETTINGS
from privbench.workload import safety
from privbench.workload.database import Database
from privbench.workload.query import Refusal, Workload, WorkloadQuery
from privbench.workload.results import QueryAnswer, Replay, ReplayLog
from privbench.workload.safety import Trust
from privbench.workload.session import ALIGNED, ReplaySession, summarise

#: Called with a step, how many of its kind are done, and how many there are.
ReplayProgress = Callable[[str, int, int], None]

#: Name of the second set of runs on the first database, which give a replay its noise floor.
AGAIN = "source again"


def silent(step: str, done: int, total: int) -> None:
    """Report no progress."""


@with_fields_of(ReplayOptions)
def replay(
    workload: Workload,
    dsns: Mapping[str, str],
    *,
    tell: ReplayProgress = silent,
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
    finish: bool = True,
    options: ReplayOptions,
) -> Replay:
    """Run every query on every database; results come in the order of the workload.

    Queries run without locking clauses and EXPLAIN, see `safety.replayed`. The options are given
    by name.

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
    _check(workload, dsns, options)
    trust = Trust.of(
        options.functions,
        options.extensions,
        workload=options.trust_workload,
        skip=options.skip_refused,
    )
    digest = workload.digest
    parts = {**dsns, AGAIN: next(iter(dsns.values()))} if options.floor else dict(dsns)
    with sessions(parts) as opened:
        common = _align(opened, settings or {}, options.timeout)
        judging = {name: opened[name] for name in dsns}
        workload, changed, refused = _judge(workload, judging, common["search_path"], trust)
        sides = {name: opened[name].describe() for name in dsns}
        header = {
            "replay": 1,
            "workload": digest,
            "sides": {name: [s.database, s.version, s.catalog] for name, s in sides.items()},
            "settings": common,
            "plan": [options.repeats, options.untimed, options.timeout],
            "explain": options.explain,
            "floor": options.floor,
            "before": options.before,
        }
        book = ReplayLog.open(log, header)
        results = []
        for number, query in enumerate(workload, 1):
            result = book.found.get(query.id)
            if result is None:
                result = _rounds(query, number, opened, options)
                book.add(query.id, result)
                tell("queries", number, len(workload))
            results.append(result)
        if log is not None and finish:
            ReplayLog.finish(log)
    finished = len(book.found)
    return Replay(
        sides,
        common,
        workload,
        tuple(results),
        options.repeats,
        options.untimed,
        options.timeout,
        finished,
        options.before,
        refused,
        changed,
    )


def _check(workload: Workload, dsns: Mapping[str, str], options: ReplayOptions) -> None:
    if not dsns or options.repeats < 1 or not options.timeout > 0:
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
    replayable = tuple(query for query in workload if query.id not in out)
    if refused and not replayable:
        raise safety.refused(workload, refused)
    return replace(workload, queries=replayable), changed, tuple(refused)


@contextmanager
def sessions(dsns: Mapping[str, str]) -> Iterator[dict[str, ReplaySession]]:
    """Open a session for each name; all are closed at the end."""
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
    options: ReplayOptions,
) -> dict[str, QueryAnswer]:
    """Run all rounds of one query on all sides, untimed ones first."""
    runs: dict[str, list[QueryAnswer]] = {name: [] for name in opened}
    left, rounds = list(opened), options.untimed + options.repeats
    for name in chain.from_iterable(islice(orders(list(opened), number), rounds)):
        if name not in left:
            continue
        with _lost(query, name):
            opened[name].prepare(options, name)
            runs[name].append(opened[name].run(query.sql))
        if runs[name][-1].status != "ok":
            left.remove(name)
            # A query that failed on the first database would fail there again, so the second part
            # is skipped.
            if name == next(iter(runs)) and AGAIN in left:
                left.remove(AGAIN)
    plans: dict[str, Any] = {}
    for name in left if options.explain else []:
        if name != AGAIN:
            with _lost(query, name):
                plans[name] = opened[name].explain(query.sql)
    answers = {
        name: summarise(side_runs, options.untimed, plans.get(name))
        for name, side_runs in runs.items()
        if side_runs
    }
    return answers


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
    """Yield an endless sequence of orders of the sides, one for each round.

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
