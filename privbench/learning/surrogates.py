"""Estimate how often the values without a released label occur, from noisy counts by rank.

This is post-processing of `RankedCounts` and of the number of released labels, so it costs nothing.
"""

import numpy as np

from privbench.arrays import Floats
from privbench.encoding.surrogates import Surrogates
from privbench.learning.denoise import falling

#: A further run must reduce the sum of squared errors by this many variances of the noise. Noise
#: alone does so in 1 of 160 columns, as any of 20 blocks may (with 6: in 1 of 7; with 24: runs
#: under 4.9σ are lost, instead of 3.5σ).
_PENALTY = 12.0


def surrogates(noisy: Floats, sd: float, rows: float, named: int) -> Surrogates | None:
    """Return the frequencies of a column's values beyond the named ones; None if noise hides them.

    ``noisy`` are released sums over the ranks 1, 2, 3–4, 5–8, …, shape (blocks,), ``sd`` is their
    noise, and about ``rows`` rows have a value. The named values are taken to be the first ranks;
    where every value is named, the tuple is empty.

    The last block need not be full. If all values of the blocks before it have the same count, its
    values have that count too; else their counts fall linearly from those of the block before to
    one row. If the named values reach into the last block, they are taken to be all of it. If the
    noise allows that every value has one row, there are as many values as rows.

    >>> sums = np.array([40.0, 40.0, 40.0, 4.0, 0.0, 0.0])
    >>> surrogates(sums, 1.0, 124.0, 0), surrogates(sums, 1.0, 124.0, 5)
    (((1, 0.32...), (1, 0.32...), (2, 0.32...), (1, 0.03...)), ())
    """
    full = 2.0 ** np.maximum(np.arange(len(noisy)) - 1, 0)
    counts = _runs(noisy, full, sd)
    if not len(counts):
        return None
    full = full[: len(counts)]
    sums = counts * full
    one = sums.sum() / max(rows, 1.0)
    values, several = full.copy(), counts > one + sd / full
    if len(values) > 1:
        even = len(values) > 2 and counts[-2] == counts[-3]
        last = sums[-1] / max(counts[-2] if even else (counts[-2] + one) / 2, one)
        values[-1] = float(np.clip(np.rint(last), 1.0, full[-1]))
        several[-1] = several[-2]
    first = int(np.flatnonzero(several)[-1]) + 1 if several.any() else 0
    if named > values[:-1].sum():
        return ()
    left = np.clip(np.cumsum(values) - named, 0.0, values)
    unnamed = sums * left / values
    shares = unnamed / unnamed.sum()
    blocks = [(int(left[b]), float(shares[b])) for b in range(first) if left[b]]
    single = float(shares[first:].sum())
    return (*blocks, (0, single)) if single > 0 else tuple(blocks)


def _runs(noisy: Floats, values: Floats, sd: float) -> Floats:
    """Counts of single values, descending, up to the last block that stands out of the noise.

    They are fitted by least squares. Counts are equal within a run of blocks, every run costs a
    penalty, and after the last run all counts are 0.
    """
    best: list[tuple[float, Floats]] = [(0.0, np.zeros(0))]
    for end in range(1, len(noisy) + 1):
        tried = []
        for start in range(end):
            part, size = noisy[start:end], values[start:end]
            count = max(float(part @ size / (size @ size)), 0.0)
            cost = float((((part - count * size) / sd) ** 2).sum()) + _PENALTY
            tried.append((best[start][0] + cost, start, count))
        cost, start, count = min(tried)
        best.append((cost, np.append(best[start][1], np.full(end - start, count))))
    tails = np.append(np.cumsum((noisy[::-1] / sd) ** 2)[::-1], 0.0)
    counts = best[int(np.argmin([cost for cost, _ in best] + tails))][1]
    weights = values[: len(counts)] ** 2
    descending: Floats = falling(counts, weights)
    return descending if descending.any() else descending[:0]
