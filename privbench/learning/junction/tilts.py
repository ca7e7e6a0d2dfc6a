"""How references prefer targets, from few and noisy counts of those that are referred to.

References prefer large values of a variable, or small ones, or none (NULL): few parameters say how
strongly. They are chosen so that races of synthetic targets, each target unit capped as it was
measured, explain all noisy cells together; then each cell's factor follows its own noisy count as
far as that stands out. Post-processing, free of charge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from privbench.learning.denoise import Floats, Noise, log_likelihoods, middle_ranks, scale_of
from privbench.learning.junction.ratios import shrink
from privbench.learning.pulls import largest_first, product, winners

Ints = NDArray[np.int64]

#: The factor of bins that are never referred to, and how likely that is against any other factor:
#: kinds of rows often rule references out.
_NEVER, _RULED_OUT = -20.0, 0.5
#: Standard deviation of what is believed of the logarithm of a factor below 1 that is not that.
_RARE = 1.5
#: Tilts by the normal score of a value's rank, logarithms of the factor of bins that follow no
#: order, and powers of the mass beyond a value.
_GRIDS = (
    np.linspace(-3.0, 3.0, 17),
    np.array([_NEVER, -7.0, -5.0, -3.5, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]),
    np.linspace(0.0, 1.0, 6),
)
#: Standard deviations of what is believed of the three.
_SPREADS = (1.5, 3.0, 0.25)
_SWEEPS = 2
#: Totals against the expected one.
_TOTALS = np.exp(np.linspace(-1.2, 0.5, 18))
#: Most correction of one cell, of one of a variable without an order (no tilt speaks for it), how
#: often races are run for it, and the part of a bin's capacity beyond which it tells nothing.
_MOST, _MOST_UNORDERED, _ROUNDS, _FULL = 4.0, 100.0, 4, 0.5


@dataclass(frozen=True, eq=False)
class Seen:
    """A noisy law of one variable among targets.

    Attributes:
        noisy: Noisy counts, shape (bins,).
        scale: Scale of the noise.
        bins: Bin of every synthetic target, shape (targets,).
        ordered: How many of the bins, the first ones, follow an order.
        belief: Slope that is likeliest beforehand.
    """

    noisy: Floats
    scale: float
    bins: Ints
    ordered: int
    belief: float

    @classmethod
    def of(
        cls, noisy: Floats, sd: float, noise: Noise, bins: Ints, ordered: int, belief: float
    ) -> Seen:
        """From the standard deviation of the noise."""
        return cls(noisy, max(scale_of(sd, noise), 1e-9), bins, ordered, belief)

    @cached_property
    def sizes(self) -> Ints:
        """Synthetic targets per bin, shape (bins,)."""
        return np.bincount(self.bins, minlength=len(self.noisy))

    def factors(self, slope: float, rest: float, power: float) -> Floats:
        """Factor of every bin, the mean over the ordered ones 1."""
        out = np.ones(len(self.noisy))
        base = np.asarray(self.sizes[: self.ordered] + 0.5, np.float64)
        if self.ordered >= 2:
            place = middle_ranks(base)
            tilt = slope * ndtri(place) - power * np.log1p(-place)
            out[: self.ordered] = np.exp(tilt - tilt.max())
            out[: self.ordered] *= base.sum() / (out[: self.ordered] * base).sum()
        out[self.ordered :] = np.exp(rest)
        return self.filled(out)

    def filled(self, factors: Floats) -> Floats:
        """Ordered bins without synthetic targets as the nearest one with some, the lower first.

        Nothing is known of them, and a rare row of a clone must not become its largest hub.
        """
        there = np.flatnonzero(self.sizes[: self.ordered])
        if not len(there):
            return factors
        near = np.maximum(np.searchsorted(there, np.arange(self.ordered), side="right") - 1, 0)
        return np.concatenate([factors[there[near]], factors[self.ordered :]])


@dataclass(frozen=True, eq=False)
class Races:
    """Synthetic targets that race for references.

    Attributes:
        counts: Numbers of references, in any order, shape (targets,).
        units: Unit of every target, from 0 on, shape (targets,).
        weight: Weight of all references that are counted.
        cap: The most that a target unit counts.
        numbers: Standard exponential numbers, shape (races, targets).
    """

    counts: Ints
    units: Ints
    weight: float
    cap: float
    numbers: Floats

    @cached_property
    def prizes(self) -> Floats:
        """Weights of the references into those that are first, second, and so on."""
        counts = largest_first(self.counts)
        return np.asarray(counts * (self.weight / max(float(counts.sum()), 1.0)), np.float64)

    @property
    def counted(self) -> float:
        """Number of references to one target that weigh as much as the cap."""
        return self.cap * float(self.counts.sum()) / max(self.weight, 1.0)

    def mass(self, weights: Floats) -> Floats:
        """Expected weight of the references into every target, capped by unit."""
        prizes, out = self.prizes, np.zeros(len(weights))
        for race in self.numbers:
            first = winners(len(prizes), weights, race)
            units = self.units[first]
            held = np.bincount(units, prizes)
            out[first] += prizes * (self.cap / np.maximum(held, self.cap))[units]
        return out / len(self.numbers)


def preferences(seen: Sequence[Seen], races: Races, noise: Noise) -> list[Floats]:
    """Factors of the bins of every variable, each shape (bins,).

    Args:
        seen: Noisy laws.
        races: What races.
        noise: Law of the noise.
    """
    found = [_Tilt(item) for item in seen]
    for _ in range(_SWEEPS):
        for tilt in found:
            tilt.improve([other for other in found if other is not tilt], races, noise)
    return _corrected(seen, [tilt.factors for tilt in found], races, noise)


def _corrected(
    seen: Sequence[Seen], tilts: Sequence[Floats], races: Races, noise: Noise
) -> list[Floats]:
    """Factors by which races give every bin what its noisy count says, where that stands out."""
    bins, factors = [item.bins for item in seen], list(tilts)
    mass = races.mass(product(factors, bins, len(races.counts)))
    goals = [_goal(item, mass, races, noise) for item in seen]
    for number in range(_ROUNDS):
        if number:
            mass = races.mass(product(factors, bins, len(races.counts)))
        for place, (item, (goal, free)) in enumerate(zip(seen, goals, strict=True)):
            expected = np.bincount(item.bins, mass, len(goal)).astype(np.float64)
            ratio = goal / np.maximum(expected, 1e-6 * max(expected.sum(), 1e-300))
            ratio *= expected.sum() / max(goal.sum(), 1e-300)
            most = _MOST if item.ordered else _MOST_UNORDERED
            moved = factors[place] * np.where(free, ratio, 1.0)
            factors[place] = np.clip(moved, tilts[place] / most, tilts[place] * most)
    return [item.filled(factor) for item, factor in zip(seen, factors, strict=True)]


class _Tilt:
    """The parameters of one variable under way."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.values = [seen.belief, 0.0, 0.0]
        self.factors = seen.factors(*self.values)

    def improve(self, others: Sequence[_Tilt], races: Races, noise: Noise) -> None:
        """Choose one parameter after the other."""
        seen, size = self.seen, len(races.counts)
        every = [seen, *(other.seen for other in others)]
        rest = product([o.factors for o in others], [o.seen.bins for o in others], size)
        for place, grid in enumerate(_GRIDS):
            if place == 1 and seen.ordered in (0, len(seen.noisy)):
                continue
            if place != 1 and seen.ordered < 2:
                continue
            best = -np.inf
            for value in grid:
                tried = [*self.values[:place], float(value), *self.values[place + 1 :]]
                factors = seen.factors(*tried)
                mass = races.mass(rest * product([factors], [seen.bins], size))
                score = self._prior(tried)
                score += sum(_explains(item, mass, noise) for item in every)
                if score > best:
                    best, chosen = score, tried
            self.values, self.factors = chosen, seen.factors(*chosen)

    def _prior(self, values: Sequence[float]) -> float:
        centres = (self.seen.belief, 0.0, 0.0)
        parts = zip(values, centres, _SPREADS, strict=True)
        logs = [-0.5 * ((value - centre) / spread) ** 2 for value, centre, spread in parts]
        if values[1] < 0.0:
            rare = -0.5 * (values[1] / _RARE) ** 2
            logs[1] = np.log(_RULED_OUT) if values[1] == _NEVER else rare
        return float(sum(logs))


def _explains(seen: Seen, mass: Floats, noise: Noise) -> float:
    """Log-likelihood of the noisy counts, the total of references being uncertain."""
    expected = np.bincount(seen.bins, mass, minlength=len(seen.noisy))
    distance = (seen.noisy - _TOTALS[:, None] * expected) / seen.scale
    logs = log_likelihoods(distance, noise).sum(axis=1)
    logs -= 2.0 * np.log(_TOTALS) ** 2
    return float(np.logaddexp.reduce(logs))


def _goal(seen: Seen, mass: Floats, races: Races, noise: Noise) -> tuple[Floats, NDArray[np.bool_]]:
    """Denoised count of every bin, and whether it tells anything: a full bin does not."""
    size = len(seen.noisy)
    expected = np.bincount(seen.bins, mass, size).astype(np.float64)
    units = np.unique(np.stack([seen.bins, races.units]), axis=1)[0]
    room = races.cap * np.bincount(units, minlength=size)
    return shrink(seen.noisy, expected, seen.scale, noise), expected < _FULL * room
