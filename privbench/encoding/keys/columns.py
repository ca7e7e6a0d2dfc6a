"""Key columns: which columns are keys, how their values are made, what values they can take."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privbench.arrays import Mask
from privbench.config import ColumnConfig
from privbench.encoding.base import Codec
from privbench.encoding.bounds import public_range
from privbench.encoding.categories import ListCodec, labels_of
from privbench.encoding.ordered import OrderedCodec
from privbench.encoding.scale import Scale, scale_of
from privbench.encoding.surrogate_text import TEXT_BASES, digits, joined, quoted
from privbench.privacy.units import RowIndex
from privbench.rules.facts import allowed, column_rules, folded_uniques, length_limits
from privbench.rules.named import creation_date
from privbench.schema import Column, ColumnType, Index, Table, Unique

INTEGERS = ("int2", "int4", "int8")
#: Where surrogate keys that are dates or timestamps begin: 2000-01-01, in days.
_EPOCH_DAY = 10_957
_SECOND = 1_000_000


@dataclass(frozen=True)
class ValueSpace:
    """All values that a column can take, numbered from 0."""

    column: Column
    scale: Scale | None
    lo: int  # least grid point, or 0
    hi: int  # greatest grid point, or the number of listed values or texts, less one
    values: tuple[str, ...] = ()  # the public list, where there is one
    unit: int = 1  # grid points that the column's values are multiples of, as far as was released
    # Makes values of a type that has neither grid nor list, from their numbers.
    maker: Callable[[RowIndex], pa.Array] | None = None

    @property
    def capacity(self) -> int:
        """The number of distinct values, clipped to int64."""
        return min(self.hi - self.lo + 1, 2**62)

    def nth(self, index: RowIndex) -> pa.Array:
        """Return distinct values for distinct numbers below `capacity`.

        They are round values if enough of them exist: 1, 2, 3; whole units; days or seconds from
        the year 2000 on.
        """
        if self.maker is not None:
            return self.maker(index)
        if self.values or self.scale is None:
            return self.from_points(index)
        start, step = _start(self.column, self.scale)
        fits = self.lo <= start and start + step * int(index.max(initial=0)) <= self.hi
        return self.from_points(start + step * index if fits else self.lo + index)

    def to_points(self, array: pa.Array) -> RowIndex:
        """Return the grid points (or list positions) of values that were made for the column."""
        if self.scale is not None:
            points = self.scale.points_of(array)
            return np.searchsorted(self._listed, points) if self.values else points
        text = array.cast(pa.string()) if pa.types.is_boolean(array.type) else array
        result = pc.index_in(text, value_set=pa.array(self.values, text.type))
        return np.asarray(result.fill_null(0), np.int64)

    def from_points(self, points: RowIndex, *, text: bool = False) -> pa.Array:
        """Return the values with these grid points, or at these positions of a list."""
        if self.scale is not None:
            real = self._listed[points] if self.values else points
            none = np.zeros(len(points), np.bool_)
            return self.scale.build(real, dict.fromkeys(self.scale.specials, none) if text else {})
        result = pa.array(self.values, pa.string()).take(pa.array(points))
        return result.cast(pa.bool_()) if self.column.type.base == "bool" else result

    @property
    def _listed(self) -> RowIndex:
        """Grid points of the public list."""
        assert self.scale is not None
        return np.array([self.scale.parse(value) for value in self.values], np.int64)


def range_scale(type_: ColumnType) -> Scale | None:
    """Return the scale of a range type's bounds, or None if they are not ordered values."""
    even = type_.kind == "r" and type_.parts[0].base in _STARTS
    return scale_of(type_.parts[0]) if even else None


def range_points(scale: Scale, array: pa.Array) -> tuple[RowIndex, RowIndex, Mask, Mask]:
    """Return where ranges begin and end, which rows have a range, and which ranges have no end.

    A range without a lower bound begins where it ends.
    """
    ends = pc.extract_regex(array, r"""^.(?:"(?P<low>[^"]+)")?,(?:"(?P<high>[^"]+)")?.$""")
    low, high = (pc.struct_field(ends, name) for name in ("low", "high"))
    bare, none = (np.asarray(pc.equal(t, "").fill_null(False), np.bool_) for t in (low, high))
    grid = (pc.if_else(pc.equal(text, ""), None, text) for text in (low, high))
    begin, end = (scale.points_of(t if scale.specials else t.cast(pa.int64())) for t in grid)
    return (
        np.where(bare, end, begin),
        end,
        np.asarray(low.is_valid(), np.bool_) & ~(bare & none),
        none,
    )


