from .formats import read, write
from .generators import generate_from_source, generate_from_tables
from .generators.kinds import KINDS, Plan, kinds
from .query import Query, Shape, Workload, united
from .replay import replay
from .results import Answer, QueryResult, Replay, Side

__all__ = [
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
    "kinds",
    "read",
    "replay",
    "united",
    "write",
]
