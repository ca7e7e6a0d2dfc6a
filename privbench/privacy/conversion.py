"""Between ρ of zero-concentrated DP and (ε, δ): OpenDP's conversion, and its inverse.

OpenDP's ``make_zCDP_to_approxDP`` is the tight conversion of Canonne, Kamath and Steinke (2020),
Corollary 13. It is asked through a Gaussian of scale 1, whose privacy map is ρ = d² / 2.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from opendp import combinators, domains, measurements, metrics, mod

from privbench.errors import PrivacyRefusal

mod.enable_features("contrib")


@lru_cache(maxsize=1)
def _gaussian() -> Any:
    domain = domains.vector_domain(domains.atom_domain(T="i64"))
    return measurements.make_gaussian(domain, metrics.l2_distance(T="f64"), scale=1.0)


@lru_cache(maxsize=1)
def _converted() -> Any:
    return combinators.make_zCDP_to_approxDP(_gaussian())


@lru_cache(maxsize=4096)
def epsilon_for(rho: float, delta: float) -> float:
    """The least ε that OpenDP states for ρ-zCDP at δ.

    Args:
        rho: At least 0.
        delta: Above 0 unless ``rho`` is 0.

    Raises:
        PrivacyRefusal: δ is not in (0, 1).
    """
    if rho == 0.0:
        return 0.0
    if not 0.0 < delta < 1.0:
        raise PrivacyRefusal("zCDP needs a delta between 0 and 1 for its conversion.")
    distance = math.sqrt(2.0 * rho)
    while float(_gaussian().map(distance)) < rho:
        distance = math.nextafter(distance, math.inf)
    return float(_converted().map(distance).epsilon(delta))


@lru_cache(maxsize=256)
def rho_for(epsilon: float, delta: float) -> float:
    """The largest ρ, to 12 digits and from below, with ``epsilon_for(rho, delta) <= epsilon``.

    Raises:
        PrivacyRefusal: ε is not positive, or δ is not in (0, 1).
    """
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise PrivacyRefusal("epsilon must be a positive number.")
    low, high = 0.0, epsilon
    while epsilon_for(high, delta) <= epsilon:
        low, high = high, 2.0 * high
    for _ in range(200):
        middle = (low + high) / 2.0
        if epsilon_for(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
        if high - low <= 1e-12 * high:
            break
    if low <= 0.0:
        raise PrivacyRefusal("epsilon is too small for any measurement at this delta.")
    return low
