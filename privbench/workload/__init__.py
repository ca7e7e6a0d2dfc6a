"""Workloads: read, write, generate and replay them."""

from __future__ import annotations

from privbench.workload.formats import FORMATS, read, write
from privbench.workload.generators import generate, generate_counting, generate_mscn
from privbench.workload.query import Query, Shape, Workload
from privbench.workload.replay import replay
from privbench.workload.results import Answer, QueryResult, Replay, Side

__all__ = [
    "FORMATS",
    "Answer",
    "Query",
    "QueryResult",
    "Replay",
    "Shape",
    "Side",
    "Workload",
    "generate",
    "generate_counting",
    "generate_mscn",
    "read",
    "replay",
    "write",
]
