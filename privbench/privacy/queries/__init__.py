"""Queries of the private database. Each states its sensitivity and proves it in its docstring."""

from privbench.privacy.queries.axes import (
    Axis,
    Children,
    Column,
    Joined,
    Owner,
    PublicTarget,
    Refers,
    UnitRows,
    Whole,
)
from privbench.privacy.queries.claims import Joint
from privbench.privacy.queries.degrees import CrossMoment, Degree
from privbench.privacy.queries.features import Features, Latent
from privbench.privacy.queries.histogram import (
    GridHistogram,
    Histogram,
    NormedGridHistogram,
    NormedHistogram,
    Total,
)
from privbench.privacy.queries.labels import LabelCounts, RankedCounts
from privbench.privacy.queries.moments import RegionMoments
from privbench.privacy.queries.outer import ClippedGradients, Lengths, MixtureMoments, SecondMoments
from privbench.privacy.queries.references import FanIn, TargetHistogram
from privbench.privacy.queries.regions import Region, Split
from privbench.privacy.queries.scores import DependenceScores, PairScores
from privbench.privacy.query import PublicArray

__all__ = [
    "Axis",
    "Children",
    "ClippedGradients",
    "Column",
    "CrossMoment",
    "Degree",
    "DependenceScores",
    "FanIn",
    "Features",
    "GridHistogram",
    "Histogram",
    "Joined",
    "Joint",
    "LabelCounts",
    "Latent",
    "Lengths",
    "MixtureMoments",
    "NormedGridHistogram",
    "NormedHistogram",
    "Owner",
    "PairScores",
    "PublicArray",
    "PublicTarget",
    "RankedCounts",
    "Refers",
    "Region",
    "RegionMoments",
    "SecondMoments",
    "Split",
    "TargetHistogram",
    "Total",
    "UnitRows",
    "Whole",
]
