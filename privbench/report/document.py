"""The result of a comparison as a versioned JSON document."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from privbench.report.document_parts import (
    DriftPart,
    LoadPart,
    Part,
    PlansPart,
    QueryWorkPart,
    StatisticsPart,
    SummaryPart,
    ViewsPart,
    WorkPart,
    WorkSummaryPart,
)

#: Grows when a field changes its meaning or goes; a new field does not change it.
SCHEMA_VERSION: Literal[1] = 1

CONFIDENTIAL = (
    "This report holds exact figures of the source database. It is for the data's owner alone: "
    "never publish it, and let no release of a clone depend on it."
)


class SidePart(Part):
    """One of the two databases."""

    database: str  # its name on its server
    version: str  # server version
    settings: dict[str, str]  # settings of the server that a session cannot change
    role: str = ""  # the role that ran the workload
    warning: str = ""  # that the role may do more than read, and what; empty where it may not


class WorkloadPart(Part):
    """The workload that was run; ``digest`` is SHA-256 over ids and texts."""

    name: str
    queries: int
    digest: str


class ModelPart(Part):
    """The released model whose circuits the heat map shows."""

    digest: str  # SHA-256 of its file
    synthesizer: str  # what learned it
    promise: str  # its guarantee; this report is not covered by it


class AnswerPart(Part):
    """One query on one side: see `privbench.workload.Answer`."""

    status: Literal["ok", "timeout", "error"]
    rows: int | None
    seconds: list[float]
    median: float | None
    truncated: bool
    error: str | None
    # What EXPLAIN (ANALYZE, BUFFERS) saw; None where it was not asked for, or failed.
    work: WorkPart | None = None
    message: str | None = None  # the error in words, without any value


class QueryPart(Part):
    """One query on both sides."""

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


class QErrorPart(Part):
    """Q-error overall and in parts."""

    overall: SummaryPart | None
    by_joins: dict[str, SummaryPart]
    by_third: dict[str, SummaryPart]
    true_zero: int
    clone_zero: int
    weighted: SummaryPart | None = None  # by the queries' weights; None where all weigh the same


class RuntimePart(Part):
    """Query runtime discrepancy in per cent."""

    overall: SummaryPart | None  # source against clone
    # Source against itself, in the same replay: what the machine's noise alone gives; None
    # where it was left out.
    floor: SummaryPart | None
    source_seconds: float  # sum of the medians of the queries that ended on both sides
    clone_seconds: float  # likewise
    by_joins: dict[str, SummaryPart] = Field(default_factory=dict)  # by number of joins
    # Source against itself by number of joins.
    floor_by_joins: dict[str, SummaryPart] = Field(default_factory=dict)
    weighted: SummaryPart | None = None  # by the queries' weights; None where all weigh the same
    # Sum of the source's second medians over the queries of the floor.
    again_seconds: float | None = None
    # Share of the queries further from the source than the source is from itself, a tie
    # counting half. Two identical databases give ½, give or take 1/(2√n).
    beyond_floor: float | None = None


REBOUND = (
    "The texts of these queries were chosen by how often texts occur in the source. That is exact "
    "knowledge of its rows: nothing of it, neither texts nor figures, may leave its owner."
)


class ReboundPart(Part):
    """Answers with literals re-bound by rank. CONFIDENTIAL, whatever else leaves the owner."""

    confidential: str = REBOUND
    # Those that changed, as they ran on the clone; the source answered them as written.
    queries: list[QueryPart]
    # Of the whole workload, with these queries re-bound and all others as written.
    qerror: QErrorPart


class ColumnPart(Part):
    """One compared column: shares of the rows in each cell."""

    name: str
    # By value, by public bins, or by quantiles of the source.
    how: Literal["values", "public bins", "source quantiles"]
    labels: list[str]  # cells in order, at most a few dozen; rarer values are joined in one
    real: list[float]  # share of the source's rows in each cell
    clone: list[float]  # share of the clone's rows
    tvd: float  # over all cells, before any were joined


class DivergencePart(Part):
    """Means over the sets of λ columns; ``sets`` of ``of`` were used."""

    kld: float
    tvd: float
    sets: int
    of: int


class TablePart(Part):
    """One table on both sides."""

    name: str
    public: bool  # declared public, so copied verbatim and left out of KLD
    source_rows: int
    clone_rows: int | None
    divergence: dict[str, DivergencePart]  # λ to figures; a λ without enough columns is missing
    columns: list[ColumnPart]
    left_out: dict[str, str]  # column and why it is not compared
    # Shares of the source's and the clone's rows that were compared: less than 1 of very
    # large tables.
    shares: tuple[float, float] = (1.0, 1.0)


class CheckPart(Part):
    """One promise of the schema, looked at in the clone."""

    table: str
    kind: str
    name: str
    violations: int


class GatePart(Part):
    """One gate; it fails where its condition holds or its figure is missing."""

    condition: str
    # What the gate looked at; of a gate over queries, the worst query's figure.
    figure: float | None
    failed: bool
    limit: float | None = None  # what it was held against
    # Of a gate over queries, the ids of those for which it failed, worst first.
    queries: list[str] = Field(default_factory=list)


class ComparisonDocument(Part):
    """Everything that a comparison found. CONFIDENTIAL, and no release may depend on it."""

    schema_version: Literal[1] = 1
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
    plans: PlansPart | None = None  # plan agreement; None likewise
    statistics: StatisticsPart | None = None  # agreement of ``pg_stats``
    load: LoadPart | None = None  # the workload run by several clients at once, where asked for
    drift: DriftPart | None = None  # against the baseline, where one was given
    # What the pictures of the HTML report are drawn from.
    views: ViewsPart = Field(default_factory=ViewsPart)
    model: ModelPart | None = None  # the released model, where one was given
    rebound: ReboundPart | None = None  # answers with literals re-bound by rank, where asked for

    @property
    def failed(self) -> bool:
        """Whether any gate failed."""
        return any(gate.failed for gate in self.gates)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of comparison.json."""
    schema = ComparisonDocument.model_json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"privbench-comparison-{SCHEMA_VERSION}",
        **schema,
    }
