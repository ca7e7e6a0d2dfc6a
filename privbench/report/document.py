"""The result of a comparison as a versioned JSON document."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from privbench.metrics.base import Part, SummaryPart
from privbench.metrics.columns import PLACEHOLDERS, Binning
from privbench.metrics.fanout import FanoutPart
from privbench.metrics.integrity import CheckPart
from privbench.metrics.kld import DivergencePart
from privbench.metrics.plans import WorkPart
from privbench.metrics.qerror import QErrorPart
from privbench.metrics.values import ColumnValuesPart, RulePart, ratio
from privbench.metrics.work import QueryWorkPart
from privbench.workload.query import Refusal

#: The version grows when a field changes its meaning or is removed, not when a field is added.
SCHEMA_VERSION: Literal[4] = 4

CONFIDENTIAL = (
    "This report holds exact figures of the source database. It is for the data's owner alone: "
    "never publish it, and let no release of a clone depend on it."
)


class SidePart(Part):
    """One of the two databases of a comparison."""

    database: str  # its name on its server
    version: str  # server version
    settings: dict[str, str]  # settings of the server that a session cannot change
    role: str = ""  # the role that ran the workload
    warning: str = ""  # what the role may do beyond reading; empty if it may only read


class WorkloadPart(Part):
    """The workload that was run; ``digest`` is SHA-256 over ids and texts of its file."""

    name: str
    queries: int  # how many of them ran
    digest: str
    refused: list[Refusal] = Field(default_factory=list)  # the others, and why
    # Words that were left out of the texts of queries that ran (FOR UPDATE), by id.
    changed: dict[str, str] = Field(default_factory=dict)


class ModelPart(Part):
    """The released model that the clone was made from."""

    digest: str  # SHA-256 of its file
    synthesizer: str  # what learned it
    promise: str  # its guarantee; this report is not covered by it


class AnswerPart(Part):
    """The answer to one query on one database: see `privbench.workload.QueryAnswer`."""

    status: Literal["ok", "timeout", "error"]
    rows: int | None
    seconds: list[float]
    median: float | None
    truncated: bool
    error: str | None
    # Work measured by EXPLAIN (ANALYZE, BUFFERS); None if it was not requested, or failed.
    work: WorkPart | None = None
    message: str | None = None  # the error in words, without any value


class QueryPart(Part):
    """One query with its answers and figures on both databases."""

    id: str
    sql: str
    tables: int | None
    joins: int | None
    source: AnswerPart
    clone: AnswerPart
    qerror: float | None  # none where an answer is missing or was cut off
    # Discrepancy in per cent; None where a run time is missing or was cut off.
    runtime: float | None
    # Whether the source gives the answer that the workload states, if it does.
    card_matches: bool | None
    weight: float = 1.0  # how often the query counts in weighted figures
    # Seconds of the timed runs of the source's second part in the replay, which makes the
    # noise floor; empty without it.
    again: list[float] = Field(default_factory=list)
    floor: float | None = None  # runtime discrepancy of the source against itself, per cent
    # Whether both parts of the source gave the same answer; None without a floor.
    stable: bool | None = None
    # Whether its text bounds the number of rows that it answers with, by LIMIT.
    limited: bool = False
    # The work on the clone against the source's, where both were explained.
    work: QueryWorkPart | None = None


class ReplayPart(Part):
    """How the workload was run."""

    repeats: int
    warmup: int
    timeout: float
    settings: dict[str, str]  # session settings that held on both sides
    # Server settings that differ: name to (source, clone).
    differences: dict[str, tuple[str | None, str | None]]
    timeouts: dict[str, int]
    errors: dict[str, int]
    truncated: int
    card_mismatches: int
    resumed: int  # queries whose figures come from an earlier, broken run
    cold: str | None = None  # what was done before each run; None where caches were left warm
    unstable: int = 0  # queries to which the source gave two answers in one replay


class RuntimePart(Part):
    """The discrepancy of query run times, in per cent."""

    overall: SummaryPart | None  # source against clone
    # Source against itself, in the same replay: what the machine's noise alone gives; None
    # where it was left out.
    floor: SummaryPart | None
    source_seconds: float  # sum of the medians of the queries that ended on both sides
    clone_seconds: float
    by_joins: dict[str, SummaryPart] = Field(default_factory=dict)  # by number of joins
    # Source against itself by number of joins.
    floor_by_joins: dict[str, SummaryPart] = Field(default_factory=dict)
    weighted: SummaryPart | None = None  # by the queries' weights; None where all weigh the same
    # Sum of the source's second medians over the queries of the floor.
    again_seconds: float | None = None
    # Share of the queries further from the source than the source is from itself, a tie
    # counting half. Two identical databases give ½, give or take 1/(2√n).
    beyond_floor: float | None = None


class ColumnPart(Part):
    """One compared column: its shares of the rows in each cell."""

    name: str
    # By value, by public bins, by quantiles of the source, or in bins of those widths.
    how: Binning
    labels: list[str]  # cells in order, at most a few dozen; rarer values are joined in one
    real: list[float]  # share of the source's rows in each cell
    clone: list[float]  # share of the clone's rows
    # Over the cells that the distributions are compared by, before any were joined.
    tvd: float


class TablePart(Part):
    """One table in both databases."""

    name: str
    public: bool  # declared public, so copied verbatim and left out of KLD
    source_rows: int
    clone_rows: int | None
    divergence: dict[str, DivergencePart]  # λ to figures; a λ without enough columns is missing
    columns: list[ColumnPart]
    left_out: dict[str, str]  # column and why it is not compared
    # Shares of the source's and the clone's rows that were compared: below 1 for very large
    # tables.
    shares: tuple[float, float] = (1.0, 1.0)
    # Bytes of the table and of its indexes on disk.
    source_bytes: tuple[int, int] = (0, 0)
    clone_bytes: tuple[int, int] = (0, 0)
    values: list[ColumnValuesPart] = Field(default_factory=list)  # of every column
    rules: list[RulePart] = Field(default_factory=list)  # orders and identities

    @property
    def errors(self) -> list[tuple[float, str, str]]:
        """Return the table's errors, each with its figure, and its column or rule."""
        size = ratio(sum(self.source_bytes), sum(self.clone_bytes))
        columns = [c for c in self.values if self.left_out.get(c.name) != PLACEHOLDERS]
        errors = [(error, kind, c.name) for c in columns for kind, error in c.errors.items()]
        return [
            *errors,
            *((r.error, r.kind, r.rule) for r in self.rules),
            (size, "values.bytes", ""),
        ]

    @property
    def worst(self) -> tuple[float, str, str]:
        """Return the largest of `errors` of values."""
        own = [error for error in self.errors if error[1].startswith("values.")]
        return max(error for error in own if error[1] != "values.worst")


