"""Logarithms, exponentials and normal quantiles that are the same on every processor.

Those of NumPy and SciPy are not, in their last digit. These are sums, products, quotients and
roots, which IEEE 754 rounds alike everywhere. Products of matrices add in an order of the
processor's own, without rounding where all numbers are on a grid.
"""

from collections.abc import Iterable
from math import factorial

import numpy as np

from privbench.arrays import Floats

_LOG_2, _ROOT_HALF = 0.6931471805599453, 0.7071067811865476
#: Coefficients of falling powers, up to 10⁻¹² of the result: of (artanh √x)/√x, and of eˣ.
_ARTANH = [1 / (2 * term + 1) for term in reversed(range(7))]
_EXP = [1 / factorial(term) for term in reversed(range(11))]
#: Of the normal quantile over the logit, by (1 + logit²/8)^-¼; fitted to an error below .00002.
_QUANTILE = (0.2628841, -0.9640406, 1.4029460, -1.0412096, 0.1508007, 0.8134700, 0.0018422)


def _polynomial(values: Floats, coefficients: Iterable[float]) -> Floats:
    total = np.zeros(np.shape(values))
    for coefficient in coefficients:
        total *= values
        total += coefficient
    return total


def log(values: Floats) -> Floats:
    """Return natural logarithms; numbers below 2⁻⁶⁰ count as that.

    >>> log(np.array([2.0, 10.0])).round(9).tolist()
    [0.693147181, 2.302585093]
    """
    part, power = np.frexp(np.maximum(values, 2.0**-60))
    ratio = (part - _ROOT_HALF) / (part + _ROOT_HALF)
    return 2.0 * ratio * _polynomial(ratio * ratio, _ARTANH) + (power - 0.5) * _LOG_2


def exp(values: Floats) -> Floats:
    """Return exponentials of numbers, which are clipped to ±700.

    >>> exp(np.array([0.0, -2.0, -1e9])).round(9).tolist()
    [1.0, 0.135335283, 0.0]
    """
    values = np.clip(values, -700.0, 700.0)
    power = np.rint(values / _LOG_2)
    rest = values - power * _LOG_2
    return np.asarray(np.ldexp(_polynomial(rest, _EXP), power.astype(np.int32)))


def normal_quantile(shares: Floats) -> Floats:
    """Return quantiles of the standard normal distribution.

    >>> normal_quantile(np.array([0.5, 0.975, 1e-9])).round(3).tolist()
    [0.0, 1.96, -5.998]
    """
    logit = log(shares / np.maximum(1.0 - shares, 2.0**-60))
    return logit * _polynomial(1.0 / np.sqrt(np.sqrt(1.0 + logit * logit / 8.0)), _QUANTILE)


def on_grid(values: Floats) -> Floats:
    """Return the nearest multiples of 2⁻³⁰; sums of them below 2²³ are exact."""
    return np.asarray(np.rint(values * 2.0**30) / 2.0**30)
