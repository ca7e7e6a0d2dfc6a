"""How rows of owners stand in units, and what that says of numbers of rows that they own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbench.learning.denoise import Floats

Ints = NDArray[np.int64]

#: How far a law's mean may be off by the width of buckets, as a part of it; how closely numbers of
#: children and of rows of a unit may go together; and the most that both may amount to.
_WIDE, _TOGETHER, _MOST = 0.12, 0.5, 1.0
#: Part of the children that buckets in use hold.
_MAIN = 0.9
#: Numbers of rows per unit above this one are taken together, so many per octave.
_SINGLE, _FINE = 16, 4


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of a number of rows that have an owner.

    Attributes:
        total: Σ over units of min(rows, clip).
        sd: Standard deviation of that.
        clip: Most rows that count for one unit.
    """

    total: float
    sd: float
    clip: float = np.inf


@dataclass(frozen=True, slots=True, eq=False)
class Crowds:
    """How the rows of a table stand in units.

    Attributes:
        rows: Numbers of rows that a unit may have, at least 1, shape (groups,).
        units: Number of units that have so many.
        tau: τ of the table: a unit's n rows weigh min(n, τ)/(τ·n) each.
    """

    rows: Floats
    units: Floats
    tau: int = 1

    @classmethod
    def of(cls, sizes: Ints, part: float, tau: int) -> Crowds:
        """From the number of rows of every row's unit.

        Args:
            sizes: Shape (rows,), each at least 1.
            part: Part of the whole table that these rows are.
            tau: τ of the table.
        """
        fine = 2.0 ** (np.round(_FINE * np.log2(np.maximum(sizes, 1))) / _FINE)
        near = np.where(sizes <= _SINGLE, sizes, fine)
        rows, counts = np.unique(near, return_counts=True)
        return cls(rows, counts / rows / part, tau)

    @property
    def uneven(self) -> float:
        """How much rows differ in weight: coefficient of variation of 1/weight, by weight."""
        weights = np.minimum(self.rows, self.tau) / (self.tau * self.rows)
        counts = self.rows * self.units
        first, second = counts.sum(), (counts / weights).sum()
        whole = (counts * weights).sum()
        return float(np.sqrt(max(second * whole / first**2 - 1.0, 0.0))) if whole > 0 else 0.0

    def loose(self, laws: Floats, centres: Floats) -> Floats:
        """How far the mean by rows of laws that hold by weight may be off, as a part of it.

        The mean by rows is 1 + r·u·v times that by weight, where u and v are the coefficients of
        variation of the number of children and of 1/weight, and r their correlation: where units
        have about as many rows each, or owners as many children, both are the same.
        """
        first, second = laws @ centres, laws @ centres**2
        spread = np.sqrt(np.maximum(second / np.maximum(first, 1e-12) ** 2 - 1.0, 0.0))
        return np.asarray(np.minimum(np.hypot(_WIDE, _TOGETHER * self.uneven * spread), _MOST))

    def held(self, laws: Floats, centres: Floats, clip: float) -> Floats:
        """Expected Σ over units of min(children, clip), about, if a row's children follow a law.

        Units with children are taken to have as many as they have on average.

        Args:
            laws: Masses of buckets, the first of which is of rows without children; shape (laws,
                buckets).
            centres: Number of children of every bucket.
            clip: Most children that count for one unit.
        """
        mean = laws @ np.minimum(centres, clip)
        none = np.clip(laws[:, 0], 0.0, 1.0)
        found = np.zeros(len(laws))
        for rows, units in zip(self.rows, self.units, strict=True):
            some = np.maximum(1.0 - none**rows, 1e-12)
            found += units * some * np.minimum(rows * mean / some, clip)
        return found


def doubt(mass: Floats, centres: Floats, parents: float, sd: float) -> float:
    """Relative standard deviation of a law's mean by the noise of the buckets that hold children.

    Args:
        mass: Masses of buckets.
        centres: Number of children of every bucket.
        parents: Released weight of the owners.
        sd: Standard deviation of the noise of a bucket.
    """
    children = np.cumsum(mass * centres)
    used = int(np.searchsorted(children, _MAIN * children[-1])) + 1
    noise = sd * float(np.linalg.norm(centres[:used]))
    return noise / max(parents * float(children[-1]), 1e-9)
