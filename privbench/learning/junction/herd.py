"""Herding: choose, from a pool, the rows that together match the pool's value-level pair tables.

Greedy choice among a few candidates for every row, then one pass that exchanges rows. What a row
costs is the growth of the squared excess over what is due so far, in every pair cell, divided by
the due count. A row's own square counts half: counted whole it makes every cell that is due less
than one row dear, so that such cells get half of what is due to them; at half they get their due.
"""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np
from numpy.typing import NDArray

from privbench.learning.denoise import Floats

Ints = NDArray[np.int64]
#: Candidates for every row.
CANDIDATES = 8
#: Most rows, pairs, and rows times pairs that are herded.
MOST_ROWS, _MOST_PAIRS, _MOST_WORK = 200_000, 500, 2 * 10**7
#: log₂ of the most cells of one pair table; larger ones are hashed.
_HASH = 20
#: Added to due counts, so that rare cells do not rule.
_SOFT = 4.0
#: Weight of a row's own square in its cost; see above.
_OWN = np.float32(0.5)
_STRIDE, _MULTIPLIER = 7919, 2654435761


@numba.njit(cache=True, nogil=True)
def _place(first, second, size, start, mask):  # type: ignore[no-untyped-def]
    """Cell of two codes."""
    code = np.int64(first) * size + second
    if mask:
        code = (code * _MULTIPLIER >> 7) & mask
    return start + code


@numba.njit(cache=True, nogil=True)
def _cell(values, row, first, second, size, start, mask):  # type: ignore[no-untyped-def]
    """Cell of a row in one pair table."""
    return _place(values[row, first], values[row, second], size, start, mask)


@numba.njit(cache=True, nogil=True)
def _due(values, weights, pairs, due):  # type: ignore[no-untyped-def]
    """Add every row's weight to its cells; attributes first, so that a pair is read in order."""
    for pair in range(len(pairs)):
        first, second, size, start, mask = pairs[pair]
        for row in range(len(weights)):
            due[_place(values[first, row], values[second, row], size, start, mask)] += weights[row]


@numba.njit(cache=True, nogil=True)
def _choose(values, pairs, due, candidates, rows, fixed):  # type: ignore[no-untyped-def]
    """Row numbers, shape (rows,); candidate ``q`` for place ``t`` is ``candidates[q, t]``.

    Where places are not fixed, the second pass looks at the candidates of other places.
    """
    count = len(pairs)
    held = np.zeros(len(due), np.float32)
    price = (1.0 / (due + _SOFT)).astype(np.float32)
    due = due.astype(np.float32)
    chosen = np.zeros(rows, np.int64)
    for step in range(2 * rows):
        place, first_pass = step % rows, step < rows
        part = np.float32((place + 1.0) / rows) if first_pass else np.float32(1.0)
        best = np.float32(np.inf)
        row = np.int64(-1)
        if not first_pass:
            row, best = chosen[place], np.float32(0.0)
            for pair in range(count):
                p = pairs[pair]
                cell = _cell(values, row, p[0], p[1], p[2], p[3], p[4])
                held[cell] -= np.float32(1.0)
                best += (np.float32(2.0) * (held[cell] - due[cell]) + _OWN) * price[cell]
        for q in range(len(candidates)):
            shift = 0 if first_pass or fixed else _STRIDE + 13 * q
            other = candidates[q, (place + shift) % rows]
            cost = np.float32(0.0)
            for pair in range(count):
                p = pairs[pair]
                cell = _cell(values, other, p[0], p[1], p[2], p[3], p[4])
                excess = np.float32(2.0) * (held[cell] - due[cell] * part) + _OWN
                cost += excess * price[cell]
            if cost < best:
                best, row = cost, other
        chosen[place] = row
        for pair in range(count):
            p = pairs[pair]
            held[_cell(values, row, p[0], p[1], p[2], p[3], p[4])] += np.float32(1.0)
    return chosen


def herd(
    values: Ints, weights: Floats, candidates: Ints, sizes: Sequence[int], given: int = 0
) -> Ints:
    """Choose rows of a pool.

    Args:
        values: Codes of the pool, shape (pool rows, attributes).
        weights: Weight of every row of the pool.
        candidates: Rows to choose from for every place, shape (choices, places).
        sizes: Size of every attribute's domain.
        given: How many of the attributes, from the first, are given. Then the candidates of a place
            are for that place alone.

    Returns:
        Row numbers into the pool, shape (places,).
    """
    pairs, cells = _layout(sizes, given)
    due = np.zeros(cells)
    _due(np.ascontiguousarray(values.T, np.int32), weights, pairs, due)
    rows = candidates.shape[1]
    due *= rows / weights.sum()
    return np.asarray(_choose(values, pairs, due, candidates, rows, given > 0))


def _layout(sizes: Sequence[int], given: int) -> tuple[Ints, int]:
    """First and second attribute, factor, start and hash mask of every pair; number of cells."""
    found: list[tuple[int, int, int, int, int]] = []
    start = 0
    for first in range(len(sizes)):
        for second in range(max(first + 1, given), len(sizes)):
            cells = sizes[first] * sizes[second]
            mask = (1 << _HASH) - 1 if cells > 1 << _HASH else 0
            found.append((first, second, sizes[second], start, mask))
            start += mask + 1 if mask else cells
    return np.array(found, np.int64).reshape(-1, 5), start


def affordable(rows: int, sizes: Sequence[int], given: int = 0) -> bool:
    """Whether herding that many rows takes seconds, not minutes, and fits in memory."""
    own = len(sizes) - given
    pairs = own * (own - 1) // 2 + own * given
    return 0 < rows <= MOST_ROWS and 0 < pairs * rows <= _MOST_WORK and pairs <= _MOST_PAIRS
