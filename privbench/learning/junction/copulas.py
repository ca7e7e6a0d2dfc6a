"""Laws of two ordered variables with few parameters: copulas.

A noisy table of two ordered variables is too wide for its noise cell by cell, but a single
parameter, how strongly they go together, is told by all cells at once. So a table is drawn toward
the copulas that explain it, Gaussian or Gumbel's (whose largest values go together), of either
sign. Post-processing, free of charge.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from privbench.learning.denoise import Floats, Noise, log_likelihoods

_RHOS = np.concatenate([-np.linspace(0.97, 0.02, 24), np.linspace(0.02, 0.97, 24)])
_THETAS = np.concatenate([np.linspace(1.05, 3.0, 20), np.linspace(3.2, 8.0, 13)])
#: Places within a bin and their weights: Gauss and Legendre's, as near as 64 even
#: ones in the mean; bins that hold nearly everything lose part of the other margin either way.
_POINTS, _WEIGHTS = (np.polynomial.legendre.leggauss(12) + np.array([[1.0], [0.0]])) / 2
#: Fewest ordered bins of a variable that a copula is fitted to.
_FEWEST = 3
#: Masses of the largest values of both variables whose dependence is asked for by itself.
_CORNERS = 0.25, 0.08


def copula(first: Floats, second: Floats, rho: float) -> Floats:
    """Counts of a Gaussian copula with given margins, shape (first, second).

    >>> copula(np.array([1.0, 1.0]), np.array([1.0, 1.0]), 0.0).round(6).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    total = first.sum()
    ends = np.cumsum(first) / total
    starts = np.concatenate([[0.0], ends[:-1]])
    places = starts[:, None] + (ends - starts)[:, None] * _POINTS
    x = ndtri(np.clip(places, 1e-12, 1 - 1e-12))
    y = ndtri(np.clip(np.cumsum(second)[:-1] / second.sum(), 1e-12, 1 - 1e-12))
    below = _WEIGHTS @ ndtr((y - rho * x[:, :, None]) / np.sqrt(1 - rho**2))
    edges = np.concatenate([np.zeros((len(first), 1)), below, np.ones((len(first), 1))], axis=1)
    return np.asarray(first[:, None] * np.diff(edges, axis=1))


def gumbel(first: Floats, second: Floats, theta: float | Floats) -> Floats:
    """Counts of a Gumbel copula with given margins, shape (first, second); ``theta`` from 1 on.

    Of several copulas for parameters of shape (copulas, 1, 1).
    """
    u, v = (
        -np.log(np.clip(np.concatenate([[0.0], np.cumsum(part) / part.sum()]), 1e-300, 1.0))
        for part in (first, second)
    )
    below = np.exp(-((u[:, None] ** theta + v**theta) ** (1.0 / theta)))
    below[..., 0, :] = below[..., 0] = 0.0
    cells = np.diff(np.diff(below, axis=-2), axis=-1)
    return np.asarray(first.sum() * np.maximum(cells, 0.0))


def joe(first: Floats, second: Floats, theta: float | Floats) -> Floats:
    """Counts of a Joe copula with given margins, shape (first, second); ``theta`` from 1 on.

    Its largest values go together as in Gumbel's, the others less. Several as in `gumbel`.
    """
    u, v = (
        np.clip(1.0 - np.concatenate([[0.0], np.cumsum(part) / part.sum()]), 0.0, 1.0)
        for part in (first, second)
    )
    above, beyond = u[:, None] ** theta, v**theta
    below = 1.0 - (above + beyond - above * beyond) ** (1.0 / theta)
    cells = np.diff(np.diff(below, axis=-2), axis=-1)
    return np.asarray(first.sum() * np.maximum(cells, 0.0))


def family(first: Floats, second: Floats) -> Floats:
    """Copulas with given margins, shape (copulas, first, second)."""
    back, thetas = second[::-1], _THETAS[:, None, None]
    normal = [copula(first, second, float(rho)) for rho in _RHOS]
    up, down = gumbel(first, second, thetas), gumbel(first, back, thetas)[..., ::-1]
    steep, fallen = joe(first, second, thetas), joe(first, back, thetas)[..., ::-1]
    return np.concatenate([normal, up, down, steep, fallen])


def likeliest(
    noisy: Floats, tables: Floats, scale: float, noise: Noise, beliefs: Floats | None = None
) -> Floats:
    """Mean of candidate tables, weighed by how well each explains a noisy one.

    Args:
        noisy: Noisy counts, shape (first, second).
        tables: The candidates, shape (candidates, first, second).
        scale: Scale of the noise.
        noise: Law of the noise.
        beliefs: Logarithm of how likely each is beforehand; missing means that all are alike.
    """
    logs = log_likelihoods((noisy - tables) / scale, noise).sum(axis=(1, 2))
    logs = logs if beliefs is None else logs + beliefs
    weights = np.exp(logs - logs.max())
    return np.asarray(np.tensordot(weights / weights.sum(), tables, axes=1))


def expected(
    noisy: Floats, predicted: Floats, scale: float, noise: Noise, ordered: tuple[int, int]
) -> Floats:
    """A prediction of a table, mixed with the copulas that explain its noisy cells.

    Args:
        noisy: Noisy counts, shape (first's bins, second's bins).
        predicted: Another prediction; its margins are kept.
        scale: Scale of the noise.
        noise: Law of the noise.
        ordered: How many leading bins of each variable follow an order.
    """
    if min(ordered) < _FEWEST:
        return predicted
    inner = slice(ordered[0]), slice(ordered[1])
    base = predicted[inner]
    if not base.sum() > 0:
        return predicted
    first, second = base.sum(axis=1) + 1e-9, base.sum(axis=0) + 1e-9
    tables = np.concatenate([[base], family(first, second)])
    out = np.array(predicted)
    out[inner] = _cornered(
        noisy[inner], likeliest(noisy[inner], tables, scale, noise), scale, noise
    )
    return np.maximum(out, 1e-3 * predicted)


def _cornered(noisy: Floats, table: Floats, scale: float, noise: Noise) -> Floats:
    """A table whose largest values of both variables follow a copula of their own.

    The few owners with the most of everything go together more than all rows do, and all rows rule
    the copula of the whole. So among the rows that are large in both, a further copula (with the
    margins that they have in the table) is as likely as the table itself.

    Args:
        noisy: Noisy counts, shape (first, second), both in order.
        table: What is expected so far, of the same shape.
        scale: Scale of the noise.
        noise: Law of the noise.
    """
    out = np.array(table)
    beyond = [np.cumsum(out.sum(axis=axis)[::-1])[::-1] / out.sum() for axis in (1, 0)]
    for mass in _CORNERS:
        i, j = (int(np.searchsorted(-part, -mass)) for part in beyond)
        corner = slice(i, None), slice(j, None)
        held = out[corner]
        if min(held.shape) < _FEWEST - 1 or max(held.shape) < _FEWEST:
            continue
        others = family(held.sum(axis=1) + 1e-9, held.sum(axis=0) + 1e-9)
        beliefs = np.append(np.log(len(others)), np.zeros(len(others)))
        tables = np.concatenate([[held], others])
        out[corner] = likeliest(noisy[corner], tables, scale, noise, beliefs)
    return out
