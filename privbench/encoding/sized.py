"""Types of which only the size is measured: arrays, bytes, bit strings, documents, word vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, LiteralString, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from psycopg import sql

from privbench.domain import Domain
from privbench.encoding.base import AnyCodes, Codec, ColumnReader, Released, concatenate, null_mask
from privbench.encoding.fillers import array_texts, part_maker
from privbench.encoding.madeup import made_text
from privbench.encoding.scale import int64_points
from privbench.encoding.shapes import SHAPES
from privbench.encoding.strings import digits, joined
from privbench.encoding.text_codec import length_cells, length_edges
from privbench.privacy.data import Attribute, Cells
from privbench.schema import Column, ColumnType

Sizes = NDArray[np.int64]

#: Elements of an array, and characters of a document, that are told apart and made up.
MAX_ELEMENTS, MAX_CHARACTERS = 2**10, 2**15
#: Most elements or characters of a block of rows; longer values are cut, lest memory end.
_MOST = 2**24

_SIZES: dict[str, tuple[LiteralString, int]] = {
    "array": ("pg_catalog.cardinality({})::bigint", MAX_ELEMENTS),
    "bytea": ("pg_catalog.octet_length({})::bigint", MAX_CHARACTERS),
    "varbit": ("pg_catalog.bit_length({})::bigint", MAX_CHARACTERS),
    "json": ("pg_catalog.char_length({}::pg_catalog.text)::bigint", MAX_CHARACTERS),
    "jsonb": ("pg_catalog.char_length({}::pg_catalog.text)::bigint", MAX_CHARACTERS),
    "xml": ("pg_catalog.char_length({}::pg_catalog.text)::bigint", MAX_CHARACTERS),
    "tsvector": ("pg_catalog.length({})::bigint", MAX_ELEMENTS),
}

#: Bytes that a made-up element, character or bit takes at most, where it is not one.
_BYTES = {"array": 32.0, "tsvector": 16.0, "varbit": 0.125}


def size_kind(type_: ColumnType) -> str | None:
    """Which measure of size the type has, or None.

    >>> size_kind(ColumnType("bytea", "bytea")), size_kind(ColumnType("money", "money"))
    ('bytea', None)
    """
    if type_.category == "A" and type_.parts and type_.base not in ("oidvector", "int2vector"):
        return "array" if part_maker(type_.parts[0]) is not None else None
    return type_.base if type_.kind == "b" and type_.base in _SIZES else None


@dataclass(frozen=True)
class SizedReader(ColumnReader):
    """Reads how large every value is.

    Attributes:
        measure: Which measure of size (`size_kind`).
        room: Bytes that an index leaves for a value, or None.
    """

    measure: str
    room: int | None = None

    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        """The size."""
        return [(sql.SQL(_SIZES[self.measure][0]).format(identifier), self.alias())]

    def read(self, batch: Mapping[str, pa.Array]) -> dict[str, Any]:
        """The cell of every size."""
        cells = length_cells(self._edges, self.nullable)
        return {self.name: cells.apply(int64_points(batch[self.alias()]))}

    def collect(self, pieces: Sequence[Mapping[str, Any]]) -> dict[str, Attribute]:
        """Public cells of sizes."""
        domain = _domain(self._edges, self.nullable)
        return {self.name: Cells(concatenate(pieces, self.name, domain.dtype), domain)}

    @property
    def _edges(self) -> tuple[int, ...]:
        top = _SIZES[self.measure][1]
        if self.room is not None:
            top = max(min(top, int(self.room / _BYTES.get(self.measure, 1.0))), 1)
        if self.measure == "varbit":
            top = min(top, self.column.type.length or top)
        return length_edges(0, top)

    def finish(self, released: Mapping[str, Released]) -> Codec:
        """The codec; it needs no release."""
        return SizedCodec(self.name, self.column.type, self.nullable, self.measure, self._edges)

    def describe(self) -> tuple[str, str]:
        """What is made up."""
        return "valid filler of measured size", f"values of {self.column.type.sql} are never copied"


@dataclass(frozen=True)
class SizedCodec(Codec):
    """Made-up values of a measured size.

    Attributes:
        measure: Which measure of size.
        edges: Edges of the cells of sizes.
    """

    kind: ClassVar[str] = "sized"

    measure: str
    edges: tuple[int, ...]

    @property
    def domains(self) -> dict[str, Domain]:
        """Cells of sizes."""
        return {self.column: _domain(self.edges, self.nullable)}

    def decode(
        self, codes: Mapping[str, AnyCodes], rng: np.random.Generator, rows: int | None = None
    ) -> pa.Array:
        """Values as text, NULL where the code says so."""
        cell = codes[self.column].astype(np.int64)
        null = null_mask(codes[self.column], self.domains[self.column])
        edges = np.array(self.edges, dtype=np.int64)
        inside = np.where(null, 0, np.minimum(cell, len(edges) - 2))
        sizes = rng.integers(edges[inside], edges[inside + 1], dtype=np.int64)
        sizes = np.minimum(np.where(null, 0, sizes), max(_MOST // max(len(sizes), 1), 1))
        made = _MAKERS[self.measure](self.type, sizes, rng)
        return pc.if_else(pa.array(null), pa.scalar(None, made.type), made)

    def to_json(self) -> dict[str, Any]:
        """The measure and its cells."""
        return {**self.header(), "measure": self.measure, "edges": list(self.edges)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The codec that `to_json` wrote.

        Raises:
            KeyError: There is no such measure.
        """
        return cls(
            **cls.head_from_json(data),
            measure=str(data["measure"]),
            edges=tuple(int(edge) for edge in data["edges"]),
        )


