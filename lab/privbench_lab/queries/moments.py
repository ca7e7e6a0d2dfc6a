"""Sizes and coordinate sums of regions, for k-means with released centres."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbench.arrays import Ints
from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import Column, Whole
from privbench.privacy.queries.claims import RegionBounds, RowQuery
from privbench.privacy.queries.counting import View
from privbench.privacy.query import GRID, PublicArray
from privbench.privacy.spec import DatabaseSpec
from privbench_lab.queries.regions import Region, Split

#: Integer steps in a coordinate of 1: −½ is −STEP/2, ½ is STEP/2.
STEP = 2**16


@dataclass(frozen=True, slots=True)
class RegionMoments(RowQuery):
    """Weighted size and coordinate sums of every part of a region.

    Statistic, shape (parts, 1 + attributes): for every part of the region's split the sum of w, and
    for every attribute the sum of w·x, each row's product rounded toward zero to a grid unit; x in
    [−½, ½] is the public coordinate of the row's code.

    Sensitivity (`claims`): a row of weight w in a part adds a vector to that part's cells alone: w,
    and d numbers of absolute value at most w/2 (rounding toward zero does not increase it). Its L1
    norm is at most w·(1 + d/2), its L2 norm at most w·√(1 + d/4), its L∞ norm at most w. (With
    coordinates 0..1 it would be 1 + d and √(1 + d): centring them is what halves the price.) Which
    part a row falls in follows from released centres and the row itself: centres do not move when
    a row is removed.
    """

    attributes: tuple[Column, ...]  # attributes that are summed
    region: Region
    split: Split  # the split of the region into parts
    coordinates: tuple[PublicArray, ...]  # per attribute the coordinate of every code, in steps
    kind = "moments"
    unit = GRID

    def __post_init__(self) -> None:
        if self.region.table != self.source:
            raise SchemaError("the region belongs to another table.", table=self.source)
        for axis, line in zip(self.attributes, self.coordinates, strict=True):
            if line.shape != (axis.size,) or int(np.abs(line.values).max()) > STEP // 2:
                raise SchemaError("coordinates must lie within ±½.", column=axis.attribute)

    @classmethod
    def of(
        cls,
        spec: DatabaseSpec,
        attributes: Sequence[str],
        region: Region,
        split: Split,
        coordinates: Sequence[ArrayLike] | None = None,
    ) -> Self:
        """Moments over settled attributes by name.

        ``coordinates`` hold for each attribute the coordinate of every code, in [−½, ½]; None for
        equal steps.
        """
        axes = tuple(Column.of(spec, region.table, name) for name in attributes)
        lines = coordinates or [np.linspace(-0.5, 0.5, axis.size) for axis in axes]
        rounded = tuple(PublicArray.rounded(line, STEP) for line in lines)
        return cls(region.table, axes, region, split, rounded)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(axis.attribute for axis in self.attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.split.parts, 1 + len(self.attributes))

    def moved(self) -> list[RegionBounds]:
        d = len(self.attributes)
        return [(self.region, 1 + d / 2, 1 + d / 4)]

    def evaluate(self, data: PrivateDatabase) -> Ints:
        axes = (*self.attributes, Whole())
        children = self.region.children(self.split)
        views = (View.of(data, self.source, axes, part) for part in children)
        return np.array([self._sums(view) for view in views], dtype=np.int64)

    def _sums(self, view: View) -> Ints:
        sums = np.zeros(1 + len(self.attributes), dtype=np.int64)
        for columns, weights in view.blocks(1):
            each = np.broadcast_to(weights, columns[-1].shape)
            sums[0] += int(each.sum())
            for a, (column, line) in enumerate(zip(columns, self.coordinates, strict=False), 1):
                sums[a] += int(_products(each, line.values[column]).sum())
        return sums

    def means(self, measured: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Counts (parts,) and mean coordinates (parts, attributes), within ±½.

        Post-processing of a result of `Session.measure`; parts with a count below 1 get 0.
        """
        values = np.asarray(measured, dtype=np.float64)
        counts = values[:, 0]
        means = values[:, 1:] / np.maximum(counts, 1.0)[:, None]
        return counts, np.clip(np.where(counts[:, None] < 1, 0.0, means), -0.5, 0.5)


def _products(weights: NDArray[np.int64], coordinates: NDArray[np.int64]) -> NDArray[np.int64]:
    """w·x in grid units, each rounded toward zero."""
    sizes = weights * np.abs(coordinates) // STEP
    return np.where(coordinates < 0, -sizes, sizes)
