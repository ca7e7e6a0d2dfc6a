"""Distinct valid values, made from numbers, of types that are never modelled."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privbench.arrays import Ints, Mask, Rng
from privbench.encoding.base import Codec
from privbench.encoding.keys.columns import ValueSpace, modelled_values
from privbench.encoding.surrogate_text import BASE36, decimal, digits, fixed_width, joined, quoted
from privbench.encoding.surrogates import made_semantic
from privbench.rng import generator
from privbench.rules.named import packaged
from privbench.rules.texts import column_pattern, unkept_checks
from privbench.schema import Column, ColumnType, Table, TableName

#: The `room` of makers whose values have no limit of their own.
_WIDE = 2**40
#: The most templates of one column.
MAX_TEMPLATES = 64
#: The days of dates: twenty years from 2005 on. Decimals of the coordinates of shapes, and their
#: least size: a valid line or area has some.
_FIRST_DAY, _DAYS = 12_784, 7305
_DECIMALS, _LEAST = 9, 1e-8


@dataclass(frozen=True, slots=True)
class Maker:
    """A function that makes values of a type, and how many distinct values there are."""

    make: Callable[[Ints], pa.Array]  # texts of the type from numbers below `room`
    room: int = _WIDE  # how many numbers give distinct values


def random_uuids(rows: int, rng: Rng) -> pa.Array:
    """Return random UUIDs (version 4) as text."""
    numerals = rng.integers(16, size=(rows, 32), dtype=np.uint8)
    numerals[:, 12] = 4
    numerals[:, 16] = 8 + numerals[:, 16] % 4
    text = np.full((rows, 36), ord("-"), dtype=np.uint8)
    places = [i for i in range(36) if i not in (8, 13, 18, 23)]
    text[:, places] = BASE36[numerals]
    return fixed_width(text)


def maker_of(type_: ColumnType) -> Maker | None:
    """Return the maker of values of a type, or None for an unknown type."""
    if type_.kind == "c":
        return _composite(type_)
    if type_.kind in "rm":
        return _range(type_)
    if is_array(type_):
        return _array(type_)
    if type_.kind != "b":
        return None
    if type_.base in _MAKERS:
        return _MAKERS[type_.base](type_)
    template = packaged("placeholders", "privbench.encoding").get(type_.base)
    return None if template is None else _template(*template)


def column_maker(column: Column) -> Maker | None:
    """Return the maker of a column's values, by its templates or else by its type, or None."""
    if column.templates and not is_array(column.type):
        return of_templates(column.templates)
    return maker_of(column.type)


def is_array(type_: ColumnType) -> bool:
    """Return whether values of a type are array literals."""
    plain = type_.base not in ("oidvector", "int2vector")
    return type_.category == "A" and bool(type_.parts) and plain


def part_maker(type_: ColumnType) -> Maker | None:
    """Return the maker for a type within another type; it may be a modelled type or a domain."""
    column = Column("value", 1, type_, not_null=True)
    table = Table(TableName("public", "value"), (column,))
    if unkept_checks(table):
        # COPY checks a domain within a type, and NULL is the value most likely to pass.
        return Maker(lambda numbers: pa.nulls(len(numbers), pa.string()), 1)
    pattern = column_pattern(table, column)
    if pattern is not None:
        # A few distinct texts are enough, since a value within another need not be a key.
        texts = pattern.distinct(512, generator(0, "pattern", type_.sql))
        return _list_maker(texts) if len(texts) else None
    space = modelled_values(table, column, None, 36**4)
    if space is None:
        return maker_of(type_)
    room = min(space.capacity, _WIDE)
    return Maker(lambda n: space.nth(n).cast(pa.string()), room) if room > 0 else None


def value_space(table: Table, column: Column, codec: Codec | None, rows: int) -> ValueSpace | None:
    """Return the values that a column can take, also for types that are never modelled.

    For the other types see `modelled_values`.
    """
    result = modelled_values(table, column, codec, rows)
    maker = column_maker(column) if result is None else None
    if result is not None or maker is None:
        return result
    return ValueSpace(column, None, 0, maker.room - 1, maker=maker.make)


def array_texts(
    element: ColumnType, numbers: Ints, sizes: Ints, templates: Sequence[str] = ()
) -> pa.Array | None:
    """Return array literals of the given sizes, or None where no element can be made."""
    maker = of_templates(templates) if templates else part_maker(element)
    if maker is None:
        return None
    places = np.concatenate([[0], np.cumsum(sizes)])
    within = np.arange(places[-1]) - np.repeat(places[:-1], sizes)
    flat = quoted(maker.make((np.repeat(numbers, sizes) + within) % maker.room)).fill_null("NULL")
    lists = pa.ListArray.from_arrays(pa.array(places, pa.int32()), flat)
    return joined("{", pc.binary_join(lists, ";" if element.base == "box" else ","), "}")


