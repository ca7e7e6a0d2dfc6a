"""The result of a comparison as a versioned JSON document."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

#: Grows when a field changes its meaning or goes; a new field does not change it.
SCHEMA_VERSION: Literal[1] = 1

CONFIDENTIAL = (
    "This report holds exact figures of the source database. It is for the data's owner alone: "
    "never publish it, and let no release of a clone depend on it."
)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SummaryPart(_Part):
    """Mean, percentiles and maximum of n errors."""

    n: int
    mean: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    max: float


class SidePart(_Part):
    """One of the two databases.

    Attributes:
        database: Its name on its server.
        version: Server version.
        settings: Settings of the server that a session cannot change.
    """

    database: str
    version: str
    settings: dict[str, str]


class WorkloadPart(_Part):
    """The workload that was run; ``digest`` is SHA-256 over ids and texts."""

    name: str
    queries: int
    digest: str


class AnswerPart(_Part):
    """One query on one side: see `privbench.workload.Answer`."""

    status: Literal["ok", "timeout", "error"]
    rows: int | None
    seconds: list[float]
    median: float | None
    truncated: bool
    error: str | None


class QueryPart(_Part):
    """One query on both sides.

    Attributes:
        qerror: None where an answer is missing or was cut off.
        runtime: Discrepancy in per cent; None where a run time is missing or was cut off.
        card_matches: Whether the source gives the answer that the workload states, if it does.
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


class ReplayPart(_Part):
    """How the workload was run.

    Attributes:
        settings: Session settings that held on both sides.
        differences: Server settings that differ: name to (source, clone).
        resumed: Queries whose figures come from an earlier, broken run.
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


class QErrorPart(_Part):
    """Q-error overall and in parts."""

    overall: SummaryPart | None
    by_joins: dict[str, SummaryPart]
    by_third: dict[str, SummaryPart]
    true_zero: int
    clone_zero: int


class RuntimePart(_Part):
    """Query runtime discrepancy in per cent.

    Attributes:
        overall: Source against clone.
        floor: Source against itself, where asked for: what the machine's noise alone gives.
        source_seconds: Sum of the medians of the queries that ended on both sides.
        clone_seconds: Likewise.
    """

    overall: SummaryPart | None
    floor: SummaryPart | None
    source_seconds: float
    clone_seconds: float


class ColumnPart(_Part):
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


class DivergencePart(_Part):
    """Means over the sets of λ columns; ``sets`` of ``of`` were used."""

    kld: float
    tvd: float
    sets: int
    of: int


class TablePart(_Part):
    """One table on both sides.

    Attributes:
        public: Declared public, so copied verbatim and left out of KLD.
        divergence: λ to figures; a λ without enough columns is missing.
        left_out: Column and why it is not compared.
    """

    name: str
    public: bool
    source_rows: int
    clone_rows: int | None
    divergence: dict[str, DivergencePart]
    columns: list[ColumnPart]
    left_out: dict[str, str]


class CheckPart(_Part):
    """One promise of the schema, looked at in the clone."""

    table: str
    kind: str
    name: str
    violations: int


class GatePart(_Part):
    """One gate; it fails where its condition holds or its figure is missing."""

    condition: str
    figure: float | None
    failed: bool


class ComparisonDocument(_Part):
    """Everything that a comparison found. CONFIDENTIAL (P1, P2).

    Attributes:
        figures: The flat table of named figures that gates read: ``qerror.p95``, ``kld.2``,
            ``kld.2[public.users]``, ``integrity.violations``; None where there is no such figure.
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

    @property
    def failed(self) -> bool:
        """Whether any gate failed."""
        return any(gate.failed for gate in self.gates)
