"""The heat map in a comparison's document."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from privbench.metrics.base import Part


class HeatNodePart(Part):
    """One node of a circuit."""

    # Sum nodes split rows, product nodes split columns, leaves are single columns.
    kind: Literal["sum", "product", "leaf"]
    parent: int | None  # place of its parent among the nodes; None for the root
    when: str  # which of its parent's rows are routed to it; empty where all are
    columns: list[str]  # its scope
    real_rows: int  # rows of the source that are routed to it
    clone_rows: int  # likewise of the clone
    # Probability that a row is routed to it, by the released model, if the circuit is the model's.
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
