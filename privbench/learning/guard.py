"""Cells that are empty unless a measurement says otherwise: post-processing, free of charge.

A denoised histogram leaves a trace of mass in every cell. In the cells of a column's core that is
right (a rare value beats a missing one); in far tails and special cells it would invent texts of a
million characters and infinite dates in columns that hold neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Domain
from privbench.learning.denoise import Floats, by_precision, to_total
from privbench.learning.falloff import concave
from privbench.learning.ranges import find_range

Ints = NDArray[np.integer[Any]]

#: A noisy count this many standard deviations above zero is taken for a real one: within three
#: cells of others that are, and alone. Alone, noise passes for one in 10,000.
CLEAR, ALONE = 3.0, 6.0
_REACH = 3
#: Cells without rows to be seen that end a column, and cells before its end that tell how its
#: counts fall off; fewest cells that a curve is fitted to.
_GAP, _BACK, _FEWEST = 8, 20, 8
#: Logarithm of the factor in distance that those cells span at least, and how far off the curve's
#: sum may be.
_FACTOR, _OFF = 1.5, 0.7
#: Part of a column's values that must be left for the others to follow them.
_TRACE = 1e-3
#: Rows that a cell of a tail must be expected to hold, and the most such cells past the last clear
#: one: a curve tells little of values a thousand times as large.
_ROW, _FARTHEST = 0.5, 12


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
    counts = taper(counts, noisy, sd, domain)
    first, end = domain.core or (0, domain.values)
    alone = noisy > ALONE * sd
    keep = alone.copy()
    keep[domain.values + len(domain.specials) :] = True
    clear = np.flatnonzero(noisy[: domain.values] > CLEAR * sd)
    low = _reached(first, -clear[clear < first][::-1], alone[:first][::-1], -1)
    high = _reached(end - 1, clear[clear >= end], alone[end : domain.values], 1)
    keep[: domain.values] = False
    if domain.core is not None and domain.values >= _FEWEST and _told(noisy, domain, sd):
        inner = noisy[: domain.values]
        # A core that ends in a gap is wider than its rows: there is no tail beyond it.
        if end - 1 - _last_seen(inner, sd, int(np.argmax(inner))) <= _GAP:
            high = _thinned(counts[: domain.values], high)
    keep[low : high + 1] = True
    # "other" of a released list is an ordinary cell: it holds whatever the list does not.
    if "other" in domain.specials:
        keep[domain.special_code("other")] = True
    return _moved(counts, keep, slice(first, end), slice(domain.values))


def _moved(counts: Floats, keep: NDArray[np.bool_], core: slice, inner: slice) -> Floats:
    """The counts of cells that are not kept, among those that are; the total stays.

    Ordinary values stay ordinary ones: where a single cell far out held them all, nothing is known
    but that they are there, and they are spread over the core.
    """
    kept = np.where(keep, counts, 0.0)
    before, left = float(counts[inner].sum()), float(kept[inner].sum())
    if left > _TRACE * before:
        kept[inner] *= before / left
    else:
        kept[core] = before / max(core.stop - core.start, 1)
    mass = kept.sum()
    return np.asarray(kept * (counts.sum() / mass)) if mass > 0 else counts


def _told(noisy: Floats, domain: Domain, sd: float) -> bool:
    """Whether any ordinary cell surely holds rows: a curve through noise alone tells nothing."""
    return bool(noisy[: domain.values].max() > ALONE * sd)


def _thinned(counts: Floats, last: int) -> int:
    """The last of the cells after ``last`` that still hold a row, most likely (see `taper`)."""
    more = counts[last + 1 : last + 1 + _FARTHEST] < _ROW
    return last + (int(np.argmax(more)) if more.any() else len(more))


def taper(counts: Floats, noisy: Floats, sd: float, domain: Domain) -> Floats:
    """Ends of a column whose range was measured: they fall off as the cells before them say.

    Beyond the last cells that can be told from noise, a denoised histogram is level: a trace in
    every cell. Over cells that double in width, that is a handful of rows with values a thousand
    times too large. There, counts follow a concave curve fitted to the noisy cells.

    Args:
        counts: Denoised counts of a one-way histogram, shape (domain.size,).
        noisy: The noisy counts they come from.
        sd: Standard deviation of the noise.
        domain: Without a core its range is public, and nothing is done.
    """
    out = np.array(counts)
    if domain.core is None or not domain.ordered or domain.values < _FEWEST or sd <= 0:
        return out
    inner = slice(domain.values)
    if not _told(noisy, domain, sd):
        return out
    edges = range(domain.values + 1) if domain.edges is None else domain.edges
    out[inner] = _taper(out[inner], noisy[inner], sd, edges)
    out[inner] = _taper(out[inner][::-1], noisy[inner][::-1], sd, edges[::-1])[::-1]
    out[inner] = to_total(out[inner], np.minimum(out[inner], sd) ** 2, float(counts[inner].sum()))
    return out


def _taper(counts: Floats, noisy: Floats, sd: float, edges: Sequence[int]) -> Floats:
    """The upper end: by the logarithm of the distance from the mode, where most tails bend down.

    The mode itself is often a spike (no votes, no answers) that tells nothing of the others.
    """
    mode = int(np.argmax(noisy))
    last = _last_seen(noisy, sd, mode)
    # Python's integers: edges of a bigint are further apart than int64 holds.
    far = np.array([abs(edge - edges[mode]) for edge in edges[mode:]], np.float64)
    ends = np.log1p(far / max(far[1], 1.0))
    back = int(np.searchsorted(ends, ends[last - mode] - _FACTOR))
    start = mode + max(1, min(back, last - mode - _BACK))
    if len(noisy) - start < _FEWEST or last + 1 >= len(noisy):
        return counts
    ends = ends[start - mode :]
    widths, middles = np.maximum(np.diff(ends), 1e-9), (ends[1:] + ends[:-1]) / 2
    place = (middles - middles[0]) / max(float(middles[-1] - middles[0]), 1e-9)
    curve = concave(noisy[start:], max(sd, 0.5), place, widths / widths[0])
    seen = slice(start, last + 1)
    densest = float((counts[seen] / widths[: last + 1 - start]).max(initial=0.0))
    tail = np.minimum(curve, densest * widths)[last + 1 - start :]
    out = np.array(counts)
    out[last + 1 :] = tail * _factor(*_beyond(counts, noisy, sd, last), float(tail.sum()))
    return out


def _beyond(counts: Floats, noisy: Floats, sd: float, last: int) -> tuple[float, float]:
    """Sum of the cells beyond a last one, and its variance: their own, and what others leave."""
    before = slice(last + 1)
    clear = noisy[before] > CLEAR * sd
    left = float(counts.sum() - np.where(clear, noisy[before], counts[before]).sum())
    own = float(noisy[last + 1 :].sum()), (len(noisy) - last - 1) * sd * sd
    return by_precision([own, (left, (int(clear.sum()) + 1) * sd * sd)])


def _factor(seen: float, variance: float, expected: float) -> float:
    """By how much a tail's noisy sum says that a curve is off, each by its precision."""
    if expected <= 0:
        return 1.0
    trust = _OFF**2 / (_OFF**2 + variance / expected**2)
    return float(np.clip(1.0 + trust * (seen / expected - 1.0), 0.25, 4.0))


def _last_seen(noisy: Floats, sd: float, mode: int) -> int:
    """The last cell that stands out, in a run from the mode without a wide gap, or clearly."""
    seen = np.zeros(len(noisy), bool)
    sums = np.concatenate([[0.0], np.cumsum(noisy)])
    for width in (1, 2, 4):
        found = sums[width:] - sums[:-width] > CLEAR * sd * np.sqrt(width)
        seen[width - 1 :] |= found
    last = mode
    for cell in np.flatnonzero(seen[mode:]) + mode:
        if cell - last > _GAP:
            break
        last = int(cell)
    ends = find_range(noisy, sd)
    return last if ends is None else max(last, ends[1])


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
