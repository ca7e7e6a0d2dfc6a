"""Choosing the pair that predictions are farthest from, by noisy selection (P18)."""

from __future__ import annotations

from collections.abc import Callable

from privbench.learning.denoise import Floats
from privbench.learning.junction.structure import Pair
from privbench.privacy import Query
from privbench.privacy.queries import Axis, PairScores, PublicArray
from privbench.privacy.query import GRID

#: Asks for a selection: (query, amount, label) → index.
Select = Callable[[Query, float, str], int]


class Choice:
    """Pairs to choose from, each with its released prediction; each is taken once.

    Args:
        table: The table.
        axes: What stands for every variable, by number.
        predicted: Released predictions of the tables of the pairs.
        price: What a cell must differ by, in counts, to be worth its measurement.
        amount: What one selection costs.
        select: Asks the session.
    """

    def __init__(
        self,
        table: str,
        axes: tuple[Axis, ...],
        predicted: dict[Pair, Floats],
        price: float,
        amount: float,
        select: Select,
    ) -> None:
        self._table, self._axes = table, axes
        self._amount, self._select = amount, select
        self._predicted = {
            pair: PublicArray.rounded(cells, GRID) for pair, cells in predicted.items()
        }
        self._prices = {pair: price * cells.size for pair, cells in predicted.items()}

    def take(self, label: str, allowed: Callable[[Pair], bool] = lambda pair: True) -> Pair:
        """The pair of the noisy maximum of ½‖H − P‖₁ − price among those allowed."""
        pairs = [pair for pair in self._predicted if allowed(pair)]
        query = PairScores(
            self._table,
            self._axes,
            tuple(pairs),
            tuple(self._predicted[pair] for pair in pairs),
            PublicArray.rounded([self._prices[pair] for pair in pairs], 2 * GRID),
        )
        taken = pairs[self._select(query, self._amount, f"{label} of {self._table}")]
        del self._predicted[taken]
        return taken
