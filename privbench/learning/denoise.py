"""From noisy counts to counts that could be: post-processing, free of charge.

Cutting negative counts to zero and dividing by the sum moves mass from frequent to rare cells and
leaves true cells empty. Two better ways: the nearest point of the simplex (`project`), for few
cells that are well above the noise; and the posterior mean under a prior that is learned from the
noisy counts themselves (`denoise`), for histograms with many small cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Law of the noise.
Noise = Literal["laplace", "gaussian"]

#: Cells this many noise scales above zero are taken as they are.
_TRUSTED = 24.0
_ROUNDS = 60


def noise_law(accounting: str) -> Noise:
    """The noise that a session adds: Laplace under pure ε, Gaussian under zCDP."""
    return "laplace" if accounting == "pure" else "gaussian"


def scale_of(sd: float, noise: Noise) -> float:
    """Scale of the noise from its standard deviation (Laplace: the mean deviation)."""
    return float(sd / np.sqrt(2.0)) if noise == "laplace" else float(sd)


def log_likelihoods(distance: Floats, noise: Noise) -> Floats:
    """Logarithms of the likelihood of noise, up to a constant; ``distance`` in noise scales."""
    return -np.abs(distance) if noise == "laplace" else -0.5 * distance**2


def middle_ranks(mass: Floats) -> Floats:
    """The distribution function in the middle of every cell, shape of ``mass``, which has a sum.

    >>> middle_ranks(np.array([1.0, 2.0, 1.0])).tolist()
    [0.125, 0.5, 0.875]
    """
    return np.asarray((np.cumsum(mass) - 0.5 * mass) / mass.sum())


def project(noisy: Floats, total: float) -> Floats:
    """The nearest counts (least squares) that are non-negative and sum to ``total``.

    Args:
        noisy: Noisy counts, shape (cells,).
        total: Sum of the result, at least 0.

    >>> project(np.array([5.0, -1.0, 2.0]), 6.0).tolist()
    [4.5, 0.0, 1.5]
    """
    ordered = np.sort(noisy)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(noisy) + 1)
    active = np.flatnonzero(ordered - excess >= 0)
    shift = excess[active[-1]] if len(active) else excess[0]
    return np.asarray(np.maximum(noisy - shift, 0.0))


def falling(values: Floats, weights: Floats) -> Floats:
    """The nearest values (weighted least squares) that never rise: pool adjacent violators.

    SciPy's ``isotonic_regression`` gives the same numbers, from a package that takes longer to
    import than a small fit takes to learn.

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


def denoise(noisy: Floats, sd: float, total: float, noise: Noise) -> Floats:
    """Posterior mean of every count, corrected to the total.

    The prior is a mixture of point masses on a grid of counts that are spaced like the noise; its
    weights are learned from all cells by expectation maximisation (non-parametric empirical
    Bayes). What is then missing to the total is spread in proportion to posterior variance.

    Args:
        noisy: Noisy counts, shape (cells,).
        sd: Standard deviation of the noise, in counts.
        total: Sum of the result: a noisy total, floored above 0 by the caller.
        noise: Law of the noise.

    Returns:
        Counts, shape (cells,), non-negative, summing to ``total``.
    """
    if len(noisy) == 1 or sd <= 0:
        return project(noisy, total)
    scale = scale_of(sd, noise)
    mean = noisy.astype(np.float64)
    variance = np.full(len(noisy), sd * sd)
    small = noisy < _TRUSTED * scale
    if small.any():
        mean[small], variance[small] = _posterior(noisy[small], scale, noise)
    return to_total(mean, variance, total)


