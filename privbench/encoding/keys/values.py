"""All values that a column can take, numbered: by its grid, its list, its length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privbench.config import ColumnConfig
from privbench.encoding.base import Codec
from privbench.encoding.bounds import public_range
from privbench.encoding.categories import ListCodec
from privbench.encoding.checks import allowed, column_limits, ends, length_limits
from privbench.encoding.ordered import OrderedCodec
from privbench.encoding.scale import Scale, scale_of
from privbench.encoding.surrogate_text import TEXT_BASES, digits
from privbench.schema import Column, Table

Indices = NDArray[np.int64]

INTEGERS = ("int2", "int4", "int8")
#: Where surrogate keys that are dates or timestamps begin: 2000-01-01, in days.
_EPOCH_DAY = 10_957
_SECOND = 1_000_000


@dataclass(frozen=True)
class ValueSpace:
    """All values that a column can take, numbered from 0.

    Attributes:
        column: The column.
        scale: Its grid, or None.
        lo: Least grid point, or 0.
        hi: Greatest grid point, or the number of listed values or texts, less one.
        values: The public list, where there is one.
        width: Characters of a text that is a surrogate key.
        unit: Grid points that the column's values are multiples of, as far as was released.
        maker: Makes values of a type that has neither grid nor list, from their numbers.
    """

    column: Column
    scale: Scale | None
    lo: int
    hi: int
    values: tuple[str, ...] = ()
    width: int = 0
    unit: int = 1
    maker: Callable[[Indices], pa.Array] | None = None

    @property
    def capacity(self) -> int:
        """How many distinct values there are, as far as int64 counts."""
        return min(self.hi - self.lo + 1, 2**62)

    @property
    def gridded(self) -> bool:
        """Whether values have neighbours (a grid or a list) that a repair can move to."""
        return self.scale is not None or bool(self.values)

    def nth(self, index: Indices) -> pa.Array:
        """Distinct values for distinct numbers, each below `capacity`."""
        if self.maker is not None:
            return self.maker(index)
        if self.values:
            return self.from_points(index)
        if self.scale is not None:
            return self.from_points(self._points(self.scale, index))
        return digits(index, self.width)

    def to_points(self, array: pa.Array) -> Indices:
        """Grid points (or positions in the list) of values that were made for the column."""
        if self.scale is not None:
            points = self.scale.points_of(array)
            return np.searchsorted(self._listed, points) if self.values else points
        text = array.cast(pa.string()) if pa.types.is_boolean(array.type) else array
        result = pc.index_in(text, value_set=pa.array(self.values, text.type))
        return np.asarray(result.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)

    def from_points(self, points: Indices, *, text: bool = False) -> pa.Array:
        """Values at grid points or list positions.

        Args:
            points: Grid points, or positions in the list.
            text: Whether values that have a special text form (``infinity``) come as text.
        """
        if self.scale is not None:
            real = self._listed[points] if self.values else points
            none = np.zeros(len(points), dtype=np.bool_)
            return self.scale.build(real, dict.fromkeys(self.scale.specials, none) if text else {})
        result = pa.array(self.values, pa.string()).take(pa.array(points))
        return result.cast(pa.bool_()) if self.column.type.base == "bool" else result

    @property
    def _listed(self) -> Indices:
        """Grid points of the public list."""
        assert self.scale is not None
        return np.array([self.scale.parse(value) for value in self.values], dtype=np.int64)

    def _points(self, scale: Scale, index: Indices) -> Indices:
        """Round numbers where they fit: 1, 2, 3; whole units; days or seconds from 2000 on."""
        start, step = _start(self.column, scale)
        top = int(index.max(initial=0))
        if self.lo <= start and start + step * top <= self.hi:
            return start + step * index
        return self.lo + index


def _start(column: Column, scale: Scale) -> tuple[int, int]:
    """First point and step of a surrogate key."""
    base = column.type.base
    if base == "date":
        return _EPOCH_DAY, 1
    if base in ("timestamp", "timestamptz"):
        return _EPOCH_DAY * 86_400 * _SECOND, _SECOND
    if base in ("time", "timetz"):
        return 0, _SECOND
    if base in INTEGERS or base == "interval":
        return 1, 1
    one = scale.parse("1")
    return (one, one) if column.type.precision is not None else (one, 2**20)


def modelled_values(
    table: Table, column: Column, codec: Codec | None, rows: int
) -> ValueSpace | None:
    """The values that a column can take, by its type, its CHECKs and its codec; None if unknown.

    Args:
        table: The table.
        column: The column.
        codec: Its codec, where it is modelled: a declared list or range stays in force.
        rows: How many distinct values are needed; decides the width of texts.
    """
    scale = scale_of(column.type)
    if isinstance(codec, ListCodec):
        grid = scale if codec.settled else None
        return ValueSpace(column, grid, 0, len(codec.values) - 1, codec.values)
    limits = column_limits(table, column)
    finite = _finite(column, allowed(limits))
    if finite:
        return ValueSpace(column, None, 0, len(finite) - 1, finite)
    if scale is not None:
        if isinstance(codec, OrderedCodec):
            return ValueSpace(column, scale, *codec.limits, unit=codec.scale.step)
        known = public_range(table.key, column, scale, ColumnConfig(), ends(limits))
        return ValueSpace(column, scale, known.lo, known.hi)
    if column.type.base in TEXT_BASES:
        least, greatest = length_limits(limits, column.type.length)
        width = max(_digits(rows), least, 1)
        width = width if greatest is None else min(width, greatest)
        return ValueSpace(column, None, 0, min(36**width, 2**62) - 1, width=width)
    return None


def _finite(column: Column, listed: tuple[str, ...] | None) -> tuple[str, ...]:
    if listed:
        return listed if scale_of(column.type) is None else ()
    if column.type.kind == "e":
        return column.type.labels
    return ("false", "true") if column.type.base == "bool" else ()


def _digits(rows: int) -> int:
    """Base-36 digits that number so many rows."""
    count = 1
    while 36**count < rows:
        count += 1
    return count
