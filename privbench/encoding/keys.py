"""Which columns are keys, and the values that are minted for them after sampling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privbench.config import ColumnConfig
from privbench.encoding.base import Codec, CoverageLine
from privbench.encoding.categories import ListCodec
from privbench.encoding.checks import allowed, column_limits, ends, length_limits, unread_checks
from privbench.encoding.fillers import fixed_width
from privbench.encoding.indexes import unkept_indexes
from privbench.encoding.ordered import OrderedCodec, public_range
from privbench.encoding.patterns import is_understood
from privbench.encoding.registry import coverage, reader
from privbench.encoding.scale import Scale, scale_of
from privbench.encoding.text import TEXT_BASES
from privbench.schema import Column, Table

Role = Literal["reference", "minted", "generated", "modelled"]
Indices = NDArray[np.int64]

_BASE36 = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)
_INTEGERS = ("int2", "int4", "int8")
#: Where minted dates and timestamps begin: 2000-01-01, in days.
_EPOCH_DAY = 10_957
_SECOND = 1_000_000


def role_of(table: Table, column: Column) -> Role:
    """How a column's values come about.

    References take the parent's key. Minted columns are single-column primary keys, numbered UNIQUE
    columns, UUIDs in UNIQUE sets, and the integer that tells apart the rows of one parent.
    Everything else is modelled: UNIQUE columns (they are repaired) and key columns that refer to
    themselves alone.
    """
    if column.generated:
        return "generated"
    if column.name in table.key_columns - table.pinned_columns:
        return "reference"
    sets = [item for item in table.unique_sets if column.name in item.columns]
    alone = any(item.columns == (column.name,) for item in sets)
    primary = table.primary_key is not None and table.primary_key.columns == (column.name,)
    if primary or column.identity or (sets and column.type.base == "uuid"):
        return "minted"
    if alone and (column.sequence is not None or "nextval(" in (column.default or "")):
        return "minted"
    return "minted" if is_discriminator(table, column) else "modelled"


def is_discriminator(table: Table, column: Column) -> bool:
    """Whether an integer of the primary key only numbers the rows of one parent."""
    key = table.primary_key
    if key is None or column.name not in key.columns or len(key.columns) < 2:
        return False
    others = set(key.columns) - {column.name}
    return column.type.base in _INTEGERS and others <= table.key_columns


def modelled(table: Table) -> tuple[str, ...]:
    """Columns that need a reader, in their order."""
    return tuple(item.name for item in table.columns if role_of(table, item) == "modelled")


_LINES: dict[Role, tuple[str, str]] = {
    "reference": ("reference to a synthetic row", "foreign key"),
    "minted": ("minted key", "unique by construction, never read"),
    "generated": ("computed by PostgreSQL", "generated column"),
}


def table_coverage(
    table: Table, config: Mapping[str, ColumnConfig], delta: float
) -> list[CoverageLine]:
    """The coverage map of every column of a private table, and of CHECKs that are not understood.

    Raises:
        ConfigError: The config does not fit a column.
        SchemaError: No valid value can be made for a column.
    """
    lines = []
    for column in table.columns:
        role = role_of(table, column)
        if role == "modelled":
            plan = reader(column, table, config.get(column.name, ColumnConfig()), delta)
            lines.append(coverage(plan))
        else:
            lines.append(CoverageLine(table.key, column.name, *_LINES[role]))
    how = "not kept by construction: the load may be refused"
    for check in unread_checks(table):
        if is_understood(check):
            continue
        where = ", ".join(check.columns)
        lines.append(CoverageLine(table.key, where, how, f"CHECK {check.name} is not understood"))
    for index in unkept_indexes(table):
        where = ", ".join(index.columns)
        lines.append(CoverageLine(table.key, where, how, f"UNIQUE index {index.name}"))
    if table.partition_key is not None:
        why = "rows that no partition takes are refused"
        lines.append(CoverageLine(table.key, "", f"partitioned by {table.partition_key}", why))
    return lines


@dataclass(frozen=True)
class Pool:
    """All values that a column can take, numbered from 0.

    Attributes:
        column: The column.
        scale: Its grid, or None.
        lo: Least grid point, or 0.
        hi: Greatest grid point, or the number of listed values or texts, less one.
        values: The public list, where there is one.
        width: Characters of a minted text.
    """

    column: Column
    scale: Scale | None
    lo: int
    hi: int
    values: tuple[str, ...] = ()
    width: int = 0

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
        if self.values:
            return self.from_points(index)
        if self.scale is not None:
            return self.from_points(self._points(self.scale, index))
        return self._text(index)

    def to_points(self, array: pa.Array) -> Indices:
        """Grid points (or positions in the list) of values that were made for the column."""
        if self.scale is not None:
            points = self.scale.unbuild(array)
            return np.searchsorted(self._listed, points) if self.values else points
        text = array.cast(pa.string()) if pa.types.is_boolean(array.type) else array
        found = pc.index_in(text, value_set=pa.array(self.values, text.type))
        return np.asarray(found.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)

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
        found = pa.array(self.values, pa.string()).take(pa.array(points))
        return found.cast(pa.bool_()) if self.column.type.base == "bool" else found

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

    def _text(self, index: Indices) -> pa.Array:
        digits = np.empty((len(index), self.width), dtype=np.int64)
        left = index.copy()
        for place in range(self.width - 1, -1, -1):
            left, digits[:, place] = np.divmod(left, 36)
        return fixed_width(np.ascontiguousarray(_BASE36[digits]))


def _start(column: Column, scale: Scale) -> tuple[int, int]:
    """First point and step of a minted key."""
    base = column.type.base
    if base == "date":
        return _EPOCH_DAY, 1
    if base in ("timestamp", "timestamptz"):
        return _EPOCH_DAY * 86_400 * _SECOND, _SECOND
    if base in ("time", "timetz"):
        return 0, _SECOND
    if base in _INTEGERS or base == "interval":
        return 1, 1
    one = scale.parse("1")
    return (one, one) if column.type.precision is not None else (one, 2**20)


def pool_of(table: Table, column: Column, codec: Codec | None, rows: int) -> Pool | None:
    """The values that a column can take, by its type, its CHECKs and its codec; None if unknown.

    Args:
        table: The table.
        column: The column.
        codec: Its codec, where it is modelled: a declared list or range stays in force.
        rows: How many distinct values are needed; decides the width of minted texts.
    """
    scale = scale_of(column.type)
    if isinstance(codec, ListCodec):
        grid = scale if codec.settled else None
        return Pool(column, grid, 0, len(codec.values) - 1, codec.values)
    limits = column_limits(table, column)
    finite = _finite(column, allowed(limits))
    if finite:
        return Pool(column, None, 0, len(finite) - 1, finite)
    if scale is not None:
        if isinstance(codec, OrderedCodec):
            return Pool(column, scale, *codec.limits)
        known = public_range(table.key, column, scale, ColumnConfig(), ends(limits))
        return Pool(column, scale, known.lo, known.hi)
    if column.type.base in TEXT_BASES:
        least, greatest = length_limits(limits, column.type.length)
        width = max(_digits(rows), least, 1)
        width = width if greatest is None else min(width, greatest)
        return Pool(column, None, 0, min(36**width, 2**62) - 1, width=width)
    return None


def _finite(column: Column, listed: tuple[str, ...] | None) -> tuple[str, ...]:
    if listed:
        return listed if scale_of(column.type) is None else ()
    if column.type.kind == "e":
        return column.type.labels
    return ("false", "true") if column.type.base == "bool" else ()


def _digits(rows: int) -> int:
    """Base-36 digits that number so many rows."""
    digits = 1
    while 36**digits < rows:
        digits += 1
    return digits
