"""Find the range and the step of a column in noisy histograms (post-processing without cost)."""

import numpy as np

from privbench.arrays import Floats, Ints
from privbench.learning.denoise import PRESENT, SIGNIFICANT, SURE

#: A single cell is taken to hold rows if its count is so high that Laplace noise alone has such a
#: cell in only one of 2·_ODDS columns; a wide run of cells, if its sum passes `SURE` standard
#: deviations.
_ODDS = 25.0
#: Share of rows that may have more decimals than the column is taken to have; and the largest such
#: share once an allowance for noise is added.
_MORE, _AT_MOST = 0.02, 0.25
#: Least part of the rows of a wide range that a narrower range within it must hold.
_NEARLY_ALL = 0.9
#: Rows beyond the range that a column's name suggests count if they stand out of the noise times
#: this factor.
_BEYOND = 1.5
#: Fewer cells than this are no gap, and are taken whole if a name suggests them; a run of no more
#: than half as many may be the first to stand out.
_FEW = 16


def find_range(noisy: Floats, sd: float, *, narrow: bool = False) -> tuple[int, int] | None:
    """Return the first and last cell (inclusive) that hold rows, as far as noise shows, or None.

    ``noisy`` has the cells in order, shape (cells,). Single cells are tested first, then ever wider
    runs of cells beyond the ends found so far, since many cells with few rows each can stand out
    together. Cells next to these are added if they pass one standard deviation. With ``narrow``,
    None is returned if only wide runs stand out: this is for cells that grow by powers, where a run
    of many cells is a worse guess than the default.

    >>> find_range(np.array([0.0, 9.0, 1.0, 8.0, 0.5]), 1.0)
    (1, 3)
    >>> find_range(np.array([1.0, 0.0, 2.0]), 1.0)
    """
    first, last = len(noisy), -1
    cell = max(np.log(_ODDS * len(noisy)) / np.sqrt(2.0), SURE)
    sums = np.concatenate([[0.0], np.cumsum(noisy)])
    for width in (2**power for power in range(min(len(noisy).bit_length(), 8))):
        runs = sums[width:] - sums[:-width]
        limit = (SURE + (cell - SURE) / np.sqrt(width)) * sd * np.sqrt(width)
        starts = np.flatnonzero(runs > limit)
        if not len(starts):
            continue
        if narrow and last < first and width > _FEW // 2:
            return None
        if last < first:
            first, last = int(starts[0]), int(starts[-1]) + width - 1
            continue
        below, above = starts[starts + width <= first], starts[starts > last]
        first = int(below[0]) if len(below) else first
        last = int(above[-1]) + width - 1 if len(above) else last
    if first > last:
        return None
    while first > 0 and noisy[first - 1] > sd:
        first -= 1
    while last < len(noisy) - 1 and noisy[last + 1] > sd:
        last += 1
    return first, last


def find_within(noisy: Floats, sd: float, rows: float) -> tuple[int, int] | None:
    """Find a narrower range within a range that was found from a histogram of few cells.

    The result is the first and last cell (inclusive) of ``noisy``, the finer histogram, of shape
    (cells,). It is None if these cells hold too few of the ``rows`` rows that the wider range has
    by the histogram of few cells.

    >>> noisy = np.array([0.0, 9.0, 1.0, 8.0, 0.5])
    >>> find_within(noisy, 1.0, 19.0), find_within(noisy, 1.0, 40.0)
    ((1, 3), None)
    """
    ends = find_range(noisy, sd)
    if ends is None:
        return None
    first, last = ends
    inside = float(noisy[first : last + 1].sum())
    missing = _NEARLY_ALL * rows - inside
    return ends if missing <= sd * np.sqrt(last + 1 - first) / 2 else None


def within_likely(
    noisy: Floats, sd: float, ends: tuple[int, int], likely: tuple[int, int], *, whole: bool = True
) -> tuple[int, int]:
    """Limit a range to the likely cells, unless rows stand out of the noise beyond them.

    All ends are inclusive cells of ``noisy``, shape (cells,); those of the range are from
    `find_range`. Few likely cells are taken whole: a flag may be 0 even if only ones stand out of
    the noise. Without ``whole``, the range is searched anew within the likely cells.

    >>> noisy = np.array([0.0, 2.0, 9.0, 1.0, 5.5, 0.0])
    >>> within_likely(noisy, 1.0, (2, 4), (1, 2)), within_likely(noisy, 0.5, (2, 4), (1, 2))
    ((1, 2), (2, 4))
    """
    beyond = np.array(noisy)
    beyond[likely[0] : likely[1] + 1] = 0.0
    if find_range(beyond, _BEYOND * sd) is not None:
        return ends
    if not whole:
        ends = find_range(noisy - beyond, sd) or ends
    first, last = max(ends[0], likely[0]), min(ends[1], likely[1])
    if first > last:
        # Nothing stands out within the likely cells.
        return ends
    return likely if whole and likely[1] - likely[0] < _FEW else (first, last)


