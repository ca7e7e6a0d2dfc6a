"""How counts fall off from a largest one on: a concave curve in the logarithm, fitted robustly.

The fit is asked for every column and every fan-out. It has three parameters, so that a general
solver spends nearly all of its time on the way to them: cost and slope are kernels of their own.
The descent is not one: to compile its linear algebra takes longer than thousands of descents.
"""

from __future__ import annotations

import numba
import numpy as np

from privbench.learning.denoise import Floats

#: How far the fitted curve itself may be off, relative to its value.
CURVE_ERROR = 0.3
#: Steps of the descent at most; relative gain of a step that is the last; damping that ends it.
_STEPS, _GAIN, _STIFF = 200, 1e-10, 1e12


def concave(
    tail: Floats, sd: float, place: Floats | None = None, widths: Floats | None = None
) -> Floats:
    """A concave quadratic's exponential in the bucket's place, by robust least squares.

    Args:
        tail: Noisy counts from the largest one on, shape (buckets,).
        sd: Standard deviation of the noise, above 0.
        place: Place of every bucket, from 0 to 1; missing means by its number.
        widths: Width of every bucket, the first 1, which its count grows with; missing means 1.

    Returns:
        The curve, positive, shape (buckets,).
    """
    place = np.arange(len(tail)) / max(len(tail) - 1, 1) if place is None else place
    wide = np.zeros(len(tail)) if widths is None else np.log(widths)
    first = np.log(max(float(tail[0]), sd, 1.0))
    weights = 1.0 / np.sqrt(sd * sd + (CURVE_ERROR * np.maximum(tail, 0)) ** 2)
    basis = np.stack([np.ones(len(tail)), place, -(place**2), wide])
    low, high = np.array([-5.0, -60.0, 0.0]), np.array([first + 5, 5.0, 60.0])
    start = np.clip(np.array([first, -3.0, 1.0]), low, high)
    found = _descend(basis, np.asarray(tail, np.float64), weights, low, high, start)
    return np.asarray(np.exp(np.clip(found @ basis[:3] + wide, -50, 50)))


@numba.njit(cache=True)
def _cost(basis, tail, weights, at):  # type: ignore[no-untyped-def]
    """Sum of √(1 + z²) − 1 over the weighted differences z."""
    cost = 0.0
    for cell in range(len(tail)):
        value = at[0] * basis[0, cell] + at[1] * basis[1, cell] + at[2] * basis[2, cell]
        value += basis[3, cell]
        z = (tail[cell] - np.exp(min(max(value, -50.0), 50.0))) * weights[cell]
        cost += np.sqrt(1.0 + z * z) - 1.0
    return cost


@numba.njit(cache=True)
def _normal(basis, tail, weights, at, slope, bend):  # type: ignore[no-untyped-def]
    """Gradient and Gauss-Newton matrix of the cost, into ``slope`` and ``bend``."""
    slope[:] = 0.0
    bend[:] = 0.0
    for cell in range(len(tail)):
        value = at[0] * basis[0, cell] + at[1] * basis[1, cell] + at[2] * basis[2, cell]
        value += basis[3, cell]
        height = np.exp(min(max(value, -50.0), 50.0)) * weights[cell]
        z = tail[cell] * weights[cell] - height
        trust = 1.0 / np.sqrt(1.0 + z * z)
        for i in range(3):
            step = height * basis[i, cell]
            slope[i] -= trust * z * step
            for j in range(3):
                bend[i, j] += trust * step * height * basis[j, cell]


def _descend(
    basis: Floats, tail: Floats, weights: Floats, low: Floats, high: Floats, start: Floats
) -> Floats:
    """Levenberg's damped steps; a parameter at its bound that would leave stays there."""
    at, damping = start.copy(), 1e-3
    slope, bend = np.empty(3), np.empty((3, 3))
    cost = _cost(basis, tail, weights, at)
    _normal(basis, tail, weights, at, slope, bend)
    for _ in range(_STEPS):
        matrix, side = bend.copy(), -slope
        for i in range(3):
            stuck = (at[i] <= low[i] and side[i] < 0.0) or (at[i] >= high[i] and side[i] > 0.0)
            if stuck:
                matrix[i, :] = 0.0
                matrix[:, i] = 0.0
                side[i] = 0.0
            matrix[i, i] += damping * max(matrix[i, i], 1e-9) + 1e-12
            if stuck:
                matrix[i, i] = 1.0
        after = np.minimum(np.maximum(at + np.linalg.solve(matrix, side), low), high)
        reached = _cost(basis, tail, weights, after)
        if reached < cost:
            small = cost - reached <= _GAIN * cost
            at, cost, damping = after, reached, max(damping / 5.0, 1e-9)
            if small:
                break
            _normal(basis, tail, weights, at, slope, bend)
        else:
            damping *= 4.0
            if damping > _STIFF:
                break
    return at
