"""Mechanisms on exact integers. Each docstring says what is released, at what loss, and why.

Every mechanism is OpenDP's; none is implemented here. There is one for each task (cells of a
statistic, a largest score, labels of an unknown domain) under each accounting. A mechanism is a
value with

* ``scale(sensitivity, amount)``: the least scale whose loss is at most ``amount``, rounded up; *
``price(sensitivity, scale)``: the loss, as OpenDP's own privacy map states it; * ``draw(...)``: the
release itself, with noise from the operating system.

Exact statistics are clamped to ±2⁶¹ before noise. Clamping every cell to a public range moves no
two databases further apart in any norm, so it costs nothing; with scales of at most 2⁵⁵ no sum
comes near the ends of a 64-bit integer (where OpenDP saturates, which is post-processing too).
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from opendp import domains, measurements, measures, metrics, mod

from privbench.arrays import Ints
from privbench.errors import PrivacyRefusal
from privbench.privacy.events import Accounting, MechanismName
from privbench.privacy.query import Sensitivity
from privbench.threads import spread

mod.enable_features("contrib")

#: Cells of statistics are clamped to the range ±CLAMP before noise is added.
CLAMP = 2**61
#: Largest scale, in grid units.
MAX_SCALE = 2.0**55
#: Scale of the noise on a statistic in which no two neighbours differ: a draw that is not 0 has a
#: probability below 10⁻²⁷.
PUBLIC_SCALE = 2.0**-6
#: Largest threshold, in grid units.
MAX_THRESHOLD = 2**50
#: Cells per call of OpenDP; a limit on the memory that Python integers take.
CHUNK = 2**16


@dataclass(frozen=True, slots=True)
class Price:
    """The cost of one use of a mechanism: ε or ρ, and δ."""

    amount: float
    delta: float = 0.0


@dataclass(frozen=True, slots=True)
class Mechanism(ABC):
    """A family of mechanisms under one accounting, given by its name and measure of loss."""

    name: MechanismName
    loss: Literal["epsilon", "rho"]

    @abstractmethod
    def measurement(self, scale: float, threshold: int | None = None) -> Any:
        """Return the OpenDP measurement of this scale."""

    @abstractmethod
    def distance(self, sensitivity: Sensitivity) -> Any:
        """Return the argument of the measurement's privacy map, in OpenDP's types."""

    def formula(self, sensitivity: Sensitivity, amount: float) -> float:
        """Return the scale at which the loss is about ``amount``: l1 / ε or l2 / √(2ρ)."""
        if self.loss == "epsilon":
            return sensitivity.l1 / amount
        return l2_up(sensitivity) / math.sqrt(2.0 * amount)

    @abstractmethod
    def draw(self, exact: Any, scale: float, threshold: int | None = None) -> Any:
        """Release an exact statistic, with noise from the operating system."""

    def price(self, sensitivity: Sensitivity, scale: float, threshold: int | None = None) -> Price:
        """Return the loss at that scale, from OpenDP's privacy map."""
        return Price(float(_map(self, scale, None, self.distance(sensitivity))))

    def scale(self, sensitivity: Sensitivity, amount: float) -> float:
        """Return the least scale, in grid units, at which the loss is at most ``amount``.

        It is rounded up. A PrivacyRefusal says that the amount is not positive and finite, or so
        small that the noise would not fit 64-bit integers. A statistic whose sensitivity is 0 costs
        nothing.
        """
        if not sensitivity.l1:
            return PUBLIC_SCALE
        if not (math.isfinite(amount) and amount > 0):
            raise PrivacyRefusal(f"a measurement cannot be charged {amount!r}.")
        scale = self.formula(sensitivity, amount)
        if not 0.0 < scale <= MAX_SCALE:
            raise PrivacyRefusal(
                f"an amount of {amount:.3g} needs noise of scale {scale:.3g} grid units, which "
                "is outside what 64-bit integers hold.",
                remedy="Give the measurement a larger share of the budget.",
            )
        step = math.ulp(scale)
        for _ in range(64):
            if self.price(sensitivity, scale).amount <= amount:
                return scale
            scale, step = scale + step, step * 2.0
        raise PrivacyRefusal(f"no scale of the mechanism costs at most {amount:.3g}.")


