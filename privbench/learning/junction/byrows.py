"""Laws of an owned table's attributes by rows, beside those by units.

A unit's n rows weigh min(n, τ)/(τ·n) each, with a small τ, so that units count alike and pairs of
attributes are measured well. But a clone is queried by rows, and where a few units own most of
them, what these do is lost in the noise of any group by number of rows. So some attributes are
measured once more with a large τ, the *clip*: weights follow numbers of rows up to it, and nearly
all rows are seen. Rows are then drawn so that both hold: among several draws for a row, one with
the value v has its share multiplied by exp(λ_v·s), s growing with the logarithm of its unit's
number of rows, from 0 where that is 1 to 1 at the clip and on beyond it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from privbench.learning.denoise import Floats, Noise, log_likelihoods, middle_ranks, scale_of

Ints = NDArray[np.int64]

#: Part of a table's amount for its attributes by rows, and most attributes that are measured.
PART, MOST = 0.12, 2
#: Clips to choose from, and most groups of bins.
_CLIPS, _GROUPS = (8, 16, 32, 64), 8
#: How far the rows beyond a clip are believed to differ from those below it (total variation).
_DIFFER = 0.3
#: Mean error of a noisy count that is drawn toward what is expected, in standard deviations.
_ERROR = 0.35
#: The clip is worth its amount if it leaves at most this part of what is off without it.
_WORTH = 0.8
#: Standard deviations of what is believed of the logarithm of a group's share against the expected
#: one, and of a slope over normal scores; bends in those; sweeps over all of them.
_SPREAD, _SLOPE, _BENDS, _SWEEPS = 1.0, 0.5, np.linspace(-3.0, 3.0, 41), 2
#: Largest step of a multiplier's logarithm.
_STEP = 1.5


@dataclass(frozen=True, eq=False)
class RowLaw:
    """Released shares of one variable's bins, rows weighed up to the clip.

    Attributes:
        place: Number of the variable among those that are not given.
        of: Group of every bin, shape (bins,).
        shares: Share of every group, above 0, shape (groups,).
    """

    place: int
    of: Ints
    shares: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Heavy:
    """How heavy the units of rows are.

    Attributes:
        level: Number of every row's size of unit among those that occur, shape (rows,).
        by_level: Weight of such a row by the clip against that by τ, up to a factor.
        strengths: s of the module's docstring for such a row, from 0 on.
    """

    level: Ints
    by_level: Floats
    strengths: Floats

    @classmethod
    def of(cls, sizes: Ints, tau: int, clip: int) -> Heavy:
        """From the number of rows of every row's unit."""
        found, level = np.unique(sizes, return_inverse=True)
        ratios = np.minimum(found, clip) / np.minimum(found, tau)
        return cls(level.astype(np.int64), ratios, np.log(found) / np.log(max(clip, 2)))

    @property
    def counts(self) -> Floats:
        """Weight of every row by the clip against that by τ, shape (rows,)."""
        return self.by_level[self.level]

    @property
    def strength(self) -> Floats:
        """The factor s of every row, shape (rows,)."""
        return self.strengths[self.level]


def choose_clip(units: Ints, tau: int, sd: float) -> int | None:
    """The clip that leaves least off by noise and by what it cuts; None if that is not worth it.

    Args:
        units: Number of rows of every row's unit, shape (rows,).
        tau: τ of the table.
        sd: Standard deviation of the noise of one histogram.
    """
    if not len(units):
        return None
    near = np.minimum(units, tau) / units
    apart = 0.5 * float(np.abs(near / near.sum() - 1.0 / len(units)).sum())
    best, found = _WORTH * _DIFFER * apart, None
    for clip in _CLIPS:
        total = float((np.minimum(units, clip) / units).sum())
        off = 0.5 * _GROUPS * _ERROR * sd * clip / total + _DIFFER * (1.0 - total / len(units))
        if off < best:
            best, found = off, clip
    return found


