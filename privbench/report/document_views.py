"""Parts of the comparison document that only the pictures of the HTML report need."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from privbench.report.document_base import Part


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
