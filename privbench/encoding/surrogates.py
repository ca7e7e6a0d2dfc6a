"""Surrogate values: how often each made-up text occurs in a column."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Blocks of values that occur alike, the most frequent first: how many values, and the share that
#: they have together of the rows without a label. 0 values: every row has one of its own.
Surrogates = tuple[tuple[int, float], ...]

#: What is usual of columns whose name tells that many rows share few values, a status or a type.
KIND: Surrogates = ((1, 0.45), (1, 0.2), (2, 0.2), (4, 0.15))
#: Most values of all blocks: those that blocks of ranks tell apart, with room.
_MOST = 2**21


def times(surrogates: Surrogates, rows: int) -> NDArray[np.int64]:
    """How many rows each value has, shape (values,); they sum to the rows.

    >>> times(((1, 0.5), (2, 0.4), (0, 0.1)), 10).tolist()
    [5, 2, 2, 1]
    """
    values = np.array([count for count, _ in surrogates], dtype=np.int64)
    shares = np.array([share for _, share in surrogates])
    single = int(np.rint(rows * shares[values == 0].sum() / shares.sum()))
    listed, parts = values[values > 0], shares[values > 0]
    single = single if len(listed) else rows
    ends = np.cumsum(np.repeat(parts / np.maximum(listed, 1), listed))
    held = np.diff(np.rint(ends / ends[-1] * (rows - single)), prepend=0) if len(ends) else ends
    return np.append(held[held > 0], np.ones(single)).astype(np.int64)


def surrogates_from_json(data: Any) -> Surrogates | None:
    """The blocks that a model holds.

    Raises:
        ValueError: They are no blocks: a model may hold anything.
    """
    if data is None:
        return None
    found = tuple((count, float(share)) for count, share in data)
    sound = all(type(n) is int and n >= 0 and 0 < share < math.inf for n, share in found)
    if not sound or sum(count for count, _ in found) > _MOST:
        raise ValueError("these are no blocks of surrogate values")
    return found
