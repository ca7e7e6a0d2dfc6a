"""Queries of a full tree of regions that nobody has grown yet, for ``plan``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from privbench.learning.graphical.estimate import Ints
from privbench.learning.spn.splits import scored_pairs
from privbench.privacy import DatabaseSpec
from privbench.privacy.queries import (
    Histogram,
    JointHistogram,
    JointScores,
    PairScores,
    PublicArray,
    Region,
    Split,
)


def column_shares(sizes: Mapping[str, int]) -> dict[str, float]:
    """Share of every attribute, ∝ min(m, 1000)^⅓ with m cells; they sum to 1."""
    raw = {name: min(size, 1000) ** (1 / 3) for name, size in sizes.items()}
    return {name: value / sum(raw.values()) for name, value in raw.items()}


def regions(spec: DatabaseSpec, table: str, level: int) -> list[Region]:
    """The 2^level regions of a level, split by the first attribute's codes; shapes alone count."""
    name, domain = next(iter(spec.tables[table].attributes.items()))
    split = Split.of({name: np.zeros((domain.size, 2), np.int64)})
    found = [Region(table)]
    for _ in range(level):
        found = [region for parent in found for region in parent.children(split)]
    return found


def histograms(spec: DatabaseSpec, table: str, level: int, bins: int) -> JointHistogram:
    """Binned histograms of all attributes in all regions of a level."""
    axes = _axes(spec, table, bins)
    parts = [
        (Histogram.of(spec, table, [axis], region), 1.0)
        for region in regions(spec, table, level)
        for axis in axes
    ]
    return JointHistogram(tuple(parts))


def scores(spec: DatabaseSpec, table: str, level: int, bins: int) -> JointScores:
    """Pair scores of all attributes in all regions of a level."""
    axes = _axes(spec, table, bins)
    sizes = [int(of.values.max()) + 1 for _, of in axes]
    pairs = scored_pairs(len(axes))
    empty = [np.zeros((sizes[i], sizes[j])) for i, j in pairs]
    parts = [
        PairScores.of(spec, table, axes, pairs, empty, region)
        for region in regions(spec, table, level)
    ]
    return JointScores(tuple(parts))


def _axes(spec: DatabaseSpec, table: str, most: int) -> list[tuple[str, PublicArray]]:
    domains = spec.tables[table].attributes
    return [(name, PublicArray(_bins(domain.size, most))) for name, domain in domains.items()]


def _bins(size: int, most: int) -> Ints:
    return np.arange(size, dtype=np.int64) * min(size, most) // size
