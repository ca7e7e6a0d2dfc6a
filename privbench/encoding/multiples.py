"""Grids of integers whose values may all be multiples: whole prices, salaries in hundreds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privbench.encoding.lattice import ZERO
from privbench.encoding.scale import LINEAR, Points, Scale
from privbench.privacy.recoding import NEG_INF, POS_INF


class MultiplesScale(Scale):
    """A grid of integers; cells begin at multiples of `unit`, and multiples are drawn."""

    @property
    def unit(self) -> int:
        """Grid points that values are multiples of, as far as was released."""
        return 1

    @property
    def step(self) -> int:
        """Grid points that are told apart are this far from each other."""
        return self.unit

    def holds(self, lo: int, hi: int) -> bool:
        """Whether a multiple other than zero lies in ``[lo, hi)``."""
        return (self.least(lo) or self.unit) < hi

    def draw(self, lows: Points, highs: Points, rng: np.random.Generator) -> Points:
        """Uniform over the multiples in the cell; where there are none, over the cell."""
        if self.unit == 1:
            return super().draw(lows, highs, rng)
        first, end = -(-lows // self.unit), -(-highs // self.unit)
        points = self.unit * rng.integers(first, np.maximum(end, first + 1), dtype=np.int64)
        rest = end <= first
        points[rest] = super().draw(lows[rest], highs[rest], rng)
        return points

    def edges(
        self,
        lo: int,
        hi: int,
        *,
        bins: int | None = None,
        cells: int = LINEAR,
        inner: Sequence[int] = (),
    ) -> list[int]:
        """See `Scale.edges`; of the multiples, counted one by one."""
        low, high = self._counted(lo), self._counted(hi)
        again = sorted({self._counted(edge) for edge in inner})
        return self._points(
            super().edges(low, max(high, low + 1), bins=bins, cells=cells, inner=again)
        )

    def tails(self, lo: int, hi: int, cells: int = LINEAR) -> tuple[list[int], list[int]]:
        """See `Scale.tails`; of the multiples, counted one by one."""
        below, above = super().tails(self._counted(lo), self._counted(hi), cells)
        return self._points(below), self._points(above)

    def snapped(self, lo: int, hi: int) -> tuple[int, int]:
        """The multiples around a range."""
        return lo // self.unit * self.unit, self.least(hi)

    def least(self, lo: int) -> int:
        """The first multiple that is not below a point."""
        return self._counted(lo) * self.unit

    def alone(self, low: int, high: int) -> bool:
        """Whether a cell ``[low, high)`` holds a single multiple."""
        return self._counted(high) - self._counted(low) == 1

    def _counted(self, point: int) -> int:
        """Which multiple is the first that is not below a point."""
        return -(-point // self.unit)

    def _points(self, counted: Sequence[int]) -> list[int]:
        return [place * self.unit for place in counted]


def trailing_zeros(points: Points, digits: int, told: range) -> Points:
    """How many decimals integers of ``10**-digits`` have; below none, tens count as −1.

    Args:
        points: Grid points and sentinels, shape (rows,); sentinels stay what they are.
        digits: Decimals that the grid keeps, the end of ``told``.
        told: Numbers of decimals to tell apart, ascending.

    Returns:
        Of every point the least in ``told`` that does, `ZERO` for 0.

    >>> trailing_zeros(np.array([2910, 29, 0, 5_000_000]), 2, range(-1, 3)).tolist()
    [1, 2, -9, -1]
    """
    found = points.copy()
    real = np.flatnonzero((points > NEG_INF) & (points < POS_INF))
    found[real] = digits
    left = real
    for count in reversed(told[:-1]):
        left = left[points[left] % 10 ** (digits - count) == 0]
        found[left] = count
    found[points == 0] = ZERO
    return found
