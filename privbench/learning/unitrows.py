"""How many rows an owned table has, where few units own them.

A fan-out is measured with the weights of its owners. Where owners are few, or few of them own any
rows, that leaves the number of rows itself open, and every level of a chain multiplies what is
off. Units by their number of rows in the table tell it at once: each counts fully, and in one cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbench.learning.crowds import Crowds, Told
from privbench.learning.denoise import Floats, Noise, log_likelihoods, posterior_median, scale_of
from privbench.learning.fanfamily import bucket_centres, buckets, family, log_fits

Ints = NDArray[np.int64]

#: Lower ends of the buckets of units by their number of rows: twice as fine as those of fan-outs,
#: since all rows of a unit may have the same number; and their last numbers.
UNIT_BOUNDS = (0, 1, 2, 3, 4, *(n for k in range(2, 15) for n in (2**k + 1, 3 * 2 ** (k - 1) + 1)))
_STARTS, _ENDS = buckets(UNIT_BOUNDS)
#: Logarithms of numbers of rows.
GRID = np.linspace(-2.0, 18.0, 201)
#: Steps of the number of rows without an owner, and how far a bucket is from any number in it.
_STEPS, _WITHIN = 49, 0.1
#: Units are alike if one bucket holds this part of those that have rows.
_ALIKE = 0.7
#: A number of rows is less likely beforehand by this power of its distance from one per unit.
_PRIOR = 0.75
#: Points of a normal distribution that stand for it.
_POINTS = np.array([-1.28, -0.52, 0.0, 0.52, 1.28])


@dataclass(frozen=True, slots=True, eq=False)
class UnitCounts:
    """What a noisy histogram of units by their number of rows tells.

    Attributes:
        logs: Log likelihood of numbers of rows that have an owner, by their logarithm on `GRID`.
        single: Noisy number of units of one row, and the standard deviation of its noise.
        ownerless: Noisy number of rows without an owner, each a unit by itself, and its standard
            deviation; missing means that every row has one.
    """

    logs: Floats
    single: tuple[float, float]
    ownerless: tuple[float, float] | None = None

    @classmethod
    def of(
        cls,
        noisy: Floats,
        sd: float,
        units: float,
        ownerless: tuple[float, float] | None,
        noise: Noise = "laplace",
    ) -> UnitCounts:
        """The likelihood of every number of rows, averaged over the laws that have it.

        Half of the prior is for laws by which all units that have rows have about as many. How
        many laws have a number of rows does not count, so that what few units own is not taken for
        lost; it is only less likely by its distance from one row per unit.

        Args:
            noisy: Noisy number of units per bucket of `UNIT_BOUNDS`; the first tells nothing.
            sd: Standard deviation of that noise.
            units: Number of units that may own rows, above 0.
            ownerless: Noisy number of rows without an owner and its standard deviation; missing
                means that every row has one.
            noise: Law of the noise.
        """
        laws, _ = family(tuple(_STARTS.tolist()), tuple(_ENDS.tolist()))
        cells = noisy[1:].astype(np.float64)
        beside, beliefs = _beside((float(noisy[1]), sd), ownerless)
        seen = np.ascontiguousarray(laws[:, 1:])
        logs = np.empty((len(beside), len(laws)))
        for place, count in enumerate(beside):
            apart = cells - count * (np.arange(len(cells)) == 0)
            logs[place] = beliefs[place] + log_fits(apart, seen, np.array([units]), sd, noise)[0]
        found = np.logaddexp.reduce(logs) - np.logaddexp.reduce(beliefs)
        alike = seen.max(axis=1) > _ALIKE * seen.sum(axis=1)
        rows = np.log(units * (laws @ bucket_centres(_STARTS, _ENDS)))
        parts = [_averaged(rows[some], found[some]) for some in (alike, ~alike)]
        far = _PRIOR * np.abs(GRID - np.log(units))
        return cls(np.logaddexp(*parts) - far, (float(noisy[1]), sd), ownerless)

    def at(self, rows: Floats) -> Floats:
        """Log likelihood of numbers of rows that have an owner, shape of ``rows``."""
        return np.asarray(np.interp(np.log(np.maximum(rows, 1e-9)), GRID, self.logs))

    def beside(self, single: float) -> float:
        """Number of rows without an owner, the median of its posterior.

        Args:
            single: Number of units that own one row.
        """
        if self.ownerless is None:
            return 0.0
        told = self.single[0] - single, float(np.hypot(self.single[1], _WITHIN * single))
        numbers, logs = _beside(told, self.ownerless)
        logs = logs - np.abs(numbers - told[0]) * np.sqrt(2.0) / max(told[1], 1e-9)
        return posterior_median(numbers, logs)


def _beside(
    single: tuple[float, float], ownerless: tuple[float, float] | None
) -> tuple[Floats, Floats]:
    """Numbers of rows without an owner and what their own count says: none is as likely as all."""
    if ownerless is None:
        return np.zeros(1), np.zeros(1)
    numbers = np.linspace(0.0, max(single[0] + 4 * single[1], single[1], 1e-9), _STEPS)
    logs = -np.abs(numbers - ownerless[0]) * np.sqrt(2.0) / max(ownerless[1], 1e-9)
    logs[0] += np.log(_STEPS)
    return numbers, logs


def _averaged(rows: Floats, logs: Floats) -> Floats:
    """Logarithm of the mean likelihood of laws near every point of `GRID`, by their rows."""
    near = np.exp(-0.5 * ((GRID[:, None] - rows) / _WITHIN) ** 2) + 1e-12
    top = logs.max()
    return np.asarray(np.log((near @ np.exp(logs - top)) / near.sum(axis=1) + 1e-300) + top)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """All totals of a table, and how the rows that own it stand in units.

    Attributes:
        crowds: Rows of the owners' table.
        told: The first total, of rows that have an owner.
        units: What their units tell.
    """

    crowds: Crowds
    told: Told
    units: UnitCounts

    def ownerless(self, mass: Floats) -> float:
        """Number of rows without an owner, beside those of a law of numbers of children.

        Args:
            mass: Masses of buckets, the first two of which are of none and of one.
        """
        rows, units = self.crowds.rows, self.crowds.units
        return self.units.beside(float(units @ (rows * mass[1] * mass[0] ** (rows - 1.0))))

    def likelihood(self, centres: Floats) -> Callable[[Floats], Floats]:
        """The log likelihood of laws, for `fanfamily.posterior`.

        Args:
            centres: Number of children of every bucket.
        """

        def logs(laws: Floats) -> Floats:
            loose = self.crowds.loose(laws, centres)
            held = self.crowds.held(laws, centres, self.told.clip)
            width = np.hypot(max(self.told.sd, 1e-9), loose * held) / np.sqrt(2.0)
            found = -np.abs(self.told.total - held) / width - np.log(width)
            whole = self.crowds.held(laws, centres, np.inf)
            near = [self.units.at(whole * np.exp(point * loose)) for point in _POINTS]
            return np.asarray(found + np.logaddexp.reduce(np.array(near)) - np.log(len(near)))

        return logs


def factor_of(
    children: Ints | Floats,
    part: float,
    told: Told,
    units: UnitCounts | None,
    off: float,
    noise: Noise,
) -> float:
    """Factor on the number of rows that units are drawn with, the median of its posterior.

    Args:
        children: Drawn number of rows of every unit, shape (units,).
        part: Part of the whole that these units are.
        told: A noisy total of the whole.
        units: What units tell of it.
        off: Standard deviation of the factor's logarithm beforehand.
        noise: Law of the noise.
    """
    drawn = float(np.sum(children)) / part
    if drawn <= 0:
        return 1.0
    coarse, fine = np.linspace(-4.0, 4.0, 81), np.linspace(-4.0, 4.0, 801)
    logs = -0.5 * (fine / off) ** 2
    held, counts = np.unique(children, return_counts=True)
    sums = [np.minimum(held * np.exp(step), told.clip) @ counts / part for step in coarse]
    scale = scale_of(max(told.sd, 1e-3 * drawn), noise)
    logs += log_likelihoods((told.total - np.interp(fine, coarse, sums)) / scale, noise)
    if units is not None:
        logs += units.at(drawn * np.exp(fine))
    return float(np.exp(posterior_median(fine, logs)))
