"""Queries on references: how often rows are referred to, and attributes of the rows referred to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Ints
from privbench.errors import PrivacyRefusal, SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import Axis, AxisLike, Whole, axis
from privbench.privacy.queries.claims import doubled, up
from privbench.privacy.queries.counting import add, cells, joint
from privbench.privacy.query import GRID, PublicArray, Query, Sensitivity
from privbench.privacy.spec import DatabaseSpec, KeySpec
from privbench.privacy.units import RowIndex, bound, contribution, row_weights, single, tally

#: Most edges (rows with a reference) of one source unit that count.
KEPT = 16
_BLOCK = 2**18


@lru_cache(maxsize=32)
def levels(scale: int, buckets: int) -> tuple[Ints, Ints]:
    """Return integer tables of x(m) = log₂(1 + m/scale), limited to ``buckets``, for interpolation.

    The first table has the whole part k of x, the second ⌊GRID·(x − k)⌋, for m = 0 …
    scale·(2^buckets − 1).
    """
    counts = np.arange(scale * (2**buckets - 1) + 1, dtype=np.int64)
    whole = np.zeros(counts.size, dtype=np.int64)
    for k in range(1, buckets + 1):
        whole[scale * (2**k - 1) :] = k
    exact = np.log2(1.0 + counts / scale) - whole
    part = np.clip(np.floor(exact * GRID), 0, GRID - 1).astype(np.int64)
    part[whole == buckets] = 0
    return whole, part


@lru_cache(maxsize=32)
def steps(scale: int, buckets: int) -> Sensitivity:
    """Return the largest change that one more edge causes, by enumeration of all steps m to m + 1.

    A count m adds to the cells k and k + 1, the count m + 1 to k' and k' + 1; their changes are
    added up as exact integers.
    """
    whole, part = levels(scale, buckets)
    vectors = np.zeros((whole.size, 3), dtype=np.int64)
    vectors[:, 0], vectors[:, 1] = GRID - part, part
    # Within one level both vectors start at cell k; across levels the later one starts at k + 1.
    later = vectors[1:].copy()
    crosses = whole[1:] > whole[:-1]
    later[crosses, 1:] = vectors[1:][crosses, :2]
    later[crosses, 0] = 0
    size = np.abs(later - vectors[:-1])
    squares = (size.astype(np.float64) ** 2).sum(axis=1)
    return Sensitivity(int(size.sum(axis=1).max()), up(math.sqrt(squares.max())), int(size.max()))


def most_kept(spec: DatabaseSpec, key: KeySpec) -> int:
    """Return e of the proofs below: how many rows of one source unit have edges that count."""
    return 1 if single(spec, key.table) else KEPT


def kept_rows(data: PrivateDatabase, key: KeySpec, *, outside: bool) -> RowIndex:
    """Return the rows whose edge counts.

    Each unit keeps its first e rows by rank, where e is `most_kept`; of these, the rows whose edge
    has a target count. The cut comes first, over all of the unit's rows: a row whose edge is NULL
    or ⊥ keeps its rank. With ``outside`` edges into the row's own unit are dropped as well, after
    the cut.
    """
    edges, units = data._parents(key), data._units
    first = units.first(key.table, most_kept(data.spec, key))
    counted = np.flatnonzero(first & (edges >= 0))
    if outside:
        target = units.identity(key.parent, edges[counted])
        counted = counted[target != units.identity(key.table, counted)]
    return counted


def of_both_ends(spec: DatabaseSpec, key: KeySpec, gone: int, moved: Sensitivity) -> Sensitivity:
    """Return the sensitivity where removing a unit removes both its targets and its references.

    If no unit can hold rows of both ends of the key, only one of the two occurs. ``gone`` is the
    most that a unit's targets add to the cells, ``moved`` the sensitivity to a unit's references to
    other units' targets.
    """
    apart = spec.is_apart(key)
    parts = (moved.l1, moved.l2, moved.linf)
    l1, l2, linf = (max(gone, part) if apart else gone + part for part in parts)
    return doubled(spec, Sensitivity(int(l1), up(float(l2)), int(linf)))


@dataclass(frozen=True, slots=True)
class OfReference(Query):
    """A statistic of the two ends of a reference; units of either end can change it."""

    key: KeySpec  # a REF key between private tables

    def __post_init__(self) -> None:
        if self.key.role != "ref":
            raise PrivacyRefusal(f"key {self.key.name!r} is no REF key.", table=self.key.table)

    @property
    def table(self) -> str:
        """The referring table; for a statistic by targets, the referenced table."""
        return self.key.table

    def roots(self, spec: DatabaseSpec) -> frozenset[str]:
        return spec.roots(self.key.table) | spec.roots(self.key.parent)


@dataclass(frozen=True, slots=True)
class FanIn(OfReference):
    """The interpolated histogram of target rows by the number of kept edges into them.

    Statistic: of every source unit's rows the 16 first in random order over *all* of its rows in
    the table are kept, then those whose edge is NULL or ⊥ are dropped. A target row with m kept
    edges and weight w adds w·(1 − f) to bucket k and w·f to bucket k + 1, where k + f =
    x(m) = log₂(1 + m/s), from integer tables; counts beyond the last bucket stay in it. Shape
    (buckets + 1,).

    Sensitivity, when unit U goes:

    1. *U's targets leave.* They add a non-negative vector of L1 norm at most their weights, which
       sum to at most C (`units.contribution`).
    2. *U's kept edges leave.* There are at most e: 16, or 1 where one source row of a unit counts.
       Ranks of other units' rows do not change, so no other edge enters or leaves the kept ones. A
       target outside U that loses c of them changes by at most c times the largest single step δ
       (triangle inequality over m, m−1, …), found by enumeration of all m (`steps`). A target of
       weight w < GRID has w ≤ GRID/2 (a row weighs GRID only for n = τ = 1), each of its at most
       three changed cells moves by at most half of the enumerated change plus 1 for rounding, and
       δ/2 + 3 ≤ δ. Targets inside U have left already.
    3. *Edges into U become ⊥* and are dropped, but their targets were U's, and they keep their
       rank: no other row of their unit takes their place, since NULL and ⊥ are dropped after the
       cut to 16.

    With ``outside`` edges into the row's own unit are dropped after the cut too. Whether an edge
    is one follows from its own unit, so 1 to 3 hold as they are; U's targets then hold edges of
    others alone.

    So at most C + e·δ. If no unit can hold both source and target rows (disjoint roots), only one
    of 1 and 2 occurs: max(C, e·δ). Replace doubles it. In L2 and L∞ likewise with the enumerated
    step norms. The first edge into a target moves two cells by log₂(17/16) each: the L1 sensitivity
    is 1 + 32·log₂(17/16) = 3.799, within the bound 1 + 2/ln 2 = 3.885 that bounds a step by the
    slope. Where each unit sends one edge (e = 1) the scale s is 2 (an edge weighs ½):
    δ = 2·log₂(3/2) = 1.170, which is the sensitivity where the roots are disjoint.
    """

    buckets: int = 10  # K; buckets are 0 … K at s·(2^k − 1) edges, 1 to 14
    outside: bool = False  # whether edges into the row's own unit are left out
    kind = "fan-in"
    unit = GRID

    def __post_init__(self) -> None:
        OfReference.__post_init__(self)
        if not 1 <= self.buckets <= 14:
            raise SchemaError("fan-in must have 1 to 14 buckets.", table=self.key.table)

    @property
    def table(self) -> str:
        """The target table."""
        return self.key.parent

    @property
    def columns(self) -> tuple[str, ...]:
        return (f"{self.key.table}.{self.key.name}",)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.buckets + 1,)

    def scale(self, spec: DatabaseSpec) -> int:
        """Return s: 16, or 2 where one source row of a unit counts."""
        return 2 if single(spec, self.key.table) else KEPT

    def marks(self, spec: DatabaseSpec) -> tuple[int, ...]:
        """Return the number of kept edges that each bucket stands for."""
        return tuple(self.scale(spec) * (2**k - 1) for k in range(self.buckets + 1))

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        step = steps(self.scale(spec), self.buckets)
        edges, own = most_kept(spec, self.key), contribution(spec, self.key.parent)
        moved = Sensitivity(edges * step.l1, edges * step.l2, edges * step.linf)
        return of_both_ends(spec, self.key, own, moved)

    def evaluate(self, data: PrivateDatabase) -> Ints:
        whole, part = levels(self.scale(data.spec), self.buckets)
        counts = np.minimum(self._edges(data), whole.size - 1)
        weights = data._units.weights(self.key.parent)
        # There is one cell beyond the last bucket, to which only zeros are added.
        total = np.zeros(self.buckets + 2, dtype=np.int64)
        for start in range(0, counts.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            m, w = counts[block], weights[block]
            upper = (w * part[m]) >> 30
            add(total, whole[m], w - upper)
            add(total, whole[m] + 1, upper)
        return total[:-1]

    def _edges(self, data: PrivateDatabase) -> Ints:
        """Number of kept edges into every target row."""
        edges = data._parents(self.key)
        counted = kept_rows(data, self.key, outside=self.outside)
        return tally(edges[counted], data._rows(self.key.parent))


#: Largest cap of a target unit.
MOST_CAP = 64


@dataclass(frozen=True, slots=True)
class TargetHistogram(OfReference):
    """The joint histogram of referring rows and the rows they refer to, capped per target unit.

    Statistic: of every source unit's rows the e = 16 first in random order over *all* of its rows
    in the table are kept (e = 1 where one row of a unit counts); n′ is their number, and each
    weighs ⌊S·min(n′, τ)/(τ·n′)⌋, S = `GRID`, τ the table's. Then those whose edge is NULL or ⊥ are
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
    cap: int = 1  # κ, largest total weight of one target unit, in source units; 1 to 64
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
        """Return the query for attributes (names, names with bins) or axes of both ends.

        No attribute at an end means one cell.
        """
        near = tuple(axis(spec, key.table, named) for named in source)
        far = tuple(axis(spec, key.parent, named) for named in target)
        return cls(key, near or (Whole(),), far or (Whole(),), cap, outside)

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

    def evaluate(self, data: PrivateDatabase) -> Ints:
        rows, weights = self._kept(data)
        edges = data._parents(self.key)[rows]
        ends = [axis.codes(data, self.key.table)[rows] for axis in self.source]
        ends += [axis.codes(data, self.key.parent)[edges] for axis in self.target]
        cell = joint([end.astype(np.intp) for end in ends], self.shape)
        units = data._units.identity(self.key.parent, edges)
        total = np.zeros(cells(self.shape), dtype=np.int64)
        capped(total, cell, units, weights, self.cap * GRID)
        return total.reshape(self.shape)

    def _kept(self, data: PrivateDatabase) -> tuple[RowIndex, NDArray[np.int32]]:
        """Rows that count and their weights."""
        table, most = self.key.table, most_kept(data.spec, self.key)
        rows = kept_rows(data, self.key, outside=self.outside)
        sizes = np.minimum(data._units.sizes(table, rows), most)
        return rows, row_weights(sizes, bound(data.spec, table))