class GatePart(Part):
    """The result of one gate, which fails if its condition holds or its figure is missing."""

    condition: str
    # The figure that the gate checks; for a gate over queries, the worst query's figure.
    figure: float | None
    failed: bool
    limit: float | None = None  # the limit with which the figure was compared
    # For a gate over queries, the ids of the queries that failed it, worst first.
    queries: list[str] = Field(default_factory=list)


class CorrelationPart(Part):
    """The associations between the columns of one table, in both databases."""

    table: str
    columns: list[str]  # compared columns, d of them
    # Whether a column has an order. Two ordered columns are compared by Spearman's rank
    # correlation (−1 to 1, rows with NULL left out), all others by Cramér's V (0 to 1, NULL
    # is a value, corrected for bias).
    ordered: list[bool]
    # Shape (d, d), symmetric; None on the diagonal and where a column is constant.
    real: list[list[float | None]]
    clone: list[list[float | None]]
    mean_difference: float | None  # mean of |real − clone| over the pairs that both sides have
    left_out: list[str]  # columns beyond the largest number that is shown


class ViewsPart(Part):
    """The data of the report's pictures. CONFIDENTIAL."""

    correlations: list[CorrelationPart] = Field(default_factory=list)
    fanouts: list[FanoutPart] = Field(default_factory=list)


class WorkSummaryPart(Part):
    """The work discrepancy in per cent over the queries explained on both databases."""

    queries: int  # how many those are
    missing: int  # queries that ran on both sides but could not be explained on one of them
    blocks: SummaryPart | None  # shared blocks
    rows: SummaryPart | None  # rows through all nodes
    spill: SummaryPart | None  # local and temporary blocks, over the queries that use any
    # Shared blocks by the queries' weights, where weights differ.
    blocks_weighted: SummaryPart | None
    source_blocks: int  # sum of shared blocks
    clone_blocks: int
    source_spill: int  # sum of local and temporary blocks
    clone_spill: int


class PlansPart(Part):
    """The agreement of the plans of both databases."""

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


class ChangePart(Part):
    """A figure, of a comparison or of one query, in the baseline and now."""

    old: float | None
    new: float | None
    # new / old; 1 if both are 0, None if only the old one is 0, or if one is missing.
    ratio: float | None
    change: float | None  # new − old, None where one is missing


class RegressionPart(ChangePart):
    """A query whose figure has grown."""

    query: str
    figure: str


class DriftPart(Part):
    """The comparison of this comparison with an earlier one, the baseline."""

    created: str  # when the baseline was made
    privbench: str  # the version that made it
    same_workload: bool  # whether it ran the same queries
    figures: dict[str, ChangePart]  # every figure that either has
    # Queries with a larger Q-error, work or run time than then, worst first.
    regressions: list[RegressionPart]
    gone: list[str]  # queries that only the baseline has
    added: list[str]  # queries that only this comparison has


class ComparisonDocument(Part):
    """All results of a comparison. CONFIDENTIAL, and no release may depend on it."""

    schema_version: Literal[4] = SCHEMA_VERSION
    confidential: str = CONFIDENTIAL
    privbench: str
    created: datetime
    source: SidePart
    clone: SidePart
    workload: WorkloadPart
    replay: ReplayPart
    qerror: QErrorPart
    runtime: RuntimePart
    tables: list[TablePart]
    integrity: list[CheckPart]
    queries: list[QueryPart]
    # The flat table of named figures that gates read: ``qerror.p95``, ``kld.2``,
    # ``kld.2[public.users]``, ``integrity.violations``; None where there is no such figure.
    figures: dict[str, float | None]
    gates: list[GatePart] = Field(default_factory=list)
    work: WorkSummaryPart | None = None  # work discrepancy; None where nothing was explained
    plans: PlansPart | None = None  # plan agreement
    drift: DriftPart | None = None  # against the baseline, where one was given
    # What the pictures of the HTML report are drawn from.
    views: ViewsPart = Field(default_factory=ViewsPart)
    model: ModelPart | None = None  # the released model, where one was given
    # What sections that other packages add hold, by the section's name.
    sections: dict[str, Any] = Field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Comparison: {len(self.figures)} figures. CONFIDENTIAL>"

    @property
    def failed(self) -> bool:
        """Whether any gate failed."""
        return any(gate.failed for gate in self.gates)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of comparison.json."""
    schema = ComparisonDocument.model_json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"privbench-comparison-{SCHEMA_VERSION}",
        **schema,
    }
