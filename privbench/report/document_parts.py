"""What every part of the document is made of."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Part(BaseModel):
    """A part of the document: frozen, and without fields that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SummaryPart(Part):
    """Mean, percentiles and maximum of n errors."""

    n: int
    mean: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    max: float


class CorrelationPart(Part):
    """How strongly the columns of one table hang together, on both sides."""

    table: str
    columns: list[str]  # compared columns, d of them
    # Whether a column has an order. Two ordered columns are compared by Spearman's rank
    # correlation (−1 to 1, rows with NULL left out), all others by Cramér's V (0 to 1, NULL
    # is a value, corrected for bias).
    ordered: list[bool]
    # Shape (d, d), symmetric; None on the diagonal and where a column is constant.
    real: list[list[float | None]]
    clone: list[list[float | None]]  # likewise
    mean_difference: float | None  # mean of |real − clone| over the pairs that both sides have
    left_out: list[str]  # columns beyond the largest number that is shown


class FanoutSidePart(Part):
    """Children per parent on one side; ``shares`` are of the parents, by bucket."""

    parents: int
    mean: float
    max: int
    shares: list[float]


class FanoutPart(Part):
    """The distribution of children per parent along one foreign key."""

    table: str  # the table that holds the key
    key: str  # the constraint's name
    columns: list[str]  # its columns
    parent: str  # the table that it refers to
    labels: list[str]  # buckets of the number of children: 0, 1, 2, 3–4, 5–8, …
    real: FanoutSidePart  # the source
    clone: FanoutSidePart
    tvd: float  # total variation distance over the buckets


class HeatNodePart(Part):
    """One node of a circuit."""

    # Sum nodes split rows, product nodes split columns, leaves are single columns.
    kind: Literal["sum", "product", "leaf"]
    parent: int | None  # place of its parent among the nodes; None for the root
    when: str  # which of its parent's rows are routed to it; empty where all are
    columns: list[str]  # its scope
    real_rows: int  # rows of the source that are routed to it
    clone_rows: int  # likewise of the clone
    # Probability of that in the released model, where the circuit is the model's.
    model_share: float | None = None


class HeatQueryPart(Part):
    """The selectivity of one query's predicates at every node."""

    query: str  # id of the query
    why: str  # why it was chosen
    predicates: list[str]  # its conditions on columns of this table
    qerror: float | None  # of the whole query
    # For each node, the share of the source's rows routed to it that satisfy the predicates
    # on columns of its scope; None where no row is routed to it.
    real: list[float | None]
    clone: list[float | None]  # likewise
    # Where the circuit is a released model's, the model's own probability of the predicates,
    # given that a row is routed there; else empty.
    model: list[float | None] = Field(default_factory=list)


class HeatMapPart(Part):
    """One table's circuit and queries that colour it."""

    table: str
    # Whether it was learned from the source's rows, for the report alone, or is the released
    # model's own.
    circuit: Literal["source", "model"] = "source"
    sampled: bool  # whether only a random sample of the rows was counted
    nodes: list[HeatNodePart]  # parents before their children
    queries: list[HeatQueryPart]  # at least one


class ViewsPart(Part):
    """What the pictures of the report are drawn from. CONFIDENTIAL."""

    correlations: list[CorrelationPart] = Field(default_factory=list)
    fanouts: list[FanoutPart] = Field(default_factory=list)
    heatmaps: list[HeatMapPart] = Field(default_factory=list)


class NodePart(Part):
    """One node of a plan that ran."""

    operator: str  # as EXPLAIN's text form names it: ``Hash Left Join``, ``Parallel Seq Scan``
    relation: str | None  # the table's alias, where the node reads one
    index: str | None  # the index, where the node reads one
    estimate: float  # rows that the planner expected, a loop
    rows: float  # rows that came, a loop (a mean over loops)
    loops: int  # how often the node ran
    # Time in it and below it, all loops together (parallel workers share theirs).
    milliseconds: float | None
    blocks: int  # shared blocks hit or read in it and below it
    # The nodes below it, in the plan's order.
    children: list[NodePart] = Field(default_factory=list)


class WorkPart(Part):
    """What one run of a query had to do."""

    shared: int  # shared blocks hit or read
    local: int  # blocks of temporary tables hit or read
    temp: int  # blocks of temporary files read or written
    rows: float  # rows through all nodes: Σ rows × loops
    planning: float | None  # milliseconds of planning
    execution: float | None  # milliseconds of execution, with the cost of measuring every node
    estimate: float  # mean Q-error of the planner's row estimates over the nodes that ran
    plan: NodePart  # the plan's root


