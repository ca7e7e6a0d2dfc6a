"""Selection scores against released predictions (P18), and the pair tables that they compare.

A fit queries scores of the same pairs dozens of times, each time against other predictions. Rows do
not change between two queries, so the exact tables are kept in the database's cache: bounded in
size, never outside the database. They affect what leaves it only through a query's noisy result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privbench.arrays import Ints
from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import Axis, AxisLike, OverAxes, axis
from privbench.privacy.queries.claims import RegionBounds, RowQuery
from privbench.privacy.queries.counting import Marginals, RowSubset, cells, marginals
from privbench.privacy.query import GRID, PublicArray
from privbench.privacy.spec import DatabaseSpec

#: Largest sum of the entries of a prediction, in grid units.
_LARGEST = 2.0**61
#: Most cells, over all pair tables, that are counted in one pass over the rows.
PASS = 2**24


@dataclass(frozen=True, slots=True)
class PairScores(OverAxes, RowQuery):
    """The distance of each pair of axes from a released prediction.

    Statistic: for every candidate pair (i, j), ‖Hᵢⱼ − Pᵢⱼ‖₁ minus a public penalty, where Hᵢⱼ is
    the weighted histogram of the pair in the region and Pᵢⱼ the released prediction, rounded to
    the integer grid. This is twice the score ½‖H − P‖₁ − penalty, and `unit` is twice the grid, so
    results and the ledger are those of the score.

    Sensitivity (`claims`): a row of weight w that goes takes w from one cell of Hᵢⱼ. Pᵢⱼ and the
    penalty are public constants, so by the reverse triangle inequality each of q entries moves by
    at most w: q·w in L1, √q·w in L2, either way. With margins taken from the rows instead of a
    release, P would move too; that is refused by type, since a prediction is an array of released
    numbers. Source: P18.
    """

    pairs: tuple[tuple[int, int], ...]  # candidates, as positions in ``axes``
    predictions: tuple[PublicArray, ...]  # Pᵢⱼ in grid units, shape (size i, size j)
    penalties: PublicArray  # penalty of every candidate, in half grid units of score
    region: RowSubset | None = None
    # Positions in ``pairs`` of the candidates that remain, or None for all. The distances of all
    # pairs are cached with the database, so that a selection among other candidates is cheap.
    among: PublicArray | None = None
    kind = "pair scores"
    unit = 2 * GRID

    def __post_init__(self) -> None:
        if not self.pairs or len(self.pairs) != len(self.predictions):
            raise SchemaError("there is one prediction for each pair, and at least one pair.")
        for (i, j), prediction in zip(self.pairs, self.predictions, strict=True):
            if prediction.shape != (self.axes[i].size, self.axes[j].size):
                raise SchemaError("a prediction does not fit its pair.")
            cells(prediction.shape)
            if prediction.norm > _LARGEST:
                raise SchemaError("a prediction is too large to be compared exactly.")
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
        region: RowSubset | None = None,
        penalties: ArrayLike = 0.0,
    ) -> PairScores:
        """Return the query for predictions and penalties in counts, of any number type."""
        costs = np.broadcast_to(np.asarray(penalties, dtype=np.float64), len(pairs))
        return cls(
            table,
            tuple(axis(spec, table, named) for named in axes),
            tuple(pairs),
            tuple(PublicArray.rounded(values, GRID) for values in predictions),
            PublicArray.rounded(costs, 2 * GRID),
            region,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.pairs) if self.among is None else self.among.values.size,)

    def moved(self) -> list[RegionBounds]:
        (count,) = self.shape
        return [(self.region, count, count)]

    def evaluate(self, data: PrivateDatabase) -> Ints:
        scores = self._kept(data) - self.penalties.values
        return scores if self.among is None else scores[self.among.values]

    def _kept(self, data: PrivateDatabase) -> Ints:
        """Distances of all pairs, cached if a later query may need other pairs among them."""
        if self.among is None or self.region is not None:
            return self._distances(data)
        predicted = hashlib.sha256(b"".join(item.digest for item in self.predictions)).digest()
        key = (self.kind, self.source, self.axes, self.pairs, predicted)
        (distances,) = data._cache.get(key, lambda: (self._distances(data),))
        return distances

    def _distances(self, data: PrivateDatabase) -> Ints:
        tables = pair_tables(data, self.source, self.axes, self.region, self.pairs)
        compared = zip(tables, self.predictions, strict=True)
        distances = [self._distance(table - predicted.values) for table, predicted in compared]
        return np.array(distances, dtype=np.int64)

    def _distance(self, difference: Ints) -> int:
        return int(np.abs(difference).sum())


@dataclass(frozen=True, slots=True)
class DependenceScores(PairScores):
    """The distance of each pair of axes from a released prediction, less that of its margins.

    Statistic: for every candidate pair (i, j), with H its weighted histogram, P the released
    prediction on the integer grid, and Hᵢ, Hⱼ, Pᵢ, Pⱼ their margins:
    ‖H − P‖₁ − max(‖Hᵢ − Pᵢ‖₁, ‖Hⱼ − Pⱼ‖₁), minus a public penalty. This is twice the score
    ½‖H − P‖₁ − ½ max(…) − penalty; `unit` is twice the grid. A column that is only generated with a
    wrong margin does not score: no joint table comes nearer to H than its margins do.

    Sensitivity (`claims`): P, its margins and the penalty are public constants. A row of weight w
    that goes takes w from one cell of H and of each of its margins. By the reverse triangle
    inequality ‖H − P‖₁ moves by at most w, and so does each of the two distances of margins, and
    with them their maximum. The two terms may move against each other: 2w for each entry, reached
    where the row's cell is above its prediction and its margins are below theirs. All of q entries
    may move: 2q·w in L1, 2√q·w in L2. Source: P18.
    """

    kind = "dependence scores"
    most = 2

    def moved(self) -> list[RegionBounds]:
        (count,) = self.shape
        return [(self.region, 2 * count, 4 * count)]

    def _distance(self, difference: Ints) -> int:
        margins = (int(np.abs(difference.sum(axis=axis)).sum()) for axis in (0, 1))
        return int(np.abs(difference).sum()) - max(margins)


def pair_tables(
    data: PrivateDatabase,
    table: str,
    axes: Sequence[Axis],
    region: RowSubset | None,
    pairs: Sequence[tuple[int, int]],
) -> Iterator[Ints]:
    """Yield the weighted pair histograms of a region, in the order of ``pairs``.

    Tables of all rows are cached. The tables of a pass that are not in the cache yet are counted
    together.
    """
    for chosen in _passes(axes, pairs):
        used = sorted({end for pair in chosen for end in pair})
        sets = tuple((used.index(i), used.index(j)) for i, j in chosen)
        asked = Marginals(table, tuple(axes[end] for end in used), sets, region)
        yield from marginals(data, asked, keep=True)


def _passes(
    axes: Sequence[Axis], pairs: Sequence[tuple[int, int]]
) -> Iterator[list[tuple[int, int]]]:
    chosen: list[tuple[int, int]] = []
    cells_chosen = 0
    for i, j in pairs:
        size = axes[i].size * axes[j].size
        if chosen and cells_chosen + size > PASS:
            yield chosen
            chosen, cells_chosen = [], 0
        chosen.append((i, j))
        cells_chosen += size
    if chosen:
        yield chosen
