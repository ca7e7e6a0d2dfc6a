"""Pair tables from noisy pair tables: shrunk toward a prediction, then fitted to known margins.

Post-processing, free of charge. A cell is its prediction times a ratio; the law of the ratios is
learned from all cells by expectation maximisation, in strata of how large the prediction is against
the noise: strong cells need fine grids of ratios, weak ones wide ones.
"""

from __future__ import annotations

from math import ceil, log

import numpy as np

from privbench.learning.denoise import Floats, Noise, log_likelihoods

_ROUNDS = 25
_PSEUDO = 3.0
#: A cell beyond its largest ratio follows the measurement from this many noise scales on.
_CLEAR = 6.0


def _grid(low: float, high: float, step: float, *tails: float) -> Floats:
    count = ceil(log(high / low) / step) + 1
    return np.concatenate([tails, np.exp(np.linspace(log(low), log(high), count))])


#: Predictions in noise scales up to which a stratum reaches, and its ratios.
_STRATA: tuple[tuple[float, Floats], ...] = (
    (0.3, _grid(0.02, 50, 0.245, 0.003)),
    (1.0, _grid(0.02, 50, 0.245, 0.003)),
    (3.0, _grid(0.02, 30, 0.2, 0.003)),
    (8.0, _grid(0.03, 12, 0.1, 0.003)),
    (25.0, _grid(0.03, 8, 0.045, 0.003, 0.01)),
    (80.0, _grid(0.05, 5, 0.018, 0.001, 0.003, 0.01, 0.02)),
)


def shrink(noisy: Floats, prediction: Floats, scale: float, noise: Noise) -> Floats:
    """Posterior mean of the cells of a table, given its noisy cells and a released prediction.

    Args:
        noisy: Noisy counts, any shape.
        prediction: Predicted counts of the same shape.
        scale: Scale of the noise (Laplace: mean deviation; Gaussian: standard deviation), above 0.
        noise: Law of the noise.

    Returns:
        Counts of the same shape, above 0. Cells far above the noise follow the measurement.
    """
    base = np.maximum(prediction, 1e-9)
    out = np.maximum(noisy, 0.01 * base)
    strength = base / scale
    low = -1.0
    for high, ratios in _STRATA:
        cells = (strength > low) & (strength <= high)
        low = high
        if cells.any():
            found = base[cells] * _posterior(noisy[cells] / scale, strength[cells], ratios, noise)
            clear = noisy[cells] > np.maximum(0.9 * ratios[-1] * base[cells], _CLEAR * scale)
            out[cells] = np.where(clear, noisy[cells], found)
    return np.asarray(out)


def _posterior(noisy: Floats, strength: Floats, ratios: Floats, noise: Noise) -> Floats:
    """Mean ratio of every cell; counts in noise scales."""
    distance = noisy[:, None] - strength[:, None] * ratios
    logs = log_likelihoods(distance, noise)
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    start = np.exp(-0.5 * (np.log(ratios) / 0.5) ** 2) * np.gradient(np.log(ratios))
    start = 0.98 * start / start.sum() + 0.02 / len(ratios)
    prior = start
    for _ in range(_ROUNDS):
        norm = 1.0 / (likelihood @ prior)
        prior = prior * (norm @ likelihood) + _PSEUDO * start
        prior /= prior.sum()
    return np.asarray((likelihood @ (prior * ratios)) / (likelihood @ prior))


def rake(table: Floats, rows: Floats, columns: Floats, sweeps: int) -> Floats:
    """A table scaled to its margins by iterative proportional fitting.

    Args:
        table: Non-negative counts, shape (r, c), or several tables, shape (tables, r, c).
        rows: Sums wanted over the second axis, shape (r,).
        columns: Sums wanted over the first axis, shape (c,).
        sweeps: Passes over both margins.
    """
    out = np.array(table, np.float64)
    for _ in range(sweeps):
        out *= (rows / np.maximum(out.sum(axis=-1), 1e-12))[..., None]
        out *= (columns / np.maximum(out.sum(axis=-2), 1e-12))[..., None, :]
    return out
