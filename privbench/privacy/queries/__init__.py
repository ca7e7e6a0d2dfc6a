"""Queries of the private database; each docstring states and proves the query's sensitivity."""

from privbench.privacy.queries.axes import (
    Axis,
    Children,
    Column,
    Joined,
    Owner,
    PublicTarget,
    Refers,
    Sibling,
    UnitRows,
    Whole,
)
from privbench.privacy.queries.claims import Joint
from privbench.privacy.queries.counting import RowSubset
from privbench.privacy.queries.degrees import CrossMoment
from privbench.privacy.queries.histogram import (
    GridHistogram,
    Histogram,
    NormedHistogram,
    OrderTest,
    Total,
)
from privbench.privacy.queries.labels import LabelCounts, PresencePairs, RankedCounts
from privbench.privacy.queries.references import FanIn, TargetHistogram, TargetScores
from privbench.privacy.queries.scores import DependenceScores, PairScores
from privbench.privacy.queries.words import WordPresence, WordVotes
from privbench.privacy.query import PublicArray

__all__ = [
    "Axis",
    "Children",
    "Column",
    "CrossMoment",
    "DependenceScores",
    "FanIn",
    "GridHistogram",
    "Histogram",
    "Joined",
    "Joint",
    "LabelCounts",
    "NormedHistogram",
    "OrderTest",
    "Owner",
    "PairScores",
    "PresencePairs",
    "PublicArray",
    "PublicTarget",
    "RankedCounts",
    "Refers",
    "RowSubset",
    "Sibling",
    "TargetHistogram",
    "TargetScores",
    "Total",
    "UnitRows",
    "Whole",
    "WordPresence",
    "WordVotes",
]
