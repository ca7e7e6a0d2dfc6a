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
    return bins_of(of.astype(np.int64), mass)


def bins_of(of: Ints, mass: Floats) -> Bins:
    """The bins of a partition of codes, each with its codes' law; even where a bin has no mass.

    Args:
        of: Bin of every code; every bin has one.
        mass: Released, non-negative counts per code.
    """
    bins = np.asarray(np.bincount(of, mass), np.float64)
    sizes = np.bincount(of)
    inside = np.where(bins[of] > 1e-200, mass / np.maximum(bins[of], 1e-200), 1.0 / sizes[of])
    return Bins(of, inside, bins)


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
    """Runs of ordinary codes of equal mass; a code as heavy as a bin stands alone."""
    special = np.arange(domain.values, domain.size)
    room = max(most - len(special), 1)
    plain = mass[: domain.values]
    heavy = plain >= max(plain.sum() / room, floor)
    light = plain[~heavy].sum()
    target = max(light / max(room - 2 * int(heavy.sum()), 1), floor)
    place = np.zeros(domain.size, np.int64)
    current, held, closed = 0, 0.0, True
    for code, alone in enumerate(heavy.tolist()):
        if not closed and (alone or held >= target):
            # A light run before a heavy code joins the run before it, where there is one.
            if alone and held < floor / 2 and current > 0 and not heavy[_last(place, current)]:
                place[place == current] = current - 1
            else:
                current += 1
            held = 0.0
        place[code] = current
        held += plain[code]
        closed = False
        if alone:
            current, held, closed = current + 1, 0.0, True
    last = int(place[domain.values - 1]) + 1 if domain.values else 0
    place[special] = np.where(mass[special] >= floor, last + 1 + np.arange(len(special)), last)
    return place


def _last(place: Ints, current: int) -> int:
    """Last code of the run before the current one."""
    return int(np.flatnonzero(place == current)[0]) - 1
