"""Valid values of types that are never modelled, by number: other numbers, other values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privbench.encoding.base import Codec
from privbench.encoding.checks import unread_checks
from privbench.encoding.keys.columns import ValueSpace, modelled_values
from privbench.encoding.patterns import column_pattern, is_understood
from privbench.encoding.surrogate_text import decimal, digits, fixed_width, joined, quoted
from privbench.encoding.surrogates import made_semantic
from privbench.rng import generator
from privbench.schema import Column, ColumnType, Table, TableName

Numbers = NDArray[np.int64]

_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
#: Room of makers that have no limit of their own.
_WIDE = 2**40
#: Points lie on a grid of so many columns, at a distance at which shapes do not touch.
_ACROSS, _APART = 1000, 10


@dataclass(frozen=True, slots=True)
class Maker:
    """How values of a type are made.

    Attributes:
        make: Texts of the type from numbers below `room`.
        room: How many numbers give distinct values.
    """

    make: Callable[[Numbers], pa.Array]
    room: int = _WIDE


def random_uuids(rows: int, rng: np.random.Generator) -> pa.Array:
    """Version-4 UUIDs as text.

    >>> from privbench.rng import generator
    >>> text = random_uuids(1, generator(1))[0].as_py()
    >>> len(text), text[14]
    (36, '4')
    """
    numerals = rng.integers(16, size=(rows, 32), dtype=np.uint8)
    numerals[:, 12] = 4
    numerals[:, 16] = 8 + numerals[:, 16] % 4
    text = np.full((rows, 36), ord("-"), dtype=np.uint8)
    places = [i for i in range(36) if i not in (8, 13, 18, 23)]
    text[:, places] = _HEX[numerals]
    return fixed_width(text)


def maker_of(type_: ColumnType) -> Maker | None:
    """How values of a type are made, or None for an unknown type.

    >>> pair = ColumnType("pair", "pair", kind="c", parts=(ColumnType("oid", "oid"),) * 2)
    >>> maker_of(pair).make(np.array([7])).to_pylist()
    ['("7","7")']
    """
    if type_.kind == "c":
        return _composite(type_)
    if type_.kind in "rm":
        return _range(type_)
    if type_.category == "A" and type_.parts and type_.base not in _SIMPLE:
        return _array(type_)
    made = _SIMPLE.get(type_.base) if type_.kind == "b" else None
    return made(type_) if made else None


def part_maker(type_: ColumnType) -> Maker | None:
    """Like `maker_of` for a type that stands within another: modelled types and domains too."""
    column = Column("value", 1, type_, not_null=True)
    table = Table(TableName("public", "value"), (column,))
    if any(not is_understood(check, table) for check in unread_checks(table)):
        # A domain within a type stays in force during the copy: no value but NULL surely keeps it.
        return Maker(lambda numbers: pa.nulls(len(numbers), pa.string()), 1)
    pattern = column_pattern(table, column)
    if pattern is not None:
        # Few distinct texts will do: a value within another need not be a key.
        texts = pattern.distinct(512, generator(0, "pattern", type_.sql))
        return _listed(texts) if len(texts) else None
    space = modelled_values(table, column, None, 36**4)
    if space is None:
        return maker_of(type_)
    room = min(space.capacity, _WIDE)
    return Maker(lambda n: space.nth(n).cast(pa.string()), room) if room > 0 else None


def value_space(table: Table, column: Column, codec: Codec | None, rows: int) -> ValueSpace | None:
    """`modelled_values`, and the numbered values of types that are never modelled."""
    result = modelled_values(table, column, codec, rows)
    made = maker_of(column.type) if result is None else None
    if result is not None or made is None:
        return result
    return ValueSpace(column, None, 0, made.room - 1, maker=made.make)


def array_texts(element: ColumnType, numbers: Numbers, sizes: Numbers) -> pa.Array | None:
    """Array literals of the given sizes, or None where no element can be made.

    >>> array_texts(ColumnType("oid", "oid"), np.array([5, 0]), np.array([2, 0])).to_pylist()
    ['{"5","6"}', '{}']
    """
    made = part_maker(element)
    if made is None:
        return None
    places = np.concatenate([[0], np.cumsum(sizes)])
    within = np.arange(places[-1]) - np.repeat(places[:-1], sizes)
    flat = quoted(made.make((np.repeat(numbers, sizes) + within) % made.room)).fill_null("NULL")
    lists = pa.ListArray.from_arrays(pa.array(places, pa.int32()), flat)
    return joined("{", pc.binary_join(lists, ";" if element.base == "box" else ","), "}")


def _composite(type_: ColumnType) -> Maker | None:
    result = [part_maker(part) for part in type_.parts]
    makers = [made for made in result if made is not None]
    if len(makers) < len(result):
        return None
    if not makers:
        return _constant("()")

    def make(numbers: Numbers) -> pa.Array:
        texts = [quoted(made.make(numbers % made.room)).fill_null("") for made in makers]
        return joined("(", pc.binary_join_element_wise(*texts, ","), ")")

    return Maker(make, max(made.room for made in makers))


def _range(type_: ColumnType) -> Maker | None:
    bound = part_maker(type_.parts[0]) if type_.parts else None
    if bound is None:
        return _constant("{}" if type_.kind == "m" else "empty")
    head, tail = ("{[", "]}") if type_.kind == "m" else ("[", "]")

    def make(numbers: Numbers) -> pa.Array:
        one = quoted(bound.make(numbers)).fill_null("")
        return joined(head, one, ",", one, tail)

    return Maker(make, bound.room)


def _array(type_: ColumnType) -> Maker:
    element = type_.parts[0]
    inner = part_maker(element)
    if inner is None:
        return _constant("{}")
    single = replace(type_, category="U")
    return Maker(lambda n: array_texts(single.parts[0], n, np.ones_like(n)), inner.room)


def _constant(text: str) -> Maker:
    return _listed(pa.array([text], pa.string()))


def _listed(texts: pa.Array) -> Maker:
    return Maker(lambda numbers: texts.take(pa.array(numbers)), len(texts))


def _hex(numbers: Numbers, width: int) -> pa.Array:
    return digits(numbers, width, 16)


def _mac(pairs: int) -> Maker:
    def make(numbers: Numbers) -> pa.Array:
        plain = _hex(numbers, 2 * (pairs - 1))
        slices = [pc.utf8_slice_codeunits(plain, i, i + 2) for i in range(0, 2 * (pairs - 1), 2)]
        return pc.binary_join_element_wise(joined("02", ""), *slices, ":")

    return Maker(make)


def _net(tail: str) -> Maker:
    def make(numbers: Numbers) -> pa.Array:
        parts = [decimal(numbers >> shift & 255) for shift in (16, 8, 0)]
        return joined("10.", pc.binary_join_element_wise(*parts, "."), tail)

    return Maker(make, 2**24)


def _bits(type_: ColumnType) -> Maker:
    most = 40 if type_.base == "varbit" and type_.length is None else type_.length or 1
    width = min(most, 40)
    left = "0" * (most - width) if type_.base == "bit" else ""
    return Maker(lambda numbers: joined(left, digits(numbers, width, 2)), 2**width)


def _shape(text: str) -> Maker:
    """A geometric literal around a point; ``x``, ``y`` stand for it, ``X``, ``Y`` lie beyond."""

    def make(numbers: Numbers) -> pa.Array:
        x, y = numbers % _ACROSS * _APART, numbers // _ACROSS * _APART
        known = {"x": decimal(x), "y": decimal(y), "X": decimal(x + 1), "Y": decimal(y + 1)}
        return joined(*(known.get(letter, letter) for letter in text), "")

    return Maker(make, _ACROSS**2)


def _around(text: str, room: int = _WIDE, base: int = 10) -> Maker:
    """A literal around a number, which ``#`` stands for."""
    head, tail = text.split("#")
    write = decimal if base == 10 else lambda numbers: _hex(numbers, 12)
    return Maker(lambda numbers: joined(head, write(numbers), tail), room)


