"""Systematic draws from many distributions at once, without a loop over draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Rows that are drawn at once, for memory alone. Fewer would be farther from their law, since rows
#: are stratified part by part; twice as many take twice the memory in every thread that draws.
PART = 2**18


def draw(
    table: Floats,
    rows: NDArray[Any],
    generator: np.random.Generator,
    keys: Floats | None = None,
) -> Ints:
    """One column index per row from the distribution ``table[row]``.

    Rows that share a distribution are stratified in random order, so that their counts are off
    from the expected ones by less than 1 (systematic sampling).

    Args:
        table: Distributions, shape (distributions, cells); rows sum to 1.
        rows: Distribution of every row, shape (n,).
        generator: Source of randomness.
        keys: Numbers of the rows whose order takes the place of the random one.
    """
    count = len(rows)
    if not count or table.shape[1] == 1:
        return np.zeros(count, np.int64)
    kind = np.uint16 if len(table) <= 2**16 else np.int64
    order = generator.permutation(count) if keys is None else np.argsort(keys, kind="stable")
    if len(table) > 1:
        order = order[np.argsort(rows[order].astype(kind), kind="stable")]
    sizes = np.bincount(rows, minlength=len(table))
    ends = np.cumsum(sizes)
    # The place of every row among those of its distribution, then its number: they ascend.
    numbers = np.arange(count) - np.repeat(ends - sizes, sizes) + generator.random(count)
    numbers /= np.repeat(sizes, sizes)
    np.minimum(numbers, 1 - 1e-12, out=numbers)
    numbers += np.repeat(np.arange(len(table)), sizes)
    steps = np.cumsum(table, axis=1)
    steps /= steps[:, -1:]
    steps += np.arange(len(table))[:, None]
    # How many numbers lie below the end of each cell; of the last one, all of its distribution.
    below = np.searchsorted(numbers, steps.ravel())
    below[table.shape[1] - 1 :: table.shape[1]] = ends
    cells = np.tile(np.arange(table.shape[1]), len(table))
    found = np.empty(count, np.int64)
    found[order] = np.repeat(cells, np.diff(below, prepend=0))
    return found
