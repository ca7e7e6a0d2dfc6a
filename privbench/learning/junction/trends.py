"""How often a value without an order comes with larger and larger values of another variable.

NULL, or a category, is often rarer or more frequent among rows with large values: people with many
rows mostly answer, small sums have no invoice. Cell by cell that drowns; one slope by the other
variable's rank is told by all cells together. Post-processing, free of charge.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from privbench.learning.denoise import Floats, Noise, middle_ranks, tail_scores
from privbench.learning.junction.copulas import likeliest
from privbench.learning.junction.ratios import rake

#: Slopes of the logarithm of a value's share, by standard scores, and what is believed of them.
_SLOPES = np.linspace(-2.0, 2.0, 21)
_SPREAD = 1.0
#: Fewest bins in order that a slope is fitted over, and passes over the margins.
_FEWEST, _SWEEPS = 3, 8


def trended(
    noisy: Floats, predicted: Floats, scale: float, noise: Noise, ordered: tuple[int, int]
) -> Floats:
    """A prediction of a table in which values without an order follow slopes by the other variable.

    Args:
        noisy: Noisy counts, shape (first's bins, second's bins).
        predicted: Predicted counts, above 0; the margins are kept.
        scale: Scale of the noise.
        noise: Law of the noise.
        ordered: How many leading bins of each variable follow an order.
    """
    first, second = ordered
    out = predicted
    if second >= _FEWEST:
        out = _rows(noisy, out, scale, noise, first, second)
    if first >= _FEWEST:
        out = _rows(noisy.T, out.T, scale, noise, second, first).T
    return np.maximum(out, 1e-3 * predicted)


def _rows(
    noisy: Floats, table: Floats, scale: float, noise: Noise, special: int, ordered: int
) -> Floats:
    """Slopes of the rows that are no values in order, one after the other.

    Args:
        noisy: Noisy counts.
        table: Predicted counts.
        scale: Scale of the noise.
        noise: Law of the noise.
        special: Number of the first such row; all rows where too few follow an order.
        ordered: How many columns, the first ones, follow an order.
    """
    scores = _scores(table[:, :ordered].sum(axis=0) + 1e-9)
    beliefs = np.tile(-0.5 * (_SLOPES / _SPREAD) ** 2, len(scores))
    for row in range(special if special >= _FEWEST else 0, len(table)):
        tables = np.tile(table, (len(beliefs), 1, 1))
        steps = (_SLOPES[:, None] * scores[:, None, :]).reshape(len(beliefs), ordered)
        tables[:, row, :ordered] *= np.exp(steps)
        tables = rake(tables, table.sum(axis=1), table.sum(axis=0), _SWEEPS)
        table = likeliest(noisy, tables, scale, noise, beliefs)
    return table


def _scores(mass: Floats) -> Floats:
    """Scores of bins by rank, shape (2, bins): normal, and by the mass beyond, which tails need."""
    ranks, beyond = middle_ranks(mass), tail_scores(mass)
    return np.stack([ndtri(np.clip(ranks, 1e-6, 1 - 1e-6)), beyond - beyond @ mass / mass.sum()])
