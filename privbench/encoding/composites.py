"""Values that are modelled by parts: ranges, points, shapes, vectors, addresses, label paths.

Which parts a type has is public: it follows from the type, its modifier and its extension. Each
part is a deterministic map of the row's own value, by an expression that never fails, with the
reader of its type (``data/parts.json``). So a unit changes the bounds, labels and histograms of a
part as it changes those of a column, and each is charged like a column (`docs/stability.md`). A
value that lacks a part has NULL for it.

Coordinates are limited, as PostgreSQL refuses sums that overflow. No function of an extension is
called by its name, which anybody may have given to another function: its casts give bytes, boxes
and arrays.
"""

import ipaddress
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from pydantic import PlainValidator

from privbench.arrays import Floats, Ints, Mask, Rng
from privbench.domain import Domain
from privbench.encoding.base import (
    Codec,
    CodeMap,
    ColumnReader,
    Need,
    ReleasedDomain,
    attribute,
    head,
    null_mask,
)
from privbench.encoding.categories import LabelReader, ListCodec, ListReader
from privbench.encoding.filled import FillCodec, SizedCodec
from privbench.encoding.keys.placeholders import grouped, shape_of, shape_texts
from privbench.encoding.ordered import OrderedCodec, grid_of, ordered_part
from privbench.encoding.surrogate_text import digits, joined, quoted
from privbench.encoding.text import TextCodec
from privbench.privacy.data import Attribute
from privbench.privacy.recoding import Recoding
from privbench.privacy.spec import PART
from privbench.rules.named import packaged
from privbench.schema import Column, ColumnType


@dataclass(frozen=True)
class PartsReader(ColumnReader):
    """Reads a column by parts, each an expression over the column.

    Without parts only whether it is NULL.
    """

    @property
    @abstractmethod
    def parts(self) -> tuple[ColumnReader, ...]:
        """The readers of the parts; each selects one expression."""

    @abstractmethod
    def expressions(self, identifier: sql.Composable) -> Sequence[sql.Composable]:
        """Return the SQL expressions that the parts read."""

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


def part_column(whole: Column, part: str, type_: ColumnType, *, null: bool = True) -> Column:
    """Return a part of a column as a column of its own."""
    return Column(attribute(whole.name, part), whole.position, type_, not_null=not null)


_CODECS: dict[str, type[Codec]] = {
    codec.kind: codec for codec in (OrderedCodec, ListCodec, TextCodec, FillCodec, SizedCodec)
}


@dataclass(frozen=True)
class PartedCodec(Codec):
    """Makes values from parts that have codecs of their own."""

    parts: tuple[
        Annotated[Codec, PlainValidator(lambda data: _CODECS[str(data["codec"])].from_json(data))],
        ...,
    ]

    @property
    def domains(self) -> dict[str, Domain]:
        return {name: item for part in self.parts for name, item in part.domains.items()}

    @property
    def recodings(self) -> dict[str, Recoding]:
        return {name: item for part in self.parts for name, item in part.recodings.items()}


_CATEGORIES = {"text": "S", "bool": "B", "interval": "T"} | dict.fromkeys(
    ("date", "timestamp", "timestamptz"), "D"
)


def plain_type(base: str) -> ColumnType:
    """Return the type of a part of a value by the name of its base type."""
    return ColumnType(base, base, category=_CATEGORIES.get(base, "N"))


#: Types that are taken apart as others are; the extensions that own types; sizes of vectors.
_LIKE = {"cidr": "inet", "macaddr8": "macaddr", "halfvec": "vector"}
_OWNERS = {"geometry": "postgis", "geography": "postgis", "vector": "vector", "halfvec": "vector"}
_OWNERS["ltree"] = "ltree"
_SIZE = re.compile(r"\((\d{1,5})\)$")

#: Bits of the type in the bytes of a shape (EWKB).
_Z, _M, _SYSTEM = 1 << 31, 1 << 30, 1 << 29
#: The most levels of a path that is made.
_MOST_DEPTH = 16


