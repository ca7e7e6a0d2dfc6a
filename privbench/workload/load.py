"""Run a workload by several clients at once on each database, in turns, and measure throughput.

A round on a side: every client runs the whole workload once, each from another place on, so that
no two run the same query at the same time. Throughput is the number of queries that ended, over
the time from the start of all clients to the end of the last. Sides take rounds in turns, never at
the same time. The clients are threads of this process: with queries of well under a millisecond
they, not the server, are the limit, on all sides alike.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import numpy as np
import psycopg
from numpy.typing import NDArray

from privbench.errors import ConnectionFailed, UsageError
from privbench.workload.query import Query
from privbench.workload.replay import AGAIN, orders, sessions
from privbench.workload.session import NOTHING, Before, Session

_Seconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Round:
    """One timed round on one side.

    Attributes:
        seconds: From the start of all clients to the end of the last.
        latency: Seconds of each query on each client, shape (clients, queries); NaN where it timed
            out or failed.
    """

    seconds: float
    latency: _Seconds

    @property
    def throughput(self) -> float:
        """Queries that ended a second."""
        return float(np.isfinite(self.latency).sum()) / self.seconds


@dataclass(frozen=True, slots=True)
class Load:
    """Timed rounds by the side's name."""

    clients: int
    queries: tuple[Query, ...]
    rounds: dict[str, tuple[Round, ...]]

    def latencies(self, name: str) -> _Seconds:
        """Median seconds of each query on a side over clients and rounds, NaN without a run.

        Shape (queries,).
        """
        stacked = np.concatenate([each.latency for each in self.rounds[name]])
        medians = np.full(stacked.shape[1], np.nan)
        some = np.isfinite(stacked).any(axis=0)
        medians[some] = np.nanmedian(stacked[:, some], axis=0)
        return medians


def load(
    queries: Sequence[Query],
    dsns: Mapping[str, str],
    clients: int,
    rounds: int = 3,
    warmup: int = 1,
    timeout: float = 60.0,
    *,
    settings: Mapping[str, str] | None = None,
    floor: bool = False,
    before: Before = NOTHING,
    row_limit: int = 1_000_000,
) -> Load:
    """Run the queries by several clients at once.

    Args:
        queries: Reading queries that a replay has already run on every side: nothing is checked.
        dsns: DSN by the side's name.
        clients: Connections a side, at least 1.
        rounds: Timed rounds a side.
        warmup: Untimed rounds before them.
        timeout: Seconds that one query may take.
        settings: Session settings that hold on all sides.
        floor: Also load the first database a second time, as a side of its own.
        before: What is done before each round, on each connection.
        row_limit: Rows after which a fetch is cut off.

    Raises:
        UsageError: There is no client or no query, or the command before a round failed.
        ConnectionFailed: A database cannot be reached, or takes fewer connections.
        DatabaseError: A side refuses the settings, or the statement before a round.
    """
    if clients < 1 or rounds < 1 or not queries:
        raise UsageError("a load needs at least one client, one round and one query.")
    parts = {**dsns, AGAIN: next(iter(dsns.values()))} if floor else dict(dsns)
    wanted = {f"{name} {number}": dsn for name, dsn in parts.items() for number in range(clients)}
    with sessions(wanted, row_limit) as opened:
        for session in opened.values():
            session.align(settings or {}, timeout)
        crews = {name: [opened[f"{name} {number}"] for number in range(clients)] for name in parts}
        found: dict[str, list[Round]] = {name: [] for name in parts}
        for order in islice(orders(list(parts)), warmup + rounds):
            for name in order:
                found[name].append(_round(name, crews[name], queries, before))
    timed = {name: tuple(each[warmup:]) for name, each in found.items()}
    return Load(clients, tuple(queries), timed)


def _round(name: str, crew: list[Session], queries: Sequence[Query], before: Before) -> Round:
    before.run_command(name)
    calm = Before(fresh=before.fresh, statement=before.statement)
    for session in crew:
        session.prepare(calm, name)
    latency = np.full((len(crew), len(queries)), np.nan)
    gate = threading.Barrier(len(crew) + 1)

    def work(client: int) -> None:
        first = client * len(queries) // len(crew)
        gate.wait()
        for step in range(len(queries)):
            place = (first + step) % len(queries)
            run = crew[client].run(queries[place].sql)
            if run.status == "ok":
                latency[client, place] = run.seconds

    with ThreadPoolExecutor(len(crew)) as pool:
        working = [pool.submit(work, client) for client in range(len(crew))]
        gate.wait()
        begin = time.perf_counter()
        try:
            for client in working:
                client.result()
        except psycopg.OperationalError:
            raise ConnectionFailed(f"a connection to the {name} was lost under load.") from None
        seconds = time.perf_counter() - begin
    return Round(seconds, latency)