def _composite(type_: ColumnType) -> Maker | None:
    result = [part_maker(part) for part in type_.parts]
    makers = [made for made in result if made is not None]
    if len(makers) < len(result):
        return None
    if not makers:
        return _constant("()")

    def make(numbers: Ints) -> pa.Array:
        texts = [quoted(maker.make(numbers % maker.room)).fill_null("") for maker in makers]
        return joined("(", pc.binary_join_element_wise(*texts, ","), ")")

    return Maker(make, max(made.room for made in makers))


def _range(type_: ColumnType) -> Maker | None:
    bound = part_maker(type_.parts[0]) if type_.parts else None
    if bound is None:
        return _constant("{}" if type_.kind == "m" else "empty")
    head, tail = ("{[", "]}") if type_.kind == "m" else ("[", "]")

    def make(numbers: Ints) -> pa.Array:
        one = quoted(bound.make(numbers)).fill_null("")
        return joined(head, one, ",", one, tail)

    return Maker(make, bound.room)


def _array(type_: ColumnType) -> Maker:
    element = type_.parts[0]
    inner = part_maker(element)
    if inner is None:
        return _constant("{}")
    return Maker(lambda n: array_texts(element, n, np.ones_like(n)), inner.room)


def _constant(text: str) -> Maker:
    return _list_maker(pa.array([text], pa.string()))


def _list_maker(texts: pa.Array) -> Maker:
    return Maker(lambda numbers: texts.take(pa.array(numbers)), len(texts))


def _bits(type_: ColumnType) -> Maker:
    most = 40 if type_.base == "varbit" and type_.length is None else type_.length or 1
    width = min(most, 40)
    left = "0" * (most - width) if type_.base == "bit" else ""
    return Maker(lambda numbers: joined(left, digits(numbers, width, 2)), 2**width)


#: The parts of a template that are replaced by the number, see `_part`.
TEMPLATE_PART = re.compile(r"(#(?:\d{1,2}h|\d[bm]|[+d])?)")
#: Most characters of a template: every row has one of a column's, and strangers make models.
_MOST_TEXT = 2**16


