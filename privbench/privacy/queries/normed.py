"""Histograms to which every unit adds its own counts of cells, divided by their L2 norm."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import OverAxes
from privbench.privacy.queries.claims import up
from privbench.privacy.queries.counting import cells, codes_at, joint
from privbench.privacy.queries.histogram import GridHistogram
from privbench.privacy.query import GRID, Integers, Sensitivity
from privbench.privacy.spec import DatabaseSpec

#: Cells of units for every row up to which units are counted in a table of all of them, and not by
#: sorting. Half or double: no difference beyond scatter.
_DENSE = 8


@dataclass(frozen=True, slots=True)
class NormedHistogram(OverAxes):
    """Joint histogram over public axes of one table, in which units count by their L2 norm.

    Statistic: a unit with h_v rows in cell v adds w·h_v to the cell, with w = ⌊√⌊GRID² / Σ h_v²⌋⌋,
    in integers. A unit's rows in several cells so count for more than in
    `privbench.privacy.queries.Histogram`, where its weights sum to 1: by up to the root of the
    number of cells, at the same Gaussian noise.

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

    def evaluate(self, data: PrivateDatabase) -> Integers:
        reads = [axis.read(data, self.source) for axis in self.axes]

        def cells_of(rows: NDArray[np.int64]) -> NDArray[np.int64]:
            return joint([codes_at(read, rows) for read in reads], self.shape)

        found = _counts(data, self.source, cells_of, math.prod(self.shape))
        return found.reshape(self.shape)


@dataclass(frozen=True, slots=True)
class NormedGridHistogram(GridHistogram):
    """A grid histogram in which units count by their L2 norm.

    Statistic: that of `NormedHistogram` over the cells of a `GridHistogram`, where rows in no cell
    do not count for the norm either, and w is at most ⌊GRID / C⌋.

    Sensitivity: that of `NormedHistogram`, as a smaller w adds less.
    """

    clip: int = 1  # C: units of a smaller norm count by their rows
    kind = "normed grid histogram"

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return _claim(spec, *self.shape)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        values = self._values(data)

        def cells_of(rows: NDArray[np.int64]) -> NDArray[np.int64]:
            return self._cells(values[rows])

        return _counts(data, self.source, cells_of, self.shape[0], self.clip)


def _claim(spec: DatabaseSpec, size: int) -> Sensitivity:
    """The claim of a normed histogram of so many cells; see `NormedHistogram`."""
    l1 = GRID * (math.isqrt(max(size - 1, 0)) + 1)
    if spec.relation.neighbours == "replace":
        return Sensitivity(2 * l1, up(math.sqrt(2) * GRID), GRID)
    return Sensitivity(l1, float(GRID), GRID)


def _counts(
    data: PrivateDatabase,
    table: str,
    cells_of: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    size: int,
    clip: int = 1,
) -> Integers:
    """The statistic in grid units, shape (size,), counted by blocks of whole units.

    ``cells_of`` gives the cell of each of these rows, which follows from its own unit alone; −1 for
    a row that is in none.
    """
    found, units = np.zeros(size, np.int64), data._units
    identity = units.identity(table)
    for rows in units.blocks(table):
        index = cells_of(rows)
        held = index >= 0
        unit, index = identity[rows][held].astype(np.int64), index[held]
        if unit.size:
            _add(found, unit - unit.min(), index, clip)
    return found


def _add(found: Integers, unit: NDArray[np.int64], index: NDArray[np.int64], clip: int) -> None:
    """Add what some units contribute: of every row its unit, from 0 on, and its cell."""
    size, number = found.size, int(unit.max()) + 1
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
    weight = _root(GRID**2 // np.add.reduceat(rows * rows, starts))
    weight = np.minimum(weight, GRID // clip)
    np.add.at(found, cell, np.repeat(weight, np.diff(np.append(starts, unit.size))) * rows)


def _root(squares: NDArray[np.int64]) -> NDArray[np.int64]:
    """The root of integers up to 2⁶⁰, rounded down, by one correction of the floating-point one."""
    root = np.floor(np.sqrt(squares.astype(np.float64))).astype(np.int64)
    return np.asarray(root - (root * root > squares))
