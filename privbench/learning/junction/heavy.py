"""Heavy values of a large ordered domain: single codes that hold far more than those around them.

Amounts of money, scores and counters often keep a tenth of their rows on a few hundred values out
of a hundred thousand. A histogram of cells smears such a value over its cell, and a query for it
finds nothing. So codes are looked at one by one inside the cells that hold rows at all (a scan of
its own, *measured*); those that stand out are kept apart from then on. Whatever a scan decides
follows from released numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Domain
from privbench.learning.denoise import Floats, Noise

Ints = NDArray[np.int64]

#: Most codes that are scanned one by one, and most that are kept apart.
_MOST_CODES, _MOST_HEAVY = 2**17, 256
#: A cell is opened where its count stands this many standard deviations of a scan above zero.
_OPEN = 3.0
#: A heavy code holds this many times what the codes of its cell hold on average.
_STANDS_OUT = 8.0
#: Expected number of empty codes that pass for heavy ones.
_FALSE = 8.0


def opened(cell: Ints, noisy: Floats, sd: float, domain: Domain) -> Ints:
    """Cells of a scan: the codes of all cells that hold enough, one by one; the rest as it was.

    Args:
        cell: Cell of every code, shape (domain size,).
        noisy: Noisy counts per cell.
        sd: Standard deviation of the scan's noise.
        domain: The attribute's domain; special cells and NULL stay by themselves.

    Returns:
        Cell of every code in the scan; as ``cell`` where nothing is worth a scan.
    """
    widths = np.bincount(cell)
    order = np.argsort(-noisy, kind="stable")
    order = order[(noisy[order] >= _OPEN * sd) & (widths[order] > 1)]
    chosen = order[np.cumsum(widths[order]) <= _MOST_CODES]
    open_ = np.isin(cell, chosen)
    starts = np.diff(cell, prepend=-1) != 0
    return np.cumsum(starts | open_) - 1


def heavy_codes(cell: Ints, scan: Ints, noisy: Floats, sd: float, noise: Noise) -> Ints:
    """Codes that stand out in a scan, ascending.

    Args:
        cell: Cell of every code before the scan.
        scan: Cell of every code in the scan, as `opened` gave it.
        noisy: Noisy counts of the scan.
        sd: Standard deviation of their noise.
        noise: Its law.
    """
    widths = np.bincount(cell)
    single = (np.bincount(scan)[scan] == 1) & (widths[cell] > 1)
    counts = np.where(single, noisy[scan], 0.0)
    inside = np.bincount(cell, counts)[cell]
    others = np.maximum(inside - counts, 0.0) / np.maximum(widths[cell] - 1, 1)
    bar = _bar(max(int(single.sum()), 1), sd, noise)
    found = np.flatnonzero(single & (counts > np.maximum(bar, _STANDS_OUT * others)))
    kept = found[np.argsort(-counts[found], kind="stable")[:_MOST_HEAVY]]
    return np.sort(kept)


def _bar(codes: int, sd: float, noise: Noise) -> float:
    """A count that `_FALSE` of so many empty codes is expected to pass."""
    odds = codes / (2 * _FALSE)
    if noise == "laplace":
        return float(sd / np.sqrt(2.0) * np.log(odds))
    return float(sd * np.sqrt(2.0 * np.log(odds)))


def apart(cell: Ints, heavy: Ints) -> Ints:
    """The same cells with heavy codes cut out; each of them is a cell of its own."""
    starts = np.diff(cell, prepend=-1) != 0
    starts[heavy] = True
    after = heavy + 1
    starts[after[after < len(cell)]] = True
    return np.cumsum(starts) - 1