def of_templates(texts: Sequence[str]) -> Maker:
    """Return a maker of literals by several templates in turn, such as ``POINT(# 0)``.

    A ``#`` stands for the number of the row, so that literals differ.

    The templates may come from a stranger's model: a ValueError is raised if there is none, or too
    many, or one that is too long.
    """
    if not 0 < len(texts) <= MAX_TEMPLATES or max(map(len, texts)) > _MOST_TEXT:
        raise ValueError("templates are too many or too long")
    if max(len(TEMPLATE_PART.findall(text)) for text in texts) > 2**11:
        raise ValueError("a template has too many parts")
    makers = [_template(text, _WIDE) for text in texts]

    def make(numbers: Ints) -> pa.Array:
        # Each makes its own rows alone, as all rows of all templates would fill the memory.
        which = pa.array(numbers % len(makers))
        return grouped(which, lambda at, rows: makers[at].make(numbers[rows] // len(makers)))

    return Maker(make, 2**20)


def _template(text: str, room: int) -> Maker:
    """Literals that a template describes, such as ``POINT(# 0)``."""
    pieces = TEMPLATE_PART.split(text)

    def make(numbers: Ints) -> pa.Array:
        texts = [_part(piece, numbers) if piece.startswith("#") else piece for piece in pieces]
        return joined(pa.repeat("", len(numbers)), *texts)

    return Maker(make, room)


def _part(text: str, numbers: Ints) -> pa.Array:
    """One part of a template, filled in with the numbers.

    ``#`` is the number, ``#+`` the number plus one, ``#8h`` its eight hexadecimal digits. ``#2b``
    is its byte 2, ``#2m`` that byte in two hexadecimal digits. ``#d`` is a date.
    """
    match text[-1]:
        case "h":
            return digits(numbers, int(text[1:-1]), 16)
        case "b":
            return decimal(numbers >> 8 * int(text[1]) & 255)
        case "m":
            return digits(numbers >> 8 * int(text[1]) & 255, 2, 16)
        case "d":
            days = (_FIRST_DAY + numbers % _DAYS).astype(np.int32)
            return pa.array(days, pa.date32()).cast(pa.string())
    return decimal(numbers + (text == "#+"))


def _vector(type_: ColumnType) -> Maker:
    """Vectors of the declared dimensions; numbers of 16 bits distinguish fewer values."""
    dimensions = re.search(r"\((\d{1,5})\)", type_.sql)
    size = int(dimensions[1]) if dimensions else 1
    if type_.base == "sparsevec":
        return _template(f"{{1:#}}/{size}", 2**20)
    room = 2**11 if type_.base == "halfvec" else 2**20
    return _template(f"[{','.join(['#', *['1'] * (size - 1)])}]", room)


#: A shape in a type's modifier, with its further dimensions: ``geometry(PolygonZ,4326)``.
_SHAPE = re.compile(r"\(([a-z]+?)(zm|z|m)?[,)]")


def shape_of(type_: ColumnType) -> tuple[str, str]:
    """Return the shape (default ``geometry``) and extra dimensions in a spatial type's modifier."""
    match = _SHAPE.search(type_.sql.lower())
    return (match[1], (match[2] or "").upper()) if match else ("geometry", "")


def _geometry(type_: ColumnType) -> Maker:
    """Shapes of the type's modifier; PostGIS itself adds the reference system.

    >>> _geometry(ColumnType("geometry(PointZ,4326)", "geometry")).make(np.arange(1)).to_pylist()
    ['POINT Z(-175 -80 0)']
    """
    name, flags = shape_of(type_)
    name = name if name in packaged("shapes", "privbench.encoding") else "point"

    def make(numbers: Ints) -> pa.Array:
        size = np.full(len(numbers), 0.1)
        lot = {
            "x": numbers % 351 - 175,
            "y": numbers // 351 % 161 - 80,
            "width": size,
            "height": size,
        }
        return shape_texts(name, flags, {**lot, "points": 50 * size}, numbers < 0)

    return Maker(make, 351 * 161)


def shape_texts(name: str, flags: str, lot: Mapping[str, NDArray[Any]], falls: Mask) -> pa.Array:
    """Return literals of points, lines and rings of a spatial type, each within the box of its row.

    Lines run from corner to corner; ``falls`` says which of them fall, and which rings are
    mirrored.
    """
    _, _, form, least, most, left, right = packaged("shapes", "privbench.encoding")[name]
    left, more = left.replace("M", flags), " 0" * len(flags)
    counts = np.clip(lot.get("points", np.ones(len(lot["x"]))), least, most).astype(int)

    def make(count: int, rows: Ints) -> pa.Array:
        corners = []
        for at in _outline(form, count):
            pair = []
            for axis, side, share in zip("xy", ("width", "height"), at, strict=True):
                start = lot[axis][rows]
                if form != "point":
                    size = np.maximum(lot[side][rows], _LEAST * (1 + np.abs(start)))
                    start = start + size * np.where((axis == "y") & falls[rows], 1 - share, share)
                pair.append(pa.array(np.round(start, _DECIMALS)).cast(pa.string()))
            corners.append(joined(pair[0], " ", pair[1], more))
        outline = pc.binary_join_element_wise(*corners, ",")
        return joined(f"{name.upper()} {flags}{left}", outline, right)

    return grouped(pa.array(counts), make)


def _outline(form: str, count: int) -> list[list[float]]:
    """Points of a shape within the unit square: a ring of five is the square itself."""
    if form != "ring":
        return [[share, share] for share in np.linspace(0, 1, count).tolist()]
    angles = np.arange(count) % (count - 1) * 2 * np.pi / (count - 1)
    angles, radius = (angles + np.pi / 4, 2**-0.5) if count == 5 else (angles, 0.5)
    both = 0.5 + radius * np.stack([np.cos(angles), np.sin(angles)], 1)
    points: list[list[float]] = both.round(12).tolist()
    return points


def grouped(keys: pa.Array, make: Callable[[Any, Ints], pa.Array]) -> pa.Array:
    """Return texts in the order of the rows, calling ``make`` once for the rows of each key."""
    known = keys.dictionary_encode()
    which = known.indices.to_numpy()
    rows = [np.flatnonzero(which == place) for place in range(len(known.dictionary))]
    texts = [make(key, some) for key, some in zip(known.dictionary.to_pylist(), rows, strict=True)]
    order = np.argsort(np.concatenate([np.empty(0, np.int64), *rows]))
    return pa.concat_arrays([pa.array([], pa.string()), *texts]).take(pa.array(order))


_LETTERS = [chr(code) for code in range(33, 127) if chr(code) not in "\\"]
#: Types whose values follow from more than their names.
_MAKERS: dict[str, Callable[[ColumnType], Maker]] = {
    **dict.fromkeys(("bit", "varbit"), _bits),
    **dict.fromkeys(("vector", "halfvec", "sparsevec"), _vector),
    **dict.fromkeys(("geometry", "geography"), _geometry),
    "char": lambda _: _list_maker(pa.array(_LETTERS)),
}


def filler_of(type_: ColumnType) -> str | None:
    """Return the name of the filler for valid values of a type, or None for an unknown type."""
    if type_.base == "uuid":
        return "uuid"
    return "made" if maker_of(type_) is not None else None


def fill(filler: str, type_: ColumnType, rows: int, rng: Rng) -> pa.Array:
    """Return valid values of a type, made by a filler.

    The filler is one of `filler_of`, ``faker:<provider>``, ``text:<constant>``, ``null`` or
    ``templates:<list in JSON>``.
    """
    name, _, rest = filler.partition(":")
    if filler == "null":
        return pa.nulls(rows, pa.string())
    if filler == "uuid":
        return random_uuids(rows, rng)
    if name == "faker":
        return made_semantic(rest, rows, rng, type_.length)
    if name == "text":
        return _constant(rest).make(np.zeros(rows, np.int64))
    maker = maker_of(type_) if filler == "made" else None
    if name == "templates":
        maker = of_templates([str(text) for text in json.loads(rest)])
    if maker is None:
        raise ValueError(f"unknown placeholder {filler!r}")
    return maker.make(rng.integers(min(maker.room, 2**20), size=rows))