def by_precision(found: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Inverse-variance mean of some estimates, and its variance.

    Args:
        found: Values and their variances, above 0.

    >>> by_precision([(0.0, 1.0), (10.0, 3.0)])
    (2.5, 0.75)
    """
    values, variances = np.array(found).T
    weights = 1.0 / variances
    return float(np.average(values, weights=weights)), float(1.0 / weights.sum())


def _grid(scale: float) -> Floats:
    """Support of the prior, in counts: dense near zero, then geometric."""
    low = np.exp(np.linspace(np.log(0.004), np.log(0.5), 11))
    high = 6 * 1.09 ** np.arange(1, 20)
    return scale * np.concatenate([low, np.arange(0.9, 6.01, 0.45), high])


def _posterior(noisy: Floats, scale: float, noise: Noise) -> tuple[Floats, Floats]:
    support = _grid(scale)
    distance = (noisy[:, None] - support) / scale
    logs = log_likelihoods(distance, noise)
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    prior = np.full(len(support), 1 / len(support))
    for _ in range(_ROUNDS):
        share = likelihood * prior
        share /= share.sum(axis=1, keepdims=True)
        prior = share.sum(axis=0) + 0.02
        prior /= prior.sum()
    share = likelihood * prior
    share /= share.sum(axis=1, keepdims=True)
    mean = share @ support
    return mean, np.maximum(share @ support**2 - mean**2, 1e-9)


def to_total(mean: Floats, variance: Floats, total: float) -> Floats:
    """Spread what is missing by variance; no count is lowered below a fifth in one step.

    Args:
        mean: Counts, shape (cells,).
        variance: Of each, not all 0.
        total: Sum of the result.

    >>> to_total(np.array([90.0, 10.0]), np.array([4.0, 1.0]), 105.0).tolist()
    [94.0, 11.0]
    """
    for _ in range(6):
        missing = total - mean.sum()
        if abs(missing) < 1e-6 * total:
            break
        step = missing * variance / max(float(variance.sum()), 1e-300)
        mean = np.where(step < 0, np.maximum(mean + step, 0.2 * np.maximum(mean, 0)), mean + step)
    mean = np.maximum(mean, 0.0)
    mass = mean.sum()
    return np.asarray(mean * (total / mass) if mass > 0 else np.full(len(mean), total / len(mean)))


def denoise_toward(noisy: Floats, prediction: Floats, sd: Floats, noise: Noise) -> Floats:
    """Posterior mean of counts that are near a released prediction.

    Each count is its prediction times a ratio. The law of the ratios is learned from all cells, in
    strata of how large the prediction is against the noise, starting from a lognormal; so cells
    that noise would swamp stay near their prediction, and clear ones follow the measurement.

    Args:
        noisy: Noisy counts, any shape.
        prediction: Predicted counts of the same shape, from earlier releases.
        sd: Standard deviation of the noise, a shape that broadcasts.
        noise: Law of the noise.

    Returns:
        Counts of the same shape, non-negative.
    """
    base = np.maximum(prediction, 1e-9)
    scale = np.broadcast_to(np.maximum(sd, 1e-9), noisy.shape)
    scale = scale / np.sqrt(2.0) if noise == "laplace" else scale
    strength = base / scale
    out = np.array(base, np.float64)
    for low, high in pairwise(_STRATA):
        cells = (strength > low) & (strength <= high)
        if cells.any():
            out[cells] = base[cells] * _ratios(noisy[cells], base[cells], scale[cells], noise)
    # A clear excess over any ratio on the grid follows the measurement.
    return np.where(noisy > 0.9 * _RATIOS[-1] * base + 8 * scale, noisy, out)


_STRATA = (-1.0, 0.3, 2.0, 16.0, np.inf)
_RATIOS = np.concatenate([[0.003], np.exp(np.linspace(np.log(0.02), np.log(50.0), 97))])


def _ratios(noisy: Floats, base: Floats, scale: Floats, noise: Noise) -> Floats:
    distance = (noisy[:, None] - base[:, None] * _RATIOS) / scale[:, None]
    logs = log_likelihoods(distance, noise)
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    start = np.exp(-0.5 * (np.log(_RATIOS) / 0.5) ** 2)
    start /= start.sum()
    prior = start
    for _ in range(25):
        share = likelihood * prior
        share /= share.sum(axis=1, keepdims=True)
        prior = share.sum(axis=0) + 3.0 * start
        prior /= prior.sum()
    share = likelihood * prior
    share /= share.sum(axis=1, keepdims=True)
    return np.asarray(share @ _RATIOS)
