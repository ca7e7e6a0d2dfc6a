"""Largest values that go together more than all rows do.

The few owners with the most of one thing mostly have the most of others, more so than the bulk of
the rows tells: that picks the copula of a table, and what lies in the corner of two tails is far
below the noise of a cell, so it is left with too little. From pair to pair along a chain even less
of it is left, and joins are ruled by just those owners. So what is expected of two variables that
go together is bent toward the corner of their largest values, by a fixed amount, unless that corner
stands out from the noise itself: then there is no tail to be lost, and the bend would move what is
known. Post-processing, free of charge.
"""

from __future__ import annotations

import numpy as np

from privbench.learning.denoise import Floats, tail_scores
from privbench.learning.junction.ratios import rake

#: Exponent of the bend, where scores of both tails are fully correlated; from 1.5 to 2.5 it makes
#: no difference, 3.5 is too much.
_BEND = 2.0
#: Fewest ordered bins of a variable with a tail.
_FEWEST = 3
#: Noise scales from which on the cell of the largest values of both is told by its own count.
_CLEAR = 6.0
#: Largest logarithm of the factor on a cell, and passes over the margins.
_MOST, _SWEEPS = 12.0, 30


def bent(table: Floats, scale: float, ordered: tuple[int, int]) -> Floats:
    """A prediction of a table with more in the corner where both variables are largest.

    With r the part of the rows beyond a bin, to its middle, bins have scores s = −log r, as an
    exponential variable would; cells grow by exp(b·c·√(s·s′)) with c the correlation of the scores
    in the table, and its margins are restored. Where large values do not go together, or their
    corner stands out from the noise, nothing is changed.

    Args:
        table: Predicted counts, above 0, shape (first's bins, second's bins).
        scale: Scale of the noise.
        ordered: How many leading bins of each variable follow an order.
    """
    if min(ordered) < _FEWEST:
        return table
    inner = slice(ordered[0]), slice(ordered[1])
    held = table[inner]
    first, second = held.sum(axis=1), held.sum(axis=0)
    if not held.sum() > 0 or held[-1, -1] > _CLEAR * scale:
        return table
    scores = tail_scores(first), tail_scores(second)
    together = _correlation(held, *scores)
    if together <= 0:
        return table
    steps = _BEND * together * np.sqrt(np.outer(*scores))
    out = np.array(table)
    out[inner] = rake(held * np.exp(np.minimum(steps, _MOST)), first, second, _SWEEPS)
    return out


def _correlation(table: Floats, first: Floats, second: Floats) -> float:
    """Correlation of scores of rows and of columns, by the counts; 0 where one does not vary."""
    mass = table / table.sum()
    by_row, by_column = mass.sum(axis=1), mass.sum(axis=0)
    one, other = first - first @ by_row, second - second @ by_column
    spread = float(np.sqrt((one**2 @ by_row) * (other**2 @ by_column)))
    return float(one @ mass @ other) / spread if spread > 0 else 0.0