def _parts_of(type_: ColumnType) -> list[tuple[str, ColumnType, str]]:
    """Name, type and SQL of every part, none of types that are not taken apart.

    In SQL ``{0}`` is the value. The first part says whether it is NULL.
    """
    base, most = type_.base if type_.kind == "b" else "", None
    words = {"TEXT": type_.text_form, "BOX": "({0})"}
    if base == "box":
        most = 4
    elif base in ("geometry", "geography"):
        name, flags = shape_of(type_)
        shapes = packaged("shapes", "privbench.encoding")
        if name not in (*shapes, "geometry"):
            return []
        flat = f"{type_.sql.partition('(')[0].removesuffix(base)}geometry"
        words["BOX"] = f"({{0}}::{flat}::pg_catalog.box)"
        words["HEAD"] = str(shapes.get(name, shapes["polygon"])[1])
        words["EACH"] = str(8 * (2 + len(flags)))
        base, most = "box", {"point": 2, "geometry": 6}.get(name, 5)
    elif _OWNERS.get(base) == "vector" and not _SIZE.search(type_.sql):
        return []
    known = packaged("parts", "privbench.encoding").get(_LIKE.get(base, base), ())
    pattern = re.compile("|".join(words))
    result = [
        (name, plain_type(kind), pattern.sub(lambda word: words[word[0]], text))
        for name, kind, text in known[:most]
    ]
    # The bytes before the coordinates say whether there is a shape.
    return [*result[5:], *result[:5]]


def parts_reader(table: str, column: Column, per_unit: int) -> ColumnReader | None:
    """Return the reader of a column that is modelled by parts, or None.

    ``per_unit`` is 0 without δ.
    """
    type_ = column.type
    if type_.domain is not None or column.templates:
        return None
    if type_.kind == "r" and type_.parts:
        bound = type_.parts[0]
        # The CHECK of a domain applies within a range too, and may not be understood.
        known = bound.domain is None and bound.base in _SIZES
        return _range_reader(table, column, per_unit) if known else None
    parts = _parts_of(type_) if type_.extension == _OWNERS.get(type_.base) else []
    # Texts are left out where no label may be released.
    readable = [part for part in parts if per_unit or part[1].base != "text"]
    if readable[:1] != parts[:1] or not parts:
        return None
    readers: list[ColumnReader] = []
    for name, kind, _ in readable:
        own = part_column(column, name, kind, null=bool(readers) or not column.not_null)
        text = kind.base == "text"
        readers.append(LabelReader(table, own, per_unit) if text else ordered_part(table, own))
    how = f"{type_.sql} by {', '.join(name for name, _, _ in readable)}"
    how_and_why = how, "ranges, labels of enough units"
    texts = tuple(text for _, _, text in readable)
    return ComposedReader(table, column, tuple(readers), texts, PartsCodec, *how_and_why)


@dataclass(frozen=True)
class ComposedReader(PartsReader):
    """Reads the parts of a type by an SQL expression each.

    Its codec makes values from the parts.
    """

    readers: tuple[ColumnReader, ...]
    texts: tuple[str, ...]  # SQL of every part, in which ``{0}`` is the value
    codec: type[PartedCodec]
    how: str  # how the column is covered, for the coverage map
    why: str  # why it is covered in this way, for the coverage map
    public: int = 0  # how many of the first parts have public cells, which the codec knows
    # SQL of what the second part selects (``{1}``) of a random element of the value (``{0}``):
    # drawn once, however often the part needs the element.
    drawn: str = ""

    @property
    def parts(self) -> tuple[ColumnReader, ...]:
        return self.readers

    def expressions(self, identifier: sql.Composable) -> Sequence[sql.Composable]:
        return [sql.SQL(text).format(identifier) for text in self.texts]

    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        selected = super().select(identifier)
        if self.drawn:
            text, alias = selected[1]
            selected[1] = sql.SQL(self.drawn).format(identifier, text), alias
        return selected

    def finish(self, released: Mapping[str, ReleasedDomain]) -> Codec:
        parts = tuple(part.finish(released) for part in self.readers[self.public :])
        return self.codec(*self.head, parts)

    def describe(self) -> tuple[str, str]:
        return self.how, self.why


