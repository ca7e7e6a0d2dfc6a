"""Exact weighted counting in blocks of rows, in this process or on workers.

Weights are integers of at most 2³⁰. A block has at most 2²² rows, so every partial sum of its
floating-point bincount is an integer of at most 2⁵² and exact; blocks are added as int64.

Integer counts are additive: a table's counts are the sum of the counts of its parts, however it is
divided. So it does not matter for the result where a part is counted, as long as every row counts
with the weight that it has in the whole table. Weights and ranks are properties of a unit, whose
rows may lie in many parts: they are never computed within a part.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import AnyInts, Ints
from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import Axis, AxisCodes
from privbench.privacy.units import RowIndex

#: Most cells of one histogram.
MAX_CELLS = 2**28
#: Least and most rows of a block. Arrays of 2¹⁵ rows stay in the processor's cache; with 2¹⁷ rows a
#: lookup or a joint index takes twice as long.
_SMALL, _LARGE = 2**15, 2**22
#: Most cells of a histogram from which several are summed up. Half or double takes about as long.
_TOGETHER = 2**13


class RowSubset(ABC):
    """Some rows of a table, chosen by a public rule that reads the row's own unit alone.

    So whether a row belongs to the subset does not change when another unit is removed: claims rely
    on that. It is hashable, and equal to a value that describes the same rows in the same way.
    """

    table: str

    @property
    def whole(self) -> bool:
        """Whether it contains all rows by its description alone."""
        return False

    @abstractmethod
    def rows(self, data: PrivateDatabase) -> RowIndex | None:
        """Return the positions of its rows, ascending; None if it is `whole`."""

    @staticmethod
    def overlap(amounts: Iterable[tuple[RowSubset | None, float]]) -> float:
        """Return an upper bound of the sum of the amounts of those subsets that share a row.

        ``amounts`` are given by subsets, which are None (all rows) or of one class. Unless this
        class knows better, a row may lie in all of them.
        """
        return float(sum(amount for _, amount in amounts))


def cells(sizes: Sequence[int]) -> int:
    """Return the number of cells of a joint histogram, at most `MAX_CELLS`."""
    product = math.prod(sizes)
    if product > MAX_CELLS:
        raise SchemaError(f"a histogram of {product} cells is too large.")
    return product


@dataclass(frozen=True, slots=True)
class Marginals:
    """Joint histograms of one table's rows, each over some of the same axes."""

    table: str
    axes: tuple[Axis, ...]
    # For every histogram the positions in ``axes`` of its axes; the last one varies fastest.
    sets: tuple[tuple[int, ...], ...]
    region: RowSubset | None = None  # the rows that are counted, or None for all

    def __post_init__(self) -> None:
        if self.region is not None and self.region.table != self.table:
            raise SchemaError("the region belongs to another table.", table=self.table)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [tuple(self.axes[place].size for place in chosen) for chosen in self.sets]


def marginals(data: PrivateDatabase, sets: Marginals, *, keep: bool = False) -> list[Ints]:
    """Return the exact histogram of every set of axes, in grid units, with a dimension per axis.

    They are counted where ``data.counter`` says: in this process, or by workers. Histograms that
    the database's cache has are taken from there. With ``keep`` the others are put into it, if they
    are of all rows and not of a region.
    """
    for shape in sets.shapes:
        cells(shape)
    whole = sets.region is None or sets.region.whole
    keys = [(Marginals, sets.table, *(sets.axes[place] for place in one)) for one in sets.sets]
    known = {key: data._cache.find(key) if whole else None for key in keys}
    missing = [one for key, one in zip(keys, sets.sets, strict=True) if known[key] is None]
    used = sorted({place for one in missing for place in one})
    asked = Marginals(
        sets.table,
        tuple(sets.axes[place] for place in used),
        tuple(tuple(used.index(place) for place in one) for one in missing),
        sets.region,
    )
    counted = iter((data.counter or local)(data, asked) if missing else ())
    histograms = []
    for key in keys:
        (counts,) = known[key] or (next(counted),)
        if keep and whole and not known[key]:
            # Later queries are answered from it.
            counts.setflags(write=False)
            data._cache.put(key, (counts,))
        histograms.append(counts)
    return histograms


def local(data: PrivateDatabase, sets: Marginals) -> list[Ints]:
    """Count histograms in this process, in one pass over the rows that reads each axis once."""
    return View.of(data, sets.table, sets.axes, sets.region).count(sets.sets)


