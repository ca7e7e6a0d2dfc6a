"""Threshold releases: the labels whose noisy count passes a threshold.

A stability mechanism: a label that no unit holds is never released, and a label that a single
unit holds is released with probability at most δ.

OpenDP 0.16 keeps a count that *equals* the threshold after noise, but its privacy map states the
probability of passing it strictly (measured: δ is understated by the factor exp(1/s)). So a
mechanism with threshold T is priced here by OpenDP's map at T − 1: on the integers "at least T" is
"more than T − 1", and the statement is then exact. See docs/adr/privacy-threshold-price.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from opendp import domains, measurements, metrics

from privbench.errors import PrivacyRefusal
from privbench.privacy.mechanisms import CLAMP, KEPT_LOSSES, Mechanism, Price, l2_up
from privbench.privacy.query import Sensitivity

#: No threshold lies above this.
_HIGHEST = 2**50


class Threshold(Mechanism):
    """Adds noise to the count of every label that occurs; releases labels that reach T.

    Labels are replaced by their positions on the way through OpenDP. The mechanism treats every
    key alike and independently, so renaming keys by a bijection changes nothing.
    """

    @abstractmethod
    def measurement(self, scale: float, threshold: int) -> Any:
        """OpenDP's measurement on maps from label to i64."""

    @abstractmethod
    def distance(self, sensitivity: Sensitivity) -> tuple[Any, Any, Any]:
        """(l0, l1 or l2, linf) in OpenDP's types."""

    def price(self, sensitivity: Sensitivity, scale: float, threshold: int | None = None) -> Price:
        """(ε or ρ, δ) by OpenDP's map at ``threshold`` − 1; without one, δ is left out."""
        below = _HIGHEST if threshold is None else threshold - 1
        if below < sensitivity.linf:
            raise PrivacyRefusal("a threshold must pass what one privacy unit can add to a label.")
        amount, delta = _losses(type(self), scale, below, self.distance(sensitivity))
        return Price(amount, 0.0 if threshold is None else delta)

    def threshold(self, sensitivity: Sensitivity, scale: float, delta: float) -> int:
        """The least threshold whose δ is at most ``delta``.

        Raises:
            PrivacyRefusal: δ is 0 or below what can be stated in double precision.
        """
        low = sensitivity.linf + 1
        if self.price(sensitivity, scale, low).delta <= delta:
            return low
        high = 2 * low
        while self.price(sensitivity, scale, high).delta > delta:
            high *= 2
            if high > _HIGHEST:
                raise PrivacyRefusal(
                    f"no threshold releases categories at delta {delta:.3g}.",
                    remedy="Raise delta, declare the list of values, or make the column free text.",
                )
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            if self.price(sensitivity, scale, middle).delta <= delta:
                high = middle
            else:
                low = middle
        return high

    def draw(self, counts: Mapping[str, int], scale: float, threshold: int) -> dict[str, int]:
        """The released labels, sorted, with their noisy counts."""
        labels = list(counts)
        keyed = {str(i): min(int(counts[label]), CLAMP) for i, label in enumerate(labels)}
        if not keyed:
            return {}
        kept = self.measurement(scale, threshold)(keyed)
        return dict(sorted((labels[int(key)], int(count)) for key, count in kept.items()))


class LaplaceThreshold(Threshold):
    """Discrete Laplace noise of scale s on counts, threshold T.

    (ε, δ)-DP with ε = l1 / s and δ = 1 − (1 − P(linf + noise ≥ T))^l0: on labels that both
    neighbours hold it is the Laplace mechanism; the others, at most l0, are released with at most
    that probability. Source: Rogers (2023), unknown-domain algorithms; ``make_laplace_threshold``
    of OpenDP with the correction above.
    """

    name = "laplace_threshold"
    loss = "epsilon"

    def measurement(self, scale: float, threshold: int) -> Any:
        """OpenDP's measurement, L0·L1·L∞ metric, approximate max divergence."""
        metric = metrics.l01inf_distance(metrics.absolute_distance(T="i64"))
        return measurements.make_laplace_threshold(
            _maps(), metric, scale=scale, threshold=threshold
        )

    def distance(self, sensitivity: Sensitivity) -> tuple[Any, Any, Any]:
        """(l0, l1, linf)."""
        return _l0(sensitivity), sensitivity.l1, sensitivity.linf

    def formula(self, sensitivity: Sensitivity, amount: float) -> float:
        """l1 / ε."""
        return sensitivity.l1 / amount


class GaussianThreshold(Threshold):
    """Discrete Gaussian noise of scale σ on counts, threshold T.

    δ-approximate ρ-zCDP with ρ = l2² / 2σ² and δ as above, with the discrete Gaussian's tail
    bounded by the continuous one a step lower (Canonne, Kamath and Steinke 2020, Proposition 25).
    Approximate zCDP composes by adding ρ and δ apart (Bun and Steinke 2016, Lemma 8.2).
    """

    name = "gaussian_threshold"
    loss = "rho"

    def measurement(self, scale: float, threshold: int) -> Any:
        """OpenDP's measurement, L0·L2·L∞ metric, approximate zero-concentrated divergence."""
        metric = metrics.l02inf_distance(metrics.absolute_distance(T="f64"))
        return measurements.make_gaussian_threshold(
            _maps(), metric, scale=scale, threshold=threshold
        )

    def distance(self, sensitivity: Sensitivity) -> tuple[Any, Any, Any]:
        """(l0, l2 one rounding step up, linf)."""
        return _l0(sensitivity), l2_up(sensitivity), float(sensitivity.linf)

    def formula(self, sensitivity: Sensitivity, amount: float) -> float:
        """l2 / √(2ρ)."""
        return l2_up(sensitivity) / math.sqrt(2.0 * amount)


@lru_cache(maxsize=KEPT_LOSSES)
def _losses(
    kind: type[Threshold], scale: float, threshold: int, distance: tuple[Any, Any, Any]
) -> tuple[float, float]:
    amount, delta = kind().measurement(scale, threshold).map(distance)
    return float(amount), float(delta)


def _maps() -> Any:
    return domains.map_domain(domains.atom_domain(T=str), domains.atom_domain(T="i64"))


def _l0(sensitivity: Sensitivity) -> int:
    if sensitivity.l0 is None:
        raise PrivacyRefusal("a threshold release needs a bound on the labels of one unit.")
    return sensitivity.l0