#: Denominator of the shares that `TargetScores` compares with.
SHARES = 2**20


@dataclass(frozen=True, slots=True)
class TargetScores(OfReference):
    """The distance from independence of a row's attribute and its target's, per candidate pair.

    Statistic: for every candidate, with H its `TargetHistogram` of one source axis a and one target
    axis b, H_b its target margin and p public shares of the source axis, in `SHARES`:
    ⌊Σ |SHARES·H_ab − p_a·H_b| / SHARES⌋, minus a public penalty. This is twice the score; `unit`
    is twice the grid. Shares of the target axis need no prediction.

    Sensitivity: let H move by u, of L1 norm at most D, that of the histogram's claim. Then H_b
    moves by u_b, whose norm is not larger, and SHARES·H_ab − p_a·H_b by at most SHARES·‖u‖₁ +
    ‖p‖₁·‖u_b‖₁ ≤ 2·SHARES·D, since Σ p ≤ SHARES is enforced. So the sum over SHARES moves by at
    most 2D (reverse triangle inequality), and, D being an integer, so does its floor. All entries
    may move: 2·ΣD in L1, 2·√ΣD² in L2, 2·max D in L∞. D has the factor for replace already. H_b is
    exact, which is why it is 2D and not D. Source: P18, P21.
    """

    pairs: tuple[TargetHistogram, ...]  # candidates: histograms by this key
    shares: tuple[PublicArray, ...]  # p of every candidate, by the cells of its source axis
    penalties: PublicArray  # penalty of every candidate, in half grid units of score
    kind = "target scores"
    unit = 2 * GRID

    def __post_init__(self) -> None:
        OfReference.__post_init__(self)
        sizes = [pair.shape[:1] for pair in self.pairs]
        if not sizes or any(pair.key != self.key or len(pair.shape) != 2 for pair in self.pairs):
            raise SchemaError("a candidate has one axis of each end.", table=self.key.table)
        if [item.shape for item in self.shares] != sizes or self.penalties.shape != (len(sizes),):
            raise SchemaError("shares or penalties do not fit.", table=self.key.table)
        if any((item.values < 0).any() or item.values.sum() > SHARES for item in self.shares):
            raise SchemaError("shares add up to at most 1.", table=self.key.table)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for pair in self.pairs for name in pair.columns))

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.pairs),)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        moved = [2 * pair.sensitivity(spec).l1 for pair in self.pairs]
        return Sensitivity(sum(moved), up(math.hypot(*moved)), max(moved))

    def evaluate(self, data: PrivateDatabase) -> Ints:
        distances = []
        for pair, shares in zip(self.pairs, self.shares, strict=True):
            # Computed with Python's integers, since the products do not fit 64 bits.
            counts = pair.evaluate(data).astype(object)
            expected = np.outer(shares.values.astype(object), counts.sum(axis=0))
            distances.append(int(np.abs(SHARES * counts - expected).sum()) // SHARES)
        return np.array(distances, dtype=np.int64) - self.penalties.values


def _moved_l2(cap: int, edges: int) -> float:
    """The bound on Σ h(dᵢ) in the docstring of `TargetHistogram`, in units of S."""
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
    total: Ints, cell: RowIndex, unit: RowIndex, weights: NDArray[np.int32], most: int
) -> None:
    """Add weights to cells, those of each target unit scaled down to a sum of at most ``most``.

    Cells, target units and weights are given for every row, shape (rows,). Weights are in grid
    units and sum to less than 2⁶⁰. They are added to the flat histogram ``total`` in place.
    """
    _, place = np.unique(unit, return_inverse=True)
    sums = np.zeros(int(place.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(sums, place, weights)
    over = sums[place] > most
    np.add.at(total, cell[~over], weights[~over])
    pairs, pair = np.unique(place[over] * total.size + cell[over], return_inverse=True)
    pair_weights = np.zeros(pairs.size, dtype=np.int64)
    np.add.at(pair_weights, pair, weights[over])
    # Computed with Python's integers, since the products do not fit 64 bits.
    shares = most * pair_weights.astype(object) // sums[pairs // total.size].astype(object)
    np.add.at(total, pairs % total.size, shares.astype(np.int64))