def _domain(edges: tuple[int, ...], nullable: bool) -> Domain:
    """Cells of sizes, of which queries know nothing."""
    return replace(length_cells(edges, nullable).domain, filler=True)


def sized_reader(table: str, column: Column, room: int | None = None) -> ColumnReader | None:
    """The reader of a type whose size is measured, or None for other types.

    Args:
        table: The table's key.
        column: The column.
        room: Bytes that an index leaves for a value, or None.
    """
    measure = size_kind(column.type)
    return None if measure is None else SizedReader(table, column, measure, room)


def _arrays(type_: ColumnType, sizes: Sizes, rng: np.random.Generator) -> pa.Array:
    found = array_texts(type_.parts[0], rng.integers(2**20, size=len(sizes)), sizes)
    if found is None:
        raise ValueError(f"no element of {type_.sql} can be made")
    return found


def _bytes(type_: ColumnType, sizes: Sizes, rng: np.random.Generator) -> pa.Array:
    return joined("\\x", _cut(2 * sizes, 16, rng))


def _bits(type_: ColumnType, sizes: Sizes, rng: np.random.Generator) -> pa.Array:
    return _cut(sizes, 2, rng)


def _cut(sizes: Sizes, base: int, rng: np.random.Generator) -> pa.Array:
    """Random digits, as many as are asked for in every row."""
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    stream = digits(rng.integers(base, size=int(ends[-1])), 1, base).buffers()[2]
    buffers = [None, pa.py_buffer(ends.tobytes()), stream]
    return pa.Array.from_buffers(pa.string(), len(sizes), buffers)


def _words(sizes: Sizes, rng: np.random.Generator) -> pa.Array:
    """Letters, which need no escape in a document."""
    shape = np.full(len(sizes), SHAPES.index("lower"), dtype=np.int64)
    return made_text(shape, np.maximum(sizes, 0), rng)


def _json(type_: ColumnType, sizes: Sizes, rng: np.random.Generator) -> pa.Array:
    long = joined('{"text": "', _words(sizes - 12, rng), '"}')
    return pc.if_else(pa.array(sizes >= 12), long, "{}")


def _xml(type_: ColumnType, sizes: Sizes, rng: np.random.Generator) -> pa.Array:
    return joined("<a>", _words(sizes - 7, rng), "</a>")


def _vectors(type_: ColumnType, sizes: Sizes, rng: np.random.Generator) -> pa.Array:
    places = np.concatenate([[0], np.cumsum(sizes)])
    flat = joined("'", digits(rng.integers(36**4, size=int(places[-1])), 4), "'")
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(places, pa.int32()), flat), " ")


_MAKERS: dict[str, Callable[[ColumnType, Sizes, np.random.Generator], pa.Array]] = {
    "array": _arrays,
    "bytea": _bytes,
    "varbit": _bits,
    "json": _json,
    "jsonb": _json,
    "xml": _xml,
    "tsvector": _vectors,
}
