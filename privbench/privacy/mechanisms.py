"""Mechanisms on exact integers: what each releases, its privacy function, and why it holds.

Every mechanism is OpenDP's; none is written here. A mechanism is a value of one class with

* ``scale(sensitivity, amount)``: the least scale whose loss is at most ``amount``, rounded up;
* ``price(sensitivity, scale)``: the loss, as OpenDP's own privacy map states it;
* ``draw(...)``: the release itself, with noise from the operating system.

Exact statistics are clamped to ±2⁶¹ before noise. Clamping every cell to a public range moves no
two databases further apart in any norm, so it costs nothing; with scales of at most 2⁵⁵ no sum
comes near the ends of a 64-bit integer (where OpenDP saturates, which is post-processing too).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from opendp import domains, measurements, metrics, mod

from privbench.errors import PrivacyRefusal
from privbench.privacy.events import Loss, MechanismName
from privbench.privacy.query import Sensitivity
from privbench.threads import spread

mod.enable_features("contrib")

Integers = NDArray[np.int64]

#: Statistics are clamped to ± this before noise.
CLAMP = 2**61
#: Largest scale, in grid units.
MAX_SCALE = 2.0**55
#: Cells per call of OpenDP; bounds the memory of Python integers.
CHUNK = 2**16
#: Measurements of OpenDP, and losses that it stated, that are kept: they hold no state and depend
#: on public numbers alone, and a fit asks for the same ones several times for every event.
KEPT_MEASUREMENTS, KEPT_LOSSES = 2**8, 2**14


@dataclass(frozen=True, slots=True)
class Price:
    """What one use of a mechanism costs: ε or ρ, and δ."""

    amount: float
    delta: float = 0.0


class Mechanism(ABC):
    """One mechanism family; instances hold nothing but its name and its measure of loss."""

    name: ClassVar[MechanismName]
    loss: ClassVar[Loss]

    @abstractmethod
    def formula(self, sensitivity: Sensitivity, amount: float) -> float:
        """The scale at which the loss is ``amount``, up to rounding."""

    def scale(self, sensitivity: Sensitivity, amount: float) -> float:
        """The least scale, in grid units, at which the loss is at most ``amount``, rounded up.

        Raises:
            PrivacyRefusal: The amount is not a positive finite number, or so small that the noise
                would not fit 64-bit integers.
        """
        if not (math.isfinite(amount) and amount > 0):
            raise PrivacyRefusal(f"a measurement cannot be charged {amount!r}.")
        scale = self.formula(sensitivity, amount)
        if not 0.0 < scale <= MAX_SCALE:
            raise PrivacyRefusal(
                f"an amount of {amount:.3g} asks for noise of scale {scale:.3g} grid units, which "
                "is outside what 64-bit integers hold.",
                remedy="Give the measurement a larger share of the budget.",
            )
        step = math.ulp(scale)
        for _ in range(64):
            if self.price(sensitivity, scale).amount <= amount:
                return scale
            scale, step = scale + step, step * 2.0
        raise PrivacyRefusal(f"no scale of the mechanism costs at most {amount:.3g}.")

    @abstractmethod
    def price(self, sensitivity: Sensitivity, scale: float, threshold: int | None = None) -> Price:
        """The loss at that scale, from OpenDP's privacy map."""


class VectorMechanism(Mechanism):
    """Adds independent noise to every cell of an integer vector."""

    @abstractmethod
    def measurement(self, scale: float) -> Any:
        """OpenDP's measurement on vectors of i64."""

    @abstractmethod
    def sd(self, scale: float) -> float:
        """Standard deviation of the noise of one cell, in grid units."""

    def draw(self, values: Integers, scale: float) -> Integers:
        """The statistic plus noise, same shape.

        Noise is independent over cells, so drawing it in chunks is the same mechanism as drawing
        it at once; the price is that of the whole vector.
        """
        release = self.measurement(scale)
        flat = clamp(values).reshape(-1)
        parts = [flat[start : start + CHUNK] for start in range(0, flat.size, CHUNK)]
        joined = [np.asarray(part, dtype=np.int64) for part in spread(release, parts)]
        result = np.concatenate(joined) if joined else np.empty(0, np.int64)
        return result.reshape(values.shape)


