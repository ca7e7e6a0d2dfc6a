"""Selection: the index of a largest score, by noisy max on integers."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, ClassVar, Literal

from opendp import measurements, measures, metrics

from privbench.errors import PrivacyRefusal
from privbench.privacy.events import Loss
from privbench.privacy.mechanisms import (
    KEPT_LOSSES,
    KEPT_MEASUREMENTS,
    Integers,
    Mechanism,
    Price,
    clamp,
    vectors,
)
from privbench.privacy.query import Sensitivity


@lru_cache(maxsize=KEPT_MEASUREMENTS)
def _noisy_max(loss: Loss, scale: float) -> Any:
    measure = (
        measures.max_divergence() if loss == "epsilon" else measures.zero_concentrated_divergence()
    )
    return measurements.make_noisy_max(
        vectors(), metrics.linf_distance(T="i64"), measure, scale=scale
    )


@lru_cache(maxsize=KEPT_LOSSES)
def _noisy_max_loss(loss: Loss, linf: int, scale: float) -> float:
    return float(_noisy_max(loss, scale).map(linf))


class Selection(Mechanism):
    """Selects one index of a score vector; charged by the largest change of one score."""

    #: Law of the noise added to the scores.
    noise: ClassVar[Literal["exponential", "gumbel"]]

    def measurement(self, scale: float) -> Any:
        """OpenDP's ``make_noisy_max`` on vectors of i64, L∞ metric, not monotonic."""
        return _noisy_max(self.loss, scale)

    def price(self, sensitivity: Sensitivity, scale: float, threshold: int | None = None) -> Price:
        """OpenDP's privacy map at ``sensitivity.linf``."""
        return Price(_noisy_max_loss(self.loss, sensitivity.linf, scale))

    def draw(self, scores: Integers, scale: float) -> int:
        """An index into ``scores``.

        Raises:
            PrivacyRefusal: There is nothing to select from.
        """
        if scores.size == 0:
            raise PrivacyRefusal("a selection needs at least one candidate.")
        return int(self.measurement(scale)(clamp(scores)))


class NoisyMax(Selection):
    """Permute-and-flip: adds exponential noise of mean s to every score, releases the argmax.

    Pure DP with ε = 2·linf / s: OpenDP's map for scores that may move both ways. Proof: McKenna
    and Sheldon (2020), Theorem 1; noisy-max form of Ding et al. (2021). Never worse in expected
    error than the exponential mechanism at the same ε.
    """

    name = "noisy_max"
    loss = "epsilon"
    noise = "exponential"

    def formula(self, sensitivity: Sensitivity, amount: float) -> float:
        """2·linf / ε."""
        return 2.0 * sensitivity.linf / amount


class NoisyMaxGumbel(Selection):
    """Adds Gumbel noise of scale s to every score, releases the argmax.

    The law is that of the exponential mechanism, P(i) ∝ exp(score_i / s), which with ε = 2·linf/s
    has bounded range ε and so costs ρ = ε² / 8 (Cesar and Rogers 2021, Lemma 3.2).
    """

    name = "noisy_max_gumbel"
    loss = "rho"
    noise = "gumbel"

    def formula(self, sensitivity: Sensitivity, amount: float) -> float:
        """2·linf / √(8ρ)."""
        return 2.0 * sensitivity.linf / math.sqrt(8.0 * amount)