@dataclass(frozen=True)
class PartsCodec(PartedCodec):
    """Makes values from their parts; the first part says whether a value is NULL."""

    kind: ClassVar[str] = "parts"

    def __post_init__(self) -> None:
        """Refuse parts that are not those of a reader."""
        known = [(attribute(self.column, part[0]), part[1]) for part in _parts_of(self.type)]
        actual = [(part.column, part.type) for part in self.parts]
        if actual not in (known, [part for part in known if part[1].base != "text"]) or not actual:
            raise ValueError("the parts of a value are not those of its type")

    def decode(self, codes: CodeMap, rng: Rng, rows: int | None = None) -> pa.Array:
        """Return literals; a missing number is taken from another row, and texts are surrogates."""
        values: dict[str, pa.Array] = {}
        for part in self.parts:
            name = part.column.rpartition(PART)[2]
            if isinstance(part, ListCodec):
                labels = [text or None for text in part.values]
                place = np.minimum(codes[part.column].astype(np.int64), len(labels))
                values[name] = pa.array([*labels, None], pa.string()).take(pa.array(place))
            else:
                values[name] = _without_null(part.decode(codes, rng), rng)
        first = self.parts[0]
        null = null_mask(codes[first.column], first.domains[first.column])
        join = _JOINS[_LIKE.get(self.type.base, self.type.base)]
        literals = join(self.type, values, len(null), rng)
        return pc.if_else(pa.array(null), pa.scalar(None, literals.type), literals)


def _without_null(values: pa.Array, rng: Rng) -> pa.Array:
    """Values of random other rows where there is none; 0 where there are none at all."""
    lost = np.asarray(values.is_null())
    known, places = np.flatnonzero(~lost), np.arange(len(values))
    if not len(known):
        nothing = "" if pa.types.is_string(values.type) else 0
        return pc.fill_null(values, pa.scalar(nothing).cast(values.type))
    places[lost] = rng.choice(known, int(lost.sum()))
    return values.take(pa.array(places))


def _floats(values: pa.Array) -> Floats:
    """Finite numbers."""
    numbers = np.asarray(values.cast(pa.float64()))
    return np.asarray(np.nan_to_num(numbers, posinf=1e100, neginf=-1e100))


def _printed(numbers: Any) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _points(type_: ColumnType, values: Mapping[str, pa.Array], rows: int, rng: Rng) -> pa.Array:
    x, y, *more = values.values()
    point = joined("(", x.cast(pa.string()), ",", y.cast(pa.string()), ")")
    if len(more) == 1:
        return joined("<", point, ",", _printed(np.abs(_floats(more[0]))), ">")
    if not more:
        return point
    ends = (_floats(start) + _floats(size) for start, size in zip((x, y), more, strict=True))
    return joined(point, ",(", _printed(next(ends)), ",", _printed(next(ends)), ")")


def _shapes(type_: ColumnType, values: Mapping[str, pa.Array], rows: int, rng: Rng) -> pa.Array:
    """Shapes of the declared type, else of released types in released reference systems."""
    lot = {name: _floats(item) for name, item in values.items() if name != "head"}
    if type_.base == "geography":
        lot = {**lot, "x": np.clip(lot["x"], -180, 180), "y": np.clip(lot["y"], -90, 90)}
    falls = rng.integers(2, size=rows) == 1
    name, flags = shape_of(type_)
    if name != "geometry":
        return shape_texts(name, flags, lot, falls)
    numbers = {item[0]: known for known, item in packaged("shapes", "privbench.encoding").items()}

    def make(head: str, rows: Ints) -> pa.Array:
        data = bytes.fromhex(head.ljust(18, "0")) if head[:2] == "01" else bytes(9)
        word, system = (int.from_bytes(data[at : at + 4], "little") for at in (1, 5))
        flags = "Z" * bool(word & _Z) + "M" * bool(word & _M)
        some = {part: item[rows] for part, item in lot.items()}
        texts = shape_texts(numbers.get(word & 0xFF, "point"), flags, some, falls[rows])
        return joined(f"SRID={system};", texts) if word & _SYSTEM else texts

    return grouped(_without_null(values["head"], rng), make)