def _vector(type_: ColumnType) -> Maker:
    result = re.search(r"\((\d+)\)", type_.sql)
    size = int(result.group(1)) if result else 1
    return _around("[#" + ",1" * (size - 1) + "]", 2**20)


def _sparse(type_: ColumnType) -> Maker:
    result = re.search(r"\((\d+)\)", type_.sql)
    return _around("{1:#}/" + (result.group(1) if result else "1"), 2**20)


def _always(made: Maker) -> Callable[[ColumnType], Maker]:
    return lambda type_: made


_LETTERS = pa.array([chr(code) for code in range(33, 127) if chr(code) not in "\\"])

_SIMPLE: dict[str, Callable[[ColumnType], Maker]] = {
    "bit": _bits,
    "varbit": _bits,
    "vector": _vector,
    "halfvec": _vector,
    "sparsevec": _sparse,
    **{
        name: _always(made)
        for name, made in {
            "uuid": _around("00000000-0000-4000-8000-#", base=16),
            "bytea": Maker(lambda numbers: joined("\\x", _hex(numbers, 16))),
            "inet": _net(""),
            "cidr": _net("/32"),
            "macaddr": _mac(6),
            "macaddr8": _mac(8),
            "point": _shape("(x,y)"),
            "lseg": _shape("[(x,y),(X,Y)]"),
            "box": _shape("(X,Y),(x,y)"),
            "path": _shape("((x,y),(X,Y))"),
            "polygon": _shape("((x,y),(X,y),(X,Y))"),
            "circle": _shape("<(x,y),1>"),
            "line": _around("{1,-1,#}", 2**30),
            "money": _around("#", 2**31),
            "oid": _around("#", 2**31),
            "xid": _around("#", 2**31),
            "cid": _around("#", 2**31),
            "xid8": _around("#"),
            "pg_lsn": Maker(lambda numbers: joined("0/", _hex(numbers, 8)), 2**32),
            "tid": _around("(#,1)", 2**31),
            "pg_snapshot": Maker(lambda n: joined("1:", decimal(n + 1), ":")),
            "txid_snapshot": Maker(lambda n: joined("1:", decimal(n + 1), ":")),
            "json": _around('{"id": #}'),
            "jsonb": _around('{"id": #}'),
            "jsonpath": _around('$."k#"'),
            "xml": _around("<a>#</a>"),
            "tsvector": _around("'word#'"),
            "tsquery": _around("'word#'"),
            "char": _listed(_LETTERS),
            "hstore": _around('"id"=>"#"'),
            "ltree": _around("n#"),
            "lquery": _around("n#"),
            "ltxtquery": _around("n#"),
            "cube": _around("(#)", 2**40),
            "seg": _around("#", 2**20),
            "isbn": _constant("0-306-40615-2"),
            "isbn13": _constant("978-0-306-40615-7"),
            "ean13": _constant("978-030640615-7"),
            "issn": _constant("1436-4522"),
            "upc": _constant("036000291452"),
            "geometry": _around("POINT(# 0)", 180),
            "geography": _around("POINT(# 0)", 180),
            "regclass": _constant("pg_class"),
            "regtype": _constant("integer"),
            "regrole": _constant("pg_monitor"),
            "regnamespace": _constant("pg_catalog"),
            "regproc": _constant("now"),
            "regprocedure": _constant("now()"),
            "regoper": _constant("||/"),
            "regoperator": _constant("+(integer,integer)"),
            "regconfig": _constant("simple"),
            "regdictionary": _constant("simple"),
            "regcollation": _constant('"C"'),
            "oidvector": _around("# 1", 2**31),
            "int2vector": _around("# 1", 2**15),
            "refcursor": _around("c#"),
        }.items()
    },
}


def filler_of(type_: ColumnType) -> str | None:
    """The name of the filler that makes valid values of a type, or None for an unknown type.

    >>> filler_of(ColumnType("uuid", "uuid")), filler_of(ColumnType("money", "money"))
    ('uuid', 'made')
    """
    if type_.base == "uuid":
        return "uuid"
    return "made" if maker_of(type_) is not None else None


def fill(filler: str, type_: ColumnType, rows: int, rng: np.random.Generator) -> pa.Array:
    """Valid values of a type.

    Args:
        filler: What `filler_of` named; ``faker:<provider>``, ``text:<constant>`` or ``null``.
        type_: The column's type.
        rows: Number of values.
        rng: Source of randomness.
    """
    name, _, rest = filler.partition(":")
    if filler == "null":
        return pa.nulls(rows, pa.string())
    if filler == "uuid":
        return random_uuids(rows, rng)
    if name == "faker":
        return made_semantic(rest, rows, rng, type_.length)
    if name == "text":
        return _constant(rest).make(np.zeros(rows, dtype=np.int64))
    made = maker_of(type_) if filler == "made" else None
    if made is None:
        raise ValueError(f"no filler {filler!r}")
    return made.make(rng.integers(min(made.room, 2**20), size=rows))
