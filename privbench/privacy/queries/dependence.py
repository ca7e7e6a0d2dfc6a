"""Selection scores of dependence: what the margins of a pair do not explain (P18)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.claims import Moved
from privbench.privacy.queries.pairtables import pair_tables
from privbench.privacy.queries.scores import PairScores
from privbench.privacy.query import Integers


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
