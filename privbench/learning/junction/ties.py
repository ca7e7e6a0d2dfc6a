"""Places within bins that follow each other.

Pair tables say how bins of two ordered attributes go together, not how places within two bins do.
In narrow bins that is nothing. In the wide bins of a tail it is what tells whether the largest
values of one attribute meet the largest of another. As in a Gaussian copula with the rank
correlation of the whole table, places within a cell are correlated as the copula's density over
the cell says. Post-processing, free of charge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from privbench.learning.denoise import Floats
from privbench.learning.junction.pool import Pool
from privbench.learning.junction.structure import Pair

#: Least correlation of places that is worth the work, and the largest.
_LEAST, _MOST = 0.03, 0.95
#: Places within a bin that a density is taken at, and spread of a cell below which it is flat.
_PLACES, _NARROW = 16, 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Tie:
    """How places within the bins of an attribute follow those of an earlier one.

    Attributes:
        other: The earlier attribute.
        correlations: Correlation of the places in every cell, shape (bins of the earlier one, own
            bins).
    """

    other: int
    correlations: Floats


def find_ties(
    tables: Mapping[Pair, Floats],
    ordinary: Mapping[int, NDArray[np.bool_]],
    order: Sequence[int],
) -> dict[int, Tie]:
    """The strongest tie of every attribute to an earlier one.

    Args:
        tables: Denoised pair tables.
        ordinary: For every ordered attribute, which of its bins are neither special nor NULL.
        order: Order in which attributes are drawn.
    """
    place = {name: position for position, name in enumerate(order)}
    found: dict[int, tuple[float, Tie]] = {}
    for pair, table in tables.items():
        if pair[0] not in ordinary or pair[1] not in ordinary:
            continue
        first, second = sorted(pair, key=place.__getitem__)
        held = table if first == pair[0] else table.T
        cells = _correlations(held, ordinary[first], ordinary[second])
        if np.abs(cells).max(initial=0.0) > max(_LEAST, found.get(second, (0.0,))[0]):
            found[second] = float(np.abs(cells).max()), Tie(first, cells)
    return {name: held for name, (_, held) in found.items()}


def _correlations(table: Floats, rows: NDArray[np.bool_], columns: NDArray[np.bool_]) -> Floats:
    """Correlation of places within every cell of a table."""
    cells = np.zeros(table.shape)
    inner = table[np.ix_(rows, columns)]
    if inner.sum() <= 0 or min(inner.shape) < 2:
        return cells
    inner = inner / inner.sum()
    (a, points_a), (b, points_b) = _scores(inner.sum(axis=1)), _scores(inner.sum(axis=0))
    whole = np.sqrt((inner.sum(axis=1) @ a**2) * (inner.sum(axis=0) @ b**2))
    rho = float(np.clip(a @ inner @ b / max(whole, 1e-12), -_MOST, _MOST))
    within = [[_within(x, y, rho) for y in points_b] for x in points_a]
    cells[np.ix_(rows, columns)] = np.clip(np.array(within), -_MOST, _MOST)
    return cells


def _within(x: Floats, y: Floats, rho: float) -> float:
    """Correlation of the normal scores of places within a cell of a Gaussian copula.

    Args:
        x: Normal scores at evenly spaced places of the first bin.
        y: Those of the second.
        rho: The copula's correlation.
    """
    spread = (x[-1] - x[0]) * (y[-1] - y[0]) * abs(rho) / (1 - rho**2)
    if spread < _NARROW:
        return 0.0
    logs = (rho * np.outer(x, y) - 0.5 * rho**2 * (x[:, None] ** 2 + y**2)) / (1 - rho**2)
    mass = np.exp(logs - logs.max())
    mass /= mass.sum()
    (a, _), (b, _) = (_scores(mass.sum(axis=axis)) for axis in (1, 0))
    whole = np.sqrt((mass.sum(axis=1) @ a**2) * (mass.sum(axis=0) @ b**2))
    return float(a @ mass @ b / max(whole, 1e-12))


def _scores(shares: Floats) -> tuple[Floats, Floats]:
    """Mean normal score of every bin, and scores at places within it, shape (bins, places)."""
    ends = np.clip(np.cumsum(shares / shares.sum()), 1e-9, 1 - 1e-9)
    starts = np.concatenate([[1e-9], ends[:-1]])
    places = (np.arange(_PLACES) + 0.5) / _PLACES
    points = ndtri(starts[:, None] + (ends - starts)[:, None] * places)
    return points.mean(axis=1), points


def tie(pool: Pool, ties: Mapping[int, Tie], order: Sequence[int]) -> None:
    """Correlate the places within bins of a pool's rows, in place."""
    for name in order:
        held = ties.get(name)
        if held is None:
            continue
        rho = held.correlations[pool.bins[held.other], pool.bins[name]]
        rows = np.flatnonzero(np.abs(rho) > _LEAST)
        rho = rho[rows]
        mine, theirs = (
            ndtri(np.clip(pool.rest[which, rows], 1e-6, 1 - 1e-6)) for which in (name, held.other)
        )
        score = rho * theirs + np.sqrt(1 - rho**2) * mine
        pool.rest[name, rows] = np.minimum(ndtr(score), 1 - 1e-9)
