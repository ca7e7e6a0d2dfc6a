"""Parts of the document from EXPLAIN (ANALYZE, BUFFERS), from statistics, and from a load."""

from __future__ import annotations

from pydantic import Field

from privbench.report.document_base import Part, SummaryPart


class NodePart(Part):
    """One node of a plan that ran.

    Attributes:
        operator: As EXPLAIN's text form names it: ``Hash Left Join``, ``Parallel Seq Scan``.
        relation: The table's alias, where the node reads one.
        index: The index, where the node reads one.
        estimate: Rows that the planner expected, a loop.
        rows: Rows that came, a loop (a mean over loops).
        loops: How often the node ran.
        milliseconds: Time in it and below it, all loops together (parallel workers share theirs).
        blocks: Shared blocks hit or read in it and below it.
        children: The nodes below it, in the plan's order.
    """

    operator: str
    relation: str | None
    index: str | None
    estimate: float
    rows: float
    loops: int
    milliseconds: float | None
    blocks: int
    children: list[NodePart] = Field(default_factory=list)


class WorkPart(Part):
    """What one run of a query had to do.

    Attributes:
        shared: Shared blocks hit or read.
        local: Blocks of temporary tables hit or read.
        temp: Blocks of temporary files read or written.
        rows: Rows through all nodes: Σ rows × loops.
        planning: Milliseconds of planning.
        execution: Milliseconds of execution, with the cost of measuring every node.
        estimate: Mean Q-error of the planner's row estimates over the nodes that ran.
        plan: The plan's root.
    """

    shared: int
    local: int
    temp: int
    rows: float
    planning: float | None
    execution: float | None
    estimate: float
    plan: NodePart


class QueryWorkPart(Part):
    """One query's work on the clone against the source's.

    Attributes:
        blocks: |b − b̂| / b of shared blocks, per cent, b floored at 1.
        rows: The same of rows through all nodes.
        spill: The same of local and temporary blocks; None where neither side used any.
        same_plan: Same operators and join order.
        same_join_order: Tables are joined in the same order, by whatever operators.
        operators: With the same plan: Q-error of the rows (× loops) of each node, in the plan's
            order, root first; else empty.
    """

    blocks: float
    rows: float
    spill: float | None
    same_plan: bool
    same_join_order: bool
    operators: list[float]


class WorkSummaryPart(Part):
    """Work discrepancy in per cent over the queries explained on both sides.

    Attributes:
        queries: How many those are.
        missing: Queries that ran on both sides but could not be explained on one of them.
        blocks: Shared blocks.
        rows: Rows through all nodes.
        spill: Local and temporary blocks, over the queries that use any.
        blocks_weighted: Shared blocks by the queries' weights, where weights differ.
        source_blocks: Sum of shared blocks.
        clone_blocks: Likewise.
        source_spill: Sum of local and temporary blocks.
        clone_spill: Likewise.
    """

    queries: int
    missing: int
    blocks: SummaryPart | None
    rows: SummaryPart | None
    spill: SummaryPart | None
    blocks_weighted: SummaryPart | None
    source_blocks: int
    clone_blocks: int
    source_spill: int
    clone_spill: int


class PlansPart(Part):
    """How far the planner does the same on both sides.

    Attributes:
        queries: Queries explained on both sides.
        same: Share of them with the same operators and join order.
        same_join_order: Share of them with the same join order.
        same_by_joins: ``same`` by number of joins.
        operators: Q-error of the rows of matched nodes, over queries with the same plan.
        source_estimates: Q-error of the planner's estimate against the rows that came, over the
            nodes of all queries on the source.
        clone_estimates: The same on the clone.
        planning: Discrepancy |t − t̂| / t of planning time, per cent.
        execution: Discrepancy of execution time as the server measures it.
    """

    queries: int
    same: float
    same_join_order: float
    same_by_joins: dict[str, float]
    operators: SummaryPart | None
    source_estimates: SummaryPart | None
    clone_estimates: SummaryPart | None
    planning: SummaryPart | None
    execution: SummaryPart | None


class ColumnStatisticsPart(Part):
    """A row of ``pg_stats``.

    Attributes:
        n_distinct: As a number of values: shares are turned into numbers by the rows of the table.
        null_frac: Share of NULL.
        avg_width: Bytes.
        correlation: Of physical and logical order; None without an order.
        mcv: Number of most common values.
        mcv_share: Share of the rows that they hold.
    """

    n_distinct: float
    null_frac: float
    avg_width: int
    correlation: float | None
    mcv: int
    mcv_share: float


class StatisticPart(Part):
    """One column's statistics on both sides.

    Attributes:
        n_distinct: Q-error.
        null_frac: Absolute difference of shares.
        mcv: 1 less the overlap of the most common values, Σ min / Σ max of their shares; None for
            key columns, whose values are made up, and where neither side has any.
        correlation: Absolute difference.
        avg_width: |w − ŵ| / w, per cent.
    """

    table: str
    column: str
    source: ColumnStatisticsPart
    clone: ColumnStatisticsPart
    n_distinct: float
    null_frac: float
    mcv: float | None
    correlation: float | None
    avg_width: float


class StatisticsPart(Part):
    """Agreement of ``pg_stats``, which the planner reads.

    Attributes:
        absent: Side to the tables whose columns have no statistics there: they need ANALYZE, or
            hold no row, or the role may not read them.
        columns: Columns with statistics on both sides.
    """

    absent: dict[str, list[str]]
    n_distinct: SummaryPart | None
    null_frac: SummaryPart | None
    mcv: SummaryPart | None
    correlation: SummaryPart | None
    avg_width: SummaryPart | None
    columns: list[StatisticPart]


class LoadSidePart(Part):
    """One side under load.

    Attributes:
        throughput: Queries that ended a second, of each timed round.
        median_throughput: Their median.
        latency: Seconds of single queries, over clients and timed rounds.
        failed: Queries that timed out or failed, over clients and timed rounds.
    """

    throughput: list[float]
    median_throughput: float
    latency: SummaryPart | None
    failed: int


class LoadPart(Part):
    """The workload run by several clients at once.

    Attributes:
        clients: Connections a side.
        rounds: Timed rounds: in each, every client runs the whole workload once.
        sides: ``source``, ``clone`` and, with the floor, ``source again``.
        throughput: Discrepancy |q − q̂| / q of the median throughput, per cent.
        throughput_floor: The same of the source against itself.
        latency: Discrepancy of each query's median latency, per cent.
        latency_floor: The same of the source against itself.
    """

    clients: int
    rounds: int
    sides: dict[str, LoadSidePart]
    throughput: float | None
    throughput_floor: float | None
    latency: SummaryPart | None
    latency_floor: SummaryPart | None


class ChangePart(Part):
    """A figure, or one query's, then and now.

    Attributes:
        ratio: new / old; 1 where both are 0, None where only the old one is, or one is missing.
        change: new − old, None where one is missing.
    """

    old: float | None
    new: float | None
    ratio: float | None
    change: float | None


class RegressionPart(ChangePart):
    """A query whose figure has grown."""

    query: str
    figure: str


class DriftPart(Part):
    """This comparison against an earlier one, the baseline.

    Attributes:
        created: When the baseline was made.
        privbench: The version that made it.
        same_workload: Whether it ran the same queries.
        figures: Every figure that either has.
        regressions: Queries with a larger Q-error, work or run time than then, worst first.
        gone: Queries that only the baseline has.
        added: Queries that only this comparison has.
    """

    created: str
    privbench: str
    same_workload: bool
    figures: dict[str, ChangePart]
    regressions: list[RegressionPart]
    gone: list[str]
    added: list[str]
