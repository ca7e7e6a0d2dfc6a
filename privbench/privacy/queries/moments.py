"""Moments of regions, for k-means with released centres."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import Column, Whole
from privbench.privacy.queries.claims import Moved, RowQuery
from privbench.privacy.queries.counting import View
from privbench.privacy.queries.public import PublicArray
from privbench.privacy.queries.regions import Region, Split
from privbench.privacy.query import GRID, Integers
from privbench.privacy.spec import DatabaseSpec

#: Steps of a coordinate: −½ is −STEP/2, ½ is STEP/2.
STEP = 2**16


def centred(size: int) -> PublicArray:
    """Public coordinates −½ … ½ of the codes 0 … size−1, in steps of 1/`STEP`.

    >>> centred(3).values.tolist()
    [-32768, 0, 32768]
    """
    return PublicArray.rounded(np.linspace(-0.5, 0.5, size) if size > 1 else np.zeros(1), STEP)


@dataclass(frozen=True, slots=True)
class RegionMoments(RowQuery):
    """Weighted size and coordinate sums of every part of several regions.

    Statistic, shape (regions, parts, 1 + attributes): for every region r and part k of its split,
    the sum of w, and for every attribute the sum of w·x, each row's product rounded toward zero to
    a grid unit; x in [−½, ½] is the public coordinate of the row's code.

    Sensitivity (`claims`): a row of weight w in region r, part k adds a vector to that cell alone:
    w, and d numbers of absolute value at most w/2 (rounding toward zero does not increase it). Its
    L1 norm is at most w·(1 + d/2), its L2 norm at most w·√(1 + d/4), its L∞ norm at most w. (With
    coordinates 0..1 it would be 1 + d and √(1 + d): centring them is what halves the price.) Which
    part a row falls in follows from released centres and the row itself: centres do not move when
    a row goes.

    Attributes:
        source: The table.
        attributes: Attributes that are summed.
        regions: Regions, all of the table.
        splits: A split for each region, all with the same number of parts.
        coordinates: Coordinate of every code of every attribute, within ±`STEP`/2.
    """

    attributes: tuple[Column, ...]
    regions: tuple[Region, ...]
    splits: tuple[Split, ...]
    coordinates: tuple[PublicArray, ...]
    kind = "moments"
    unit = GRID
    adds = False

    def __post_init__(self) -> None:
        if not self.regions or len(self.regions) != len(self.splits):
            raise SchemaError("there is one split for each region.", table=self.source)
        if len({split.parts for split in self.splits}) != 1:
            raise SchemaError("all splits have the same number of parts.", table=self.source)
        if any(region.table != self.source for region in self.regions):
            raise SchemaError("a region belongs to another table.", table=self.source)
        for axis, line in zip(self.attributes, self.coordinates, strict=True):
            if line.shape != (axis.size,) or int(np.abs(line.values).max()) > STEP // 2:
                raise SchemaError("coordinates lie within ±½.", column=axis.attribute)

    @classmethod
    def of(
        cls,
        spec: DatabaseSpec,
        table: str,
        attributes: Sequence[str],
        regions: Sequence[Region],
        splits: Sequence[Split],
        coordinates: Sequence[ArrayLike] | None = None,
    ) -> RegionMoments:
        """Moments over attributes by name.

        Args:
            spec: What is public.
            table: The table.
            attributes: Names of settled attributes.
            regions: The regions.
            splits: The split of each region.
            coordinates: For each attribute the coordinate of every code in [−½, ½], or None for
                equal steps over the codes.
        """
        axes = tuple(Column.of(spec, table, name) for name in attributes)
        if coordinates is None:
            lines = tuple(centred(axis.size) for axis in axes)
        else:
            lines = tuple(PublicArray.rounded(line, STEP) for line in coordinates)
        return cls(table, axes, tuple(regions), tuple(splits), lines)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(axis.attribute for axis in self.attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        """(regions, parts, 1 + attributes)."""
        return (len(self.regions), self.splits[0].parts, 1 + len(self.attributes))

    def moved(self) -> list[Moved]:
        d = len(self.attributes)
        return [(region, 1 + d / 2, 1 + d / 4) for region in self.regions]

    def evaluate(self, data: PrivateDatabase) -> Integers:
        result = np.zeros(self.shape, dtype=np.int64)
        for r, (region, split) in enumerate(zip(self.regions, self.splits, strict=True)):
            for k in range(split.parts):
                axes = (*self.attributes, Whole())
                view = View.of(data, self.source, axes, region.child(split, k))
                result[r, k] = self._sums(view)
        return result

    def _sums(self, view: View) -> Integers:
        sums = np.zeros(1 + len(self.attributes), dtype=np.int64)
        for columns, weights in view.blocks(1):
            each = np.broadcast_to(weights, columns[-1].shape)
            sums[0] += int(each.sum())
            for a, (column, line) in enumerate(zip(columns, self.coordinates, strict=False), 1):
                sums[a] += int(_products(each, line.values[column]).sum())
        return sums

    def means(self, measured: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Counts (regions, parts) and mean coordinates (regions, parts, attributes), within ±½.

        Post-processing of a result of `Session.measure`; parts with a count below 1 get 0.
        """
        values = np.asarray(measured, dtype=np.float64).reshape(self.shape)
        counts = values[..., 0]
        means = values[..., 1:] / np.maximum(counts, 1.0)[..., None]
        return counts, np.clip(np.where(counts[..., None] < 1, 0.0, means), -0.5, 0.5)


def _products(weights: NDArray[np.int64], coordinates: NDArray[np.int64]) -> NDArray[np.int64]:
    """w·x in grid units, each rounded toward zero."""
    sizes = weights * np.abs(coordinates) // STEP
    return np.where(coordinates < 0, -sizes, sizes)
