"""Workloads: read, write, generate and replay them."""

from __future__ import annotations

from privbench.workload.formats import FORMATS, read, write
from privbench.workload.generators import (
    KINDS,
    generate_from_source,
    generate_from_tables,
)
from privbench.workload.generators.plan import Plan
from privbench.workload.query import Query, Shape, Workload, united
from privbench.workload.replay import replay
from privbench.workload.results import Answer, QueryResult, Replay, Side

__all__ = [
    "FORMATS",
    "KINDS",
    "Answer",
    "Plan",
    "Query",
    "QueryResult",
    "Replay",
    "Shape",
    "Side",
    "Workload",
    "generate_from_source",
    "generate_from_tables",
    "read",
    "replay",
    "united",
    "write",
]