class DiscreteLaplace(VectorMechanism):
    """Adds discrete Laplace noise: P(k) ∝ exp(−|k| / s) on the integers.

    Releases the whole vector. Pure DP with ε = l1 / s: the likelihood ratio of one output between
    neighbours is at most exp(Σ|Δ_i| / s). Source: Ghosh, Roughgarden and Sundararajan (2009);
    sampler of Canonne, Kamath and Steinke (2020), exact; ``make_laplace`` of OpenDP.
    """

    name = "discrete_laplace"
    loss = "epsilon"

    def measurement(self, scale: float) -> Any:
        """OpenDP's measurement, L1 metric, max divergence."""
        return _laplace(scale)

    def formula(self, sensitivity: Sensitivity, amount: float) -> float:
        """l1 / ε."""
        return sensitivity.l1 / amount

    def price(self, sensitivity: Sensitivity, scale: float, threshold: int | None = None) -> Price:
        """ε = l1 / scale."""
        return Price(_laplace_loss(sensitivity.l1, scale))

    def sd(self, scale: float) -> float:
        """√(2α) / (1 − α) with α = exp(−1/s)."""
        alpha = math.exp(-1.0 / scale)
        return math.sqrt(2.0 * alpha) / -math.expm1(-1.0 / scale)


class DiscreteGaussian(VectorMechanism):
    """Adds discrete Gaussian noise: P(k) ∝ exp(−k² / 2σ²) on the integers.

    Releases the whole vector. zCDP with ρ = l2² / 2σ² (Canonne, Kamath and Steinke 2020, Theorem
    4 and its multivariate form); ``make_gaussian`` of OpenDP. Its variance is at most σ². ``l2``
    is taken one rounding step up, so that a square root rounded down cannot lower the price.
    """

    name = "discrete_gaussian"
    loss = "rho"

    def measurement(self, scale: float) -> Any:
        """OpenDP's measurement, L2 metric, zero-concentrated divergence."""
        return _gaussian(scale)

    def formula(self, sensitivity: Sensitivity, amount: float) -> float:
        """l2 / √(2ρ)."""
        return l2_up(sensitivity) / math.sqrt(2.0 * amount)

    def price(self, sensitivity: Sensitivity, scale: float, threshold: int | None = None) -> Price:
        """ρ = l2² / 2·scale²."""
        return Price(_gaussian_loss(l2_up(sensitivity), scale))

    def sd(self, scale: float) -> float:
        """At most σ; below σ = 4 summed exactly over the law."""
        if scale >= 4.0:
            return scale
        reach = np.arange(-64, 65, dtype=np.float64)
        law = np.exp(-(reach**2) / (2.0 * scale**2))
        return math.sqrt(float((law * reach**2).sum() / law.sum()))


def clamp(values: Integers) -> Integers:
    """The values limited to ±2⁶¹; 1-Lipschitz in every norm."""
    return np.clip(values, -CLAMP, CLAMP).astype(np.int64, casting="same_kind", copy=False)


@lru_cache(maxsize=1)
def vectors() -> Any:
    """OpenDP's domain of vectors of i64."""
    return domains.vector_domain(domains.atom_domain(T="i64"))


@lru_cache(maxsize=KEPT_MEASUREMENTS)
def _laplace(scale: float) -> Any:
    return measurements.make_laplace(vectors(), metrics.l1_distance(T="i64"), scale=scale)


@lru_cache(maxsize=KEPT_LOSSES)
def _laplace_loss(l1: int, scale: float) -> float:
    return float(_laplace(scale).map(l1))


@lru_cache(maxsize=KEPT_MEASUREMENTS)
def _gaussian(scale: float) -> Any:
    return measurements.make_gaussian(vectors(), metrics.l2_distance(T="f64"), scale=scale)


@lru_cache(maxsize=KEPT_LOSSES)
def _gaussian_loss(l2: float, scale: float) -> float:
    return float(_gaussian(scale).map(l2))


def l2_up(sensitivity: Sensitivity) -> float:
    """The L2 sensitivity, one rounding step up; never more than L1 with its own step."""
    return math.nextafter(min(sensitivity.l2, float(sensitivity.l1)), math.inf)
