"""Selection scores against released predictions (P18)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import Axis, AxisLike, axis
from privbench.privacy.queries.claims import doubled, up
from privbench.privacy.queries.counting import cells
from privbench.privacy.queries.pairtables import pair_tables
from privbench.privacy.queries.public import PublicArray
from privbench.privacy.queries.regions import Region
from privbench.privacy.query import GRID, Integers, Query, Sensitivity
from privbench.privacy.spec import DatabaseSpec
from privbench.privacy.units import contribution

#: Largest sum of the entries of a prediction, in grid units.
_LARGEST = 2.0**61
#: Scores are cut off here.
_MOST = 2**62


@dataclass(frozen=True, slots=True)
class PairScores(Query):
    """How far each pair of axes is from a released prediction.

    Statistic: for every candidate pair (i, j), ‖Hᵢⱼ − Pᵢⱼ‖₁ minus a public penalty, where Hᵢⱼ is
    the weighted histogram of the pair in the region and Pᵢⱼ the released prediction, rounded to
    the integer grid. This is twice the score ½‖H − P‖₁ − penalty, and `unit` is twice the grid, so
    results and the ledger speak of the score.

    Sensitivity: Pᵢⱼ and the penalty are public constants, so by the reverse triangle inequality an
    entry changes by at most ‖ΔHᵢⱼ‖₁ ≤ C (`units.contribution`): GRID in L∞, half a count of score.
    The entries of q pairs may all change: q·C in L1, √q·C in L2. Replace doubles all. With margins
    taken from the rows instead of a release, P would move too; that is refused by type, since a
    prediction is an array of released numbers. Source: P18.

    Attributes:
        source: The table.
        axes: Axes that the pairs are made of.
        pairs: Candidates, as positions in ``axes``.
        predictions: Pᵢⱼ of every candidate in grid units, shape (size i, size j).
        penalties: Penalty of every candidate, in half grid units of score.
        region: The region, or None.
        among: Positions in ``pairs`` of the candidates that are left, or None for all: distances
            of all pairs are kept with the database, so that another choice among them is cheap.
    """

    source: str
    axes: tuple[Axis, ...]
    pairs: tuple[tuple[int, int], ...]
    predictions: tuple[PublicArray, ...]
    penalties: PublicArray
    region: Region | None = None
    among: PublicArray | None = None
    kind = "pair scores"
    unit = 2 * GRID

    def __post_init__(self) -> None:
        _check(self.axes, self.pairs, self.predictions, _LARGEST)
        if self.penalties.shape != (len(self.pairs),):
            raise SchemaError("there is one penalty for each pair.", table=self.source)
        if self.among is not None and not self.among.values.size:
            raise SchemaError("no candidate is left.", table=self.source)

    @classmethod
    def of(
        cls,
        spec: DatabaseSpec,
        table: str,
        axes: Sequence[AxisLike],
        pairs: Sequence[tuple[int, int]],
        predictions: Sequence[ArrayLike],
        region: Region | None = None,
        penalties: ArrayLike = 0.0,
    ) -> PairScores:
        """Scores from predictions and penalties in counts, as released, of any number type."""
        costs = np.broadcast_to(np.asarray(penalties, dtype=np.float64), len(pairs))
        return cls(
            table,
            tuple(axis(spec, table, given) for given in axes),
            tuple(pairs),
            tuple(PublicArray.rounded(values, GRID) for values in predictions),
            PublicArray.rounded(costs, 2 * GRID),
            region,
        )

    @property
    def table(self) -> str:
        """See `Query.table`."""
        return self.source

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Query.columns`."""
        return tuple(axis.label for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """One score for each candidate."""
        return (len(self.pairs) if self.among is None else self.among.values.size,)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        """See the class's docstring."""
        total, (count,) = contribution(spec, self.source), self.shape
        claim = Sensitivity(total * count, up(total * math.sqrt(count)), total)
        return doubled(spec, claim)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        """Doubled scores in grid units."""
        scores = self._kept(data) - self.penalties.values
        return scores if self.among is None else scores[self.among.values]

    def _kept(self, data: PrivateDatabase) -> Integers:
        """Distances of all pairs, kept where others among them may be asked next."""
        if self.among is None or self.region is not None:
            return self._distances(data)
        predicted = hashlib.sha256(b"".join(item.digest for item in self.predictions)).digest()
        key = (self.kind, self.source, self.axes, self.pairs, predicted)
        (found,) = data._cache.get(key, lambda: (self._distances(data),))
        return found

    def _distances(self, data: PrivateDatabase) -> Integers:
        tables = pair_tables(data, self.source, self.axes, self.region, self.pairs)
        return distances(tables, self.predictions)


@dataclass(frozen=True, slots=True)
class SplitScores(Query):
    """How much dependence each way to split the axes in two would cut.

    Statistic: for every candidate bipartition (A, B), the mean of ‖Hᵢⱼ − Pᵢⱼ‖₁ over the pairs i in
    A, j in B, rounded down, with released predictions (n̂·p̂ᵢ⊗p̂ⱼ for independence); with
    ``mean=False`` the sum. ``smallest`` turns the sign, so that the noisy maximum picks the
    partition that cuts least. `unit` is twice the grid: results are in counts of ½‖·‖₁.

    Sensitivity: each of the m summed distances changes by at most C (see `PairScores`), so the sum
    by at most m·C. The mean before rounding changes by at most C, an integer, and rounding down
    keeps that: ⌊x + C⌋ = ⌊x⌋ + C. So C in L∞ for means, C·max m for sums; q candidates: q times
    that in L1, √q times in L2. Replace doubles all. Source: P18.

    Attributes:
        source: The table.
        axes: The axes.
        candidates: For each candidate, the side (0 or 1) of every axis; both sides occur.
        predictions: Pᵢⱼ for every pair i < j in the order (0,1), (0,2) … (1,2) …, in grid units.
        region: The region, or None.
        mean: Whether distances are averaged rather than summed.
        smallest: Whether scores are negated.
    """

    source: str
    axes: tuple[Axis, ...]
    candidates: tuple[tuple[int, ...], ...]
    predictions: tuple[PublicArray, ...]
    region: Region | None = None
    mean: bool = True
    smallest: bool = True
    kind = "split scores"
    unit = 2 * GRID

    def __post_init__(self) -> None:
        pairs = self._pairs()
        _check(self.axes, pairs, self.predictions, _LARGEST / max(len(pairs), 1))
        for sides in self.candidates:
            if len(sides) != len(self.axes) or set(sides) != {0, 1}:
                raise SchemaError("a candidate has two sides and every axis.", table=self.source)

    @classmethod
    def of(
        cls,
        spec: DatabaseSpec,
        table: str,
        axes: Sequence[AxisLike],
        candidates: Sequence[Sequence[int]],
        margins: Sequence[ArrayLike],
        region: Region | None = None,
        *,
        mean: bool = True,
        smallest: bool = True,
    ) -> SplitScores:
        """Scores against independence, from released one-way counts of every axis.

        Args:
            spec: What is public.
            table: The table.
            axes: The axes.
            candidates: Side (0 or 1) of every axis, for each candidate.
            margins: Released, non-negative counts of every axis; n̂ is the mean of their sums.
            region: The region, or None.
            mean: Whether distances are averaged rather than summed.
            smallest: Whether the candidate that cuts least is to win.
        """
        ways = [np.maximum(np.asarray(way, dtype=np.float64), 0) for way in margins]
        total = max(float(np.mean([way.sum() for way in ways])), 1e-9)
        shares = [way / max(way.sum(), 1e-9) for way in ways]
        predictions = tuple(
            PublicArray.rounded(total * np.outer(shares[i], shares[j]), GRID)
            for i, j in _upper(len(ways))
        )
        found = tuple(axis(spec, table, given) for given in axes)
        sides = tuple(tuple(int(side) for side in chosen) for chosen in candidates)
        return cls(table, found, sides, predictions, region, mean, smallest)

    def _pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple(_upper(len(self.axes)))

    @property
    def table(self) -> str:
        """See `Query.table`."""
        return self.source

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Query.columns`."""
        return tuple(axis.label for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """One score for each candidate."""
        return (len(self.candidates),)

    def _cut(self) -> NDArray[np.int64]:
        """Whether a candidate (row) cuts a pair (column)."""
        sides = np.array(self.candidates, dtype=np.int64)
        ends = np.array(self._pairs(), dtype=np.int64)
        cut: NDArray[np.bool_] = sides[:, ends[:, 0]] != sides[:, ends[:, 1]]
        return cut.astype(np.int64)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        """See the class's docstring."""
        summed = 1 if self.mean else int(self._cut().sum(axis=1).max())
        each, count = contribution(spec, self.source) * summed, len(self.candidates)
        return doubled(spec, Sensitivity(each * count, up(each * math.sqrt(count)), each))

    def evaluate(self, data: PrivateDatabase) -> Integers:
        """Doubled scores in grid units."""
        cut, pairs = self._cut(), self._pairs()
        used = np.flatnonzero(cut.any(axis=0))
        chosen = [pairs[k] for k in used]
        tables = pair_tables(data, self.source, self.axes, self.region, chosen)
        found = distances(tables, [self.predictions[k] for k in used])
        scores = summed(cut[:, used], found, mean=self.mean)
        return scores * (-1 if self.smallest else 1)


def summed(cut: NDArray[np.int64], found: Integers, *, mean: bool) -> Integers:
    """Sum or mean, rounded down, of the distances that every candidate cuts, at most 2⁶².

    In Python integers: the distances of many pairs of a large table add up to more than 2⁶³, and a
    sum that wraps around has no sensitivity. Cutting off at 2⁶² moves no two scores further apart.
    """
    exact: NDArray[np.object_] = cut.astype(object) @ found.astype(object)
    if mean:
        exact //= cut.sum(axis=1).astype(object)
    return np.minimum(exact, _MOST).astype(np.int64)


def _upper(count: int) -> Iterator[tuple[int, int]]:
    return ((i, j) for i in range(count) for j in range(i + 1, count))


def _check(
    axes: Sequence[Axis],
    pairs: Sequence[tuple[int, int]],
    predictions: Sequence[PublicArray],
    largest: float,
) -> None:
    if not pairs or len(pairs) != len(predictions):
        raise SchemaError("there is one prediction for each pair, and at least one pair.")
    for (i, j), prediction in zip(pairs, predictions, strict=True):
        if prediction.shape != (axes[i].size, axes[j].size):
            raise SchemaError("a prediction does not fit its pair.")
        cells(prediction.shape)
        if prediction.norm > largest:
            raise SchemaError("a prediction is too large to be compared exactly.")


def distances(tables: Iterable[Integers], predictions: Sequence[PublicArray]) -> Integers:
    """‖Hᵢⱼ − Pᵢⱼ‖₁ for every pair, int64, shape (pairs,)."""
    exact = zip(tables, predictions, strict=True)
    return np.array(
        [int(np.abs(table - predicted.values.ravel()).sum()) for table, predicted in exact],
        dtype=np.int64,
    )
