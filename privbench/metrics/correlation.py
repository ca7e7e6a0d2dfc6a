"""How strongly two columns are associated, computed from the pairs of codes that occur.

A clone's free text may have as many values as rows, so no array here is as large as the product of
the numbers of values of two columns.
"""

from collections.abc import Sequence

import numpy as np

from privbench.arrays import AnyInts, Floats, Ints
from privbench.metrics.kld import Coded

#: Pairs of values are counted in an array of at most 4 cells per row plus 65,536 cells; if it would
#: be larger, pairs are sorted instead.
_CELLS_A_ROW, _CELLS = 4, 1 << 16


def mean_difference(real: Floats, clone: Floats) -> float | None:
    """Return the mean of |real − clone| over the pairs defined on both sides, or None."""
    gaps = np.abs(real - clone)[np.triu_indices(len(real), 1)]
    known = gaps[~np.isnan(gaps)]
    return float(known.mean()) if len(known) else None


def association(columns: Sequence[Coded], ordered: Sequence[bool]) -> Floats:
    """Return the associations of all pairs of columns in source and clone, shape (2, d, d).

    They are symmetric, and NaN where they are not defined. Code 0 is NULL. Two columns whose codes
    have an order get Spearman's correlation, other pairs Cramér's V.
    """
    d = len(columns)
    out = np.full((2, d, d), np.nan)
    for i in range(d):
        for j in range(i):
            measure = spearman if ordered[i] and ordered[j] else cramers_v
            pairs = ((columns[i].real, columns[j].real), (columns[i].clone, columns[j].clone))
            for side, (one, other) in enumerate(pairs):
                out[side, i, j] = out[side, j, i] = measure(one, other)
    return out


def spearman(one: AnyInts, other: AnyInts) -> float:
    """Return Spearman's rank correlation of two ordered columns; equal values get mid-ranks.

    It is NaN where a column is constant. Rows with code 0 (NULL) in either column are left out.

    >>> spearman(np.array([1, 2, 2, 3, 0]), np.array([1, 2, 2, 3, 1]))
    1.0
    """
    first, second, counts = _pairs(one, other)
    known = (first > 0) & (second > 0)
    first, second, counts = first[known], second[known], counts[known]
    if not len(counts):
        return float("nan")
    x, y = (_midranks(codes, counts)[codes] for codes in (first, second))
    x, y = x - np.average(x, weights=counts), y - np.average(y, weights=counts)
    spread = (counts @ x**2) * (counts @ y**2)
    if spread <= 0:
        return float("nan")
    return float(np.clip((counts @ (x * y)) / np.sqrt(spread), -1.0, 1.0))


def cramers_v(one: AnyInts, other: AnyInts) -> float:
    """Return Cramér's V, corrected for bias (Bergsma 2013), so that independent columns are near 0.

    It is NaN where a column is constant.
    """
    first, second, counts = _pairs(one, other)
    if not len(counts):
        return float("nan")
    rows, columns = np.bincount(first, counts), np.bincount(second, counts)
    n, k, m = counts.sum(), np.count_nonzero(rows), np.count_nonzero(columns)
    if n < 2 or min(k, m) < 2:
        return float("nan")
    # Σ (o − e)²/e over all cells equals Σ o²/e − n, where the sum is over the cells that occur.
    phi = float(np.sum(counts**2 / (rows[first] * columns[second]))) - 1.0
    excess = max(0.0, phi - (k - 1) * (m - 1) / (n - 1))
    sizes = (size - (size - 1) ** 2 / (n - 1) for size in (k, m))
    room = min(sizes) - 1
    return float(np.sqrt(min(1.0, excess / room))) if room > 0 else float("nan")


def _pairs(one: AnyInts, other: AnyInts) -> tuple[Ints, Ints, Floats]:
    """The pairs of codes that occur, and how often."""
    width = int(other.max(initial=0)) + 1
    joint = one.astype(np.int64) * width
    joint += other
    if (int(one.max(initial=0)) + 1) * width <= _CELLS_A_ROW * len(one) + _CELLS:
        table = np.bincount(joint)
        pairs = np.flatnonzero(table)
        counts = table[pairs]
    else:
        pairs, counts = np.unique(joint, return_counts=True)
    return pairs // width, pairs % width, counts.astype(np.float64)


def _midranks(codes: Ints, counts: Floats) -> Floats:
    each = np.asarray(np.bincount(codes, counts), dtype=np.float64)
    return np.asarray(np.cumsum(each) - each / 2)
