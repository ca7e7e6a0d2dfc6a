"""Logarithms, exponentials and normal quantiles that are the same on every processor.

Those of NumPy and SciPy are not, in their last digit. These are sums, products, quotients and
roots, which IEEE 754 rounds alike everywhere. Products of matrices add in an order of the
processor's own, without rounding where all numbers are on a grid.
"""

import numpy as np

from privbench.arrays import Floats

_LOG_2, _ROOT_HALF = 0.6931471805599453, 0.7071067811865476
#: Terms of the series; the rest is below 10⁻¹² of the result.
_LOG_TERMS, _EXP_TERMS = 7, 11
#: Coefficients of falling powers of (1 + logit²/8)^-¼, fitted to quantiles over their logits.
_QUANTILE = (0.2628841, -0.9640406, 1.4029460, -1.0412096, 0.1508007, 0.8134700, 0.0018422)


def log(values: Floats) -> Floats:
    """Return natural logarithms; numbers below 2⁻⁶⁰ count as 2⁻⁶⁰.

    >>> log(np.array([2.0, 10.0])).round(9).tolist()
    [0.693147181, 2.302585093]
    """
    part, power = np.frexp(np.maximum(values, 2.0**-60))
    ratio = (part - _ROOT_HALF) / (part + _ROOT_HALF)
    square, series = ratio * ratio, np.zeros(np.shape(part))
    for term in reversed(range(_LOG_TERMS)):
        series *= square
        series += 1.0 / (2 * term + 1)
    return np.asarray(2.0 * ratio * series + (power - 0.5) * _LOG_2)


def exp(values: Floats) -> Floats:
    """Return exponentials; numbers beyond ±700 count as ±700.

    >>> exp(np.array([0.0, -2.0, -1e9])).round(9).tolist()
    [1.0, 0.135335283, 0.0]
    """
    values = np.clip(values, -700.0, 700.0)
    power = np.rint(values / _LOG_2)
    rest, series = values - power * _LOG_2, np.ones(np.shape(values))
    for term in reversed(range(1, _EXP_TERMS)):
        series *= rest
        series /= term
        series += 1.0
    return np.asarray(np.ldexp(series, power.astype(np.int32)))


def normal_quantile(shares: Floats) -> Floats:
    """Return quantiles of the standard normal distribution, with an error below .00002.

    >>> normal_quantile(np.array([0.5, 0.975, 1e-9])).round(3).tolist()
    [0.0, 1.96, -5.998]
    """
    logit = log(shares) - log(1.0 - shares)
    base = 1.0 / np.sqrt(np.sqrt(1.0 + logit * logit / 8.0))
    found = np.zeros(np.shape(logit))
    for coefficient in _QUANTILE:
        found *= base
        found += coefficient
    return np.asarray(found * logit)


def on_grid(values: Floats) -> Floats:
    """Return the nearest multiples of 2⁻³⁰; sums of them below 2²³ are exact."""
    return np.asarray(np.rint(values * 2.0**30) / 2.0**30)
