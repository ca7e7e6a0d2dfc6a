"""Counts of one table: its size, and histograms over settled axes or between points of a grid.

In a normed histogram every unit adds its own histogram, divided by that histogram's L2 norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from privbench.arrays import Ints
from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import AxisLike, OverAxes, Whole, axis
from privbench.privacy.queries.claims import RegionBounds, RowQuery, claim, up
from privbench.privacy.queries.counting import (
    Marginals,
    RowSubset,
    add,
    cells,
    codes_at,
    joint,
    marginals,
)
from privbench.privacy.query import GRID, PublicArray, RawQuery, Sensitivity, TableQuery
from privbench.privacy.recoding import NEG_INF, edge_counter, finite
from privbench.privacy.spec import DatabaseSpec
from privbench.privacy.units import RowIndex, single

_BLOCK = 2**18


@dataclass(frozen=True, slots=True)
class Histogram(OverAxes, RowQuery):
    """The weighted joint histogram over public axes of one table, in a region or in all of it.

    Statistic: for every cell of the product of the axes, the sum of the weights (`Units.weights`)
    of the region's rows in it, in grid units.

    Sensitivity (`claims`): a row adds its weight to one cell. Its cell and whether it is in the
    region follow from its own unit alone (`axes`, `RowSubset`), and weights are fixed before any
    split: so when a unit goes, only its own rows' weights leave. Add/remove: GRID in L1, L2 and
    L∞, τ·GRID under truncation.
    """

    region: RowSubset | None = None
    kind = "histogram"
    unit = GRID
    adds = True

    def __post_init__(self) -> None:
        cells(self.shape)
        if self.region is not None and self.region.table != self.source:
            raise SchemaError("the region belongs to another table.", table=self.source)

    @classmethod
    def of(
        cls,
        spec: DatabaseSpec,
        table: str,
        axes: Sequence[AxisLike],
        region: RowSubset | None = None,
    ) -> Self:
        """Return a histogram over attributes (names, names with bins) or other axes of a table.

        Without axes it is the region's weighted number of rows, shape (1,).
        """
        chosen = tuple(axis(spec, table, named) for named in axes)
        return cls(table, chosen or (Whole(),), region)

    def moved(self) -> list[RegionBounds]:
        return [(self.region, 1.0, 1.0)]

    def evaluate(self, data: PrivateDatabase) -> Ints:
        whole = tuple(range(len(self.axes)))
        (counts,) = marginals(data, Marginals(self.source, self.axes, (whole,), self.region))
        return counts


@dataclass(frozen=True, slots=True)
class OrderTest(RowQuery):
    """The weight of rows that break the order of two columns, and of rows that keep it.

    With several orders a row breaks any, or keeps all that it has. With a ``distance``, a pair is
    broken where its points are further apart than this.

    Statistic: the weights (`Units.weights`) of both. A row without a pair of finite points is in
    neither.

    Sensitivity (`claims`): a row adds its weight to one cell at most, by its own columns alone.
    Weights are those in the whole table, whether or not an order concerns the row: rows of both
    cells that were weighed apart would add 2. Source: P37.
    """

    pairs: tuple[tuple[str, ...], ...]  # attributes, the lesser first
    distance: int | None = None
    kind = "order test"
    unit = GRID
    adds = True
    reads_raw = True

    @property
    def shape(self) -> tuple[int, ...]:
        return (2,)

    def moved(self) -> list[RegionBounds]:
        return [(None, 1.0, 1.0)]

    def evaluate(self, data: PrivateDatabase) -> Ints:
        broken, known = np.zeros((2, data._rows(self.source)), np.bool_)
        for pair in self.pairs:
            low, high = (data._points(self.source, name) for name in pair)
            both = finite(low) & finite(high)
            wrong = low > high if self.distance is None else np.abs(high - low) > self.distance
            broken |= wrong & both
            known |= both
        weights = data._units.weights(self.source)
        sums = [weights[rows].sum(dtype=np.int64) for rows in (broken, known & ~broken)]
        return np.array(sums, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class GridHistogram(RawQuery):
    """The weight between public grid points of the finite values of a column with a `Grid`.

    Statistic: for points t₁ < … < tₖ the weight of the rows with a value below t₁, in [t₁, t₂), …,
    and from tₖ on: k + 1 cells. NULL, NaN and ±∞ are in no cell. With a ``clip`` units count by
    their L2 norm: the statistic is that of `NormedHistogram` over these cells. Rows in no cell do
    not count for the norm either, and w is at most ⌊GRID / C⌋.

    Sensitivity: every row adds its weight to at most one cell that it alone determines, so the
    claim is that of a histogram (`claims`): C in L1, L2 and L∞ under add/remove. By norms it is
    that of `NormedHistogram`, as a smaller w adds less.
    Bounds are usually found by private quantiles; where noise is large these need a rank far from
    the ends. A noisy histogram finds the ends themselves at the same price.
    """

    points: PublicArray  # ascending public grid points, shape (k,)
    # C: a unit of a smaller norm adds its rows divided by C; None where rows count by weight.
    clip: int | None = None
    unit = GRID

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "grid histogram" if self.clip is None else "normed grid histogram"

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
        if self.clip is not None:
            return _claim(spec, *self.shape)
        return claim(spec, self.source, adds=True)

    def evaluate(self, data: PrivateDatabase) -> Ints:
        points = data._grid(self.source, self.attribute)._narrow
        count = edge_counter(self.points.values, points)

        def cells_of(rows: slice | Ints) -> Ints:
            some = points[rows]
            return np.where(finite(some), count(some), -1)

        if self.clip is not None:
            return _counts(data, self.source, cells_of, self.shape[0], self.clip)
        codes, weights = data._units.weight_codes(self.source)
        cells = np.zeros(self.points.values.size + 1, dtype=np.int64)
        for start in range(0, points.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            index = cells_of(block)
            there = index >= 0
            add(cells, index[there], weights[codes[block][there]])
        return cells


@dataclass(frozen=True, slots=True)
class Total(TableQuery):
    """The number of rows of a table, where each unit counts at most ``clip`` rows.

    Statistic: Σ over units of min(n, clip), n the unit's rows. Shape (1,), counted in rows.

    Sensitivity: a unit adds min(n, clip), between 0 and clip, and moves no other unit's n. So clip
    under add/remove, and clip under replace too, since both units' shares lie in [0, clip]. Where
    one row of a unit counts (`units.single`), clip is 1. In a table without an OWN key every row is
    the root of a unit, and no unit has another row, whatever the rows are. Replace exchanges two
    units of one root table, so that the number of rows stays: it is public then (P11), and the
    sensitivity is 0.
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
        public = spec.relation.neighbours == "replace" and spec.tables[self.source].own is None
        clip = 0 if public else self._clip(spec)
        return Sensitivity(clip, float(clip), clip)

    def evaluate(self, data: PrivateDatabase) -> Ints:
        if data.spec.tables[self.source].own is None:
            return np.array([data._rows(self.source)], dtype=np.int64)
        _, sizes = data._units.members(self.source)
        total = int(np.minimum(sizes, self._clip(data.spec)).sum())
        return np.array([total], dtype=np.int64)


