"""The result of a comparison as a versioned JSON document."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from privbench.report.document_base import Part, SummaryPart
from privbench.report.document_views import ViewsPart
from privbench.report.document_work import (
    DriftPart,
    LoadPart,
    PlansPart,
    QueryWorkPart,
    StatisticsPart,
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
    """One of the two databases.

    Attributes:
        database: Its name on its server.
        version: Server version.
        settings: Settings of the server that a session cannot change.
        role: The role that ran the workload.
        warning: That the role may do more than read, and what; empty where it may not.
    """

    database: str
    version: str
    settings: dict[str, str]
    role: str = ""
    warning: str = ""


class WorkloadPart(Part):
    """The workload that was run; ``digest`` is SHA-256 over ids and texts."""

    name: str
    queries: int
    digest: str


class ModelPart(Part):
    """The released model whose circuits the heat map shows.

    Attributes:
        digest: SHA-256 of its file.
        synthesizer: What learned it.
        promise: Its guarantee; this report is not covered by it.
    """

    digest: str
    synthesizer: str
    promise: str


class AnswerPart(Part):
    """One query on one side: see `privbench.workload.Answer`.

    Attributes:
        work: What EXPLAIN (ANALYZE, BUFFERS) saw; None where it was not asked for, or failed.
        message: The error in words, without any value.
    """

    status: Literal["ok", "timeout", "error"]
    rows: int | None
    seconds: list[float]
    median: float | None
    truncated: bool
    error: str | None
    work: WorkPart | None = None
    message: str | None = None


class QueryPart(Part):
    """One query on both sides.

    Attributes:
        qerror: None where an answer is missing or was cut off.
        runtime: Discrepancy in per cent; None where a run time is missing or was cut off.
        card_matches: Whether the source gives the answer that the workload states, if it does.
        weight: How often the query counts in weighted figures.
        again: Seconds of the timed runs of the source's second part in the replay, which makes the
            noise floor; empty without it.
        floor: Runtime discrepancy of the source against itself, per cent.
        stable: Whether both parts of the source gave the same answer; None without a floor.
        work: The work on the clone against the source's, where both were explained.
    """

    id: str
    sql: str
    tables: int | None
    joins: int | None
    source: AnswerPart
    clone: AnswerPart
    qerror: float | None
    runtime: float | None
    card_matches: bool | None
    weight: float = 1.0
    again: list[float] = Field(default_factory=list)
    floor: float | None = None
    stable: bool | None = None
    work: QueryWorkPart | None = None


class ReplayPart(Part):
    """How the workload was run.

    Attributes:
        settings: Session settings that held on both sides.
        differences: Server settings that differ: name to (source, clone).
        resumed: Queries whose figures come from an earlier, broken run.
        cold: What was done before each run; None where caches were left warm.
        unstable: Queries to which the source gave two answers in one replay.
    """

    repeats: int
    warmup: int
    timeout: float
    settings: dict[str, str]
    differences: dict[str, tuple[str | None, str | None]]
    timeouts: dict[str, int]
    errors: dict[str, int]
    truncated: int
    card_mismatches: int
    resumed: int
    cold: str | None = None
    unstable: int = 0


class QErrorPart(Part):
    """Q-error overall and in parts.

    Attributes:
        weighted: By the queries' weights; None where all weigh the same.
    """

    overall: SummaryPart | None
    by_joins: dict[str, SummaryPart]
    by_third: dict[str, SummaryPart]
    true_zero: int
    clone_zero: int
    weighted: SummaryPart | None = None


class RuntimePart(Part):
    """Query runtime discrepancy in per cent.

    Attributes:
        overall: Source against clone.
        floor: Source against itself, in the same replay: what the machine's noise alone gives;
            None where it was left out.
        source_seconds: Sum of the medians of the queries that ended on both sides.
        clone_seconds: Likewise.
        by_joins: By number of joins.
        floor_by_joins: Source against itself by number of joins.
        weighted: By the queries' weights; None where all weigh the same.
        again_seconds: Sum of the source's second medians over the queries of the floor.
        beyond_floor: Share of the queries further from the source than the source is from itself,
            a tie counting half. Two identical databases give ½, give or take 1/(2√n).
    """

    overall: SummaryPart | None
    floor: SummaryPart | None
    source_seconds: float
    clone_seconds: float
    by_joins: dict[str, SummaryPart] = Field(default_factory=dict)
    floor_by_joins: dict[str, SummaryPart] = Field(default_factory=dict)
    weighted: SummaryPart | None = None
    again_seconds: float | None = None
    beyond_floor: float | None = None


REBOUND = (
    "The texts of these queries were chosen by how often texts occur in the source. That is exact "
    "knowledge of its rows: nothing of it, neither texts nor figures, may leave its owner."
)


class ReboundPart(Part):
    """Answers with literals re-bound by rank. CONFIDENTIAL, whatever else leaves the owner.

    Attributes:
        queries: Those that changed, as they ran on the clone; the source answered them as written.
        qerror: Of the whole workload, with these queries re-bound and all others as written.
    """

    confidential: str = REBOUND
    queries: list[QueryPart]
    qerror: QErrorPart


class ColumnPart(Part):
    """One compared column: shares of the rows in each cell.

    Attributes:
        how: By value, by public bins, or by quantiles of the source.
        labels: Cells in order, at most a few dozen; rarer values are joined in one.
        real: Share of the source's rows in each cell.
        clone: Share of the clone's rows.
        tvd: Over all cells, before any were joined.
    """

    name: str
    how: Literal["values", "public bins", "source quantiles"]
    labels: list[str]
    real: list[float]
    clone: list[float]
    tvd: float


class DivergencePart(Part):
    """Means over the sets of λ columns; ``sets`` of ``of`` were used."""

    kld: float
    tvd: float
    sets: int
    of: int


class TablePart(Part):
    """One table on both sides.

    Attributes:
        public: Declared public, so copied verbatim and left out of KLD.
        divergence: λ to figures; a λ without enough columns is missing.
        left_out: Column and why it is not compared.
        shares: Shares of the source's and the clone's rows that were compared: less than 1 of very
            large tables.
    """

    name: str
    public: bool
    source_rows: int
    clone_rows: int | None
    divergence: dict[str, DivergencePart]
    columns: list[ColumnPart]
    left_out: dict[str, str]
    shares: tuple[float, float] = (1.0, 1.0)


class CheckPart(Part):
    """One promise of the schema, looked at in the clone."""

    table: str
    kind: str
    name: str
    violations: int


class GatePart(Part):
    """One gate; it fails where its condition holds or its figure is missing.

    Attributes:
        figure: What the gate looked at; of a gate over queries, the worst query's figure.
        limit: What it was held against.
        queries: Of a gate over queries, the ids of those for which it failed, worst first.
    """

    condition: str
    figure: float | None
    failed: bool
    limit: float | None = None
    queries: list[str] = Field(default_factory=list)


class ComparisonDocument(Part):
    """Everything that a comparison found. CONFIDENTIAL, and no release may depend on it.

    Attributes:
        figures: The flat table of named figures that gates read: ``qerror.p95``, ``kld.2``,
            ``kld.2[public.users]``, ``integrity.violations``; None where there is no such figure.
        work: Work discrepancy; None where nothing was explained.
        plans: Plan agreement; None likewise.
        statistics: Agreement of ``pg_stats``.
        load: The workload run by several clients at once, where asked for.
        drift: Against the baseline, where one was given.
        views: What the pictures of the HTML report are drawn from.
        model: The released model, where one was given.
        rebound: Answers with literals re-bound by rank, where asked for.
    """

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
    figures: dict[str, float | None]
    gates: list[GatePart] = Field(default_factory=list)
    work: WorkSummaryPart | None = None
    plans: PlansPart | None = None
    statistics: StatisticsPart | None = None
    load: LoadPart | None = None
    drift: DriftPart | None = None
    views: ViewsPart = Field(default_factory=ViewsPart)
    model: ModelPart | None = None
    rebound: ReboundPart | None = None

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
