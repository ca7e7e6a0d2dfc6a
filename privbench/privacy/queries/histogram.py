"""Counts of one table: its size, and histograms over settled axes or between points of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privbench.errors import SchemaError
from privbench.privacy.data import NEG_INF, POS_INF, Grid, PrivateDatabase
from privbench.privacy.queries.axes import AxisLike, OverAxes, Whole, axis
from privbench.privacy.queries.claims import Moved, RowQuery, claim
from privbench.privacy.queries.counting import Marginals, add, cells, marginals
from privbench.privacy.queries.public import PublicArray
from privbench.privacy.queries.regions import Region
from privbench.privacy.query import GRID, Integers, RawQuery, Sensitivity, TableQuery
from privbench.privacy.spec import DatabaseSpec
from privbench.privacy.units import single

_BLOCK = 2**18


@dataclass(frozen=True, slots=True)
class Histogram(OverAxes, RowQuery):
    """Weighted joint histogram over public axes of one table, in a region or in all of it.

    Statistic: for every cell of the product of the axes, the sum of the weights (`Units.weights`)
    of the region's rows in it, in grid units.

    Sensitivity (`claims`): a row adds its weight to one cell. Its cell and whether it is in the
    region follow from its own unit alone (`axes`, `regions`), and weights are fixed before any
    split: so when a unit goes, only its own rows' weights leave. Add/remove: GRID in L1, L2 and
    L∞, τ·GRID under truncation.
    """

    region: Region | None = None
    kind = "histogram"
    unit = GRID
    adds = True

    def __post_init__(self) -> None:
        cells(self.shape)
        if self.region is not None and self.region.table != self.source:
            raise SchemaError("the region belongs to another table.", table=self.source)

    @classmethod
    def of(
        cls, spec: DatabaseSpec, table: str, axes: Sequence[AxisLike], region: Region | None = None
    ) -> Self:
        """A histogram over attributes (names, names with bins) or other axes of a table.

        Without axes it is the region's weighted number of rows, shape (1,).
        """
        found = tuple(axis(spec, table, given) for given in axes)
        return cls(table, found or (Whole(),), region)

    def moved(self) -> list[Moved]:
        return [(self.region, 1.0, 1.0)]

    def evaluate(self, data: PrivateDatabase) -> Integers:
        whole = tuple(range(len(self.axes)))
        (found,) = marginals(data, Marginals(self.source, self.axes, (whole,), self.region))
        return found


@dataclass(frozen=True, slots=True)
class GridHistogram(RawQuery):
    """Weight, between public grid points, of the finite values of a column that is still a `Grid`.

    Statistic: for points t₁ < … < tₖ the weight of the rows with a value below t₁, in [t₁, t₂), …,
    and from tₖ on: k + 1 cells. NULL, NaN and ±∞ are in no cell.

    Sensitivity: every row adds its weight to at most one cell that it alone determines, so the
    claim is that of a histogram (`claims`): C in L1, L2 and L∞ under add/remove.
    Bounds by private quantiles, the usual way, need a rank far from the ends where noise is large;
    a noisy histogram finds the ends themselves at the same price.
    """

    points: PublicArray  # ascending public grid points, shape (k,)
    kind = "grid histogram"
    unit = GRID

    def __post_init__(self) -> None:
        points = self.points.values
        if points.ndim != 1 or points.size == 0 or bool((np.diff(points) <= 0).any()):
            raise SchemaError("grid points must ascend.", table=self.source, column=self.attribute)
        if int(points[0]) <= NEG_INF:
            raise SchemaError("grid points must lie above the sentinels.", column=self.attribute)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.points.values.size + 1,)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return claim(spec, self.source, adds=True)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        values, weights = self._values(data), data._units.weights(self.source)
        cells = np.zeros(self.points.values.size + 1, dtype=np.int64)
        for start in range(0, len(values), _BLOCK):
            block = slice(start, start + _BLOCK)
            index = self._cells(values[block])
            held = index >= 0
            add(cells, index[held], weights[block][held])
        return cells

    def _values(self, data: PrivateDatabase) -> NDArray[np.int64]:
        """Points and sentinels of all rows."""
        held = data._raw(self.source, self.attribute)
        if not isinstance(held, Grid):
            raise SchemaError(
                "the attribute is coded already.", table=self.source, column=self.attribute
            )
        return held._values

    def _cells(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cell of every value, −1 for those that are in none."""
        index = np.searchsorted(self.points.values, values, side="right")
        return np.where((values > NEG_INF) & (values < POS_INF), index, -1)


@dataclass(frozen=True, slots=True)
class Total(TableQuery):
    """Number of rows of a table, each unit counting at most ``clip`` rows.

    Statistic: Σ over units of min(n, clip), n the unit's rows. Shape (1,), counted in rows.

    Sensitivity: a unit adds min(n, clip), between 0 and clip, and moves no other unit's n. So clip
    under add/remove, and clip under replace too, since both units' shares lie in [0, clip]. Where
    the schema lets a unit have one row only (root tables, ``unit = "row"``, one-to-one keys), clip
    is 1.
    """

    clip: int = 100  # most rows that count for one unit
    kind = "total"
    unit = 1

    def __post_init__(self) -> None:
        if self.clip < 1:
            raise SchemaError("clip must be at least 1.", table=self.source)

    @property
    def shape(self) -> tuple[int, ...]:
        return (1,)

    def _clip(self, spec: DatabaseSpec) -> int:
        return 1 if single(spec, self.source) else self.clip

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        clip = self._clip(spec)
        return Sensitivity(clip, float(clip), clip)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        if data.spec.tables[self.source].own is None:
            return np.array([data._rows(self.source)], dtype=np.int64)
        _, sizes = data._units.members(self.source)
        total = int(np.minimum(sizes, self._clip(data.spec)).sum())
        return np.array([total], dtype=np.int64)
