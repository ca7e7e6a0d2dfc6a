"""The distribution of the noise, significance thresholds for counts, and monotone regression."""

from math import erfc, sqrt
from typing import Literal

import numpy as np

from privbench.arrays import Floats

#: A count of at least this many standard deviations of noise is taken to be more than noise: that a
#: column has values beyond its range, that a table has rows without an owner, or that cells of a
#: range are no gap. With half of it, noise alone gives one column in forty such values, and one
#: table in six such rows.
PRESENT = 2.0
#: A difference of at least this many standard deviations is significant: of a measured pair from
#: its prediction (chi-squared), or of a column's numbers from numbers with few decimals. Half:
#: small trees get false pairs; double: effects at a thousand units are lost.
SIGNIFICANT = 2.5
#: A count of at least this many standard deviations of noise is surely more than noise. Half or
#: double: not measured.
SURE = 4.0
#: The law (distribution) of the noise.
Noise = Literal["laplace", "gaussian"]
#: Any cell among many of at least this many standard deviations of noise is surely more than noise:
#: one table in a thousand has such a cell by noise alone. At 4 for Laplace noise: one table in
#: twenty gets units of very many rows, and flat columns of 500 cells are off by .213 for .189
#: (TVD).
CLEAR: dict[Noise, float] = {"laplace": 7.5, "gaussian": 4.5}


def noise_law(accounting: str) -> Noise:
    """Return the noise that a session adds: Laplace under pure ε, Gaussian under zCDP."""
    return "laplace" if accounting == "pure" else "gaussian"


def normal_below(values: Floats) -> Floats:
    """Return the part of a standard normal distribution below each value; of the same shape.

    >>> normal_below(np.array([0.0, 1.96])).round(3).tolist()
    [0.5, 0.975]
    """
    shares = [erfc(value) / 2 for value in (-values / sqrt(2)).ravel().tolist()]
    return np.array(shares).reshape(values.shape)


def falling(values: Floats, weights: Floats) -> Floats:
    """Return the nearest non-increasing sequence by weighted least squares.

    The algorithm is pool adjacent violators. SciPy's ``isotonic_regression`` gives the same
    numbers, from a package that takes longer to import than a small fit takes to learn.

    >>> falling(np.array([4.0, 1.0, 3.0, 0.0]), np.ones(4)).tolist()
    [4.0, 2.0, 2.0, 0.0]
    """
    blocks: list[tuple[float, float, int]] = []
    for mean, weight in zip(values[::-1].tolist(), weights[::-1].tolist(), strict=True):
        cells = 1
        while blocks and blocks[-1][0] >= mean:
            below, mass, more = blocks.pop()
            mean = (mean * weight + below * mass) / (weight + mass)
            weight, cells = weight + mass, cells + more
        blocks.append((mean, weight, cells))
    means, _, counts = zip(*reversed(blocks), strict=True) if blocks else ((), (), ())
    return np.repeat(np.array(means), np.array(counts, np.int64))