@dataclass(frozen=True, slots=True)
class Method:
    """How a question is answered: a mechanism with its scale, in grid units."""

    mechanism: Mechanism
    scale: float
    threshold: int | None = None  # smallest released count of a threshold release, in grid units
    public: Mechanism | None = None  # draws the public cells of such a release


# OpenDP's measurements have no state and, like the losses that they state, depend on public numbers
# alone. Both are cached, because a fit needs the same ones several times for every event.


@lru_cache(maxsize=2**8)
def _kept(mechanism: Mechanism, scale: float, threshold: int | None) -> Any:
    return mechanism.measurement(scale, threshold)


@lru_cache(maxsize=2**14)
def _map(mechanism: Mechanism, scale: float, threshold: int | None, distance: Any) -> Any:
    return _kept(mechanism, scale, threshold).map(distance)


# cells of a statistic -----------------------------------------------------------------------------


class VectorMechanism(Mechanism):
    """Adds independent noise to every cell of an integer vector, and releases the whole vector.

    *Discrete Laplace noise:* P(k) ∝ exp(−|k| / s) on the integers. Pure DP with ε = l1 / s: the
    likelihood ratio of one output between neighbours is at most exp(Σ|Δ_i| / s). Source: Ghosh,
    Roughgarden and Sundararajan (2009); sampler of Canonne, Kamath and Steinke (2020), exact;
    ``make_laplace`` of OpenDP.

    *Discrete Gaussian noise:* P(k) ∝ exp(−k² / 2σ²) on the integers. zCDP with ρ = l2² / 2σ²
    (Canonne, Kamath and Steinke 2020, Theorem 4 and its multivariate form); ``make_gaussian`` of
    OpenDP. Its variance is at most σ².
    """

    __slots__ = ()

    def measurement(self, scale: float, threshold: int | None = None) -> Any:
        """Return the measurement on vectors of i64: L1 and max divergence, or L2 and zCDP."""
        if self.loss == "epsilon":
            return measurements.make_laplace(vectors(), metrics.l1_distance(T="i64"), scale=scale)
        return measurements.make_gaussian(vectors(), metrics.l2_distance(T="f64"), scale=scale)

    def distance(self, sensitivity: Sensitivity) -> float:
        """Return l1, or l2 one rounding step up."""
        return sensitivity.l1 if self.loss == "epsilon" else l2_up(sensitivity)

    def sd(self, scale: float) -> float:
        """Return the standard deviation of the noise of one cell, in grid units.

        For Laplace noise it is √(2α) / (1 − α) with α = exp(−1/s). For Gaussian noise it is an
        upper bound: σ; below σ = 4 the exact sum over the distribution.
        """
        if self.loss == "epsilon":
            return math.sqrt(2.0 * math.exp(-1.0 / scale)) / -math.expm1(-1.0 / scale)
        if scale >= 4.0:
            return scale
        reach = np.arange(-64, 65, dtype=np.float64)
        law = np.exp(-(reach**2) / (2.0 * scale**2))
        return math.sqrt(float((law * reach**2).sum() / law.sum()))

    def draw(self, exact: Ints, scale: float, threshold: int | None = None) -> Ints:
        """Return the statistic plus noise, of the same shape.

        Noise is independent over cells, so drawing it in chunks is the same mechanism as drawing
        it at once; the price is that of the whole vector.
        """
        flat = clamp(exact).reshape(-1)
        parts = [flat[start : start + CHUNK] for start in range(0, flat.size, CHUNK)]
        drawn = spread(_kept(self, scale, None), parts)
        joined = [np.empty(0, np.int64), *(np.asarray(part, dtype=np.int64) for part in drawn)]
        return np.concatenate(joined).reshape(exact.shape)


# a largest score ----------------------------------------------------------------------------------


