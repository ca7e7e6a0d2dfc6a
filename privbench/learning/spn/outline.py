"""Queries of a full tree of regions that nobody has grown yet, for ``plan``."""

from __future__ import annotations

import numpy as np

from privbench.learning.bins import Ints
from privbench.learning.spn.colsplit import scored_pairs
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


def regions(spec: DatabaseSpec, table: str, level: int) -> list[Region]:
    """The 2^level regions of a level, split by the first attribute's codes; shapes alone count."""
    name, domain = next(iter(spec.tables[table].attributes.items()))
    found = [Region(table)]
    for _ in range(level):
        split = Split.by_code(name, np.arange(domain.size) % 2)
        if split.parts < 2:
            split = Split.of({name: np.zeros((domain.size, 2), np.int64)})
        found = [region for parent in found for region in parent.children(split)]
    return found


def histograms(spec: DatabaseSpec, table: str, level: int, bins: int) -> JointHistogram:
    """Binned histograms of all attributes in all regions of a level."""
    domains = spec.tables[table].attributes
    parts = tuple(
        (Histogram.of(spec, table, [(name, PublicArray(_bins(domain.size, bins)))], region), 1.0)
        for region in regions(spec, table, level)
        for name, domain in domains.items()
    )
    return JointHistogram(parts)


def scores(spec: DatabaseSpec, table: str, level: int, bins: int) -> JointScores:
    """Pair scores of all attributes in all regions of a level."""
    domains = spec.tables[table].attributes
    axes = [(name, PublicArray(_bins(domain.size, bins))) for name, domain in domains.items()]
    sizes = [min(domain.size, bins) for domain in domains.values()]
    pairs = scored_pairs(len(axes))
    empty = [np.zeros((sizes[i], sizes[j])) for i, j in pairs]
    return JointScores(
        tuple(
            PairScores.of(spec, table, axes, pairs, empty, region)
            for region in regions(spec, table, level)
        )
    )


def _bins(size: int, most: int) -> Ints:
    return np.arange(size, dtype=np.int64) * min(size, most) // size