def _vectors(type_: ColumnType, values: Mapping[str, pa.Array], rows: int, rng: Rng) -> pa.Array:
    """Vectors of given norms in directions that are drawn at random."""
    match = _SIZE.search(type_.sql)
    assert match is not None
    size, most = int(match[1]), 65_504 if type_.base == "halfvec" else 3e38
    texts = [pa.array([], pa.string())]
    for norms in np.array_split(_floats(values["norm"]), rows * size // 2**22 + 1):
        parts = rng.standard_normal((len(norms), size))
        parts *= (norms / np.linalg.norm(parts, axis=1))[:, None]
        flat = _printed(np.clip(parts, -most, most).astype(np.float32).reshape(-1))
        places = pa.array(np.arange(len(norms) + 1) * size, pa.int32())
        lists = pa.ListArray.from_arrays(places, flat)
        texts.append(joined("[", pc.binary_join(lists, ","), "]"))
    return pa.concat_arrays(texts)


def _addresses(type_: ColumnType, values: Mapping[str, pa.Array], rows: int, rng: Rng) -> pa.Array:
    """The released address, else one in its released network; of others not even that is known.

    A kind (``4/32``) says how long the mask is.
    """
    kinds = pc.fill_null(values["kind"], "4/32")
    other = pc.if_else(pc.starts_with(kinds, "6"), "fd00::/8", "10.0.0.0/8")
    known = pc.coalesce(values["narrow"], values["wide"], other)

    def make(pair: str, some: Ints) -> pa.Array:
        kind, _, network = pair.partition(" ")
        net = ipaddress.ip_network(network)
        bits = mask = int(net.max_prefixlen)
        if kind.startswith(f"{net.version}/"):
            mask = min(max(int(kind[2:]), int(net.prefixlen)), bits)
        free = int(net.hostmask)
        if type_.base == "cidr":
            free &= -(2 ** (bits - mask))
        width, base, point = (8, 10, ".") if bits == 32 else (16, 16, ":")
        groups = []
        for shift in range(bits - width, -1, -width):
            fixed, open_ = (number >> shift & 2**width - 1 for number in (int(net[0]), free))
            group = fixed | rng.integers(2**width, size=len(some)) & open_
            groups.append(_printed(group) if base == 10 else digits(group, 4, base))
        return joined(pc.binary_join_element_wise(*groups, point), f"/{mask}")

    return pc.coalesce(values["whole"], grouped(joined(kinds, " ", known), make))


def _macs(type_: ColumnType, values: Mapping[str, pa.Array], rows: int, rng: Rng) -> pa.Array:
    width = 10 if type_.base == "macaddr8" else 6
    maker = pc.replace_substring(pc.fill_null(values["maker"], "020000"), ":", "")
    rest = digits(rng.integers(16**width, size=rows), width, 16)
    return pc.coalesce(values["whole"], joined(maker, rest))


def _paths(type_: ColumnType, values: Mapping[str, pa.Array], rows: int, rng: Rng) -> pa.Array:
    """The released path, else one behind its released beginning, as deep as the depth says."""
    none = pa.nulls(rows, pa.string())
    wide, narrow, whole = (values.get(name, none) for name in ("wide", "narrow", "whole"))
    begun = pc.fill_null(pc.coalesce(narrow, wide), "")
    left = np.clip(_floats(values["depth"]), 1, _MOST_DEPTH)
    left -= np.where(narrow.is_valid(), 2, wide.is_valid())
    for level in range(_MOST_DEPTH):
        label = joined(begun, ".n", _printed(rng.integers(2**20, size=rows)))
        begun = pc.if_else(pa.array(left > level), label, begun)
    return pc.coalesce(whole, pc.utf8_ltrim(begun, "."))


#: What puts the parts together again: literals of so many rows.
_JOINS: dict[str, Callable[[ColumnType, Mapping[str, pa.Array], int, Rng], pa.Array]] = {
    **dict.fromkeys(("point", "box", "circle"), _points),
    **dict.fromkeys(("geometry", "geography"), _shapes),
    "vector": _vectors,
    "inet": _addresses,
    "macaddr": _macs,
    "ltree": _paths,
}


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


def _range_reader(table: str, column: Column, per_unit: int) -> ComposedReader:
    """Reads the kind of a range, its bound (the lower one where there is one) and its size."""
    known, bound = packaged("parts", "privbench.encoding"), column.type.parts[0]
    # Sizes that many units have, an hour or a week, are released like labels.
    more: dict[str, Any] = {"per_unit": per_unit}
    if _SIZES[bound.base] is _SPAN:
        more["default_range"] = _STAY
    nullable = not column.not_null
    named = part_column(column, "kind", plain_type("int2"), null=nullable)
    codec = ListCodec(*head(named), _KINDS, False, False, True)
    kind = ListReader(table, named, codec, "kind", "by kind", _kinds(nullable=nullable))
    lower = ordered_part(table, part_column(column, "lower", bound))
    size = ordered_part(table, part_column(column, "size", _SIZES[bound.base]), **more)
    # Older servers cannot subtract infinite times, and the widest ranges of times are longer than
    # the longest interval.
    sized = known["sizes of ranges"]["date" if bound.base == "date" else _SIZES[bound.base].base]
    texts = (*(text for _, _, text in known["range"]), sized)
    how = f"{column.type.sql} by kind, beginning and size, bounds released"
    parts = (kind, lower, size), texts, RangeCodec
    return ComposedReader(table, column, *parts, how, "no range is declared", public=1)


@dataclass(frozen=True)
class RangeCodec(PartedCodec):
    """Makes ranges from a kind, a bound and a size."""

    kind: ClassVar[str] = "range"

    def __post_init__(self) -> None:
        """Refuse a type without a size."""
        if not self.type.parts or self.type.parts[0].base not in _SIZES or len(self._both) != 2:
            raise ValueError(f"ranges of type {self.type.sql} have no size")

    @property
    def _both(self) -> list[OrderedCodec]:
        """The codecs of the beginning and of the size."""
        return [part for part in self.parts if isinstance(part, OrderedCodec)]

    @property
    def domains(self) -> dict[str, Domain]:
        kinds = {attribute(self.column, "kind"): _kinds(nullable=self.nullable)}
        return kinds | super().domains

    def decode(self, codes: CodeMap, rng: Rng, rows: int | None = None) -> pa.Array:
        kind = codes[attribute(self.column, "kind")]
        start, size = (_ends(part, codes, rng) for part in self._both)
        bare, open_ = (null_mask(codes[part.column], part.recoding.domain) for part in self._both)
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

    def _literals(self, start: Ints, size: Ints) -> tuple[pa.Array, pa.Array]:
        """Both bounds as text."""
        base = self.type.parts[0].base
        scale = grid_of(self.type.parts[0])
        if _SIZES[base] is _REAL:
            low = _floats(scale.build(start, {}))
            high = low + _floats(grid_of(_REAL).build(size, {}))
            steps = [part.step for part in self._both]
            if None not in steps:
                # A sum of doubles may have more decimals than either of them, so it is rounded; a
                # large sum may round to below the lower bound.
                high = np.maximum(np.round(high, max(filter(None, steps), default=0)), low)
            return pa.array(low).cast(pa.string()), pa.array(high).cast(pa.string())
        lo, hi = scale.limits
        # The limits lie far inside int64, but a bound plus a size may lie beyond the limits.
        step = _STEPS.get(base, 1)
        room = (hi - np.clip(start, lo, hi)) // step
        end = np.clip(start, lo, hi) + np.minimum(size, room) * step
        return _bound(self.type.parts[0], start), _bound(self.type.parts[0], end)


def _ends(codec: OrderedCodec, codes: CodeMap, rng: Rng) -> Ints:
    """Grid points drawn in the cells of the codes; arbitrary where the code is that of NULL."""
    lows, highs = codec.cells()
    chosen = codes[codec.column]
    return codec.scale.draw(lows[chosen], highs[chosen], rng)


def _again(points: Ints, missing: Mask, known: Mask, rng: Rng) -> None:
    """Replace missing points, in place, by those of rows drawn at random."""
    if missing.any() and known.any():
        points[missing] = rng.choice(points[known], int(missing.sum()))


def _bound(type_: ColumnType, points: Ints) -> pa.Array:
    scale = grid_of(type_)
    none = np.zeros(len(points), dtype=np.bool_)
    return scale.build(points, dict.fromkeys(scale.specials, none)).cast(pa.string())