def range_texts(scale: Scale, begin: RowIndex, end: RowIndex, none: Mask) -> pa.Array:
    """Return ranges as texts, from points up to other points.

    ``none`` marks those without an end.
    """
    marked = dict.fromkeys(scale.specials, np.zeros(len(begin), np.bool_))
    low, high = (quoted(scale.build(p, marked).cast(pa.string())) for p in (begin, end))
    return joined("[", low, ",", pc.if_else(pa.array(none), "", high), ")")


#: First grid point and step of surrogate keys, by type; `_start` has those of other types.
_STARTS = {
    **dict.fromkeys((*INTEGERS, "interval"), (1, 1)),
    **dict.fromkeys(("time", "timetz"), (0, _SECOND)),
    **dict.fromkeys(("timestamp", "timestamptz"), (_EPOCH_DAY * 86_400 * _SECOND, _SECOND)),
    "date": (_EPOCH_DAY, 1),
}


def _start(column: Column, scale: Scale) -> tuple[int, int]:
    if column.type.base in _STARTS:
        return _STARTS[column.type.base]
    one = scale.parse("1")
    return (one, one) if column.type.precision is not None else (one, 2**20)


def modelled_values(
    table: Table, column: Column, codec: Codec | None, rows: int
) -> ValueSpace | None:
    """Return the values that a column can take by its type, CHECKs and codec; None if unknown."""
    scale = scale_of(column.type)
    if isinstance(codec, ListCodec):
        grid = scale if codec.settled else None
        return ValueSpace(column, grid, 0, len(codec.values) - 1, codec.values)
    limits = column_rules(table, column)
    listed = () if scale is not None else allowed(limits) or labels_of(column.type)
    if listed:
        return ValueSpace(column, None, 0, len(listed) - 1, listed)
    if scale is not None:
        if isinstance(codec, OrderedCodec):
            return ValueSpace(column, scale, *codec.limits, unit=codec.scale.spacing)
        known = public_range(table.key, column, scale, ColumnConfig(), limits)
        return ValueSpace(column, scale, known.lo, known.hi)
    if column.type.base in TEXT_BASES:
        least, greatest = length_limits(limits, column.type.length)
        width = max(len(np.base_repr(max(rows - 1, 0), 36)), least, 1)
        width = width if greatest is None else min(width, greatest)
        most = min(36**width, 2**62) - 1
        return ValueSpace(column, None, 0, most, maker=lambda index: digits(index, width))
    return None


#: Kinds of indexes whose entries have to be small, and words of an index's definition.
_SMALL = re.compile(r" USING (?:btree|brin) ")
_WORDS = re.compile(r'"((?:[^"]|"")+)"|([A-Za-z_][A-Za-z0-9_$]*)')
#: Bytes that one entry holds, and types beside texts and arrays that can be larger.
_ROOM = 2400
_WIDE = frozenset({"bytea", "varbit", "jsonb", "tsvector"})


def kept_uniques(table: Table) -> tuple[Unique, ...]:
    """Return the UNIQUE sets that synthetic rows keep, with those of indexes on ``lower(column)``.

    A partial index is left out, since it says nothing of the rows that it does not cover.
    """
    return table.unique_sets + folded_uniques(table)


def unkept_indexes(table: Table) -> tuple[Index, ...]:
    """Return the UNIQUE indexes that synthetic rows may break."""
    folded = {item.name for item in folded_uniques(table)}
    return tuple(
        index
        for index in table.indexes
        if index.unique
        and (index.has_expressions or index.predicate is not None)
        and index.name not in folded
    )


