"""Joint laws of two numbers of children of the same owner.

Owners with many children of one kind tend to have many of another. Products of both, which joins
count, are ruled by a few owners whose cells are lost in noise one by one. So a noisy
joint histogram is drawn toward a copula with the known margins, Gaussian or Gumbel's (whose
largest values go together), whose parameter all cells tell together.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from privbench.learning.denoise import Floats, Noise, scale_of
from privbench.learning.junction.ratios import rake, shrink

_GRID = np.linspace(-0.6, 0.96, 40)
_THETAS = np.linspace(1.05, 6.0, 40)
_POINTS = (np.arange(64) + 0.5) / 64
_SWEEPS = 30


def joint_law(noisy: Floats, sd: float, first: Floats, second: Floats, noise: Noise) -> Floats:
    """Counts of owners by both buckets.

    Args:
        noisy: Noisy counts, shape (first's buckets, second's buckets).
        sd: Standard deviation of the noise.
        first: Released counts of the first's buckets.
        second: Those of the second's, of the same sum.
        noise: Law of the noise.

    Returns:
        Counts with these margins.
    """
    scale = max(scale_of(sd, noise), 1e-9)
    tables = np.array(
        [copula(first, second, float(rho)) for rho in _GRID]
        + [gumbel(first, second, float(theta)) for theta in _THETAS]
    )
    distance = (noisy - tables) / scale
    logs = -(np.abs(distance) if noise == "laplace" else 0.5 * distance**2).sum(axis=(1, 2))
    weights = np.exp(logs - logs.max())
    prediction = np.tensordot(weights / weights.sum(), tables, axes=1)
    found = shrink(noisy, prediction, scale, noise)
    return rake(found, first, second, _SWEEPS)


def copula(first: Floats, second: Floats, rho: float) -> Floats:
    """Counts of a Gaussian copula with given margins, shape (first, second).

    >>> copula(np.array([1.0, 1.0]), np.array([1.0, 1.0]), 0.0).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    total = first.sum()
    ends = np.cumsum(first) / total
    starts = np.concatenate([[0.0], ends[:-1]])
    places = starts[:, None] + (ends - starts)[:, None] * _POINTS
    x = ndtri(np.clip(places, 1e-12, 1 - 1e-12))
    y = ndtri(np.clip(np.cumsum(second)[:-1] / second.sum(), 1e-12, 1 - 1e-12))
    below = ndtr((y - rho * x[:, :, None]) / np.sqrt(1 - rho**2)).mean(axis=1)
    edges = np.concatenate([np.zeros((len(first), 1)), below, np.ones((len(first), 1))], axis=1)
    return np.asarray(first[:, None] * np.diff(edges, axis=1))


def gumbel(first: Floats, second: Floats, theta: float) -> Floats:
    """Counts of a Gumbel copula with given margins, shape (first, second); ``theta`` from 1 on."""
    u, v = (
        -np.log(np.clip(np.concatenate([[0.0], np.cumsum(part) / part.sum()]), 1e-300, 1.0))
        for part in (first, second)
    )
    below = np.exp(-((u[:, None] ** theta + v**theta) ** (1.0 / theta)))
    below[0] = below[:, 0] = 0.0
    cells = np.diff(np.diff(below, axis=0), axis=1)
    return np.asarray(first.sum() * np.maximum(cells, 0.0))