class SelectionMechanism(Mechanism):
    """Selects one index of a score vector; the loss depends on the largest change of one score.

    *Permute-and-flip* adds exponential noise of mean s to every score and releases the argmax. Pure
    DP with ε = 2·linf / s: OpenDP's map for scores that may move both ways. Proof: McKenna and
    Sheldon (2020), Theorem 1; noisy-max form of Ding et al. (2021). Never worse in expected error
    than the exponential mechanism at the same ε.

    *Gumbel noise* of scale s on every score, under zCDP: the law is that of the exponential
    mechanism, P(i) ∝ exp(score_i / s), which with ε = 2·linf/s has bounded range ε and so costs
    ρ = ε² / 8 (Cesar and Rogers 2021, Lemma 3.2).
    """

    __slots__ = ()

    def measurement(self, scale: float, threshold: int | None = None) -> Any:
        """Return ``make_noisy_max`` on vectors of i64, L∞ metric, not monotonic."""
        pure = self.loss == "epsilon"
        measure = measures.max_divergence() if pure else measures.zero_concentrated_divergence()
        metric = metrics.linf_distance(T="i64")
        return measurements.make_noisy_max(vectors(), metric, measure, scale=scale)

    def distance(self, sensitivity: Sensitivity) -> int:
        """Return the L∞ sensitivity."""
        return sensitivity.linf

    def draw(self, exact: Ints, scale: float, threshold: int | None = None) -> int:
        """Return the selected index into the scores."""
        return int(_kept(self, scale, None)(clamp(exact)))

    def formula(self, sensitivity: Sensitivity, amount: float) -> float:
        """Return the scale 2·linf / ε, or 2·linf / √(8ρ)."""
        return (
            2.0 * sensitivity.linf / (amount if self.loss == "epsilon" else math.sqrt(8.0 * amount))
        )


# labels of an unknown domain ----------------------------------------------------------------------


class Threshold(Mechanism):
    """Adds noise to the count of every label that occurs; releases labels that reach T.

    A stability mechanism: a label that no unit holds is never released, and one that a single unit
    holds is released with probability at most δ. Labels are replaced by their positions on the way
    through OpenDP. The mechanism treats every key alike and independently, so renaming keys by a
    bijection changes nothing.

    OpenDP 0.16 keeps a count that *equals* the threshold after noise, but its privacy map states
    the probability of passing it strictly (measured: δ is understated by the factor exp(1/s)). So a
    mechanism with threshold T is priced here by OpenDP's map at T − 1: on the integers "at least T"
    is "more than T − 1", and the statement is then exact. See docs/adr/privacy-threshold-price.md.

    *Discrete Laplace noise* of scale s: (ε, δ)-DP with ε = l1 / s and
    δ = 1 − (1 − P(linf + noise ≥ T))^l0: on labels that both neighbours hold it is the Laplace
    mechanism; the others, at most l0, are released with at most that probability. Source: Rogers
    (2023), unknown-domain algorithms; ``make_laplace_threshold`` of OpenDP with the correction
    above.

    *Discrete Gaussian noise* of scale σ: δ-approximate ρ-zCDP with ρ = l2² / 2σ² and δ as above,
    with the discrete Gaussian's tail bounded by the continuous one a step lower (Canonne, Kamath
    and Steinke 2020, Proposition 25). Approximate zCDP composes by adding ρ and δ apart (Bun and
    Steinke 2016, Lemma 8.2).
    """

    __slots__ = ()

    def measurement(self, scale: float, threshold: int | None = None) -> Any:
        """Return the measurement on maps from label to i64, with approximate divergences.

        Its metric is L0·L1·L∞ or L0·L2·L∞.
        """
        labels = domains.map_domain(domains.atom_domain(T=str), domains.atom_domain(T="i64"))
        if self.loss == "epsilon":
            metric = metrics.l01inf_distance(metrics.absolute_distance(T="i64"))
            make = measurements.make_laplace_threshold
        else:
            metric = metrics.l02inf_distance(metrics.absolute_distance(T="f64"))
            make = measurements.make_gaussian_threshold
        return make(labels, metric, scale=scale, threshold=threshold)

    def distance(self, sensitivity: Sensitivity) -> tuple[Any, Any, Any]:
        """Return (l0, l1, linf), or (l0, l2 one rounding step up, linf)."""
        if self.loss == "epsilon":
            return sensitivity.l0, sensitivity.l1, sensitivity.linf
        return sensitivity.l0, l2_up(sensitivity), float(sensitivity.linf)

    def price(self, sensitivity: Sensitivity, scale: float, threshold: int | None = None) -> Price:
        """Return ε or ρ, and δ, by OpenDP's map at ``threshold`` − 1.

        Δ is 0 without a threshold.
        """
        below = MAX_THRESHOLD if threshold is None else threshold - 1
        if sensitivity.l0 is None:
            raise PrivacyRefusal("a threshold release needs a bound on the labels of one unit.")
        if below < sensitivity.linf:
            raise PrivacyRefusal("a threshold must pass what one privacy unit can add to a label.")
        amount, delta = _map(self, scale, below, self.distance(sensitivity))
        return Price(float(amount), 0.0 if threshold is None else float(delta))

    def threshold(self, sensitivity: Sensitivity, scale: float, delta: float) -> int:
        """Return the least threshold whose δ is at most ``delta``; higher ones have smaller δ.

        A ``delta`` that is 0, or too small for double precision, is refused.
        """
        candidates = range(sensitivity.linf + 1, MAX_THRESHOLD)

        def gain(at: int) -> float:
            return -self.price(sensitivity, scale, candidates[at]).delta

        # Continuous noise has nearly the same threshold: the search widens from there.
        tail = min(max(delta / (sensitivity.l0 or 1), 1e-300), 0.5)
        quantile = -NormalDist().inv_cdf(tail) if self.loss == "rho" else -math.log(2 * tail)
        near, reach, last = round(quantile * scale), 1, len(candidates) - 1
        low = high = min(near, last)
        while low > 0 and gain(low) >= -delta:
            low, reach = max(low - reach, 0), reach * 16
        while high < last and gain(high) < -delta:
            high, reach = min(high + reach, last), reach * 16
        at = bisect_left(range(len(candidates)), -delta, low, high + 1, key=gain)
        if at > last:
            raise PrivacyRefusal(
                f"no threshold releases categories at delta {delta:.3g}.",
                remedy="Raise delta, declare the list of values, or make the column free text.",
            )
        return candidates[at]

    def draw(
        self, exact: Mapping[str, int], scale: float, threshold: int | None = None
    ) -> dict[str, int]:
        """Return the released labels, sorted, with their noisy counts."""
        if threshold is None:
            raise ValueError("a threshold release needs its threshold")
        labels = list(exact)
        keyed = {str(i): min(int(exact[label]), CLAMP) for i, label in enumerate(labels)}
        released = _kept(self, scale, threshold)(keyed) if keyed else {}
        return dict(sorted((labels[int(key)], int(count)) for key, count in released.items()))


