"""Points and ranges, whose values become several attributes, each on a grid of its own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from psycopg import sql
from pydantic import PlainValidator

from privbench.config import ColumnConfig
from privbench.domain import Domain
from privbench.encoding.base import (
    Codec,
    Codes,
    ColumnReader,
    Need,
    Released,
    Rng,
    attribute,
    head,
    null_mask,
)
from privbench.encoding.bounds import public_range
from privbench.encoding.categories import ListCodec, ListReader
from privbench.encoding.ordered import OrderedCodec, OrderedReader
from privbench.encoding.scale import Mask, Points, Scale, scale_of
from privbench.encoding.surrogate_text import joined, quoted
from privbench.privacy.data import Attribute
from privbench.privacy.recoding import Recoding
from privbench.schema import Column, ColumnType


@dataclass(frozen=True)
class PartsReader(ColumnReader):
    """Reads every part from an expression over the column; of others whether it is NULL."""

    @property
    @abstractmethod
    def parts(self) -> tuple[ColumnReader, ...]:
        """The readers; each selects one expression."""

    @abstractmethod
    def expressions(self, identifier: sql.Composable) -> Sequence[sql.Composable]:
        """SQL expressions that the parts read."""

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.attributes)

    @property
    def needs(self) -> tuple[Need, ...]:
        return tuple(need for part in self.parts for need in part.needs)

    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        result = zip(self.parts, self.expressions(identifier), strict=True)
        return [
            (text, self.alias(f"p{place}"))
            for place, (part, expression) in enumerate(result)
            for text, _ in part.select(expression)
            or [(sql.SQL("({} IS NULL)").format(expression), "")]
        ]

    def read(self, batch: Mapping[str, pa.Array]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for place, part in enumerate(self.parts):
            result |= part.read({part.alias(): batch[self.alias(f"p{place}")]})
        return result

    def collect(self, pieces: Sequence[Mapping[str, Any]]) -> dict[str, Attribute]:
        return {name: item for part in self.parts for name, item in part.collect(pieces).items()}


def _ordered_part(
    whole: ColumnReader, part: str, type_: ColumnType, *, not_null: bool = False
) -> OrderedReader:
    """The reader of one part of a column, say a range's end; the part's type must have a grid."""
    column = whole.column
    named = Column(attribute(column.name, part), column.position, type_, not_null=not_null)
    scale = _scale(type_)
    known = public_range(whole.table, named, scale, ColumnConfig(), ())
    return OrderedReader(whole.table, named, scale, known)


def _scale(type_: ColumnType) -> Scale:
    scale = scale_of(type_)
    assert scale is not None
    return scale


#: The codec of a part, which a model holds as that of a column.
_Part = Annotated[OrderedCodec, PlainValidator(OrderedCodec.from_json)]
_COORDINATE = ColumnType("double precision", "float8", category="N")


@dataclass(frozen=True)
class PointReader(PartsReader):
    """Reads both coordinates."""

    @cached_property
    def parts(self) -> tuple[OrderedReader, OrderedReader]:
        x, y = (_ordered_part(self, n, _COORDINATE, not_null=not self.nullable) for n in "xy")
        return x, y

    def expressions(self, identifier: sql.Composable) -> Sequence[sql.Composable]:
        return [sql.SQL("({})[{}]").format(identifier, sql.Literal(i)) for i in range(2)]

    def finish(self, released: Mapping[str, Released]) -> Codec:
        return PointCodec(*self.head, *(part.finish(released) for part in self.parts))

    def describe(self) -> tuple[str, str]:
        return "point by its coordinates, bounds released", "no range is declared"


@dataclass(frozen=True)
class PointCodec(Codec):
    """Points from two coordinates; the first says whether the point is NULL."""

    kind: ClassVar[str] = "point"

    x: _Part  # codec of the first coordinate
    y: _Part  # codec of the second

    @property
    def domains(self) -> dict[str, Domain]:
        return self.x.domains | self.y.domains

    @property
    def recodings(self) -> dict[str, Recoding]:
        return self.x.recodings | self.y.recodings

    def decode(self, codes: Codes, rng: Rng, rows: int | None = None) -> pa.Array:
        """Literals of points; a missing second coordinate is replaced by that of another row."""
        x, y = (part.decode(codes, rng).cast(pa.string()) for part in (self.x, self.y))
        known = y.is_valid().to_numpy(zero_copy_only=False)
        there, lost = np.flatnonzero(known), np.flatnonzero(~known)
        places = np.arange(len(y))
        if len(there):
            places[lost] = rng.choice(there, len(lost))
        return joined("(", x, ",", pc.fill_null(y.take(pa.array(places)), "0"), ")")


_WHOLE = ColumnType("bigint", "int8", category="N")
_REAL = ColumnType("numeric", "numeric", category="N")
_SPAN = ColumnType("interval", "interval", category="T")
#: Type of a range's length, by the type of its bounds.
_SIZES = {
    **dict.fromkeys(("int2", "int4", "int8", "date"), _WHOLE),
    **dict.fromkeys(("numeric", "float4", "float8"), _REAL),
    **dict.fromkeys(("timestamp", "timestamptz"), _SPAN),
}
#: Numbers of the kinds of ranges, as texts in the order of their codes; below, their names and the
#: type that they are read as.
_KINDS = tuple("01234")
_BOUNDED, _BEGUN, _ENDED, _ALL, _EMPTY = range(5)
_KIND = ColumnType("smallint", "int2", category="N")
_TIMES = ("date", "timestamp", "timestamptz")
#: The default range of the length of time ranges: bookings and stays take hours, not seconds.
_STAY = ("0", "2 days")
#: Grid steps of a bound per grid step of a size: timestamps are in microseconds, sizes in seconds.
_STEPS = {"timestamp": 1_000_000, "timestamptz": 1_000_000}


def _kinds(*, nullable: bool) -> Domain:
    """Cells of the kinds; ``(,)`` and ``empty`` are special: they count only far above noise."""
    return Domain(_ALL, specials=("all", "empty"), nullable=nullable)


class _KindReader(ListReader):
    """Reads the kind of a range."""

    @property
    def cells(self) -> dict[str, Domain]:
        return {self.name: _kinds(nullable=self.nullable)}


@dataclass(frozen=True)
class RangeReader(PartsReader):
    """Reads the kind of a range, its bound (the lower one where there is one) and its size."""

    @cached_property
    def parts(self) -> tuple[ListReader, OrderedReader, OrderedReader]:
        place, bound = self.column.position, self.column.type.parts[0]
        named = Column(attribute(self.name, "kind"), place, _KIND, not_null=not self.nullable)
        lower = _ordered_part(self, "lower", bound)
        size = _ordered_part(self, "size", _SIZES[bound.base])
        if _SIZES[bound.base] is _SPAN:
            size = replace(size, default_range=_STAY)
        codec = ListCodec(*head(named), _KINDS, False, False, True)
        return _KindReader(self.table, named, codec, "kind", "by kind"), lower, size

    def expressions(self, identifier: sql.Composable) -> Sequence[sql.Composable]:
        base = self.column.type.parts[0].base
        return (_kind(identifier), *_expressions(identifier, base))

    def finish(self, released: Mapping[str, Released]) -> Codec:
        return RangeCodec(*self.head, *(part.finish(released) for part in self.parts[1:]))

    def describe(self) -> tuple[str, str]:
        how = f"{self.column.type.sql} by kind, beginning and size, bounds released"
        return how, "no range is declared"


@dataclass(frozen=True)
class RangeCodec(Codec):
    """Ranges from a kind, a bound and a size."""

    kind: ClassVar[str] = "range"

    lower: _Part
    size: _Part

    def __post_init__(self) -> None:
        """Refuse a type without a size."""
        if not self.type.parts or self.type.parts[0].base not in _SIZES:
            raise ValueError(f"ranges of type {self.type.sql} have no size")

    @property
    def domains(self) -> dict[str, Domain]:
        kinds = {attribute(self.column, "kind"): _kinds(nullable=self.nullable)}
        return kinds | self.lower.domains | self.size.domains

    @property
    def recodings(self) -> dict[str, Recoding]:
        return self.lower.recodings | self.size.recodings

    def decode(self, codes: Codes, rng: Rng, rows: int | None = None) -> pa.Array:
        kind = codes[attribute(self.column, "kind")]
        start, size = (_points(part, codes, rng) for part in (self.lower, self.size))
        bare, open_ = (
            null_mask(codes[part.column], part.recoding.domain) for part in (self.lower, self.size)
        )
        _again(start, bare, ~bare, rng)
        _again(size, open_ | (size < 0), ~open_ & (size >= 0), rng)
        low, high = self._literals(start, np.where(kind == _BOUNDED, np.maximum(size, 0), 0))
        result = joined("[", quoted(low), ",", quoted(high), ")")
        # Equal bounds make an empty range, unless both belong to it.
        point = joined("[", quoted(low), ",", quoted(low), "]")
        result = pc.if_else(pc.equal(low, high), point, result)
        begun, ended = joined("[", quoted(low), ",)"), joined("(,", quoted(low), ")")
        others = {_BEGUN: begun, _ENDED: ended, _ALL: "(,)", _EMPTY: "empty"}
        for number, text in others.items():
            result = pc.if_else(pa.array(kind == number), text, result)
        none = null_mask(kind, _kinds(nullable=self.nullable))
        return pc.if_else(pa.array(none), pa.scalar(None, pa.string()), result)

    def _literals(self, start: Points, size: Points) -> tuple[pa.Array, pa.Array]:
        """Both bounds as text."""
        base = self.type.parts[0].base
        scale = _scale(self.type.parts[0])
        if _SIZES[base] is _REAL:
            low = _floats(scale.build(start, {}))
            high = low + _floats(_scale(_REAL).build(size, {}))
            parts = (self.lower.step, self.size.step)
            if None not in parts:
                # A sum of doubles may have more decimals than either of them, so it is rounded; a
                # large sum may round to below the lower bound.
                high = np.maximum(np.round(high, max(filter(None, parts), default=0)), low)
            return pa.array(low).cast(pa.string()), pa.array(high).cast(pa.string())
        lo, hi = scale.limits
        # The limits lie far inside int64, but a bound plus a size may lie beyond the limits.
        step = _STEPS.get(base, 1)
        room = (hi - np.clip(start, lo, hi)) // step
        end = np.clip(start, lo, hi) + np.minimum(size, room) * step
        return _bound(self.type.parts[0], start), _bound(self.type.parts[0], end)


def parts_reader(table: str, column: Column) -> ColumnReader | None:
    """The reader of a point, or of a range of numbers, dates or times; None for other types."""
    type_ = column.type
    if type_.kind == "b" and type_.base == "point" and type_.domain is None:
        return PointReader(table, column)
    if type_.kind != "r" or type_.domain is not None or not type_.parts:
        return None
    bound = type_.parts[0]
    # The CHECK of a domain applies within a range too, and may not be understood.
    known = bound.domain is None and bound.base in _SIZES
    return RangeReader(table, column) if known else None


def _kind(column: sql.Composable) -> sql.Composable:
    """The number of a range's kind."""
    text = (
        f"CASE WHEN pg_catalog.isempty({{c}}) THEN {_EMPTY}"
        f" WHEN pg_catalog.lower_inf({{c}}) THEN"
        f" CASE WHEN pg_catalog.upper_inf({{c}}) THEN {_ALL} ELSE {_ENDED} END"
        f" WHEN pg_catalog.upper_inf({{c}}) THEN {_BEGUN}"
        f" WHEN {{c}} IS NOT NULL THEN {_BOUNDED} END::bigint"
    )
    return sql.SQL(text).format(c=column)


