"""Floats as integers that keep their order, and floats within cells of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privbench.encoding.scale import Points

_FLIP = np.int64(2**63 - 1)


def image(values: NDArray[np.float64]) -> Points:
    """An int64 for every finite float that keeps their order.

    >>> bool(np.all(np.diff(image(np.array([-2.5, -1e-300, -0.0, 3.0]))) > 0))
    True
    """
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ _FLIP, bits)


def value(points: Points) -> NDArray[np.float64]:
    """The floats of such images."""
    points = np.asarray(points, dtype=np.int64)
    return np.where(points < 0, points ^ _FLIP, points).view(np.float64)


def single(
    values: NDArray[np.float64], lows: NDArray[np.float64], highs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The nearest 32-bit floats inside the cells, where there are any."""
    near = values.astype(np.float32)
    inward = np.where(near >= highs, -np.inf, np.inf).astype(np.float32)
    outside = (near >= highs) | (near < lows)
    return np.where(outside, np.nextafter(near, inward), near).astype(np.float64)


def rounded_to(values: NDArray[np.float64], widths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values rounded to the power of ten that is at most 1/1000 of the widths."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        digits = 3 - np.floor(np.log10(widths))
        up = 10.0 ** np.clip(digits, 0, 300)
        down = 10.0 ** np.clip(-digits, 0, 300)
        rounded: NDArray[np.float64] = np.rint(values * up / down) / up * down
    return rounded
