"""Values that rule each other out: what is told by blocks of a noisy pair table.

NULL in one column often means NULL in another, and some kinds of rows never have children. Cell by
cell such a rule drowns: many cells that should be empty each keep a little. Their sum is told much
better, and that it is next to nothing is likelier beforehand than any other particular number.
Post-processing, free of charge.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privbench.learning.denoise import Floats, Noise
from privbench.learning.junction.ratios import rake

Ints = NDArray[np.int64]

#: Variables of at most this many bins are taken bin by bin; of others, bins without an order.
_FEW = 6
#: Ratios of a block to its prediction: nothing, with its prior probability, or about as predicted.
_NOTHING, _PRIOR = 1e-3, 0.3
_RATIOS = np.exp(np.linspace(np.log(0.01), np.log(20.0), 77))
_SPREAD = 1.0


def implied(
    noisy: Floats, predicted: Floats, scale: float, noise: Noise, blocks: tuple[Ints, Ints]
) -> Floats:
    """A prediction of a table whose blocks follow the sums of their noisy cells.

    Args:
        noisy: Noisy counts, shape (first's bins, second's bins).
        predicted: Predicted counts, above 0; the margins are kept.
        scale: Scale of the noise.
        noise: Law of the noise.
        blocks: Block of every bin of both variables (`blocks_of`).
    """
    first, second = blocks
    shape = int(first.max()) + 1, int(second.max()) + 1
    if max(shape) == 1:
        return predicted
    block = first[:, None] * shape[1] + second
    seen, base, cells = (
        np.bincount(block.ravel(), part.ravel(), shape[0] * shape[1]).astype(np.float64)
        for part in (noisy, predicted, np.ones(noisy.shape))
    )
    spread = (np.sqrt(2.0) if noise == "laplace" else 1.0) * scale * np.sqrt(cells)
    ratios = _ratios(seen, base, spread)
    margins = predicted.sum(axis=1), predicted.sum(axis=0)
    return rake(predicted * ratios[block], *margins, 8)


def blocks_of(bins: int, ordered: int, *, early: bool = False) -> Ints:
    """Block of every bin of a variable.

    Args:
        bins: Number of bins.
        ordered: How many of them, the first ones, follow an order.
        early: Whether it is a number of children: none is apart from some.

    >>> blocks_of(9, 7).tolist(), blocks_of(4, 4, early=True).tolist()
    ([0, 0, 0, 0, 0, 0, 0, 1, 2], [0, 1, 1, 1])
    """
    if early:
        return np.minimum(np.arange(bins), 1)
    if bins <= _FEW or ordered < 2:
        return np.arange(bins)
    return np.maximum(np.arange(bins) - (ordered - 1), 0)


def _ratios(seen: Floats, base: Floats, sd: Floats) -> Floats:
    """Posterior mean of every block's ratio, 1 where nothing is told; shape of ``seen``."""
    usual = np.exp(-0.5 * (np.log(_RATIOS) / _SPREAD) ** 2)
    ratios = np.concatenate([[_NOTHING], _RATIOS])
    prior = np.concatenate([[_PRIOR], (1.0 - _PRIOR) * usual / usual.sum()])
    logs = -0.5 * ((seen[:, None] - base[:, None] * ratios) / sd[:, None]) ** 2
    weights = prior * np.exp(logs - logs.max(axis=1, keepdims=True))
    mean = (weights @ ratios) / weights.sum(axis=1)
    return np.asarray(np.maximum(mean / (prior @ ratios), _NOTHING))
