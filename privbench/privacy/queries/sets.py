"""Which cells of a column come together among the rows of one owner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privbench.errors import PrivacyRefusal
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import Axis
from privbench.privacy.queries.claims import doubled
from privbench.privacy.queries.counting import cells
from privbench.privacy.queries.histogram import root_down
from privbench.privacy.queries.labels import Norm, _of_norm
from privbench.privacy.query import GRID, Integers, Sensitivity, TableQuery
from privbench.privacy.spec import DatabaseSpec, KeySpec
from privbench.privacy.units import RowIndex, row_weights


@dataclass(frozen=True, slots=True)
class PresencePairs(TableQuery):
    """In how many owners a cell is present, and in how many any two cells are.

    Statistic: an owner with rows in k of the axis's first ``labels`` cells is in t = k(k + 1)/2
    entries of a vector, one for each of these cells and one for each two of them (the upper
    triangle of a matrix). It adds ⌊√⌊W²/t⌋⌋ to each under the L2 norm, ⌊W/t⌋ under the L1 norm. W
    is ⌊GRID/n⌋ where its unit has n rows in the owners' table. Rows without an owner, ⊥ included,
    are in none.

    Sensitivity: an owner is of its rows' unit, their cells follow from that unit (`axes`), and n
    counts all owners of the unit, with rows or without. So what an owner adds leaves with its unit,
    and what others add stays. It has no negative entry and a norm of W at most, and the W of a unit
    sum to GRID at most, so the norms do (triangle inequality). Under the L2 norm: L2 = L∞ = GRID,
    L1 = ⌈√entries⌉·GRID (Cauchy and Schwarz). Under the L1 norm all are GRID. Replace: L2 = √2·GRID
    (‖v − u‖² ≤ ‖u‖² + ‖v‖²), L1 doubles, L∞ stays. Source: P15, and P31 for fixed cells.

    Owners may be public rows, W = GRID, of a table in which every row is a unit (no OWN key). They
    stay when a row goes that alone had its cell: k entries of 1/√t go, others rise to 1/√t′, where
    t′ = t − k. The square of the change's L2 norm is k/t + (1 − √(t′/t))², 1 for k = 1 and at most
    .85 beyond; L1 is k/√t + √t′·(1 − √(t′/t)) < 2.13. Under the L1 norm L1 is 1 for k = 1, else
    2k/t ≤ 4/3, and L2 ≤ 1. Rounding adds at most 1 an entry. Replace doubles all.
    """

    key: KeySpec  # a key of the table, OWN or public
    axis: Axis
    labels: int  # the number of its first cells that count
    norm: Norm = "l2"
    kind = "presence pairs"
    unit = GRID

    def __post_init__(self) -> None:
        cells(self.shape)
        if self.key.role == "ref" or self.key.table != self.source:
            raise PrivacyRefusal("sets are those of owners.", table=self.source)

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Query.columns`."""
        return (self.key.name, self.axis.label)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.labels * (self.labels + 1) // 2,)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        if self.key.role == "own":
            return _of_norm(self.norm, self.shape[0], spec)
        if spec.tables[self.source].own is not None:
            raise PrivacyRefusal("rows of public owners are units.", table=self.source)
        l1 = 4 * GRID // 3 + self.shape[0] if self.norm == "l1" else 3 * GRID
        return doubled(spec, Sensitivity(l1, float(GRID), GRID))

    def evaluate(self, data: PrivateDatabase) -> Integers:
        edges, parent = data._parents(self.key), self.key.parent
        rows = np.flatnonzero(edges >= 0)
        owners, place = np.unique(edges[rows], return_inverse=True)
        held = np.zeros((owners.size, self.axis.size), np.int64)
        held[place, self.axis.codes(data, self.source)[rows]] = 1
        held = held[:, : self.labels]
        public = self.key.role == "public"
        sizes = np.ones_like(owners) if public else data._units.sizes(parent, owners)
        weights = self._weights(held.sum(axis=1), row_weights(sizes, 1))
        return (held.T @ (held * weights[:, None]))[np.triu_indices(self.labels)]

    def _weights(self, present: Integers, weights: RowIndex) -> Integers:
        """What owners of some weights with so many cells add to each of their entries."""
        entries, whole = np.maximum(present * (present + 1) // 2, 1), weights.astype(np.int64)
        return whole // entries if self.norm == "l1" else root_down(whole**2 // entries)
