"""Exact weighted counting in blocks.

Weights are integers of at most 2³⁰. A block has at most 2²² rows, so every partial sum of its
floating-point bincount is an integer of at most 2⁵² and exact; blocks are added as int64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import Axis, Read
from privbench.privacy.queries.regions import Region, region_weights, rows_of
from privbench.privacy.query import Integers

#: Most cells of one histogram.
MAX_CELLS = 2**28
_SMALL, _LARGE = 2**17, 2**22

#: Cells of one block of rows on one axis.
Cells = NDArray[np.intp]


def cells(sizes: Sequence[int]) -> int:
    """Number of cells of a joint histogram.

    Raises:
        SchemaError: More than `MAX_CELLS`.
    """
    product = 1
    for size in sizes:
        product *= size
    if product > MAX_CELLS:
        raise SchemaError(f"a histogram of {product} cells is too large.")
    return product


class View:
    """The rows of a region with their weights and their codes on some axes.

    Args:
        data: The database.
        table: The table.
        axes: Axes to read.
        region: The region, or None for all rows.
        weighted: Whether rows count with their weights; else each counts 1.
        tau: Weights by another τ than the table's own.
    """

    def __init__(
        self,
        data: PrivateDatabase,
        table: str,
        axes: Sequence[Axis],
        region: Region | None = None,
        *,
        weighted: bool = True,
        tau: int | None = None,
    ) -> None:
        if region is not None and region.table != table:
            raise SchemaError("the region belongs to another table.", table=table)
        self._rows = rows_of(data, region)
        self._length = data._rows(table) if self._rows is None else self._rows.size
        self._reads: list[Read] = [axis.read(data, table) for axis in axes]
        self._weights: NDArray[np.int64] | None = None
        if weighted:
            self._weights = region_weights(data, table, region, tau)
        self.sizes = tuple(axis.size for axis in axes)

    def blocks(self, size: int) -> Iterator[tuple[list[Cells], NDArray[np.int64] | int]]:
        """Codes on every axis and weights, block by block.

        Args:
            size: Cells of the largest histogram; blocks grow with it.
        """
        step = min(max(_SMALL, size), _LARGE)
        for start in range(0, self._length, step):
            at: Any = slice(start, start + step)
            if self._rows is not None:
                at = self._rows[at]
            yield [_codes(read, at) for read in self._reads], self._weight(at)

    def _weight(self, at: Any) -> NDArray[np.int64] | int:
        if self._weights is None:
            return 1
        if self._weights.strides == (0,):
            return int(self._weights[0])
        return np.asarray(self._weights[at])

    def count(self) -> Integers:
        """The weighted joint histogram over all axes, int64, shape `sizes`."""
        size = cells(self.sizes)
        total = np.zeros(size, dtype=np.int64)
        for columns, weights in self.blocks(size):
            add(total, joint(columns, self.sizes), weights)
        return total.reshape(self.sizes)


def _codes(read: Read, at: Any) -> Cells:
    codes, lookup = read
    block = codes[at]
    return np.asarray(block if lookup is None else lookup[block], dtype=np.intp)


def joint(columns: Sequence[Cells], sizes: Sequence[int]) -> Cells:
    """Cell of every row in the product of the axes, the last axis fastest."""
    index = columns[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        index = index * size + column
    return index


def add(total: Integers, index: Cells, weights: NDArray[np.int64] | int) -> None:
    """Add the weights of at most 2²² rows to the flat ``total``, exactly."""
    if isinstance(weights, int):
        total += np.bincount(index, minlength=total.size) * weights
    else:
        total += np.bincount(index, weights, minlength=total.size).astype(np.int64)
