"""Bins of a column's codes, made from a released one-way histogram."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Domain
from privbench.learning.denoise import Floats
from privbench.learning.graphical.columns import group

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
    """About ``most`` bins, as the default learner groups the cells of a column (`group`).

    Args:
        counts: Released, non-negative counts per code.
        domain: The attribute's domain.
        most: About how many bins there may be.
        least: Least mass of a bin in a tail.
    """
    (of,) = group(counts, domain, least / max(float(counts.sum()), 1e-9), levels=(most,))
    return bins_of(of, counts)


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