# the mechanism for each task under each accounting ------------------------------------------------

VECTOR: dict[Accounting, VectorMechanism] = {
    "pure": VectorMechanism("discrete_laplace", "epsilon"),
    "zcdp": VectorMechanism("discrete_gaussian", "rho"),
}
SELECTION: dict[Accounting, SelectionMechanism] = {
    "pure": SelectionMechanism("noisy_max", "epsilon"),
    "zcdp": SelectionMechanism("noisy_max_gumbel", "rho"),
}
THRESHOLD: dict[Accounting, Threshold] = {
    "pure": Threshold("laplace_threshold", "epsilon"),
    "zcdp": Threshold("gaussian_threshold", "rho"),
}

#: Every mechanism by its name.
MECHANISMS: dict[MechanismName, Mechanism] = {
    mechanism.name: mechanism
    for task in (VECTOR, SELECTION, THRESHOLD)
    for mechanism in task.values()
}


def clamp(values: Ints) -> Ints:
    """Return the values limited to ±2⁶¹, which is 1-Lipschitz in every norm."""
    return np.clip(values, -CLAMP, CLAMP).astype(np.int64, casting="same_kind", copy=False)


@lru_cache(maxsize=1)
def vectors() -> Any:
    """Return OpenDP's domain of vectors of i64."""
    return domains.vector_domain(domains.atom_domain(T="i64"))


def l2_up(sensitivity: Sensitivity) -> float:
    """Return the L2 sensitivity one rounding step up, but at most the L1 sensitivity one step up.

    The step up ensures that a square root that was rounded down cannot lower a price.
    """
    least = min(sensitivity.l2, float(sensitivity.l1))
    return math.nextafter(least, math.inf) if sensitivity.l1 else 0.0
