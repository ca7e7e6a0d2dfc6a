"""Selection scores against released predictions (P18)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import Axis, AxisLike, axis
from privbench.privacy.queries.claims import Moved, RowQuery
from privbench.privacy.queries.counting import cells
from privbench.privacy.queries.pairtables import pair_tables
from privbench.privacy.queries.public import PublicArray
from privbench.privacy.queries.regions import Region
from privbench.privacy.query import GRID, Integers
from privbench.privacy.spec import DatabaseSpec

#: Largest sum of the entries of a prediction, in grid units.
_LARGEST = 2.0**61


@dataclass(frozen=True, slots=True)
class PairScores(RowQuery):
    """How far each pair of axes is from a released prediction.

    Statistic: for every candidate pair (i, j), ‖Hᵢⱼ − Pᵢⱼ‖₁ minus a public penalty, where Hᵢⱼ is
    the weighted histogram of the pair in the region and Pᵢⱼ the released prediction, rounded to
    the integer grid. This is twice the score ½‖H − P‖₁ − penalty, and `unit` is twice the grid, so
    results and the ledger speak of the score.

    Sensitivity (`claims`): a row of weight w that goes takes w from one cell of Hᵢⱼ. Pᵢⱼ and the
    penalty are public constants, so by the reverse triangle inequality each of q entries moves by
    at most w: q·w in L1, √q·w in L2, either way. With margins taken from the rows instead of a
    release, P would move too; that is refused by type, since a prediction is an array of released
    numbers. Source: P18.

    Attributes:
        axes: Axes that the pairs are made of.
        pairs: Candidates, as positions in ``axes``.
        predictions: Pᵢⱼ of every candidate in grid units, shape (size i, size j).
        penalties: Penalty of every candidate, in half grid units of score.
        region: The region, or None.
        among: Positions in ``pairs`` of the candidates that are left, or None for all: distances
            of all pairs are kept with the database, so that another choice among them is cheap.
    """

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
    def columns(self) -> tuple[str, ...]:
        return tuple(axis.label for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """One score for each candidate."""
        return (len(self.pairs) if self.among is None else self.among.values.size,)

    def moved(self) -> list[Moved]:
        (count,) = self.shape
        return [(self.region, count, count)]

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
class DependenceScores(PairScores):
    """How far each pair of axes is from a released prediction, beyond what its margins are off.

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

    def moved(self) -> list[Moved]:
        (count,) = self.shape
        return [(self.region, 2 * count, 4 * count)]

    def _distances(self, data: PrivateDatabase) -> Integers:
        tables = pair_tables(data, self.source, self.axes, self.region, self.pairs)
        found = [
            _beyond_margins(table.reshape(predicted.shape) - predicted.values)
            for table, predicted in zip(tables, self.predictions, strict=True)
        ]
        return np.array(found, dtype=np.int64)


def _beyond_margins(difference: Integers) -> int:
    margins = (int(np.abs(difference.sum(axis=axis)).sum()) for axis in (0, 1))
    return int(np.abs(difference).sum()) - max(margins)


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
