"""Kernel herding: choose rows from a pool so that pairs of columns have the pool's marginals.

Rows that are drawn one by one miss the expected counts of a pair table by the square root of the
counts, and cells that expect one row are often empty. Herding (Welling 2009; Chen, Welling and
Smola 2010) chooses the rows one after the other: among a few candidates, the row that brings the
counts of all pairs nearest to their expectation. This is post-processing of a released distribution
and reads no private rows. The counts of rare cells become more even than in a random sample, so
herded rows must never be used to judge the variance of a sample.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privbench.arrays import Floats, Ints, Rng
from privbench.domain import Codes
from privbench.learning.graphical.table_model import TableModel
from privbench.learning.graphical.tilting import weights_of

#: Rows of the pool, and candidates, for every place. Coded Adult's 3-way divergence with 2, 4, 8:
#: .228, .216, .210.
CANDIDATES = 8
#: Most rows, and most rows times pairs of columns, that are herded: a limit on time alone, of some
#: 20 microseconds a row.
MOST_ROWS, MOST_WORK = 200_000, 2 * 10**7
#: Most pairs of columns, a limit on memory: each has a table of at most `MOST_CELLS` counts.
MOST_PAIRS, MOST_CELLS = 500, 2**14
#: Added to the due count that divides a cell's squared excess, so that rare cells do not rule.
SOFT = 4.0
#: Weight of a row's own square in its cost. At 1 every cell that is due less than one row would be
#: dear, and such cells would get half of what is due to them; at ½ they get their due.
OWN = 0.5
#: Places whose candidates are looked up at once: a limit on memory alone.
_BATCH = 1024
#: Multiplier of a hash (Knuth), for pair tables with more than `MOST_CELLS` cells.
_HASH = 2654435761


def is_affordable(model: TableModel, rows: int) -> bool:
    """Return whether herding so many rows of a table takes seconds and fits in memory."""
    columns = len(model.parts()[0].factors)
    pairs = columns * (columns - 1) // 2
    fits = 0 < pairs <= MOST_PAIRS and 0 < rows <= MOST_ROWS and rows * pairs <= MOST_WORK
    return fits and model.attributes is None


def sample(model: TableModel, cells: Sequence[int], rows: int, generator: Rng) -> dict[int, Codes]:
    """Return herded rows of a table without context: the cells of all its columns, by position.

    ``cells`` has the number of cells of every column. Columns that no factor joins to another are
    drawn independently, since choosing from a pool would only add sampling error to their shares.
    """
    joint, single = model.parts()
    places = sorted(factor.column for factor in joint.factors)
    pool = joint.sample({}, CANDIDATES * rows, generator)
    columns, sizes = [pool[place] for place in places], [cells[place] for place in places]
    weights = weights_of(joint.tilts, pool, CANDIDATES * rows)
    chosen = herd(columns, sizes, rows, generator, weights)
    drawn = single.sample({}, rows, generator)
    return drawn | {place: codes[chosen] for place, codes in pool.items()}


def herd(
    pool: Sequence[Codes],
    cells: Sequence[int],
    rows: int,
    generator: Rng,
    weights: Floats,
) -> Ints:
    """Choose rows of a pool by kernel herding; return row numbers of shape (rows,).

    ``pool`` has the codes of two columns or more, each of shape (pool rows,), and ``cells`` the
    number of their codes. ``weights``, of shape (pool rows,) and any positive sum, are the
    proportions in which the pool's rows are expected.
    """
    candidates = np.stack([_systematic(weights, rows, generator) for _ in range(CANDIDATES)], 1)
    pairs = _PairCells(pool, cells)
    due = pairs.counts(weights * (rows / weights.sum()))
    price = 1.0 / (due + SOFT)
    # The cost of a row is the sum over its cells of (2 (count − due so far) + OWN) · price.
    growth, dues = (2.0 * price).astype(np.float32), (2.0 * due * price).astype(np.float32)
    costs = (OWN * price).astype(np.float32)
    chosen = np.empty(rows, np.int64)
    for start in range(0, rows, _BATCH):
        some = candidates[start : start + _BATCH]
        at = pairs.of(some)
        expected = dues[at].sum(axis=2)
        for place, here in enumerate(at):
            part = (start + place + 1.0) / rows
            best = int((costs[here].sum(axis=1) - part * expected[place]).argmin())
            cell = here[best]
            costs[cell] += growth[cell]
            chosen[start + place] = some[place, best]
    return chosen


def _systematic(weights: Floats, rows: int, generator: Rng) -> Ints:
    """Row numbers of a systematic sample in proportion to weights, in random order."""
    order = generator.permutation(len(weights))
    steps = np.cumsum(weights[order])
    at = (np.arange(rows) + generator.random()) / rows * steps[-1]
    places = np.minimum(np.searchsorted(steps, at, side="right"), len(order) - 1)
    return generator.permutation(order[places])


class _PairCells:
    """Where the rows of a pool stand in the pair tables of all columns, laid one after another."""

    def __init__(self, pool: Sequence[Codes], cells: Sequence[int]) -> None:
        self._codes = np.stack([codes.astype(np.int32) for codes in pool])
        self._first, self._second = np.triu_indices(len(pool), 1)
        sizes = np.asarray(cells, np.int64)
        self._factor = sizes[self._second]
        whole = sizes[self._first] * self._factor
        self._hashed = whole > MOST_CELLS
        self._length = np.minimum(whole, MOST_CELLS)
        self._start = np.cumsum(self._length) - self._length

    def of(self, rows: Ints) -> Ints:
        """Cells of some rows of the pool, in the shape of ``rows`` with one more axis of pairs."""
        codes = np.moveaxis(self._codes[:, rows], 0, -1)
        cells = codes[..., self._first] * self._factor + codes[..., self._second]
        cells[..., self._hashed] = _hashed(cells[..., self._hashed])
        return np.asarray(cells + self._start)

    def counts(self, weights: Floats) -> Floats:
        """Sum of the weights of the pool's rows by cell."""
        counts = []
        pairs = zip(
            self._first, self._second, self._factor, self._hashed, self._length, strict=True
        )
        for first, second, factor, hashed, length in pairs:
            cells = self._codes[first] * factor + self._codes[second]
            counts.append(np.bincount(_hashed(cells) if hashed else cells, weights, length))
        return np.concatenate(counts)


def _hashed(cells: Ints) -> Ints:
    """A cell below `MOST_CELLS` for every cell of a larger pair table."""
    return np.asarray((cells * _HASH >> 7) & (MOST_CELLS - 1))