class View:
    """Some rows of a table with their weights and their codes on some axes.

    ``reads`` and ``weights``, a number of every row and the weight of each number in grid units
    (`Units.weight_codes`), describe all rows of the table; ``rows`` are the positions of those that
    are counted, or None for all.
    """

    def __init__(
        self,
        reads: Sequence[AxisCodes],
        sizes: Sequence[int],
        weights: AxisCodes,
        rows: NDArray[np.integer[Any]] | None = None,
    ) -> None:
        self._reads, self._weights, self._rows = reads, weights, rows
        self._length = weights[0].size if rows is None else rows.size
        self._sizes = tuple(sizes)

    @classmethod
    def of(
        cls,
        data: PrivateDatabase,
        table: str,
        axes: Sequence[Axis],
        region: RowSubset | None = None,
    ) -> Self:
        """Return the view of the rows of a region, or of all rows of a table."""
        reads = [axis.read(data, table) for axis in axes]
        weights = data._units.weight_codes(table)
        rows = None if region is None else region.rows(data)
        return cls(reads, [axis.size for axis in axes], weights, rows)

    def blocks(
        self, size: int
    ) -> Iterator[tuple[list[NDArray[np.intp]], NDArray[np.integer[Any]] | int]]:
        """Yield codes on every axis and weights, block by block.

        Blocks grow with ``size``, the number of cells of the largest histogram.
        """
        step = min(max(_SMALL, size), _LARGE)
        same = self._weights[0].strides == (0,)
        for start in range(0, self._length, step):
            at: Any = slice(start, start + step)
            if self._rows is not None:
                at = self._rows[at]
            weights = _read(self._weights, slice(1) if same else at)
            columns = [codes_at(read, at) for read in self._reads]
            yield columns, int(weights[0]) if same else weights

    def count(self, sets: Sequence[Sequence[int]]) -> list[Ints]:
        """Return the weighted joint histogram over each set of axes, int64, of its shape.

        Sets with few joint cells are counted together, over all of their axes, and then summed up.
        """
        groups = self._groups(sets)
        shapes = [tuple(self._sizes[place] for place in group) for group in groups]
        totals = [np.zeros(cells(shape), dtype=np.int64) for shape in shapes]
        for columns, weights in self.blocks(max((total.size for total in totals), default=0)):
            for total, group, shape in zip(totals, groups, shapes, strict=True):
                add(total, joint([columns[place] for place in group], shape), weights)
        joints = [total.reshape(shape) for total, shape in zip(totals, shapes, strict=True)]
        histograms = []
        for chosen in sets:
            distinct = list(dict.fromkeys(chosen))
            number = next(n for n, group in enumerate(groups) if {*chosen} <= {*group})
            group = groups[number]
            places = [group.index(place) for place in distinct]
            histogram = np.einsum(joints[number], [*range(len(group))], places)
            if len(distinct) < len(chosen):
                # An axis with itself: all weight lies on the diagonal.
                codes = np.ix_(*map(np.arange, histogram.shape))
                counts = np.zeros([self._sizes[place] for place in chosen], np.int64)
                counts[tuple(codes[distinct.index(place)] for place in chosen)] = histogram
                histogram = counts
            histograms.append(histogram)
        return histograms

    def _groups(self, sets: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        """Axes whose joint histograms together hold all sets."""
        groups: list[tuple[int, ...]] = []
        for chosen in sets:
            for number, group in enumerate(groups):
                union = tuple(dict.fromkeys((*group, *chosen)))
                # Axes of one cell count as two, since an array has at most 64 axes.
                size = math.prod(max(self._sizes[place], 2) for place in union)
                if union == group or size <= _TOGETHER:
                    groups[number] = union
                    break
            else:
                groups.append(tuple(dict.fromkeys(chosen)))
        return groups


def codes_at(read: AxisCodes, at: Any) -> NDArray[np.intp]:
    """Return the cells on an axis of the rows at ``at``, a slice or an array of positions."""
    return _read(read, at).astype(np.intp, copy=False)


def _read(read: AxisCodes, at: Any) -> AnyInts:
    codes, lookup = read
    return np.asarray(codes[at] if lookup is None else lookup.take(codes[at]))


def joint(columns: Sequence[NDArray[np.intp]], sizes: Sequence[int]) -> NDArray[np.intp]:
    """Return the cell of every row in the product of the axes; the last axis varies fastest."""
    index = columns[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        index = index * size + column
    return index


def add(total: Ints, index: NDArray[np.intp], weights: NDArray[np.integer[Any]] | int) -> None:
    """Add the weights of at most 2²² rows to the flat ``total``, exactly."""
    if isinstance(weights, int):
        total += np.bincount(index, minlength=total.size) * weights
    else:
        total += np.bincount(index, weights, minlength=total.size).astype(np.int64)
