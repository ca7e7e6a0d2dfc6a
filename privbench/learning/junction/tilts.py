"""How references prefer targets, from few and noisy counts of those that are referred to.

References prefer large values of a variable, or small ones, or none (NULL): few parameters say how
strongly. They are chosen so that races of synthetic targets, each target unit capped as it was
measured, explain all noisy cells together; then each cell's factor follows its own noisy count as
far as that stands out. Post-processing, free of charge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from privbench.learning.denoise import Floats, Noise, scale_of
from privbench.learning.junction.ratios import shrink
from privbench.learning.pulls import popularity, product

Ints = NDArray[np.int64]

#: Tilts by the normal score of a value's rank, powers of the mass beyond it, and factors of bins
#: that follow no order.
_GRIDS = (
    np.linspace(-3.0, 3.0, 17),
    np.array([-7.0, -5.0, -3.5, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]),
    np.linspace(0.0, 1.0, 6),
)
#: Standard deviations of what is believed of the three.
_SPREADS = (1.5, 3.0, 0.25)
_SWEEPS = 2
#: Totals against the expected one.
_TOTALS = np.exp(np.linspace(-1.2, 0.5, 18))
#: Most correction of one cell, and the part of a bin's capacity beyond which it tells nothing.
_MOST, _FULL = 4.0, 0.5


@dataclass(frozen=True, slots=True, eq=False)
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

    def factors(self, slope: float, rest: float, power: float) -> Floats:
        """Factor of every bin, the mean over the ordered ones 1."""
        out = np.ones(len(self.noisy))
        base = np.bincount(self.bins, minlength=len(out))[: self.ordered] + 1e-9
        if self.ordered >= 2:
            place = (np.cumsum(base) - 0.5 * base) / base.sum()
            tilt = slope * ndtri(np.clip(place, 1e-9, 1 - 1e-9)) - power * np.log1p(-place)
            out[: self.ordered] = np.exp(tilt - tilt.max())
            out[: self.ordered] *= base.sum() / (out[: self.ordered] * base).sum()
        out[self.ordered :] = np.exp(rest)
        return out


@dataclass(frozen=True, slots=True, eq=False)
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

    def mass(self, weights: Floats) -> Floats:
        """Expected weight of the references into every target, capped by unit."""
        out = np.zeros(len(weights))
        for race in self.numbers:
            mass = popularity(self.counts, weights, race)
            mass *= self.weight / max(mass.sum(), 1.0)
            held = np.bincount(self.units, mass)
            out += mass * (self.cap / np.maximum(held, self.cap))[self.units]
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
            others = [other for other in found if other is not tilt]
            tilt.improve(others, races, noise)
    factors = [tilt.factors for tilt in found]
    mass = races.mass(product(factors, [item.bins for item in seen], len(races.counts)))
    return [
        factor * _correction(item, mass, races, noise)
        for factor, item in zip(factors, seen, strict=True)
    ]


class _Tilt:
    """The parameters of one variable under way."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.values = [seen.belief, 0.0, 0.0]
        self.factors = seen.factors(*self.values)

    def improve(self, others: Sequence[_Tilt], races: Races, noise: Noise) -> None:
        """Choose one parameter after the other."""
        seen, size = self.seen, len(races.counts)
        rest = product([o.factors for o in others], [o.seen.bins for o in others], size)
        for place, grid in enumerate(_GRIDS):
            if place == 1 and seen.ordered == len(seen.noisy):
                continue
            if place != 1 and seen.ordered < 2:
                continue
            best = -np.inf
            for value in grid:
                tried = [*self.values[:place], float(value), *self.values[place + 1 :]]
                factors = seen.factors(*tried)
                mass = races.mass(rest * product([factors], [seen.bins], size))
                score = _explains(seen, mass, noise) + self._prior(tried)
                if score > best:
                    best, chosen = score, tried
            self.values, self.factors = chosen, seen.factors(*chosen)

    def _prior(self, values: Sequence[float]) -> float:
        centres = (self.seen.belief, 0.0, 0.0)
        parts = zip(values, centres, _SPREADS, strict=True)
        return -0.5 * sum(((value - centre) / spread) ** 2 for value, centre, spread in parts)


def _explains(seen: Seen, mass: Floats, noise: Noise) -> float:
    """Log-likelihood of the noisy counts, the total of references being uncertain."""
    expected = np.bincount(seen.bins, mass, minlength=len(seen.noisy))
    distance = (seen.noisy - _TOTALS[:, None] * expected) / seen.scale
    logs = -(np.abs(distance) if noise == "laplace" else 0.5 * distance**2).sum(axis=1)
    logs -= 2.0 * np.log(_TOTALS) ** 2
    return float(np.logaddexp.reduce(logs))


def _correction(seen: Seen, mass: Floats, races: Races, noise: Noise) -> Floats:
    """Factor of every bin by which its count follows the noisy one as far as that stands out."""
    size = len(seen.noisy)
    expected = np.bincount(seen.bins, mass, size).astype(np.float64)
    units = np.unique(np.stack([seen.bins, races.units]), axis=1)[0]
    room = races.cap * np.bincount(units, minlength=size)
    found = shrink(seen.noisy, expected, seen.scale, noise)
    found *= expected.sum() / max(found.sum(), 1e-300)
    ratio = found / np.maximum(expected, 1e-6 * max(expected.sum(), 1e-300))
    free = expected < _FULL * room
    return np.where(free, np.clip(ratio, 1 / _MOST, _MOST), 1.0)
