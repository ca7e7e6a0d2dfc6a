"""Bins of a column's codes, made from a released one-way histogram."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Domain
from privbench.learning.denoise import Floats

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """A public partition of one attribute's codes.

    Attributes:
        of: Bin of every code, shape (domain size,).
        inside: Law of the codes within each bin, shape (domain size,); sums to 1 in every bin.
        counts: Released counts per bin.
    """

    of: Ints
    inside: Floats
    counts: Floats

    @property
    def size(self) -> int:
        """Number of bins."""
        return len(self.counts)

    def spread(self, counts: Floats) -> Floats:
        """Counts per code from counts per bin, shape (domain size,)."""
        return np.asarray(counts[self.of] * self.inside)


def make_bins(counts: Floats, domain: Domain, most: int, least: float) -> Bins:
    """At most ``most`` bins of equal mass, heavy codes by themselves.

    Ordered codes are cut into runs. Unordered codes keep the heaviest apart and share the last
    bin. Special cells and NULL are bins of their own where they are heavy, else they join it.

    Args:
        counts: Released, non-negative counts per code.
        domain: The attribute's domain.
        most: Largest number of bins, at least 1.
        least: Least mass of a bin.
    """
    mass = np.maximum(counts, 0.0)
    floor = max(least, mass.sum() / most / 2)
    place = _runs(mass, domain, most, floor) if domain.ordered else _heavy(mass, most, floor)
    _, of = np.unique(place, return_inverse=True)
    bins = np.asarray(np.bincount(of, mass), np.float64)
    sizes = np.bincount(of)
    inside = np.where(bins[of] > 0, mass / np.maximum(bins[of], 1e-300), 1.0 / sizes[of])
    return Bins(of.astype(np.int64), inside, bins)


def _heavy(mass: Floats, most: int, floor: float) -> Ints:
    """The heaviest codes by themselves; all others together."""
    if len(mass) <= most and (mass >= floor).all():
        return np.arange(len(mass))
    order = np.argsort(-mass, kind="stable")
    kept = order[: most - 1][mass[order[: most - 1]] >= floor]
    place = np.full(len(mass), len(mass), np.int64)
    place[kept] = kept
    return place


def _runs(mass: Floats, domain: Domain, most: int, floor: float) -> Ints:
    """Runs of ordinary codes; a code above twice the floor stands alone."""
    special = np.arange(domain.values, domain.size)
    place = np.zeros(domain.size, np.int64)
    target = max(mass[: domain.values].sum() / max(most - len(special), 1), floor)
    current, held = 0, 0.0
    for code in range(domain.values):
        alone = mass[code] >= target
        if held > 0 and (held >= target or (alone and held >= floor)):
            current, held = current + 1, 0.0
        place[code] = current
        held += mass[code]
    if held < floor and current > 0:
        place[place == current] = current - 1
    last = place[domain.values - 1] + 1 if domain.values else 0
    place[special] = np.where(mass[special] >= floor, last + 1 + np.arange(len(special)), last)
    return place
