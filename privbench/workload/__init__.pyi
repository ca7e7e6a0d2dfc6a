from .formats import read, write
from .generators import generate_from_source, generate_from_tables
from .generators.kinds import KINDS, Plan, kinds
from .query import Workload, WorkloadQuery, united
from .replay import replay
from .results import QueryAnswer, Replay, Side

__all__ = [
    "KINDS",
    "Plan",
    "QueryAnswer",
    "Replay",
    "Side",
    "Workload",
    "WorkloadQuery",
    "generate_from_source",
    "generate_from_tables",
    "kinds",
    "read",
    "replay",
    "united",
    "write",
]
