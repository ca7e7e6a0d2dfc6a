"""Laws over counts 0, 1, 2, …: how many children a parent has, how often a row is referred to.

A law is a mass per public bucket and a power law inside each bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privbench.circuit.draw import uniforms
from privbench.errors import ModelError
from privbench.learning.denoise import Floats

Ints = NDArray[np.int64]
_POINTS = (np.arange(256) + 0.5) / 256


@dataclass(frozen=True, slots=True, eq=False)
class FanLaw:
    """A law over counts.

    Attributes:
        starts: First count of every bucket, ascending, from 0; shape (buckets,).
        ends: Last count of every bucket.
        mass: Probability of every bucket.
        exponents: Inside a bucket the density at count x is proportional to x^−exponent.
    """

    starts: Ints
    ends: Ints
    mass: Floats
    exponents: Floats

    def mean(self, clip: float = np.inf) -> float:
        """Expectation of min(count, clip)."""
        return float(self.mass @ self.means(clip))

    def means(self, clip: float = np.inf) -> Floats:
        """Expectation of min(count, clip) inside every bucket, shape (buckets,)."""
        return np.asarray(np.minimum(self._quantiles(), clip).mean(axis=1))

    def draw(self, size: int, generator: np.random.Generator) -> Ints:
        """Stratified draws in random order, int64, shape (size,)."""
        if size == 0:
            return np.zeros(0, np.int64)
        one = np.zeros(size, np.int64)
        total = np.cumsum(self.mass)
        numbers = uniforms(one, 1, generator, stratified=True) * total[-1]
        bucket = np.minimum(np.searchsorted(total, numbers, side="right"), len(total) - 1)
        return self.within(bucket, generator)

    def within(self, buckets: NDArray[np.integer[Any]], generator: np.random.Generator) -> Ints:
        """Stratified draws inside given buckets, int64, shape (rows,)."""
        inside = uniforms(buckets.astype(np.int64), len(self.mass), generator, stratified=True)
        return np.floor(self._inverse(buckets, inside)).astype(np.int64)

    def tilted(self, theta: float) -> FanLaw:
        """The law whose mass at a count x above 0 is multiplied by x^θ; the share of 0 stays."""
        logs = theta * np.log(np.maximum(self._quantiles(), 1.0))
        mass = self.mass * np.exp(logs - logs.max()).mean(axis=1)
        positive = self.starts > 0
        held, wanted = mass[positive].sum(), self.mass[positive].sum()
        scale = wanted / held if held > 0 else 0.0
        mass = np.where(positive, mass * scale, self.mass)
        return FanLaw(self.starts, self.ends, mass / mass.sum(), self.exponents - theta)

    def to_state(self) -> dict[str, Any]:
        """A JSON object that `from_state` reads back."""
        return {
            "starts": self.starts.tolist(),
            "ends": self.ends.tolist(),
            "mass": self.mass.tolist(),
            "exponents": self.exponents.tolist(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The law that `to_state` wrote.

        Raises:
            ModelError: Not a law.
        """
        try:
            law = cls(
                np.array(state["starts"], np.int64),
                np.array(state["ends"], np.int64),
                np.array(state["mass"], np.float64),
                np.array(state["exponents"], np.float64),
            )
            valid = law._is_valid()
        except (KeyError, TypeError, ValueError, OverflowError):
            valid = False
        if not valid:
            raise ModelError("a fan-out law in the model is damaged.")
        return law

    def _is_valid(self) -> bool:
        shapes = {a.shape for a in (self.starts, self.ends, self.mass, self.exponents)}
        if len(shapes) != 1 or self.starts.ndim != 1 or not len(self.starts):
            return False
        ordered = (self.starts >= 0).all() and (self.ends >= self.starts).all()
        bounded = (self.ends < 2**40).all() and (np.abs(self.exponents) < 64).all()
        mass = np.isfinite(self.mass).all() and (self.mass >= 0).all()
        return bool(ordered and bounded and mass and abs(self.mass.sum() - 1) < 1e-6)

    def _quantiles(self) -> Floats:
        """Counts at evenly spaced quantiles of every bucket, shape (buckets, 256)."""
        buckets = np.repeat(np.arange(len(self.mass)), len(_POINTS))
        values = self._inverse(buckets, np.tile(_POINTS, len(self.mass)))
        return np.floor(values).reshape(len(self.mass), -1)

    def _inverse(self, bucket: NDArray[np.integer[Any]], numbers: Floats) -> Floats:
        """Inverse distribution function inside buckets, on [start, end + 1)."""
        low, high = self.starts[bucket].astype(float), self.ends[bucket] + 1.0
        power = 1.0 - self.exponents[bucket]
        power = np.where(np.abs(power) < 1e-6, 1e-6, power)
        base = np.maximum(low, 0.5)
        a, b = base**power, high**power
        value = np.where(low < 1, low, (a + numbers * (b - a)) ** (1.0 / power))
        return np.asarray(np.clip(value, low, self.ends[bucket] + 0.999))


def law_from_counts(counts: Floats, starts: Ints, ends: Ints) -> FanLaw:
    """The law of non-negative bucket counts with a positive sum."""
    mass = counts / counts.sum()
    return FanLaw(starts, ends, mass, _exponents(mass, starts, ends))


def constant(value: int) -> FanLaw:
    """The law of a certain count."""
    at = np.array([value], np.int64)
    return FanLaw(at, at, np.ones(1), np.zeros(1))


def _exponents(mass: Floats, starts: Ints, ends: Ints) -> Floats:
    """Slope of the log density between neighbouring buckets, clipped to [0, 3]."""
    centre = np.sqrt(np.maximum(starts, 1) * (ends + 1.0))
    density = np.maximum(mass, 1e-12) / (ends - starts + 1.0)
    positive = np.flatnonzero((mass > 0) & (starts > 0))
    out = np.ones(len(mass))
    if len(positive) > 1:
        slope = -np.gradient(np.log(density[positive]), np.log(centre[positive]))
        out[positive] = np.clip(slope, 0.0, 3.0)
    return out
