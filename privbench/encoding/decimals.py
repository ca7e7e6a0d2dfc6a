"""How many decimals a column's numbers have, and the floats that have no more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbench.privacy.recoding import NEG_INF, POS_INF

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]

#: Most decimals of a decimal grid, and what numbers with more count as.
MOST, MORE = 6, 7
#: What zero counts as: it has a cell of its own, and lies on every decimal grid.
ZERO = -9
#: Decimals to take where nothing is known of a column.
USUAL = 2
#: A double does not distinguish steps further from zero; numbers further are cut.
_REACH, _HUGE = 2**53, 1e38


@dataclass(frozen=True)
class DecimalsNeed:
    """How many decimals an attribute's values have, to release before its cells are made.

    One histogram over few public cells, zero and each number of decimals: the query of bounds
    (`GridHistogram`), with its sensitivity. A row's number of decimals follows from that row's
    value alone, so that a row adds its weight to one cell at most.

    Attributes:
        attribute: A `Grid` of small integers (see `decimals_of`), for this release alone.
        told: Numbers of decimals to distinguish, ascending; the last is for numbers on no
            decimal grid.
        usual: What to say of a column where nothing but zeros is seen.
        dear: Whether much is lost without a release: no, the usual ones are a fair guess.
    """

    attribute: str
    told: range = range(MORE + 1)
    usual: int = USUAL
    dear: bool = False

    @property
    def candidates(self) -> Steps:
        return np.array(self.told, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Decimals:
    """Released: the number of decimals that is enough for nearly all values.

    Attributes:
        count: One of those that the need distinguishes, its last for numbers on no decimal grid,
            or None where the signal is below the noise. −2 means multiples of 100.
    """

    count: int | None = None


@dataclass(frozen=True, slots=True)
class DecimalGrid:
    """The floats nearest to the multiples of ``10**-decimals``; multiples are *steps*.

    Attributes:
        decimals: 0 to `MOST`.
        single: Whether the floats have 32 bits.

    >>> DecimalGrid(1).numbers(np.array([1, 2, 3])).tolist()
    [0.1, 0.2, 0.3]
    >>> DecimalGrid(1).first(np.array([0.1, 0.11, -0.3])).tolist()
    [1, 2, -3]
    """

    decimals: int
    single: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.decimals <= MOST:
            raise ValueError(f"decimals are 0 to {MOST}")

    def numbers(self, steps: Steps) -> Floats:
        """The float of every step: dividing two exact doubles gives the nearest double."""
        result: Floats = np.asarray(steps, dtype=np.float64) / 10.0**self.decimals
        return result.astype(np.float32).astype(np.float64) if self.single else result

    def first(self, numbers: Floats) -> Steps:
        """The least step whose float is not below each number, for numbers `within` reach."""
        near = np.clip(numbers, -_HUGE, _HUGE)
        if self.single:
            # Far out many steps share a float; its first one lies halfway from the float below.
            upper = near.astype(np.float32)
            upper = np.where(upper < near, np.nextafter(upper, np.float32(np.inf)), upper)
            lower = np.nextafter(upper, np.float32(-np.inf))
            near = (upper.astype(np.float64) + lower.astype(np.float64)) / 2
        scaled = np.clip(near * 10.0**self.decimals, -_REACH, _REACH)
        steps = np.rint(scaled).astype(np.int64)
        for _ in range(2):
            steps += self.numbers(steps) < numbers
            steps -= self.numbers(steps - 1) >= numbers
        return steps

    def within(self, numbers: Floats) -> NDArray[np.bool_]:
        """Where a double distinguishes steps."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.abs(numbers) * 10.0**self.decimals < _REACH)


def decimals_of(numbers: Floats, *, single: bool = False) -> Steps:
    """The fewest decimals that give every number back; `ZERO` for 0, `MORE` where six do not.

    >>> decimals_of(np.array([0.0, 3.0, 9.99, 0.1 + 0.2, 1e300])).tolist()
    [-9, 0, 2, 7, 0]
    """
    result = np.full(len(numbers), MORE, dtype=np.int64)
    left = np.arange(len(numbers))
    for count in range(MOST + 1):
        rest = numbers[left]
        decimal_grid = DecimalGrid(count, single)
        near = np.rint(np.clip(rest * 10.0**count, -_REACH, _REACH)).astype(np.int64)
        fits = decimal_grid.within(rest) & (decimal_grid.numbers(near) == rest)
        if count == 0:
            # Numbers beyond the reach of doubles are whole.
            fits |= np.rint(rest) == rest
        result[left[fits]] = count
        left = left[~fits]
    result[numbers == 0.0] = ZERO
    return result


def trailing_zeros(points: Steps, digits: int, choices: range) -> Steps:
    """How many decimals integers in units of ``10**-digits`` have; multiples of ten count as −1.

    >>> trailing_zeros(np.array([2910, 29, 0, 5_000_000]), 2, range(-1, 3)).tolist()
    [1, 2, -9, -1]
    """
    result = points.copy()
    real = np.flatnonzero((points > NEG_INF) & (points < POS_INF))
    result[real] = digits
    left = real
    for count in reversed(choices[:-1]):
        left = left[points[left] % 10 ** (digits - count) == 0]
        result[left] = count
    result[points == 0] = ZERO
    return result
