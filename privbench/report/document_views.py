"""Parts of the comparison document that only the pictures of the HTML report need."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from privbench.report.document_base import Part


class CorrelationPart(Part):
    """How strongly the columns of one table hang together, on both sides.

    Attributes:
        table: The table.
        columns: Compared columns, d of them.
        ordered: Whether a column has an order. Two ordered columns are compared by Spearman's rank
            correlation (−1 to 1, rows with NULL left out), all others by Cramér's V (0 to 1, NULL
            is a value, corrected for bias).
        real: Shape (d, d), symmetric; None on the diagonal and where a column is constant.
        clone: Likewise.
        mean_difference: Mean of |real − clone| over the pairs that both sides have.
        left_out: Columns beyond the largest number that is shown.
    """

    table: str
    columns: list[str]
    ordered: list[bool]
    real: list[list[float | None]]
    clone: list[list[float | None]]
    mean_difference: float | None
    left_out: list[str]


class FanoutSidePart(Part):
    """Children per parent on one side; ``shares`` are of the parents, by bucket."""

    parents: int
    mean: float
    max: int
    shares: list[float]


class FanoutPart(Part):
    """The distribution of children per parent along one foreign key.

    Attributes:
        table: The table that holds the key.
        key: The constraint's name.
        columns: Its columns.
        parent: The table that it refers to.
        labels: Buckets of the number of children: 0, 1, 2, 3–4, 5–8, …
        real: The source.
        clone: The clone.
        tvd: Total variation distance over the buckets.
    """

    table: str
    key: str
    columns: list[str]
    parent: str
    labels: list[str]
    real: FanoutSidePart
    clone: FanoutSidePart
    tvd: float


class HeatNodePart(Part):
    """One node of a circuit.

    Attributes:
        kind: Sum nodes split rows, product nodes split columns, leaves are single columns.
        parent: Place of its parent among the nodes; None for the root.
        when: Which of its parent's rows are routed to it; empty where all are.
        columns: Its scope.
        real_rows: Rows of the source that are routed to it.
        clone_rows: Likewise of the clone.
        model_share: Probability of that in the released model, where the circuit is the model's.
    """

    kind: Literal["sum", "product", "leaf"]
    parent: int | None
    when: str
    columns: list[str]
    real_rows: int
    clone_rows: int
    model_share: float | None = None


class HeatQueryPart(Part):
    """The selectivity of one query's predicates at every node.

    Attributes:
        query: Id of the query.
        why: Why it was chosen.
        predicates: Its conditions on columns of this table.
        qerror: Of the whole query.
        real: For each node, the share of the source's rows routed to it that satisfy the
            predicates on columns of its scope; None where no row is routed to it.
        clone: Likewise.
        model: Where the circuit is a released model's, the model's own probability of the
            predicates, given that a row is routed there; else empty.
    """

    query: str
    why: str
    predicates: list[str]
    qerror: float | None
    real: list[float | None]
    clone: list[float | None]
    model: list[float | None] = Field(default_factory=list)


class HeatMapPart(Part):
    """One table's circuit and queries that colour it.

    Attributes:
        table: The table.
        circuit: Whether it was learned from the source's rows, for the report alone, or is the
            released model's own.
        sampled: Whether only a random sample of the rows was counted.
        nodes: Parents before their children.
        queries: At least one.
    """

    table: str
    circuit: Literal["source", "model"] = "source"
    sampled: bool
    nodes: list[HeatNodePart]
    queries: list[HeatQueryPart]


class ViewsPart(Part):
    """What the pictures of the report are drawn from. CONFIDENTIAL."""

    correlations: list[CorrelationPart] = Field(default_factory=list)
    fanouts: list[FanoutPart] = Field(default_factory=list)
    heatmaps: list[HeatMapPart] = Field(default_factory=list)
