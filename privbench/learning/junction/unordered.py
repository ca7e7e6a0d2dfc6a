"""Noisy histograms of unordered codes, denoised: post-processing, free of charge."""

from __future__ import annotations

import numpy as np

from privbench.learning.denoise import Floats, Noise, denoise, log_likelihoods

#: Concentration of the Dirichlet prior: below 1, since categories are uneven.
_ALPHA = 0.7
#: Largest (cells, grid) table of the exact posterior; beyond it empirical Bayes takes over.
_TABLE = 2**22


def denoise_unordered(noisy: Floats, scale: float, total: float, noise: Noise) -> Floats:
    """Posterior mean of counts under a Dirichlet prior, given their sum.

    Counts live on a grid; the law of the sum of all others is a product of Fourier transforms, so
    the condition that all counts sum to the total is exact.

    Args:
        noisy: Noisy counts, shape (cells,).
        scale: Scale of the noise.
        total: Released sum, above 0.
        noise: Law of the noise.

    Returns:
        Counts, non-negative, summing to ``total``.
    """
    step = max(scale / 6, total / 16_000)
    size = int(total / step) + 2
    length = 1 << (2 * size - 1).bit_length()
    if len(noisy) == 1:
        return np.array([total])
    if len(noisy) * length > _TABLE:
        return _fallback(noisy, scale, total, noise)
    grid = np.arange(size)
    counts = np.asarray(grid * step, np.float64)
    prior, centres = _prior(size)
    shares = _likelihood(noisy, counts, scale, noise) * prior
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    rest = _sum_of_others(shares, length)
    place = round(total / step) - grid
    weights = np.where(place >= 0, shares * np.maximum(rest[:, np.maximum(place, 0)], 0.0), 0.0)
    evidence = weights.sum(axis=1)
    if not (evidence > 1e-200).all():
        return _fallback(noisy, scale, total, noise)
    mean = weights @ centres / evidence
    return np.asarray(mean * (total / mean.sum()))


def _fallback(noisy: Floats, scale: float, total: float, noise: Noise) -> Floats:
    sd = scale * np.sqrt(2.0) if noise == "laplace" else scale
    return denoise(noisy, float(sd), total, noise)


def _prior(size: int) -> tuple[Floats, Floats]:
    """Mass of every grid cell under a gamma-like prior, and the mean within each cell."""
    edges = np.concatenate([[0.0], np.arange(size - 1) + 0.5, [size - 0.5]])
    mass = np.diff(edges**_ALPHA)
    moment = _ALPHA / (_ALPHA + 1) * np.diff(edges ** (_ALPHA + 1))
    return mass / mass.sum(), moment / mass


def _likelihood(noisy: Floats, counts: Floats, scale: float, noise: Noise) -> Floats:
    distance = (noisy[:, None] - counts) / scale
    logs = log_likelihoods(distance, noise)
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))


def _sum_of_others(shares: Floats, length: int) -> Floats:
    """For every cell, the law of the sum of all other cells, shape (cells, length)."""
    waves = np.fft.rfft(shares, length, axis=1)
    before, after = np.ones_like(waves), np.ones_like(waves)
    for cell in range(1, len(waves)):
        before[cell] = before[cell - 1] * waves[cell - 1]
    for cell in range(len(waves) - 2, -1, -1):
        after[cell] = after[cell + 1] * waves[cell + 1]
    return np.fft.irfft(before * after, length, axis=1)
