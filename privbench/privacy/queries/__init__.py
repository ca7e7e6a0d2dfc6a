"""Queries of the private database. Each states its sensitivity and proves it in its docstring."""

from privbench.privacy.queries.axes import (
    FAN_OUT_BOUNDS,
    Axis,
    Children,
    Column,
    Joined,
    Owner,
    Refers,
    UnitRows,
    Whole,
)
from privbench.privacy.queries.bounds import GridHistogram
from privbench.privacy.queries.dependence import DependenceScores
from privbench.privacy.queries.fanin import FanIn
from privbench.privacy.queries.fanout import FanOut
from privbench.privacy.queries.features import Features, Latent
from privbench.privacy.queries.gradients import ClippedGradients
from privbench.privacy.queries.histogram import Histogram, JointHistogram
from privbench.privacy.queries.jointscores import JointScores
from privbench.privacy.queries.labels import LabelCounts, RankedCounts
from privbench.privacy.queries.moments import JointMoments, RegionMoments, centred
from privbench.privacy.queries.outer import Lengths, MixtureMoments, SecondMoments
from privbench.privacy.queries.public import PublicArray
from privbench.privacy.queries.references import Presence, PublicTarget, PublicTargets
from privbench.privacy.queries.regions import Region, Split
from privbench.privacy.queries.scores import PairScores, SplitScores
from privbench.privacy.queries.targets import TargetHistogram
from privbench.privacy.queries.totals import Total

__all__ = [
    "FAN_OUT_BOUNDS",
    "Axis",
    "Children",
    "ClippedGradients",
    "Column",
    "DependenceScores",
    "FanIn",
    "FanOut",
    "Features",
    "GridHistogram",
    "Histogram",
    "Joined",
    "JointHistogram",
    "JointMoments",
    "JointScores",
    "LabelCounts",
    "Latent",
    "Lengths",
    "MixtureMoments",
    "Owner",
    "PairScores",
    "Presence",
    "PublicArray",
    "PublicTarget",
    "PublicTargets",
    "RankedCounts",
    "Refers",
    "Region",
    "RegionMoments",
    "SecondMoments",
    "Split",
    "SplitScores",
    "TargetHistogram",
    "Total",
    "UnitRows",
    "Whole",
    "centred",
]
