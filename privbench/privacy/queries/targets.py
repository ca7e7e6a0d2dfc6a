"""Attributes of the rows that references lead to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import Axis, AxisLike, Whole, axis
from privbench.privacy.queries.claims import up
from privbench.privacy.queries.counting import cells, joint
from privbench.privacy.queries.fanin import OfReference, kept_rows, most_kept, of_both_ends
from privbench.privacy.query import GRID, Integers, Sensitivity
from privbench.privacy.spec import DatabaseSpec, KeySpec
from privbench.privacy.units import Index, bound, row_weights

#: Largest cap of a target unit.
MOST_CAP = 64


@dataclass(frozen=True, slots=True)
class TargetHistogram(OfReference):
    """Joint histogram of rows that refer and of the rows they refer to, capped per target unit.

    Statistic: of every source unit's rows the e = 16 first in random order over *all* of its rows
    in the table are kept (e = 1 where a unit has one row); n′ is their number, and each weighs
    ⌊S·min(n′, τ)/(τ·n′)⌋, S = `GRID`, τ the table's. Then those whose edge is NULL or ⊥ are
    dropped, and with ``outside`` those that lead into their own unit. A row adds its weight to the
    cell of its own axes and its target's. For a target unit T let v_T be the vector of the weights
    that lead to T's rows. T counts as it is while ‖v_T‖₁ ≤ κS, κ the public ``cap``; above, as
    ⌊κS·v_T / ‖v_T‖₁⌋, cell by cell, by integer division. Shape: sizes of the source axes, then of
    the target axes.

    Sensitivity, when unit U goes. Weights and kept rows of the other units stay: n′ and ranks are
    taken before edges are looked at, and an edge into U that becomes ⊥ keeps its rank. Axes read
    the row's own unit alone. So

    1. *U as a target.* U's rows go, and with them v_U, whoever sent it: a non-negative vector of
       sum at most κS, since rounding is downwards.
    2. *U as a source.* Its kept rows leave other targets: at most e of them, T₁ … T_e, whose
       vectors shrink by uᵢ ≥ 0 with ‖uᵢ‖₁ = dᵢ and Σ dᵢ ≤ S. Let f(v) = v·min(1, κS/‖v‖₁), and
       s = ‖v‖₁ before uᵢ = u is added, d = dᵢ, in units of S.

       * s + d ≤ κ: f changes by d.
       * s ≥ κ: f(v + u) − f(v) = κ·u/(s + d) − κd/(s·(s + d))·v, of norm at most 2κd/(s + d).
       * s < κ < s + d: κ·u/(s + d) − (1 − κ/(s + d))·v, of norm at most s + κ(d − s)/(s + d),
         which is convex in s: at most its larger value at the ends of max(0, κ − d) ≤ s ≤ κ,
         which are min(d, κ) and 2κd/(κ + d).

       The last is the largest of all of them; call it g(d). It is concave, so Σ g(dᵢ) is largest
       for dᵢ = 1/e: in all 2κe/(κe + 1). At κ = 1: 32/17 for e = 16 and 1 for e = 1.

    L1: κ + 2κe/(κe + 1). If no unit can hold both source and target rows, only one of 1 and 2
    occurs: the larger. With e = 1, κ = 1 and such tables it is 1, at weight 1 per edge; no halving
    of edges is needed.

    L∞: in the first case a cell changes by at most d, in the others by at most
    max(‖κu/(s + d)‖∞, …) ≤ min(d, κ); with Σ dᵢ ≤ 1: κ + 1, or max(κ, 1).

    L2: for s ≥ κ the two summands have norms at most κd/(s + d) each and entries of opposite sign
    where they meet: √2·κd/(κ + d). Between, (κd/(s + d), s − κs/(s + d)) has two entries that are
    convex in s, so its norm is convex and largest at the ends: max(min(d, κ), √2·κd/(κ + d)) =
    h(d). With q(d) = √2·κd/(κ + d), whose slope is 1 at d° = κ(2^¼ − 1), h lies below the concave
    function that is q up to d° and continues with slope 1; so Σ h(dᵢ) is at most e times that at
    1/e, or h(1) for e = 1.

    Rounding down moves each populated cell of each of the at most e shrunk targets by less than 1:
    e·cells more in L1, e·√cells in L2, e in L∞, out of S = 2³⁰. Replace doubles all.

    Under ``unit = "row"`` nothing changes: a unit is one row, e = 1, and axes read that row alone.
    """

    source: tuple[Axis, ...]  # axes of the referring table
    target: tuple[Axis, ...]  # axes of the table that is referred to
    cap: int = 1  # κ, the most that one target unit counts, in source units; 1 to 64
    outside: bool = False  # whether edges into the row's own unit are left out
    kind = "target histogram"
    unit = GRID

    def __post_init__(self) -> None:
        OfReference.__post_init__(self)
        if not 1 <= self.cap <= MOST_CAP:
            raise SchemaError(f"a cap is 1 to {MOST_CAP}.", table=self.key.table)
        if not self.source or not self.target:
            raise SchemaError("both ends of a reference must have an axis.", table=self.key.table)
        cells(self.shape)

    @classmethod
    def of(
        cls,
        spec: DatabaseSpec,
        key: KeySpec,
        source: Sequence[AxisLike],
        target: Sequence[AxisLike],
        *,
        cap: int = 1,
        outside: bool = False,
    ) -> TargetHistogram:
        """From attributes (names, names with bins) or axes of both ends; none means one cell."""
        near = tuple(axis(spec, key.table, given) for given in source)
        far = tuple(axis(spec, key.parent, given) for given in target)
        return cls(key, near or (Whole(),), far or (Whole(),), cap, outside)

    @property
    def table(self) -> str:
        """The referring table."""
        return self.key.table

    @property
    def columns(self) -> tuple[str, ...]:
        near = tuple(axis.label for axis in self.source)
        return (*near, *(f"{self.key.name}→{axis.label}" for axis in self.target))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in (*self.source, *self.target))

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        edges, size = most_kept(spec, self.key), math.prod(self.shape)
        moved = Sensitivity(
            -(-2 * self.cap * edges * GRID // (self.cap * edges + 1)) + edges * size,
            up(_moved_l2(self.cap, edges) * GRID + edges * math.sqrt(size)),
            GRID + edges,
        )
        return of_both_ends(spec, self.key, self.cap * GRID, moved)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        kept, weights = self._kept(data)
        edges = data._parents(self.key)[kept]
        ends = [axis.codes(data, self.key.table)[kept] for axis in self.source]
        ends += [axis.codes(data, self.key.parent)[edges] for axis in self.target]
        cell = joint([end.astype(np.intp) for end in ends], self.shape)
        units = data._units.identity(self.key.parent)[edges]
        total = np.zeros(cells(self.shape), dtype=np.int64)
        capped(total, cell, units, weights, self.cap * GRID)
        return total.reshape(self.shape)

    def _kept(self, data: PrivateDatabase) -> tuple[Index, NDArray[np.int32]]:
        """Rows that count and their weights."""
        table, most = self.key.table, most_kept(data.spec, self.key)
        kept = kept_rows(data, self.key, outside=self.outside)
        sizes = np.minimum(data._units.sizes(table, kept), most)
        return kept, row_weights(sizes, bound(data.spec, table))


def _moved_l2(cap: int, edges: int) -> float:
    """Σ h(dᵢ) of the class's docstring, in units of S."""
    share = 1.0 / edges
    slope = float(cap * (2.0**0.25 - 1.0))

    def straight(d: float) -> float:
        return math.sqrt(2.0) * cap * d / (cap + d)

    if edges == 1:
        return max(1.0, straight(1.0))
    if share <= slope:
        return edges * straight(share)
    return edges * (straight(slope) + share - slope)


def capped(
    total: Integers, cell: Index, unit: Index, weights: NDArray[np.int32], most: int
) -> None:
    """Add weights to cells, each target unit scaled down to a sum of ``most``.

    Cells, target units and weights (in grid units, together below 2⁶⁰) are those of rows, shape
    (rows,). The flat histogram ``total`` is added to in place.
    """
    _, place = np.unique(unit, return_inverse=True)
    sums = np.zeros(int(place.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(sums, place, weights)
    over = sums[place] > most
    np.add.at(total, cell[~over], weights[~over])
    pairs, pair = np.unique(place[over] * total.size + cell[over], return_inverse=True)
    held = np.zeros(pairs.size, dtype=np.int64)
    np.add.at(held, pair, weights[over])
    # In Python's integers: the products do not fit 64 bits.
    shares = most * held.astype(object) // sums[pairs // total.size].astype(object)
    np.add.at(total, pairs % total.size, shares.astype(np.int64))
