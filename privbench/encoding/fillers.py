"""Valid values of types that are never modelled."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privbench.encoding.semantic import made_semantic
from privbench.schema import ColumnType

Maker = Callable[[ColumnType, int, np.random.Generator], pa.Array]

_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


def _constant(text: str) -> Maker:
    def make(type_: ColumnType, rows: int, rng: np.random.Generator) -> pa.Array:
        return pa.array([text], pa.string()).take(pa.array(np.zeros(rows, dtype=np.int64)))

    return make


def fixed_width(characters: NDArray[np.uint8]) -> pa.Array:
    """Strings from a matrix of ASCII codes, shape (rows, width)."""
    rows, width = characters.shape
    offsets = (np.arange(rows + 1, dtype=np.int64) * width).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(characters.tobytes())]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def random_uuids(rows: int, rng: np.random.Generator) -> pa.Array:
    """Version-4 UUIDs as text.

    >>> from privbench.rng import generator
    >>> text = random_uuids(1, generator(1))[0].as_py()
    >>> len(text), text[14]
    (36, '4')
    """
    digits = rng.integers(16, size=(rows, 32), dtype=np.uint8)
    digits[:, 12] = 4
    digits[:, 16] = 8 + digits[:, 16] % 4
    text = np.full((rows, 36), ord("-"), dtype=np.uint8)
    places = [i for i in range(36) if i not in (8, 13, 18, 23)]
    text[:, places] = _HEX[digits]
    return fixed_width(text)


def _uuid(type_: ColumnType, rows: int, rng: np.random.Generator) -> pa.Array:
    return random_uuids(rows, rng)


def _bytea(type_: ColumnType, rows: int, rng: np.random.Generator) -> pa.Array:
    digits = _HEX[rng.integers(16, size=(rows, 34), dtype=np.uint8)]
    digits[:, 0], digits[:, 1] = ord("\\"), ord("x")
    return fixed_width(digits)


def _bits(type_: ColumnType, rows: int, rng: np.random.Generator) -> pa.Array:
    width = min(type_.length or 1, 64) if type_.base == "varbit" else type_.length or 1
    return fixed_width(rng.integers(48, 50, size=(rows, width), dtype=np.uint8))


def _numbers(rows: int, count: int, limit: int, rng: np.random.Generator) -> list[pa.Array]:
    return [pa.array(rng.integers(limit, size=rows)).cast(pa.string()) for _ in range(count)]


def _inet(type_: ColumnType, rows: int, rng: np.random.Generator) -> pa.Array:
    ten = _constant("10")(type_, rows, rng)
    return pc.binary_join_element_wise(ten, *_numbers(rows, 3, 256, rng), ".")


def _cidr(type_: ColumnType, rows: int, rng: np.random.Generator) -> pa.Array:
    return pc.binary_join_element_wise(_inet(type_, rows, rng), "32", "/")


def _macaddr(type_: ColumnType, rows: int, rng: np.random.Generator) -> pa.Array:
    pairs = 8 if type_.base == "macaddr8" else 6
    digits = _HEX[rng.integers(16, size=(rows, pairs * 2), dtype=np.uint8)]
    text = np.full((rows, pairs * 3 - 1), ord(":"), dtype=np.uint8)
    text[:, 0::3], text[:, 1::3] = digits[:, 0::2], digits[:, 1::2]
    text[:, 0], text[:, 1] = ord("0"), ord("2")
    return fixed_width(text)


def _point(type_: ColumnType, rows: int, rng: np.random.Generator) -> pa.Array:
    inner = pc.binary_join_element_wise(*_numbers(rows, 2, 1000, rng), ",")
    return pc.binary_join_element_wise("(", inner, ")", "")


def _whole(type_: ColumnType, rows: int, rng: np.random.Generator) -> pa.Array:
    return _numbers(rows, 1, 1000, rng)[0]


def _vector(type_: ColumnType, rows: int, rng: np.random.Generator) -> pa.Array:
    found = re.search(r"\((\d+)\)", type_.sql)
    size = int(found.group(1)) if found else 1
    return _constant("[" + ",".join(["1"] * size) + "]")(type_, rows, rng)


_FILLERS: dict[str, Maker] = {
    "uuid": _uuid,
    "bytea": _bytea,
    "bit": _bits,
    "varbit": _bits,
    "inet": _inet,
    "cidr": _cidr,
    "macaddr": _macaddr,
    "macaddr8": _macaddr,
    "point": _point,
    "money": _whole,
    "oid": _whole,
    "xid": _whole,
    "xid8": _whole,
    "cid": _whole,
    "vector": _vector,
    **{
        name: _constant(text)
        for name, text in {
            "json": "{}",
            "jsonb": "{}",
            "jsonpath": "$",
            "xml": "<a/>",
            "tsvector": "'word'",
            "tsquery": "'word'",
            "line": "{1,-1,0}",
            "lseg": "[(0,0),(1,1)]",
            "box": "(1,1),(0,0)",
            "path": "((0,0),(1,1))",
            "polygon": "((0,0),(1,0),(1,1))",
            "circle": "<(0,0),1>",
            "tid": "(0,1)",
            "pg_lsn": "0/0",
            "pg_snapshot": "1:1:",
            "txid_snapshot": "1:1:",
            "regclass": "pg_class",
            "regtype": "integer",
            "char": "x",
            "hstore": "",
            "ltree": "a",
            "cube": "(0)",
            "geometry": "POINT(0 0)",
            "geography": "POINT(0 0)",
        }.items()
    },
}


def filler_of(type_: ColumnType) -> str | None:
    """The name of the filler that makes valid values of a type, or None for an unknown type.

    >>> filler_of(ColumnType("integer[]", "_int4", category="A"))
    'array'
    """
    if type_.category == "A":
        return "array"
    if type_.kind == "r":
        return "range"
    if type_.kind == "m":
        return "multirange"
    return type_.base if type_.kind == "b" and type_.base in _FILLERS else None


_KINDS: dict[str, Maker] = {
    "array": _constant("{}"),
    "range": _constant("empty"),
    "multirange": _constant("{}"),
}


def fill(filler: str, type_: ColumnType, rows: int, rng: np.random.Generator) -> pa.Array:
    """Valid values of a type.

    Args:
        filler: What `filler_of` named; ``faker:<provider>``, ``text:<constant>`` or ``null``.
        type_: The column's type.
        rows: Number of values.
        rng: Source of randomness.

    Raises:
        ValueError: There is no such filler.
    """
    name, _, rest = filler.partition(":")
    if filler == "null":
        return pa.nulls(rows, pa.string())
    if name == "faker":
        return made_semantic(rest, rows, rng, type_.length)
    if name == "text":
        return _constant(rest)(type_, rows, rng)
    maker = _KINDS.get(filler) or _FILLERS.get(filler)
    if maker is None:
        raise ValueError(f"no filler {filler!r}")
    return maker(type_, rows, rng)