def groups(counts: Floats, ordered: int) -> Ints:
    """Runs of ordered bins that hold about as much each; others by themselves, the last together.

    Args:
        counts: Expected counts per bin.
        ordered: How many of the bins, the first ones, follow an order.

    >>> groups(np.array([5.0, 1.0, 1.0, 9.0, 8.0]), 4).tolist()
    [0, 1, 1, 2, 3]
    """
    of = np.zeros(len(counts), np.int64)
    rest = len(counts) - ordered
    most = max(_GROUPS - min(rest, _GROUPS // 2), 1)
    group, held, left = 0, 0.0, float(counts[:ordered].sum())
    for bin_ in range(ordered):
        if group + 1 < most and held > 0 and held >= (left + held) / (most - group):
            group, held = group + 1, 0.0
        of[bin_] = group
        held, left = held + counts[bin_], left - counts[bin_]
    order = np.argsort(-counts[ordered:], kind="stable")
    first = group + 1 if ordered else 0
    of[ordered + order] = first + np.minimum(np.arange(rest), max(_GROUPS - first, 1) - 1)
    return of


def row_law(
    place: int,
    of: Ints,
    noisy: Floats,
    expected: Floats,
    ordered: int,
    sd: float,
    noise: Noise,
) -> RowLaw:
    """Shares of groups: those expected, bent as far as all noisy counts together say.

    Few parameters are bent: a slope over the groups in order, by rank, and the share of each other
    group. What is expected is nearly right otherwise, and noise group by group is not.

    Args:
        place: Number of the variable among those that are not given.
        of: Group of every bin, shape (bins,).
        noisy: Noisy counts, shape (groups,).
        expected: Expected counts, shape (groups,).
        ordered: How many groups, the first ones, follow an order.
        sd: Standard deviation of the noise.
        noise: Its law.
    """
    held, scale = expected + 1e-6 * expected.sum(), max(scale_of(sd, noise), 1e-9)
    for _ in range(_SWEEPS):
        for group in range(ordered, len(held)):
            held = _bent(held, np.arange(len(held)) == group, _SPREAD, noisy, scale, noise)
        if ordered > 1:
            slope = np.zeros(len(held))
            slope[:ordered] = ndtri(middle_ranks(held[:ordered]))
            held = _bent(held, slope, _SLOPE, noisy, scale, noise)
    return RowLaw(place, of, held / held.sum())


def _bent(
    held: Floats,
    direction: NDArray[Any],
    spread: float,
    noisy: Floats,
    scale: float,
    noise: Noise,
) -> Floats:
    """Counts multiplied by exp(β·direction), of the same sum, with the posterior mean of β."""
    tables = held * np.exp(spread * _BENDS[:, None] * direction)
    tables *= (held.sum() / tables.sum(axis=1))[:, None]
    logs = log_likelihoods((noisy - tables) / scale, noise).sum(axis=1) - 0.5 * _BENDS**2
    weights = np.exp(logs - logs.max())
    bent = held * np.exp(spread * (weights @ _BENDS) / weights.sum() * direction)
    return np.asarray(bent * (held.sum() / bent.sum()))


def tilt(weights: Floats, cells: NDArray[np.integer], shares: Floats, heavy: Heavy) -> Floats:
    """Weights of draws multiplied by exp(λ·s) so that groups get their shares by rows.

    Args:
        weights: Weights of draws, all rows once, then all of them again, and so on; changed.
        cells: Group of every draw, shape (draws,).
        shares: Share of every group.
        heavy: Of every row.
    """
    held, slope = np.zeros(len(shares)), np.zeros(len(shares))
    _weigh(weights, cells, heavy.level, heavy.by_level, heavy.strengths, held, slope)
    slope /= np.maximum(held, 1e-300)
    ratio = shares * held.sum() / np.maximum(held, 1e-300)
    wanted = np.log(np.maximum(ratio, 1e-9)) / np.maximum(slope, 0.1)
    step = np.where(held > 0, np.clip(wanted, -_STEP, _STEP), 0.0)
    _multiply(weights, cells, heavy.level, np.exp(step[:, None] * heavy.strengths))
    return weights


@numba.njit(cache=True, nogil=True)
def _weigh(weights, cells, level, ratios, strengths, held, slope):  # type: ignore[no-untyped-def]
    """Add up the weight of every group by rows, and that weight times s."""
    for first in range(0, len(weights), len(level)):
        for row in range(len(level)):
            at = level[row]
            mass = weights[first + row] * ratios[at]
            held[cells[first + row]] += mass
            slope[cells[first + row]] += mass * strengths[at]


@numba.njit(cache=True, nogil=True)
def _multiply(weights, cells, level, factors):  # type: ignore[no-untyped-def]
    """Multiply every weight by the factor of its group and level."""
    for first in range(0, len(weights), len(level)):
        for row in range(len(level)):
            weights[first + row] *= factors[cells[first + row], level[row]]
