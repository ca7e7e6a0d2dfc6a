"""Work discrepancy: how far a query's work on the clone is from that on the source, in per cent.

Run times vary from run to run; the numbers of blocks that a plan touches and of rows that pass
through it do not. Hits and reads are added up, so that the state of the caches does not matter.
"""

import numpy as np
from numpy.typing import ArrayLike

from privbench.arrays import Floats
from privbench.metrics import plans
from privbench.metrics.base import Metric, Part
from privbench.metrics.plans import WorkPart

RUNTIME = Metric(
    name="runtime",
    title="Query runtime discrepancy",
    unit="%",
    meaning="How much longer or shorter a query takes on the clone than on the source: "
    "0 % is the same, 100 % is twice as long.",
    headline="runtime.p50",
    good=15.0,
    fair=40.0,
)


def discrepancies(source: ArrayLike, clone: ArrayLike) -> Floats:
    """Return |t − t̂| / t in per cent for run times t and t̂ (DESIGN section 5).

    >>> discrepancies([2.0, 1.0], [1.0, 1.5]).tolist()
    [50.0, 50.0]
    """
    t, e = np.asarray(source, dtype=np.float64), np.asarray(clone, dtype=np.float64)
    return np.asarray(100.0 * np.abs(t - e) / t, dtype=np.float64)


WORK = Metric(
    name="work",
    title="Work discrepancy",
    unit="%",
    meaning="How far the blocks that a query reads in the clone differ from those in the source. "
    "Unlike run time, this has next to no noise.",
    headline="work.blocks.p50",
    good=10.0,
    fair=40.0,
)

PLAN = Metric(
    name="plan",
    title="Plan agreement",
    goal="higher",
    high=1.0,
    meaning="The share of queries that the planner runs by the same operators in the same join "
    "order on both sides: 1 is all of them.",
    headline="plan.agreement",
    good=0.9,
    fair=0.6,
)


def amounts(source: ArrayLike, clone: ArrayLike) -> Floats:
    """Return |b − b̂| / b in per cent for numbers of blocks; b is at least 1 (DESIGN section 5).

    >>> amounts([10, 0, 0], [5, 0, 3]).tolist()
    [50.0, 0.0, 300.0]
    """
    b, e = np.asarray(source, dtype=np.float64), np.asarray(clone, dtype=np.float64)
    return np.asarray(100.0 * np.abs(b - e) / np.maximum(b, 1.0), dtype=np.float64)


class QueryWorkPart(Part):
    """The work of one query on the clone compared with its work on the source."""

    blocks: float  # |b − b̂| / b of shared blocks, per cent, b floored at 1
    rows: float  # the same of rows through all nodes
    spill: float | None  # the same of local and temporary blocks; None where neither side used any
    same_plan: bool  # same operators and join order
    same_join_order: bool  # tables are joined in the same order, by whatever operators
    # With the same plan: Q-error of the rows (× loops) of each node, in the plan's order,
    # root first; else empty.
    operators: list[float]


def difference(source: WorkPart, clone: WorkPart) -> QueryWorkPart:
    """Compare two runs of one query."""
    same = plans.same(source.plan, clone.plan)
    blocks, rows, spill = amounts(
        [source.shared, source.rows, source.spill], [clone.shared, clone.rows, clone.spill]
    ).tolist()
    return QueryWorkPart(
        blocks=blocks,
        rows=rows,
        spill=spill if source.spill or clone.spill else None,
        same_plan=same,
        same_join_order=same or plans.join_order(source.plan) == plans.join_order(clone.plan),
        operators=plans.operator_qerrors(source.plan, clone.plan).tolist() if same else [],
    )
