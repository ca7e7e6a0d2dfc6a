"""Which cells of a column come together among the rows of one owner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privbench.errors import PrivacyRefusal
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import Axis
from privbench.privacy.queries.counting import cells, codes_at
from privbench.privacy.queries.histogram import root_down
from privbench.privacy.queries.labels import Norm, _of_norm
from privbench.privacy.query import GRID, Integers, Sensitivity, TableQuery
from privbench.privacy.spec import DatabaseSpec, KeySpec
from privbench.privacy.units import row_weights

#: Owners that are counted at a time.
_BLOCK = 2**18


@dataclass(frozen=True, slots=True)
class PresencePairs(TableQuery):
    """In how many owners a cell is present, and in how many any two cells are.

    Statistic: let an owner have rows in k of the axis's cells, the last one left out: it holds the
    rows that do not count. It is in t = k(k + 1)/2 entries of the vector, one for each of its cells
    and one for each two of them, and adds ⌊√⌊W²/t⌋⌋ to each under the L2 norm, ⌊W/t⌋ under the L1
    norm. W is its weight, ⌊GRID/n⌋ where its unit has n rows in the owners' table: GRID if it is a
    root. Rows without an owner, ⊥ included, are in none. The vector is the upper triangle of a
    matrix of cells by cells, by rows, whose diagonal has the single cells.

    Sensitivity: an owner is of its rows' unit, and a row's cell follows from its own unit (`axes`);
    n is that of all the unit's owners, whether or not they have rows. So what an owner adds follows
    from its unit alone, it leaves with that unit, and what other units add stays. It has no
    negative entry and a norm of W at most, rounding included; the W of a unit's owners sum to GRID
    at most, and so do the norms (triangle inequality), whatever the number of rows and owners.
    Under the L2 norm: L2 = L∞ = GRID, L1 = ⌈√entries⌉·GRID (Cauchy and Schwarz). Under the L1 norm
    all three are GRID. Replace: entries are not negative, so L2 is √2·GRID (‖v − u‖² ≤ ‖u‖² +
    ‖v‖²), L1 doubles, L∞ stays. Source: P15, and P31 for cells that are fixed beforehand.
    """

    key: KeySpec  # the OWN key of the table
    axis: Axis  # its last cell does not count
    norm: Norm = "l2"
    kind = "presence pairs"
    unit = GRID

    def __post_init__(self) -> None:
        cells(self.shape)
        if self.key.role != "own" or self.key.table != self.source:
            raise PrivacyRefusal("sets are those of owners.", table=self.source)

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Query.columns`."""
        return (self.key.name, self.axis.label)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.axis.size * (self.axis.size - 1) // 2,)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return _of_norm(self.norm, self.shape[0], spec)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        read, edges = self.axis.read(data, self.source), data._parents(self.key)
        size, units = self.axis.size - 1, data._units
        found = np.zeros((size, size), np.int64)
        for rows in units.blocks(self.source):
            rows = rows[edges[rows] >= 0]
            owners, place = np.unique(edges[rows], return_inverse=True)
            present = np.zeros((owners.size, size + 1), np.bool_)
            present[place, codes_at(read, rows)] = True
            for first in range(0, owners.size, _BLOCK):
                some = slice(first, first + _BLOCK)
                sizes = units.sizes(self.key.parent, owners[some])
                # Sums of at most 2¹⁸ integers of at most 2³⁰ are exact in floating point.
                held = present[some, :size].astype(np.float64)
                weights = self._weights(held.sum(axis=1).astype(np.int64), row_weights(sizes, 1))
                found += (held.T @ (held * weights[:, None])).astype(np.int64)
        return found[np.triu_indices(size)]

    def _weights(self, present: Integers, weights: Integers) -> Integers:
        """What owners of some weights with so many cells add to each of their entries."""
        entries, weights = np.maximum(present * (present + 1) // 2, 1), weights.astype(np.int64)
        return weights // entries if self.norm == "l1" else root_down(weights**2 // entries)
