"""How strongly two columns hang together, from their contingency table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbench.metrics.kld import Coded
from privbench.metrics.summary import Floats


@dataclass(frozen=True, slots=True)
class Association:
    """Matrices of association, shape (d, d), symmetric; NaN where it is not defined.

    Attributes:
        real: Of the source.
        clone: Of the clone.
    """

    real: Floats
    clone: Floats

    @property
    def mean_difference(self) -> float | None:
        """Mean of |real − clone| over the pairs that both sides have; None without any."""
        gaps = np.abs(self.real - self.clone)[np.triu_indices(len(self.real), 1)]
        known = gaps[~np.isnan(gaps)]
        return float(known.mean()) if len(known) else None


def association(columns: list[Coded], ordered: list[bool]) -> Association:
    """Associations of all pairs of columns on both sides.

    Args:
        columns: Codes of both sides, d columns; code 0 is NULL.
        ordered: Whether a column's codes stand in an order. Two ordered columns get Spearman's
            correlation, other pairs Cramér's V.

    Returns:
        The two matrices; the diagonal is NaN.
    """
    d = len(columns)
    out = np.full((2, d, d), np.nan)
    for i in range(d):
        for j in range(i):
            measure = spearman if ordered[i] and ordered[j] else cramers_v
            pairs = (
                (columns[i].real, columns[j].real),
                (columns[i].clone, columns[j].clone),
            )
            for side, (one, other) in enumerate(pairs):
                table = contingency(one, other, (columns[i].size, columns[j].size))
                out[side, i, j] = out[side, j, i] = measure(table)
    return Association(out[0], out[1])


def contingency(
    one: NDArray[np.unsignedinteger], other: NDArray[np.unsignedinteger], shape: tuple[int, int]
) -> Floats:
    """Counts of the pairs of codes, of the given shape."""
    codes = one.astype(np.int64) * shape[1]
    codes += other
    return np.bincount(codes, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)


def spearman(table: Floats) -> float:
    """Spearman's rank correlation of two ordered codes, ties by mid-ranks.

    Args:
        table: Counts, shape (k, m); row 0 and column 0 are NULL and left out.

    Returns:
        In [−1, 1]; NaN where a column is constant.

    >>> float(spearman(np.pad(np.diag([1.0, 2.0, 3.0]), ((1, 0), (1, 0)))))
    1.0
    """
    inner = table[1:, 1:]
    total = inner.sum()
    if total == 0:
        return float("nan")
    x, y = _midranks(inner.sum(axis=1)), _midranks(inner.sum(axis=0))
    x, y = x - inner.sum(axis=1) @ x / total, y - inner.sum(axis=0) @ y / total
    spread = (inner.sum(axis=1) @ x**2) * (inner.sum(axis=0) @ y**2)
    if spread <= 0:
        return float("nan")
    return float(np.clip((x @ inner @ y) / np.sqrt(spread), -1.0, 1.0))


def _midranks(counts: Floats) -> Floats:
    return np.asarray(np.cumsum(counts) - counts / 2)


def cramers_v(table: Floats) -> float:
    """Cramér's V, corrected for bias (Bergsma 2013): two independent columns are near 0.

    Args:
        table: Counts, shape (k, m); empty rows and columns take no part.

    Returns:
        In [0, 1]; NaN where a column is constant.
    """
    used = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    n, (k, m) = used.sum(), used.shape
    if n < 2 or min(k, m) < 2:
        return float("nan")
    expected = np.outer(used.sum(axis=1), used.sum(axis=0)) / n
    phi = float(np.sum((used - expected) ** 2 / expected)) / n
    excess = max(0.0, phi - (k - 1) * (m - 1) / (n - 1))
    rows, columns = (size - (size - 1) ** 2 / (n - 1) for size in (k, m))
    room = min(rows, columns) - 1
    return float(np.sqrt(min(1.0, excess / room))) if room > 0 else float("nan")
