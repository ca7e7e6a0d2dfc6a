"""Cells that are empty unless a measurement says otherwise: post-processing, free of charge.

A denoised histogram leaves a trace of mass in every cell. In the cells of a column's core that is
right (a rare value beats a missing one); in far tails and special cells it would invent texts of a
million characters and infinite dates in columns that hold neither.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Domain
from privbench.learning.denoise import Floats

Ints = NDArray[np.integer[Any]]

#: A noisy count this many standard deviations above zero is taken for a real one: within three
#: cells of others that are, and alone. Alone, noise passes for one in 10,000.
CLEAR, ALONE = 3.0, 6.0
_REACH = 3


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
    first, end = domain.core or (0, domain.values)
    alone = noisy > ALONE * sd
    keep = alone.copy()
    keep[domain.values + len(domain.specials) :] = True
    clear = np.flatnonzero(noisy[: domain.values] > CLEAR * sd)
    low = _reached(first, -clear[clear < first][::-1], alone[:first][::-1], -1)
    high = _reached(end - 1, clear[clear >= end], alone[end : domain.values], 1)
    keep[: domain.values] = False
    keep[low : _thinned(counts[: domain.values], high) + 1] = True
    # "other" of a released list is an ordinary cell: it holds whatever the list does not.
    if "other" in domain.specials:
        keep[domain.special_code("other")] = True
    kept = np.where(keep, counts, 0.0)
    mass = kept.sum()
    return np.asarray(kept * (counts.sum() / mass)) if mass > 0 else counts


def _thinned(counts: Floats, last: int) -> int:
    """The last of the cells after ``last`` that still hold a row, most likely (see `taper`)."""
    more = counts[last + 1 :] < _ROW
    return last + (int(np.argmax(more)) if more.any() else len(more))


def _reached(start: int, clear: Ints, alone: NDArray[np.bool_], step: int) -> int:
    """The farthest cell of a tail that holds rows, going outwards from the core's last cell.

    Args:
        start: The core's last cell on this side.
        clear: Clear cells of the tail, outwards, times ``step``.
        alone: Which cells of the tail stand out by themselves, outwards.
        step: 1 upwards, −1 downwards.
    """
    last = step * start
    for cell in clear:
        if cell - last > _REACH:
            break
        last = int(cell)
    far = np.flatnonzero(alone)
    lone = step * start + int(far[-1]) + 1 if len(far) else last
    return step * max(last, lone)
