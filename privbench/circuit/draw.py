"""Systematic draws from many distributions at once, without a loop over draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.circuit.structure import Floats, Ints


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
    tables, width = table.shape
    if not len(rows) or width == 1:
        return np.zeros(len(rows), np.int64)
    sizes, numbers = np.full(tables, width), np.tile(np.arange(width), tables)
    return draw_cells(table.ravel(), sizes, numbers, rows, generator, keys)


def draw_cells(
    shares: Floats,
    widths: Ints,
    cells: Ints,
    rows: NDArray[Any],
    generator: np.random.Generator,
    keys: Floats | None = None,
) -> Ints:
    """As `draw`, from distributions that need not have equally many cells.

    Args:
        shares: Shares of the cells of one distribution after the other, with any sums above 0.
        widths: How many cells each distribution has.
        cells: What a row gets that falls into a cell; of the shape of the shares.
        rows: Distribution of every row, shape (n,).
        generator: Source of randomness.
        keys: Numbers of the rows whose order takes the place of the random one.
    """
    count, tables = len(rows), len(widths)
    kind = np.uint16 if tables <= 2**16 else np.int64
    order = generator.permutation(count) if keys is None else np.argsort(keys, kind="stable")
    if tables > 1:
        order = order[np.argsort(rows[order].astype(kind), kind="stable")]
    sizes = np.bincount(rows, minlength=tables)
    ends = np.cumsum(sizes)
    # The place of every row among those of its distribution, then its number: they ascend.
    numbers = np.arange(count) - np.repeat(ends - sizes, sizes) + generator.random(count)
    numbers /= np.repeat(sizes, sizes)
    np.minimum(numbers, 1 - 1e-12, out=numbers)
    numbers += np.repeat(np.arange(tables), sizes)
    last = np.cumsum(widths) - 1
    steps = np.append(0.0, np.cumsum(shares))
    first = steps[last + 1 - widths]
    sums = np.repeat(steps[last + 1] - first, widths)
    steps = np.minimum((steps[1:] - np.repeat(first, widths)) / sums, 1.0)
    steps += np.repeat(np.arange(tables), widths)
    # How many numbers lie below the end of each cell; of the last one, all of its distribution.
    below = np.searchsorted(numbers, steps)
    below[last] = ends
    found = np.empty(count, cells.dtype)
    found[order] = np.repeat(cells, np.diff(below, prepend=0))
    return found