#: Units are counted in a dense table of (unit, cell) if it has at most this many entries for every
#: row, else by sorting. Half or double: no difference beyond scatter.
_DENSE = 8


@dataclass(frozen=True, slots=True)
class NormedHistogram(OverAxes):
    """A joint histogram over public axes of one table, in which units count by their L2 norm.

    Statistic: a unit with h_v rows in cell v adds w·h_v to the cell, with w = ⌊√⌊GRID² / Σ h_v²⌋⌋,
    in integers. So a unit whose rows lie in several cells counts for more than in
    `privbench.privacy.queries.Histogram`, where its weights sum to 1: up to the root of the number
    of cells times as much, at the same Gaussian noise.

    Sensitivity: the cells of a unit's rows follow from its own rows alone (`axes`), hence so do h
    and w, and a unit adds the same whoever else is in the database. What it adds has an L2 norm of
    w·‖h‖ ≤ GRID, since w² · Σ h_v² ≤ GRID², and no negative entry. So a unit that goes moves the
    statistic by at most GRID in L2 and in L∞, and by ⌈√t⌉·GRID in L1, where t is the number of
    cells (Cauchy and Schwarz). Replace: u and v have no negative entries, so ‖v − u‖² ≤ ‖u‖² + ‖v‖²
    gives √2·GRID in L2; L1 doubles, L∞ stays. Source: P31 for cells that are fixed beforehand.
    """

    kind = "normed histogram"
    unit = GRID

    def __post_init__(self) -> None:
        cells(self.shape)
        if not self.axes:
            raise SchemaError("a normed histogram has at least one axis.", table=self.source)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return _claim(spec, math.prod(self.shape))

    def evaluate(self, data: PrivateDatabase) -> Ints:
        reads = [axis.read(data, self.source) for axis in self.axes]

        def cells_of(rows: RowIndex) -> Ints:
            return joint([codes_at(read, rows) for read in reads], self.shape)

        counts = _counts(data, self.source, cells_of, math.prod(self.shape))
        return counts.reshape(self.shape)


def _claim(spec: DatabaseSpec, size: int) -> Sensitivity:
    """The claim of a normed histogram of so many cells; see `NormedHistogram`."""
    l1 = GRID * (math.isqrt(max(size - 1, 0)) + 1)
    if spec.relation.neighbours == "replace":
        return Sensitivity(2 * l1, up(math.sqrt(2) * GRID), GRID)
    return Sensitivity(l1, float(GRID), GRID)


def _counts(
    data: PrivateDatabase,
    table: str,
    cells_of: Callable[[RowIndex], Ints],
    size: int,
    clip: int = 1,
) -> Ints:
    """The statistic in grid units, shape (size,), counted by blocks of whole units.

    ``cells_of`` gives the cell of each of these rows, which follows from its own unit alone; −1 for
    a row that is in none.
    """
    counts = np.zeros(size, np.int64)
    for block in data._units.blocks(table):
        index = cells_of(block.rows)
        in_cell = index >= 0
        if in_cell.any():
            _add(counts, block.units[in_cell], index[in_cell], clip)
    return counts


def _add(counts: Ints, unit: Ints, index: Ints, clip: int) -> None:
    """Add the contributions of some units, given the unit (from 0 on) and the cell of every row."""
    size, number = counts.size, int(unit.max()) + 1
    pair = unit * size + index
    if number * size <= _DENSE * pair.size:
        table = np.bincount(pair, minlength=number * size)
        pairs = np.flatnonzero(table)
        rows = table[pairs]
    else:
        pairs, rows = np.unique(pair, return_counts=True)
    unit, cell = np.divmod(pairs, size)
    starts = np.flatnonzero(np.diff(unit, prepend=-1))
    # Fewer than 2³¹ rows have squares that sum to less than 2⁶².
    weight = root_down(GRID**2 // np.add.reduceat(rows * rows, starts))
    weight = np.minimum(weight, GRID // clip)
    np.add.at(counts, cell, np.repeat(weight, np.diff(np.append(starts, unit.size))) * rows)


def root_down(squares: Ints) -> Ints:
    """Return the root of integers up to 2⁶⁰, rounded down exactly."""
    root = np.floor(np.sqrt(squares.astype(np.float64))).astype(np.int64)
    return np.asarray(root - (root * root > squares))
