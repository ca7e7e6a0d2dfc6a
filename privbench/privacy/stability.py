"""The stability harness: replay the queries of a fit on neighbours and check every claim.

It evaluates each query on two neighbouring databases and compares the exact integer change with
the registered sensitivity. Its report is computed from private rows: CONFIDENTIAL.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from privbench.privacy.data import PrivateDatabase, Recoding
from privbench.privacy.neighbour import Unit, all_units, remove_unit, telling_units
from privbench.privacy.query import Integers, Query
from privbench.privacy.spec import DatabaseSpec

#: Relative slack of the L2 comparison, which is in floating point; L1, L∞ and L0 are exact.
SLACK = 1e-9

#: A statistic: its public shape and its cells; of a list, its public cells and counts by label.
Statistic = Integers | tuple[Integers, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Change:
    """Exact change of a statistic between two neighbours."""

    l1: int
    l2: float
    linf: int
    l0: int


@dataclass(frozen=True, slots=True)
class Violation:
    """A claim that does not hold."""

    event: int  # position of the query in the trace
    kind: str
    table: str
    root: str  # root table of the unit that was removed or replaced
    # Which claim failed: l1, l2, linf, l0, shape, or roots (a unit moved the statistic whose root
    # table is not charged).
    reason: str
    ratio: float  # observed over claimed change; infinite for shape and roots


@dataclass(slots=True)
class StabilityReport:
    """The result of a check."""

    events: int  # number of queries
    neighbours: int = 0  # number of neighbouring pairs
    checks: int = 0  # number of comparisons
    # For every query, the largest ratio of observed to claimed change in any norm.
    worst: list[float] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every claim held."""
        return not self.violations

    @property
    def worst_ratio(self) -> float:
        """The largest ratio over all queries, 0 without any."""
        return max(self.worst, default=0.0)


def change(first: Statistic, second: Statistic) -> Change:
    """Norms of the difference of two statistics of one query, of two neighbours."""
    (a, labels), (b, others) = _parts(first), _parts(second)
    names = sorted(labels.keys() | others.keys())
    left = [abs(labels.get(name, 0) - others.get(name, 0)) for name in names]
    size = np.append(np.abs(a - b).ravel(), np.array(left, np.int64))
    high, low = size >> 31, size & (2**31 - 1)
    l1 = (int(high.sum()) << 31) + int(low.sum())
    l2 = math.sqrt(float((size.astype(np.float64) ** 2).sum()))
    # L0 bounds the labels that may be in one map alone; public cells are in both.
    l0 = np.count_nonzero(left) if isinstance(first, tuple) else np.count_nonzero(size)
    return Change(l1, l2, int(size.max(initial=0)), int(l0))


def _parts(statistic: Statistic) -> tuple[Integers, dict[str, int]]:
    cells, labels = statistic if isinstance(statistic, tuple) else (statistic, {})
    return np.asarray(cells, np.int64), labels


def check(
    queries: Sequence[Query],
    database: PrivateDatabase,
    *,
    recodings: Sequence[tuple[str, str, Recoding]] = (),
    units: Sequence[Unit] | None = None,
    every: bool = False,
) -> StabilityReport:
    """Check the claims of all queries on the neighbours of a database; the report is CONFIDENTIAL.

    Under add/remove every chosen unit is removed in turn. Under replace every pair of chosen units
    of one root table that follow one another (and the last and the first) is exchanged. Chosen are
    ``units``, or every unit there is, or else `telling_units`.

    The database is as it was before the fit: ``recodings`` (`PrivateDatabase.recodings` after it)
    are not yet applied. Queries of raw attributes (``reads_raw``) are evaluated before them, all
    others after.
    """
    chosen = list(all_units(database)) if every else list(units or telling_units(database))
    report = StabilityReport(len(queries), worst=[0.0] * len(queries))
    spec = _recoded(database, recodings).spec
    known: list[tuple[PrivateDatabase, list[Statistic]]] = []
    for root, first, second in neighbour_pairs(database, chosen):
        report.neighbours += 1
        # One side of a pair is a side of the next one as well: it is evaluated once.
        known = [
            next((pair for pair in known if pair[0] is side), None)
            or (side, _statistics(queries, side, recodings))
            for side in (first, second)
        ]
        before, after = (found for _, found in known)
        for event, query in enumerate(queries):
            for reason, ratio in judge(query, spec, root, before[event], after[event]):
                _record(report, event, query, root, reason, ratio)
    return report


def _record(
    report: StabilityReport, event: int, query: Query, root: str, reason: str, ratio: float
) -> None:
    report.checks += 1
    report.worst[event] = max(report.worst[event], ratio)
    if ratio > 1 + (SLACK if reason == "l2" else 0):
        report.violations.append(Violation(event, query.kind, query.table, root, reason, ratio))


def neighbour_pairs(
    database: PrivateDatabase, chosen: Sequence[Unit]
) -> Iterator[tuple[str, PrivateDatabase, PrivateDatabase]]:
    """Neighbouring pairs: each of these units removed, or exchanged for the next of its table.

    Each comes with the unit's root table.
    """
    if database.spec.relation.neighbours == "add-remove":
        for table, row in chosen:
            yield table, database, remove_unit(database, table, row)
        return
    for table in dict.fromkeys(table for table, _ in chosen):
        rows = [row for name, row in chosen if name == table]
        without = [remove_unit(database, table, row) for row in rows]
        for at in range(len(without) if len(without) > 1 else 0):
            yield table, without[at - 1], without[at]


def _recoded(
    database: PrivateDatabase, recodings: Sequence[tuple[str, str, Recoding]]
) -> PrivateDatabase:
    copy = database.copy()
    for table, attribute, recoding in recodings:
        copy.recode(table, attribute, recoding)
    return copy


def _statistics(
    queries: Sequence[Query],
    database: PrivateDatabase,
    recodings: Sequence[tuple[str, str, Recoding]],
) -> list[Statistic]:
    settled = _recoded(database, recodings)
    return [_statistic(query, database, settled) for query in queries]


def _statistic(query: Query, raw: PrivateDatabase, settled: PrivateDatabase) -> Statistic:
    side = raw if query.reads_raw else settled
    counter = getattr(query, "evaluate_labels", None)
    found: Statistic = query.evaluate(side) if counter is None else counter(side)
    return found


def judge(
    query: Query, spec: DatabaseSpec, root: str, before: Statistic, after: Statistic
) -> Iterator[tuple[str, float]]:
    """Every claim of a query and the ratio of the observed to the claimed change.

    The ratio is infinite for a wrong shape or an uncharged root table. ``spec`` is that of the
    query's evaluation, ``root`` the root table of the unit by which the sides differ.
    """
    shapes = [_parts(side)[0].shape for side in (before, after)]
    if any(shape != query.shape for shape in shapes):
        yield "shape", math.inf
        return
    moved = change(before, after)
    if not moved.l1:
        return  # what does not move keeps every claim
    if root not in query.roots(spec):
        yield "roots", math.inf
    claim = query.sensitivity(spec)
    yield "l1", _over(moved.l1, claim.l1)
    yield "l2", _over(moved.l2, claim.l2)
    yield "linf", _over(moved.linf, claim.linf)
    if claim.l0 is not None:
        yield "l0", _over(moved.l0, claim.l0)


def _over(observed: float, claimed: float) -> float:
    if observed <= claimed:
        return observed / claimed if claimed else 0.0
    # A ratio just above 1 may round to 1: keep it visibly above.
    return max(observed / claimed, 1 + 1e-8) if claimed else math.inf
