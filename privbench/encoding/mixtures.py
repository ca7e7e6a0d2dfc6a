"""Scales whose values are multiples of several steps, each with a released share of the rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from privbench.arrays import Floats, Ints, Rng
from privbench.encoding.scale import Lattice, Scale


@dataclass(frozen=True, kw_only=True)
class MixedScale(Scale):
    """A scale that draws values as multiples of several steps.

    With released shares of steps, that share of values is drawn among the multiples of each step,
    where the cell contains a multiple.
    """

    multiple: int | None = None  # place of the released step among `steps`
    law: tuple[float, ...] = ()  # released shares of the values drawn on each step, or ()

    @property
    @abstractmethod
    def steps(self) -> tuple[Lattice, ...]:
        """The steps that are distinguished, the coarsest first.

        The last step has all values of the type. Points of a step need not be points of the next
        finer step: Mondays are no first days of months.
        """

    @property
    def step_choices(self) -> range | None:
        return range(len(self.steps))

    @property
    def lattice(self) -> Lattice | None:
        return None if self.multiple is None else self.steps[self.multiple]

    def with_step(self, step: int | None, law: tuple[float, ...] = ()) -> MixedScale:
        if step not in (None, *(self.step_choices or ())):
            raise ValueError("values of this type have no such step")
        fits = len(law) == len(self.steps) and min(law) >= 0 and abs(sum(law) - 1) < 1e-6
        if law and not fits:
            raise ValueError("the shares of the steps must have the sum 1")
        return replace(self, multiple=step, law=law)

    def draw(self, lows: Ints, highs: Ints, rng: Rng) -> Ints:
        parts = self._mixture(lows, highs)
        if len(parts) == 1:
            return self._draw(parts[0][0], lows, highs, rng)
        chosen = rng.random(len(lows)) * sum(weights for _, weights in parts)
        drawn, left, least = lows.copy(), np.ones(len(lows), np.bool_), np.zeros(len(lows))
        for step, weights in parts:
            least = least + weights
            rows = np.flatnonzero(left & (chosen < least))
            drawn[rows] = self._draw(step, lows[rows], highs[rows], rng)
            left[rows] = False
        return drawn

    def mass(self, low: Ints, high: Ints, lows: Ints, highs: Ints) -> Floats:
        result = np.zeros(len(lows))
        for step, weights in self._mixture(lows, highs):
            whole = self._weight(step, lows, highs)
            result += weights * self._weight(step, low, high) / np.where(whole > 0, whole, 1)
        return result

    @property
    def _shares(self) -> tuple[float, ...]:
        """The share of the values drawn on each step; all on one step where none are released."""
        usual = self._usual if self.multiple is None else self.multiple
        return self.law or tuple(float(place == usual) for place in range(len(self.steps)))

    @property
    def _usual(self) -> int:
        """The place of the step of values where no step is released."""
        return len(self.steps) - 1

    def _lattices(self) -> tuple[Lattice, ...]:
        """The steps, whose points may have weights."""
        return self.steps

    def _mixture(self, lows: Ints, highs: Ints) -> list[tuple[Lattice, Floats]]:
        """Steps, and for every cell the weight of each: its share times its part within the cell.

        A cell that has a multiple of no step with a share takes the coarsest one of which it has.
        """
        mixture, none = list[tuple[Lattice, Floats]](), np.ones(len(lows), np.bool_)
        lattices = self._lattices()
        for share, step in zip(self._shares, lattices, strict=True):
            if share > 0:
                mass = self._weight(step, lows, highs)
                mixture.append((step, share * step.size * mass))
                none &= mass <= 0
        for step in lattices if none.any() else ():
            usable = none & (self._weight(step, lows, highs) > 0)
            mixture.append((step, usable.astype(np.float64)))
            none &= ~usable
        return mixture

    def _weight(self, step: Lattice, lows: Ints, highs: Ints) -> Floats:
        """The sum of the weights of a step's points in every cell ``[low, high)``."""
        return np.asarray(step.count(highs) - step.count(lows), np.float64)

    def _draw(self, step: Lattice, lows: Ints, highs: Ints, rng: Rng) -> Ints:
        """One point of a step in every cell, by weight; the next point after a cell without one."""
        first, end = step.count(lows), step.count(highs)
        numbers = rng.integers(first, np.maximum(end, first + 1), dtype=np.int64)
        return np.asarray(step.at(numbers), np.int64)