def cut(noisy: Floats, sd: float, first: int, last: int, cells: int, *, gaps: bool = False) -> Ints:
    """Return into how many parts to cut each cell, so that parts hold about equally many rows.

    The number is at least 1, or 0 for a cell that is merged with the one before it; shape (cells,).
    The cells from ``first`` to ``last``, inclusive, hold rows, and there are to be about ``cells``
    parts. With ``gaps``, the cells of a gap are merged: a gap is a long run of cells that, one by
    one and together, hold nothing. ``gaps`` is not for cells that grow by powers.

    >>> cut(np.array([0.0, 9.0, 1.0, 3.0, 0.5]), 0.1, 1, 3, 4).tolist()
    [1, 3, 1, 1, 1]
    >>> cut(np.array([9.0, *np.zeros(16), 9.0]), 0.1, 0, 17, 4, gaps=True).tolist()
    [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]
    """
    counts = np.where(noisy > SURE * sd, noisy, 0.0)
    total = max(float(noisy[first : last + 1].sum()), 1e-9)
    pieces = np.clip(np.round(counts * (cells / total)), 1, cells).astype(np.int64)
    runs = np.split(np.arange(len(noisy)), np.flatnonzero(np.diff(counts > 0)) + 1)
    for run in runs if gaps else []:
        inside = run[(run >= first) & (run <= last)]
        nothing = float(noisy[inside].sum()) <= PRESENT * sd * len(inside) ** 0.5
        if len(inside) >= _FEW and not counts[inside[0]] and nothing:
            pieces[inside[1:]] = 0
    return pieces


def find_law(noisy: Floats, sd: float, chances: Floats) -> tuple[float, ...]:
    """Return shares of values that lie at random on the multiples of each step.

    () if noise hides it.

    ``noisy`` is as for `find_step`, ``chances`` of shape (steps, steps): row j holds the shares of
    the multiples of step j that count for each step. From the finest step on, as many rows are
    taken to lie at random on its multiples as its own count shows, and those of them that count for
    coarser steps are subtracted there. What remains must be clear of the noise and of chance.

    >>> chances = np.array([[1.0, 0.0], [0.25, 0.75]])
    >>> find_law(np.array([0.0, 700.0, 300.0]), 1.0, chances)
    (0.6, 0.4)
    >>> find_law(np.array([0.0, 260.0, 740.0]), 1.0, chances)
    (0.0, 1.0)
    """
    counts, weights, explained = (
        noisy[1:].copy(),
        np.zeros(len(noisy) - 1),
        np.zeros(len(noisy) - 1),
    )
    for place in reversed(range(len(counts))):
        remaining = counts[place] - explained[place]
        if remaining > SURE * np.sqrt(sd**2 + explained[place]):
            weights[place] = remaining / chances[place, place]
            explained += weights[place] * chances[place]
    total = weights.sum()
    return tuple((weights / total).tolist()) if total > 0 else ()


def find_cycle(noisy: Floats, sd: float, law: Floats | None = None) -> tuple[float, ...]:
    """Return the shares of the positions in a cycle, such as weekdays; () where noise hides them.

    Deviations from equal shares, or from a public ``law``, are damped as far as noise alone would
    make them (positive-part James-Stein estimator), so that equal shares stay equal. Then negative
    shares become 0, and the same number is taken from all others. A law is kept where noise hides
    all but the sum.

    >>> [round(share, 3) for share in find_cycle(np.array([100.0, 0.0, 100.0, -1.0]), 1.0)]
    [0.5, 0.0, 0.5, 0.0]
    >>> find_cycle(np.array([10.0, 9.0, 11.0, 10.0]), 2.0)
    ()
    """
    cells, total = len(noisy), float(noisy.sum())
    if law is None and total <= SURE * sd * cells**0.5:
        return ()
    usual = np.full(cells, total / cells) if law is None else total * law / law.sum()
    apart = noisy - usual
    damping = max(1 - (cells - 3) * sd**2 / max(float(apart @ apart), 1e-9), 0.0)
    if damping == 0 and law is None:
        return ()
    damped = usual + damping * apart
    falling = -np.sort(-damped)
    excess = (np.cumsum(falling) - total) / np.arange(1, cells + 1)
    surplus = excess[np.flatnonzero(falling > excess)[-1]]
    shares = np.maximum(damped - surplus, 0.0)
    return tuple((shares / shares.sum()).tolist())


def common_step(law: tuple[float, ...], sizes: tuple[int, ...]) -> int:
    """Return the position of the coarsest step on which nearly all values lie, given step shares.

    >>> common_step((0.5, 0.0, 0.5, 0.0), (60, 50, 30, 1))
    2
    """
    shares_on_step = [
        sum(share for share, size in zip(law, sizes, strict=True) if size % step == 0)
        for step in sizes
    ]
    return next(place for place, share in enumerate(shares_on_step) if share >= 1 - _MORE - 1e-9)


def find_step(noisy: Floats, sd: float, default: int) -> int | None:
    """Return the position of the coarsest step such that nearly no rows need a finer step.

    ``noisy``, of shape (cells,), counts zeros, then values of ever finer steps (numbers with ever
    more decimals); the last cell is for values that lie on no lattice. ``default``
    is returned if only zeros stand out of the noise, and None if nothing does.

    >>> find_step(np.array([50.0, 900.0, 30.0, 2.0, 1.0]), 1.0, 2)
    1
    >>> find_step(np.array([50.0, 20.0, 0.0, 0.0, 900.0]), 1.0, 2)
    3
    >>> find_step(np.array([0.5, 2.0, -1.0, 1.0, 0.0]), 1.0, 2)
    """
    counts, cells = noisy[1:], np.arange(1, len(noisy))
    sums = np.cumsum(counts)
    clear = (sums > SURE * sd * np.sqrt(cells)) | (counts > SURE * sd)
    if not clear.any():
        return default if noisy[0] > SURE * sd else None
    total, more = sums[-1], sums[-1] - sums
    allowed = _MORE * total + SIGNIFICANT * sd * np.sqrt(len(counts) - cells)
    fits = more <= np.minimum(allowed, _AT_MOST * np.maximum(total, sums)) + 1e-9 * total
    enough = np.logical_or.accumulate(clear) & fits
    # Noise may make the total negative; then no place fits, and the last one is returned.
    return int(np.argmax(enough)) if enough.any() else len(counts) - 1