class QueryWorkPart(Part):
    """One query's work on the clone against the source's."""

    blocks: float  # |b − b̂| / b of shared blocks, per cent, b floored at 1
    rows: float  # the same of rows through all nodes
    spill: float | None  # the same of local and temporary blocks; None where neither side used any
    same_plan: bool  # same operators and join order
    same_join_order: bool  # tables are joined in the same order, by whatever operators
    # With the same plan: Q-error of the rows (× loops) of each node, in the plan's order,
    # root first; else empty.
    operators: list[float]


class WorkSummaryPart(Part):
    """Work discrepancy in per cent over the queries explained on both sides."""

    queries: int  # how many those are
    missing: int  # queries that ran on both sides but could not be explained on one of them
    blocks: SummaryPart | None  # shared blocks
    rows: SummaryPart | None  # rows through all nodes
    spill: SummaryPart | None  # local and temporary blocks, over the queries that use any
    # Shared blocks by the queries' weights, where weights differ.
    blocks_weighted: SummaryPart | None
    source_blocks: int  # sum of shared blocks
    clone_blocks: int  # likewise
    source_spill: int  # sum of local and temporary blocks
    clone_spill: int  # likewise


class PlansPart(Part):
    """How far the planner does the same on both sides."""

    queries: int  # queries explained on both sides
    same: float  # share of them with the same operators and join order
    same_join_order: float  # share of them with the same join order
    same_by_joins: dict[str, float]  # ``same`` by number of joins
    # Q-error of the rows of matched nodes, over queries with the same plan.
    operators: SummaryPart | None
    # Q-error of the planner's estimate against the rows that came, over the nodes of all
    # queries on the source.
    source_estimates: SummaryPart | None
    clone_estimates: SummaryPart | None  # the same on the clone
    planning: SummaryPart | None  # discrepancy |t − t̂| / t of planning time, per cent
    execution: SummaryPart | None  # discrepancy of execution time as the server measures it


class ColumnStatisticsPart(Part):
    """A row of ``pg_stats``."""

    # As a number of values: shares are turned into numbers by the rows of the table.
    n_distinct: float
    null_frac: float  # share of NULL
    avg_width: int  # bytes
    correlation: float | None  # of physical and logical order; None without an order
    mcv: int  # number of most common values
    mcv_share: float  # share of the rows that they hold


class StatisticPart(Part):
    """One column's statistics on both sides."""

    table: str
    column: str
    source: ColumnStatisticsPart
    clone: ColumnStatisticsPart
    n_distinct: float  # Q-error
    null_frac: float  # absolute difference of shares
    # 1 less the overlap of the most common values, Σ min / Σ max of their shares; None for
    # key columns, whose values are made up, and where neither side has any.
    mcv: float | None
    correlation: float | None  # absolute difference
    avg_width: float  # |w − ŵ| / w, per cent


class StatisticsPart(Part):
    """Agreement of ``pg_stats``, which the planner reads."""

    # Side to the tables whose columns have no statistics there: they need ANALYZE, or hold
    # no row, or the role may not read them.
    absent: dict[str, list[str]]
    n_distinct: SummaryPart | None
    null_frac: SummaryPart | None
    mcv: SummaryPart | None
    correlation: SummaryPart | None
    avg_width: SummaryPart | None
    columns: list[StatisticPart]  # columns with statistics on both sides


class LoadSidePart(Part):
    """One side under load."""

    throughput: list[float]  # queries that ended a second, of each timed round
    median_throughput: float  # their median
    latency: SummaryPart | None  # seconds of single queries, over clients and timed rounds
    failed: int  # queries that timed out or failed, over clients and timed rounds


class LoadPart(Part):
    """The workload run by several clients at once."""

    clients: int  # connections a side
    rounds: int  # timed rounds: in each, every client runs the whole workload once
    sides: dict[str, LoadSidePart]  # ``source``, ``clone`` and, with the floor, ``source again``
    throughput: float | None  # discrepancy |q − q̂| / q of the median throughput, per cent
    throughput_floor: float | None  # the same of the source against itself
    latency: SummaryPart | None  # discrepancy of each query's median latency, per cent
    latency_floor: SummaryPart | None  # the same of the source against itself


class ChangePart(Part):
    """A figure, or one query's, then and now."""

    old: float | None
    new: float | None
    # new / old; 1 where both are 0, None where only the old one is, or one is missing.
    ratio: float | None
    change: float | None  # new − old, None where one is missing


class RegressionPart(ChangePart):
    """A query whose figure has grown."""

    query: str
    figure: str


class DriftPart(Part):
    """This comparison against an earlier one, the baseline."""

    created: str  # when the baseline was made
    privbench: str  # the version that made it
    same_workload: bool  # whether it ran the same queries
    figures: dict[str, ChangePart]  # every figure that either has
    # Queries with a larger Q-error, work or run time than then, worst first.
    regressions: list[RegressionPart]
    gone: list[str]  # queries that only the baseline has
    added: list[str]  # queries that only this comparison has
