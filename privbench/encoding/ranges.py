"""Ranges, whose values become several attributes, each on a grid of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from psycopg import sql
from pydantic import PlainValidator

from privbench.domain import Domain
from privbench.encoding.base import (
    Codec,
    Codes,
    ColumnReader,
    Released,
    Rng,
    attribute,
    head,
    null_mask,
)
from privbench.encoding.categories import ListCodec, ListReader
from privbench.encoding.ordered import OrderedCodec, OrderedReader
from privbench.encoding.parts import PartsReader, grid_of, ordered_part, plain_type
from privbench.encoding.scale import Mask, Points
from privbench.encoding.surrogate_text import joined, quoted
from privbench.privacy.recoding import Recoding
from privbench.rules.named import packaged
from privbench.schema import Column, ColumnType

#: The codec of a part, which a model holds as that of a column.
_Ordered = Annotated[OrderedCodec, PlainValidator(OrderedCodec.from_json)]
_WHOLE, _REAL, _SPAN = (plain_type(base) for base in ("int8", "numeric", "interval"))
#: Type of a range's length, by the type of its bounds.
_SIZES = {
    **dict.fromkeys(("int2", "int4", "int8", "date"), _WHOLE),
    **dict.fromkeys(("numeric", "float4", "float8"), _REAL),
    **dict.fromkeys(("timestamp", "timestamptz"), _SPAN),
}
#: Numbers of the kinds of ranges, as texts in the order of their codes, and their names.
_KINDS = tuple("01234")
_BOUNDED, _BEGUN, _ENDED, _ALL, _EMPTY = range(5)
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
        named = Column(
            attribute(self.name, "kind"), place, plain_type("int2"), not_null=not self.nullable
        )
        lower = ordered_part(self, "lower", bound)
        size = ordered_part(self, "size", _SIZES[bound.base])
        if _SIZES[bound.base] is _SPAN:
            size = replace(size, default_range=_STAY)
        codec = ListCodec(*head(named), _KINDS, False, False, True)
        return _KindReader(self.table, named, codec, "kind", "by kind"), lower, size

    def expressions(self, identifier: sql.Composable) -> Sequence[sql.Composable]:
        known = packaged("parts", "privbench.encoding")
        base = self.column.type.parts[0].base
        # Older servers cannot subtract infinite times, and the widest ranges of times are longer
        # than the longest interval.
        size = known["sizes of ranges"]["date" if base == "date" else _SIZES[base].base]
        texts = (*(text for _, _, text in known["range"]), size)
        return [sql.SQL(text).format(identifier) for text in texts]

    def finish(self, released: Mapping[str, Released]) -> Codec:
        return RangeCodec(*self.head, *(part.finish(released) for part in self.parts[1:]))

    def describe(self) -> tuple[str, str]:
        how = f"{self.column.type.sql} by kind, beginning and size, bounds released"
        return how, "no range is declared"


@dataclass(frozen=True)
class RangeCodec(Codec):
    """Ranges from a kind, a bound and a size."""

    kind: ClassVar[str] = "range"

    lower: _Ordered
    size: _Ordered

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
        scale = grid_of(self.type.parts[0])
        if _SIZES[base] is _REAL:
            low = _floats(scale.build(start, {}))
            high = low + _floats(grid_of(_REAL).build(size, {}))
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


def range_reader(table: str, column: Column) -> ColumnReader | None:
    """The reader of a range of numbers, dates or times; None for other types."""
    type_ = column.type
    if type_.kind != "r" or type_.domain is not None or not type_.parts:
        return None
    bound = type_.parts[0]
    # The CHECK of a domain applies within a range too, and may not be understood.
    known = bound.domain is None and bound.base in _SIZES
    return RangeReader(table, column) if known else None


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
    scale = grid_of(type_)
    none = np.zeros(len(points), dtype=np.bool_)
    return scale.build(points, dict.fromkeys(scale.specials, none)).cast(pa.string())


def _floats(array: pa.Array) -> NDArray[np.float64]:
    return np.asarray(array.cast(pa.float64()).to_numpy(zero_copy_only=False))
