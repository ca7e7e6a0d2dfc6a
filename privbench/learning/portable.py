"""Logarithms, exponentials and normal quantiles that are the same on every processor.

Those of NumPy and SciPy may differ in the last digit between two processors, and among millions of
draws that makes a few others. Here all is made of sums, products, quotients and square roots, which
IEEE 754 rounds alike everywhere, one after the other. The sums in a product of matrices are taken
in an order that no one promises: they are exact if its factors are on a grid (`on_grid`).
"""

from __future__ import annotations

import numpy as np

from privbench.arrays import Floats

#: What a logarithm is taken of at least: no number that is drawn lies between it and 0.
LEAST = 2.0**-60
#: Exponents beyond which an exponential is no ordinary number.
_LOWEST, _HIGHEST = -700.0, 700.0
_LOG_2, _ROOT_HALF = 0.6931471805599453, 0.7071067811865476
#: Terms after which the series end: what follows is below 10⁻¹² of the result.
_LOG_TERMS, _EXP_TERMS = 7, 11
#: Of the normal quantile over the logit: coefficients of falling powers of (1 + logit²/8)^-¼, which
#: were fitted so that the quantile is off by less than .00002.
_QUANTILE = (0.2628841, -0.9640406, 1.4029460, -1.0412096, 0.1508007, 0.8134700, 0.0018422)
#: Parts of 1 that lie on a grid.
_GRID = 2.0**30


def log(values: Floats) -> Floats:
    """Natural logarithms of numbers, which count as `LEAST` at least.

    >>> log(np.array([2.0, 10.0])).round(9).tolist()
    [0.693147181, 2.302585093]
    """
    part, power = np.frexp(np.maximum(values, LEAST))
    ratio = (part - _ROOT_HALF) / (part + _ROOT_HALF)
    square, series = ratio * ratio, np.zeros(np.shape(part))
    for term in reversed(range(_LOG_TERMS)):
        series *= square
        series += 1.0 / (2 * term + 1)
    return np.asarray(2.0 * ratio * series + (power - 0.5) * _LOG_2)


def exp(values: Floats) -> Floats:
    """Exponentials of numbers, which are taken to be between ±700.

    >>> exp(np.array([0.0, -2.0, -1e9])).round(9).tolist()
    [1.0, 0.135335283, 0.0]
    """
    values = np.clip(values, _LOWEST, _HIGHEST)
    power = np.rint(values / _LOG_2)
    rest, series = values - power * _LOG_2, np.ones(np.shape(values))
    for term in reversed(range(1, _EXP_TERMS)):
        series *= rest
        series /= term
        series += 1.0
    return np.asarray(np.ldexp(series, power.astype(np.int32)))


def normal_quantile(shares: Floats) -> Floats:
    """Quantiles of the standard normal law, to four decimals.

    >>> normal_quantile(np.array([0.5, 0.975, 1e-9])).round(3).tolist()
    [0.0, 1.96, -5.998]
    """
    logit = log(shares) - log(1.0 - shares)
    base, found = 1.0 / np.sqrt(np.sqrt(1.0 + logit * logit / 8.0)), np.zeros(np.shape(logit))
    for coefficient in _QUANTILE:
        found *= base
        found += coefficient
    return np.asarray(found * logit)


def on_grid(values: Floats) -> Floats:
    """The nearest multiples of 2⁻³⁰, sums of which are exact as long as they are below 2²³."""
    return np.asarray(np.rint(values * _GRID) / _GRID)
