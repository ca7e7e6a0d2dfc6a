"""Values that rule each other out: what is told by blocks of a noisy pair table.

NULL in one column often means NULL in another, and some kinds of rows never have children. Cell by
cell such a rule drowns: many cells that should be empty each keep a little. Their sum is told much
better, what lies beside it in known margins tells it once more, and that it is next to nothing is
likelier beforehand than any other particular number. Post-processing, free of charge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbench.learning.denoise import Floats, Noise
from privbench.learning.junction.ratios import rake

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: Variables of at most this many bins are taken bin by bin; of others, bins without an order.
_FEW = 6
#: Ratios of a block to its prediction: nothing, with its prior probability, or about as predicted.
_NOTHING, _PRIOR = 1e-3, 0.3
_RATIOS = np.exp(np.linspace(np.log(0.01), np.log(20.0), 77))
_SPREAD = 1.0
_USUAL = np.exp(-0.5 * (np.log(_RATIOS) / _SPREAD) ** 2)
_EVERY = np.concatenate([[_NOTHING], _RATIOS])
_PRIORS = np.concatenate([[_PRIOR], (1.0 - _PRIOR) * _USUAL / _USUAL.sum()])
#: A block is ruled out where nothing is likelier than this, and independence would have put more
#: there than this many standard deviations.
_SURE, _BY_CHANCE = 0.8, 2.0


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
    sums = _Sums.of(noisy, predicted, scale, noise, blocks)
    if max(sums.seen.shape) == 1:
        return predicted
    likely = _likely(sums.seen, sums.base, sums.spread)
    mean = (likely @ _EVERY) / (_PRIORS @ _EVERY)
    ratios = np.maximum(mean, _NOTHING)
    margins = predicted.sum(axis=1), predicted.sum(axis=0)
    return rake(predicted * ratios[np.ix_(*blocks)], *margins, 8)


def ruled_out(
    noisy: Floats,
    margins: tuple[Floats, Floats],
    scale: float,
    noise: Noise,
    blocks: tuple[Ints, Ints],
) -> Mask:
    """Cells of blocks that are very likely empty, and would not be by chance.

    A block is told by its own cells, and by the others of its rows, or of its columns, against
    their margins: one cell often holds what many would otherwise share.

    Args:
        noisy: Noisy counts, shape (first's bins, second's bins).
        margins: Known sums over the second and over the first axis.
        scale: Scale of the noise.
        noise: Law of the noise.
        blocks: Block of every bin of both variables (`blocks_of`).
    """
    first, second = margins
    apart = np.outer(first, second) / max(float(first.sum()), 1e-300)
    sums = _Sums.of(noisy, apart, scale, noise, blocks)
    seen, spread = sums.beside(_deviation(scale, noise))
    empty = _likely(seen, sums.base, spread)[..., 0] > _SURE
    return np.asarray((empty & (sums.base > _BY_CHANCE * spread))[np.ix_(*blocks)])


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Sums over blocks, each of shape (first's blocks, second's blocks).

    Attributes:
        seen: Noisy counts.
        base: Predicted counts.
        spread: Standard deviation of the noise.
    """

    seen: Floats
    base: Floats
    spread: Floats

    @classmethod
    def of(
        cls, noisy: Floats, base: Floats, scale: float, noise: Noise, blocks: tuple[Ints, Ints]
    ) -> _Sums:
        one, two = (np.eye(int(of.max()) + 1)[of] for of in blocks)
        cells = np.outer(one.sum(axis=0), two.sum(axis=0))
        seen, held = one.T @ noisy @ two, one.T @ base @ two
        return cls(seen, held, _deviation(scale, noise) * np.sqrt(cells))

    def beside(self, margin: float) -> tuple[Floats, Floats]:
        """Blocks as their own cells and the others of rows and columns tell, and the deviation.

        Args:
            margin: Standard deviation of a margin.
        """
        told, weights = self.seen / self.spread**2, 1.0 / self.spread**2
        for axis in (0, 1):
            rest, noise = (
                part.sum(axis=axis, keepdims=True) - part for part in (self.seen, self.spread**2)
            )
            weight = 1.0 / (noise + margin**2)
            told = told + weight * (self.base.sum(axis=axis, keepdims=True) - rest)
            weights = weights + weight
        return told / weights, 1.0 / np.sqrt(weights)


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


def _deviation(scale: float, noise: Noise) -> float:
    return (np.sqrt(2.0) if noise == "laplace" else 1.0) * scale


def _likely(seen: Floats, base: Floats, sd: Floats) -> Floats:
    """Posterior of every ratio, nothing first, in every block; shape (…, ratios)."""
    distance = (seen[..., None] - base[..., None] * _EVERY) / sd[..., None]
    logs = -0.5 * distance**2
    weights = _PRIORS * np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
