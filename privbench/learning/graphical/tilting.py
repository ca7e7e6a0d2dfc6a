"""Exponential tilting: multipliers with which a table's model meets marginals outside its factors.

A factor has few parents, so some measured pairs are part of no factor. With a log multiplier λ for
every cell of every measured marginal, the distribution of the table is factors × exp(Σ λ). It is
the distribution nearest to the factors (in divergence) that meets the noisy marginals as closely as
their noise justifies. This is post-processing of released counts and reads no private rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from privbench.arrays import Floats, Ints
from privbench.domain import Codes
from privbench.learning import portable
from privbench.learning.answers import Measured

#: Weight of the divergence from the law of the factors, against the squared error of counts. Half
#: or double on coded Adult: the same; a tenth: rare combinations are lost.
STRENGTH = 0.3
#: Sweeps over all marginals; coded Adult has converged after ten.
SWEEPS = 15
#: Newton steps for each cell of a marginal, each of at most 1.
_STEPS = 8
#: Rows of the pool on which multipliers are found, for every row of the table. Four: the same.
POOL = 2
#: Largest log multiplier of a cell. Those of coded Adult are below .7.
MOST = 3.0
#: Least effective sample size of weighted rows, as a share of them.
EFFECTIVE = 0.125


@dataclass(frozen=True, slots=True, eq=False)
class Tilt:
    """The log multipliers of the cells of one marginal."""

    columns: tuple[int, ...]  # places of its columns, one or two
    groups: tuple[Ints, ...]  # group of every cell of each column
    multipliers: Floats  # shape (groups, …), logarithms

    def at(self, codes: Mapping[int, Codes]) -> Ints:
        """Return the position of each row's multiplier in the flat array, shape (rows,)."""
        places = [of[codes[column]] for column, of in zip(self.columns, self.groups, strict=True)]
        return np.asarray(np.ravel_multi_index(places, self.multipliers.shape))


def weights_of(tilts: Sequence[Tilt], codes: Mapping[int, Codes], rows: int) -> Floats:
    """Return importance weights of rows drawn from the factors for the tilted distribution.

    The shape is (rows,). Where many marginals multiply the weight of a few rows, these would stand
    for nearly all others (columns that determine each other, and little noise): the logarithms are
    halved until the effective sample size (Kish 1965) is at least `EFFECTIVE` of the rows.
    """
    logs = np.zeros(rows)
    for tilt in tilts:
        logs += tilt.multipliers.ravel()[tilt.at(codes)]
    logs -= logs.max(initial=0.0)
    weights = portable.exp(logs)
    while weights.sum() ** 2 < EFFECTIVE * rows * (weights * weights).sum():
        logs *= 0.5
        weights = portable.exp(logs)
    return weights


def tilts_for(
    marginals: Sequence[tuple[Tilt, Measured]], pool: Mapping[int, Codes], rows: int, weight: float
) -> tuple[Tilt, ...]:
    """Return the multipliers that meet noisy marginals of total ``weight``, fitted on a pool.

    Each marginal comes with initial multipliers of its cells.

    Block ascent on the dual of the ridge problem: in turn, each marginal's log multipliers l change
    by d, where the pool has h in a cell, the noisy count is y, its noise σ, and h·exp(d) +
    σ²·`STRENGTH`·(l + d) = y. A cell without rows in the pool keeps its l: its probability is
    unknown, and a single row of a larger pool in it would outweigh all others.
    """
    places = [tilt.at(pool) for tilt, _ in marginals]
    weights = np.full(rows, weight / rows)
    for _ in range(SWEEPS):
        for at, (tilt, (counts, sd)) in zip(places, marginals, strict=True):
            noisy, ridge = counts.ravel(), STRENGTH * np.ravel(sd) ** 2
            logs = tilt.multipliers.ravel()
            have = np.bincount(at, weights, minlength=len(logs))
            moved = np.zeros(len(logs))
            for _ in range(_STEPS):
                grown = have * np.exp(moved)
                slope = np.maximum(grown + ridge, 1e-12)
                excess = grown + ridge * (logs + moved) - noisy
                moved -= np.clip(excess / slope, -1.0, 1.0)
            moved = np.where(have > 0, np.clip(logs + moved, -MOST, MOST) - logs, 0.0)
            tilt.multipliers[...] += moved.reshape(tilt.multipliers.shape)
            weights *= np.exp(moved)[at]
    return tuple(tilt for tilt, _ in marginals)