def index_room(table: Table, name: str) -> int | None:
    """Return how many bytes of a column its UNIQUE sets and indexes can hold; None without any.

    PostgreSQL refuses an entry of a btree, or a summary of a BRIN index, of more than about 2,700
    bytes. This limits indexed columns, included columns, and expressions over columns, among them
    those of generated columns.
    """
    sets = [set(item.columns) for item in table.unique_sets]
    for index in table.indexes:
        if _SMALL.search(index.definition):
            text = index.definition.partition(" USING ")[2].partition(" WHERE ")[0]
            sets.append(_names_in(text))
    computed = {c.name: _names_in(c.default or "") for c in table.columns if c.generated}
    sets = [item.union(*(computed.get(part, ()) for part in item)) for item in sets]
    types = ((item.name, item.type) for item in table.columns)
    wide = {
        name
        for name, type_ in types
        if type_.base in _WIDE or (type_.category in "SA" and type_.base != "char")
    }
    return min((_ROOM // max(len(wide & item), 1) for item in sets if name in item), default=None)


def _names_in(text: str) -> set[str]:
    """All words of an expression or a definition that may be names."""
    return {(a or b).replace('""', '"') for a, b in _WORDS.findall(text)}


#: Names of keys that are years, days, places: a filter on them has to find something.
_NATURAL = re.compile(
    r"(?:^|_)(?:year|yr|season|decade|century|month|week|day|date|hour|zip|zip_?code|postal|"
    r"post_?code|plz|port|level|grade|size|age)$"
)
#: Names of years, which number no rows. Months and levels of one parent are numbered from 1: so
#: none comes twice.
_YEARS = re.compile(r"(?:^|_)(?:year|yr|season)$")
#: Types of measurements, which are never mere numbers of rows.
_MEASURED = ("date", "timestamp", "timestamptz", "time", "timetz", "float4", "float8")
#: Names of whole numbers that are days or the like.
_TIMES = re.compile(r"(?:^|_)(?:year|quarter|month|week|day|date|hour)(?:_?(?:key|id|sk))?$")
ColumnRole = Literal["reference", "minted", "generated", "modelled"]


def role_of(table: Table, column: Column) -> ColumnRole:
    """Return how a column's values are made: as reference, new key, by the server or the model.

    References take the parent's key. Minted columns (surrogate keys) are single-column primary
    keys, numbers of a sequence and UUIDs in UNIQUE sets, and the integer that numbers the rows of
    one parent. All other columns are modelled: UNIQUE columns (they are repaired), key columns that
    refer to themselves alone or hold labels or dates of a look-up, and numbers that mean something,
    such as years.
    """
    if column.generated:
        return "generated"
    if column.dated or column.name in table.natural_columns:
        return "modelled"
    if column.name in table.key_columns - table.pinned_columns:
        return "reference"
    sets = [item for item in table.unique_sets if column.name in item.columns]
    primary = table.primary_columns == (column.name,)
    if primary and is_natural(column):
        return "modelled"
    if primary or column.identity or (sets and column.type.base == "uuid"):
        return "minted"
    if sets and is_counted(column):
        return "minted"
    return "minted" if is_discriminator(table, column) else "modelled"


def serial_key(table: Table) -> Column | None:
    """Return the integer surrogate key that may ascend with the dates of rows, or None."""
    keys = [column for column in table.columns if table.primary_columns == (column.name,)]
    if not keys or keys[0].type.base not in INTEGERS or not creation_date(table):
        return None
    return keys[0] if role_of(table, keys[0]) == "minted" else None


def is_natural(column: Column) -> bool:
    """Return whether a key's values mean something: dates and times do, and numbers by their names.

    Numbers of a sequence never do.

    >>> from privbench.schema import ColumnType
    >>> whole = ColumnType("integer", "int4")
    >>> is_natural(Column("season_year", 1, whole)), is_natural(Column("id", 1, whole))
    (True, False)
    """
    if column.type.base in _MEASURED:
        return True
    generated = column.identity or column.sequence is not None or column.default is not None
    named = _NATURAL.search(column.name.lower()) is not None
    return named and not generated and column.type.base in (*INTEGERS, "numeric", "date")


def calendar(table: Table) -> Column | None:
    """Return the unique date column by which the rows of a table follow each other, or None."""
    for column in table.columns:
        kind, single = column.type.base, any(u.columns == (column.name,) for u in table.unique_sets)
        dated = kind in _MEASURED[:3] or (kind in INTEGERS and _TIMES.search(column.name.lower()))
        if single and dated and not (is_counted(column) or column.generated):
            return column
    return None


def is_counted(column: Column) -> bool:
    """Return whether a sequence numbers all rows of the table by this column."""
    generated = column.identity or column.sequence is not None
    return bool(generated) or "nextval(" in (column.default or "")


def is_discriminator(table: Table, column: Column) -> bool:
    """Return whether an integer of the primary key only numbers the rows of one parent."""
    key = table.primary_key
    if key is None or column.name not in key.columns or len(key.columns) < 2:
        return False
    others = set(key.columns) - {column.name}
    year = is_natural(column) and _YEARS.search(column.name.lower()) is not None
    return column.type.base in INTEGERS and not year and others <= table.key_columns
