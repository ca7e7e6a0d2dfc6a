"""Queries that the synthesizers of papers ask; each proves its sensitivity in its docstring."""

from privbench_lab.queries.features import Features, Latent
from privbench_lab.queries.moments import RegionMoments
from privbench_lab.queries.outer import ClippedGradients, Lengths, MixtureMoments, SecondMoments
from privbench_lab.queries.regions import Region, Split

__all__ = [
    "ClippedGradients",
    "Features",
    "Latent",
    "Lengths",
    "MixtureMoments",
    "Region",
    "RegionMoments",
    "SecondMoments",
    "Split",
]
