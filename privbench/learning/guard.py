"""Cells that are empty unless a measurement says otherwise: post-processing, free of charge.

A denoised histogram leaves a trace of mass in every cell. In the cells of a column's core that is
right (a rare value beats a missing one); in far tails and special cells it would invent texts of a
million characters and infinite dates in columns that hold neither.
"""

from __future__ import annotations

import numpy as np

from privbench.domain import Domain
from privbench.learning.denoise import Floats

#: A noisy count this many standard deviations above zero is taken for a real one.
CLEAR = 3.0


def guard(counts: Floats, noisy: Floats, sd: float, domain: Domain) -> Floats:
    """Empty special cells, and tails beyond the last clear cell; the total stays.

    Args:
        counts: Denoised counts of a one-way histogram, shape (domain.size,).
        noisy: The noisy counts they come from.
        sd: Standard deviation of the noise.
        domain: Says which cells are special and which are tails.

    >>> domain = Domain(4, True, ("nan",), core=(0, 2))
    >>> noisy = np.array([8.0, 9.0, 1.0, 2.0, 0.0])
    >>> guard(np.array([8.0, 8.0, 2.0, 1.0, 1.0]), noisy, 1.0, domain).tolist()
    [10.0, 10.0, 0.0, 0.0, 0.0]
    """
    clear = noisy > CLEAR * sd
    keep = np.ones(domain.size, dtype=np.bool_)
    keep[domain.values : domain.values + len(domain.specials)] = clear[
        domain.values : domain.values + len(domain.specials)
    ]
    if domain.core is not None:
        first, end = domain.core
        seen = np.flatnonzero(clear[: domain.values])
        low = min(int(seen.min(initial=first)), first)
        high = max(int(seen.max(initial=end - 1)) + 1, end)
        keep[:low] = False
        keep[high : domain.values] = False
    # "other" of a released list is an ordinary cell: it holds whatever the list does not.
    if "other" in domain.specials:
        keep[domain.special_code("other")] = True
    kept = np.where(keep, counts, 0.0)
    mass = kept.sum()
    return np.asarray(kept * (counts.sum() / mass)) if mass > 0 else counts
