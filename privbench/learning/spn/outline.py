"""Queries of a full tree of regions that nobody has grown yet, for ``plan``."""

from __future__ import annotations

import numpy as np

from privbench.learning.spn.node import region_histograms
from privbench.learning.spn.splits import scored_pairs
from privbench.privacy import DatabaseSpec
from privbench.privacy.queries import (
    Axis,
    Column,
    Joint,
    PairScores,
    PublicArray,
    Region,
    Split,
)


def regions(spec: DatabaseSpec, table: str, level: int) -> list[Region]:
    """The 2^level regions of a level, split by the first attribute's codes; shapes alone count."""
    name, domain = next(iter(spec.tables[table].attributes.items()))
    split = Split.of({name: np.zeros((domain.size, 2), np.int64)})
    found = [Region(table)]
    for _ in range(level):
        found = [region for parent in found for region in parent.children(split)]
    return found


def histograms(spec: DatabaseSpec, table: str, level: int, bins: int) -> Joint:
    """Binned histograms of all attributes in all regions of a level."""
    axes = _axes(spec, table, bins)
    scopes = [(each, (*axes,)) for each in regions(spec, table, level)]
    return region_histograms(table, axes, scopes)


def scores(spec: DatabaseSpec, table: str, level: int, bins: int) -> Joint:
    """Pair scores of all attributes in all regions of a level."""
    axes = list(_axes(spec, table, bins).values())
    pairs = scored_pairs(len(axes))
    empty = [np.zeros((axes[i].size, axes[j].size)) for i, j in pairs]
    found = regions(spec, table, level)
    return Joint(tuple(PairScores.of(spec, table, axes, pairs, empty, region) for region in found))


def _axes(spec: DatabaseSpec, table: str, most: int) -> dict[str, Axis]:
    """About ``most`` bins of every attribute, evenly."""
    return {
        name: Column.of(
            spec,
            table,
            name,
            PublicArray(np.arange(domain.size) * min(domain.size, most) // domain.size),
        )
        for name, domain in spec.tables[table].attributes.items()
    }