def _expressions(column: sql.Composable, base: str) -> tuple[sql.Composable, sql.Composable]:
    """SQL expressions of a range's bound and of its size."""
    upper, lower = "pg_catalog.upper({c})", "pg_catalog.lower({c})"
    low = sql.SQL(f"CASE WHEN pg_catalog.lower_inf({{c}}) THEN {upper} ELSE {lower} END").format(
        c=column
    )
    known = (
        "NOT pg_catalog.lower_inf({c}) AND NOT pg_catalog.upper_inf({c})"
        " AND NOT pg_catalog.isempty({c})"
    )
    size = f"least({upper}::numeric - {lower}::numeric, 9e18)::bigint"
    if base in _TIMES:
        # Older servers cannot subtract infinite times.
        known += f" AND pg_catalog.isfinite({upper}) AND pg_catalog.isfinite({lower})"
        size = f"({upper} - {lower})::bigint"
    if _SIZES[base] is _SPAN:
        # The widest ranges are longer than the longest interval.
        epochs = " - ".join(f"pg_catalog.date_part('epoch', {end})" for end in (upper, lower))
        size = f"pg_catalog.make_interval(secs => least({epochs}, 3e11))"
    elif _SIZES[base] is _REAL:
        size = f"{upper}::numeric - {lower}::numeric"
    return low, sql.SQL(f"CASE WHEN {known} THEN {size} END").format(c=column)


def _points(codec: OrderedCodec, codes: Codes, rng: Rng) -> Points:
    """Grid points drawn in the cells of the codes; arbitrary where the code is that of NULL."""
    lows, highs = codec.cells()
    chosen = codes[codec.column]
    return codec.scale.draw(lows[chosen], highs[chosen], rng)


def _again(points: Points, missing: Mask, known: Mask, rng: Rng) -> None:
    """Replace missing points, in place, by those of rows drawn at random."""
    if missing.any() and known.any():
        points[missing] = rng.choice(points[known], int(missing.sum()))


def _bound(type_: ColumnType, points: Points) -> pa.Array:
    scale = _scale(type_)
    none = np.zeros(len(points), dtype=np.bool_)
    return scale.build(points, dict.fromkeys(scale.specials, none)).cast(pa.string())


def _floats(array: pa.Array) -> NDArray[np.float64]:
    return np.asarray(array.cast(pa.float64()).to_numpy(zero_copy_only=False))
