"""Columns that get placeholder values.

At most their NULLs, sizes and first characters are measured.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, LiteralString

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from psycopg import sql

from privbench.arrays import Ints, Mask, Rng
from privbench.domain import Domain
from privbench.encoding.base import (
    Codec,
    CodeMap,
    ColumnReader,
    SettledReader,
    attribute,
    head,
    null_mask,
)
from privbench.encoding.keys.placeholders import (
    array_texts,
    fill,
    filler_of,
    is_array,
    part_maker,
)
from privbench.encoding.scale import int64_points, scale_of
from privbench.encoding.surrogate_text import (
    BASE36,
    SHAPES,
    digits,
    joined,
    length_cells,
    length_edges,
    made_text,
    strings,
)
from privbench.encoding.text_words import (
    CUT,
    SPARE,
    FirstCharacters,
    WordShares,
    WordsNeed,
    rehoused,
    with_firsts,
    word_piece,
)
from privbench.errors import SchemaError
from privbench.schema import Column, ColumnType


@dataclass(frozen=True)
class FillCodec(Codec):
    """Fills a column with valid values that reveal nothing of the source."""

    kind: ClassVar[str] = "fill"

    # What makes the values (`privbench.encoding.keys.placeholders.fill`), or ``default``.
    filler: str
    measured: bool  # whether the column is read, for its NULLs and perhaps its empty texts
    blank: bool = False  # whether the rate of the empty text is read too
    pieces: WordShares = ()  # released hosts of e-mail addresses
    firsts: FirstCharacters = ()  # first characters of the values

    @property
    def domains(self) -> dict[str, Domain]:
        # One cell for all values, perhaps one for the empty text, and one for NULL.
        cells = Domain(2, nullable=self.nullable) if self.blank else Domain(1, nullable=True)
        return {self.column: cells} if self.measured else {}

    @property
    def omitted(self) -> bool:
        return self.filler == "default"

    def decode(self, codes: CodeMap, rng: Rng, rows: int | None = None) -> pa.Array:
        """Return valid values, NULL for the code of NULL, and only NULL for an omitted column."""
        count = next((len(values) for values in codes.values()), rows)
        if count is None:
            raise ValueError("a column without attributes needs the number of rows")
        spare = count + SPARE if self.firsts else 0
        filled = fill("null" if self.omitted else self.filler, self.type, count + spare, rng)
        filled = with_firsts(filled[:count], self.firsts, np.ones(count), rng, spare=filled[count:])
        filled = rehoused(filled, self.pieces, self.type.length, rng)
        if not self.measured:
            return filled
        null = null_mask(codes[self.column], self.domains[self.column])
        if self.blank:
            empty = pa.array(np.asarray(codes[self.column] == 1))
            filled = pc.if_else(empty, pa.scalar("", filled.type), filled)
        return pc.if_else(pa.array(null), pa.scalar(None, filled.type), filled)


@dataclass(frozen=True)
class FillReader(SettledReader):
    """Reads whether each value is NULL, or reads nothing at all.

    Of names and addresses it may also read the first characters, and of e-mail addresses the hosts;
    the rest of the text, which identifies people, is made up.
    """

    codec: FillCodec
    hosts: bool | None = None  # whether hosts are listed; None where no first characters are read

    @property
    def words(self) -> WordsNeed | None:
        if self.hosts is None:
            return None
        return WordsNeed(attribute(self.name, "words"), "", self.hosts, False)

    @property
    def attributes(self) -> tuple[str, ...]:
        words = () if self.words is None else (self.words.attribute,)
        return (*self.codec.domains, *words)

    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        expressions = self._cells(identifier)
        if self.words is not None:
            expressions.append((self.text(identifier, CUT), self.alias("w")))
        return expressions

    def _cells(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        if not self.codec.measured:
            return []
        if self.codec.blank:
            # A NULL against NOT NULL has no cell of its own, and counts as a value.
            null = 2 if self.nullable else 0
            cell = f"(CASE WHEN {{0}} = '' THEN 1 WHEN {{0}} IS NULL THEN {null} ELSE 0 END)"
            text = sql.SQL(self.column.type.text_form).format(identifier)
            return [(sql.SQL(cell + "::integer").format(text), self.alias())]
        return [(sql.SQL("({} IS NULL)").format(identifier), self.alias())]

    def read(self, batch: Mapping[str, pa.Array]) -> dict[str, Any]:
        """Return the codes: 0 for a value, 1 for empty text if it has a cell, the last for NULL."""
        codes: dict[str, Any] = {}
        if self.codec.measured:
            codes[self.name] = np.asarray(batch[self.alias()].cast(pa.uint8()))
        if self.words is not None:
            codes[self.words.attribute] = word_piece(batch[self.alias("w")], self.hosts)
        return codes

    def describe(self) -> tuple[str, str]:
        if self.hosts is None:
            return self.how, self.why
        released = "first letters and hosts" if self.hosts else "first letters"
        return f"{self.how}; {released} released", self.why


def fill_reader(
    table: str,
    column: Column,
    filler: str,
    how: str,
    why: str,
    *,
    measured: bool = True,
    blank: bool = False,
) -> FillReader:
    """Return the reader of a column that is filled with placeholders, see `FillCodec`.

    A NOT NULL column is read only if the rate of the empty text is measured.
    """
    measured = measured and (blank or not column.not_null)
    return FillReader(table, column, FillCodec(*head(column), filler, measured, blank), how, why)


def fallback_reader(table: str, column: Column) -> ColumnReader:
    """Return the reader of a column whose type is never modelled."""
    if column.templates:
        filled, why = f"templates:{json.dumps(column.templates)}", "by a rehearsal of the schema"
        return fill_reader(table, column, filled, "valid placeholder, NULL rate only", why)
    filler = filler_of(column.type)
    if filler == "uuid":
        how, why = "random version-4 uuid, NULL rate only", "a uuid carries nothing to model"
        return fill_reader(table, column, filler, how, why)
    if filler is not None:
        why = f"{column.type.sql} is not modelled"
        return fill_reader(table, column, filler, "valid placeholder, NULL rate only", why)
    unknown = f"no valid value of type {column.type.sql} is known"
    if column.default is not None and column.not_null:
        return fill_reader(table, column, "default", "column default", unknown, measured=False)
    return fill_reader(table, column, "null", "NULL", unknown, measured=False)


def is_unknown(column: Column) -> bool:
    """Return whether no value of a column's type is known, so that a rehearsal must find one."""
    type_ = column.type
    known = column.generated or column.templates or type_.kind != "b" or type_.category in "SB"
    return not (known or scale_of(type_) or size_kind(type_) or filler_of(type_))


def refuse_unknown(table: str, column: Column) -> None:
    """Refuse a NOT NULL column without a default if no valid value of its type is known."""
    if is_unknown(column) and column.not_null and column.default is None:
        raise SchemaError(
            f"no valid value of type {column.type.sql} is known, and the column is NOT NULL "
            "without a default.",
            table=table,
            column=column.name,
            remedy="Give the column a DEFAULT, or exclude the table.",
        )


def skip_reader(table: str, column: Column) -> ColumnReader:
    """Return the reader for ``kind = "skip"``, which reads nothing and fills in NULL.

    A NOT NULL column gets its default, else a constant.
    """
    why = 'kind = "skip"'
    if not column.not_null:
        return fill_reader(table, column, "null", "NULL, not read", why, measured=False)
    if column.default is not None or column.identity or column.generated:
        return fill_reader(
            table, column, "default", "column default, not read", why, measured=False
        )
    problem = f"a NOT NULL column of type {column.type.sql} without a default cannot be skipped."
    filler = _stand_in(table, column, problem, "Give it a DEFAULT, or another kind.")
    return fill_reader(table, column, filler, "one constant, not read", why, measured=False)


def period_reader(table: str, column: Column) -> ColumnReader:
    """Return the reader of a column of a PERIOD foreign key.

    The load finds a target for each row.
    """
    problem = f"a PERIOD foreign key by a column of type {column.type.sql} cannot be honoured."
    filler = _stand_in(table, column, problem, "Leave one of the tables out.")
    how = "a synthetic row that holds the period, NULL rate only"
    return fill_reader(table, column, filler, how, "PERIOD foreign key")


def _stand_in(table: str, column: Column, problem: str, remedy: str) -> str:
    """The filler of `constant_of`; a SchemaError if there is none."""
    filler = constant_of(column)
    if filler is None:
        raise SchemaError(problem, table=table, column=column.name, remedy=remedy)
    return filler


def constant_of(column: Column) -> str | None:
    """Return a constant that is valid for a column of any known type, or None."""
    type_ = column.type
    if type_.kind == "e":
        return f"text:{type_.labels[0]}" if type_.labels else None
    simple = {"bool": "false", "date": "2000-01-01", "timestamp": "2000-01-01 00:00:00",
              "timestamptz": "2000-01-01 00:00:00+00", "time": "00:00:00",
              "timetz": "00:00:00+00", "interval": "0 seconds"}  # fmt: skip
    if type_.base in simple:
        return f"text:{simple[type_.base]}"
    if scale_of(type_) is not None:
        return "text:0"
    if type_.category == "S" and type_.base != "char":
        return "text:"
    return filler_of(type_)


#: The greatest numbers of an array's elements and of a value's characters that are measured and
#: generated.
MAX_ELEMENTS, MAX_CHARACTERS = 2**10, 2**15
#: Most elements or characters of a block of rows; longer values are cut so that memory suffices.
_MOST = 2**24

_SIZES: dict[str, tuple[LiteralString, int]] = {
    "array": ("pg_catalog.cardinality({})::bigint", MAX_ELEMENTS),
    "bytea": ("pg_catalog.octet_length({})::bigint", MAX_CHARACTERS),
    "varbit": ("pg_catalog.bit_length({})::bigint", MAX_CHARACTERS),
    "xml": ("pg_catalog.char_length({}::pg_catalog.text)::bigint", MAX_CHARACTERS),
    "tsvector": ("pg_catalog.length({})::bigint", MAX_ELEMENTS),
    "key": ("{}::bigint", 0),
}

#: Most bytes of a generated element of an array or tsvector, or of a bit; a character takes one.
_BYTES = {"array": 32.0, "tsvector": 16.0, "varbit": 0.125}


def size_kind(type_: ColumnType) -> str | None:
    """Return how the size of a type's values is measured, as a key of `_SIZES`, or None."""
    if is_array(type_):
        return "array" if part_maker(type_.parts[0]) is not None else None
    return type_.base if type_.kind == "b" and type_.base in _SIZES else None


@dataclass(frozen=True)
class SizedCodec(Codec):
    """Makes placeholder values whose sizes follow the measured sizes."""

    kind: ClassVar[str] = "sized"

    measure: str
    edges: tuple[int, ...]  # edges of the cells of sizes
    templates: tuple[str, ...] = ()  # of an array's elements (`Column.templates`)

    @property
    def domains(self) -> dict[str, Domain]:
        # Queries count the elements of arrays; other sizes only shape placeholder values.
        cells = length_cells(self.edges, self.nullable).domain
        return {self.column: replace(cells, filler=self.measure != "array")}

    @property
    def omitted(self) -> bool:
        return self.measure == "key"

    def decode(self, codes: CodeMap, rng: Rng, rows: int | None = None) -> pa.Array:
        sizes, null = drawn_sizes(codes[self.column], self.domains[self.column], self.edges, rng)
        values = _sized(self.measure, self.type, sizes, rng, self.templates)
        return pc.if_else(pa.array(null), pa.scalar(None, values.type), values)


@dataclass(frozen=True)
class SizedReader(SettledReader):
    """Reads the size of every value."""

    codec: SizedCodec

    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        return [(sql.SQL(_SIZES[self.codec.measure][0]).format(identifier), self.alias())]

    def read(self, batch: Mapping[str, pa.Array]) -> dict[str, Any]:
        cells = length_cells(self.codec.edges, self.nullable)
        return {self.name: cells.apply(int64_points(batch[self.alias()]))}


def drawn_sizes(
    cells: NDArray[np.integer[Any]], domain: Domain, sides: tuple[int, ...], rng: Rng
) -> tuple[Ints, Mask]:
    """Draw a size for every row within its cell of the given edges; also return a mask of NULL."""
    null = null_mask(cells, domain)
    edges = np.array(sides, dtype=np.int64)
    inside = np.where(null, 0, np.minimum(cells.astype(np.int64), len(edges) - 2))
    sizes = rng.integers(edges[inside], edges[inside + 1], dtype=np.int64)
    most = max(_MOST // max(len(sizes), 1), 1)
    return np.minimum(np.where(null, 0, sizes), most), null


def limited_edges(column: Column, sizes: tuple[int, int | None], top: int) -> tuple[int, ...]:
    """Return the edges of public cells of sizes, within the sizes that are allowed.

    The limits are rules of the schema, the column's template and ``top``.
    """
    least, most = sizes
    top = top if most is None else min(top, most)
    return length_edges(min(max(column.least, least), top), top)


def sized_reader(
    table: str, column: Column, sizes: tuple[int, int | None], room: int | None = None
) -> ColumnReader | None:
    """Return the reader of a column whose values' sizes are measured, or None for other types.

    ``sizes`` are the least and greatest size that rules of the schema allow. If an index limits the
    bytes of a value, ``room`` is that limit.
    """
    listed = column.templates and is_array(column.type)
    measure = "array" if listed else size_kind(column.type)
    if measure is None or (column.templates and measure != "array"):
        return None
    top = _SIZES[measure][1]
    if room is not None:
        top = max(min(top, int(room / _BYTES.get(measure, 1.0))), 1)
    if measure == "varbit":
        top = min(top, column.type.length or top)
    edges = limited_edges(column, sizes, top)
    codec = SizedCodec(*head(column), measure, edges, column.templates)
    why = f"values of {column.type.sql} are never copied"
    return SizedReader(table, column, codec, "valid placeholder of measured size", why)


def _sized(
    measure: str, type_: ColumnType, sizes: Ints, rng: Rng, templates: Sequence[str] = ()
) -> pa.Array:
    """Values of given sizes; a ValueError where no element of an array can be made."""
    match measure:
        case "key":
            return pa.nulls(len(sizes))
        case "array":
            numbers = rng.integers(2**20, size=len(sizes))
            literals = array_texts(type_.parts[0], numbers, sizes, templates)
            if literals is None:
                raise ValueError(f"no element of {type_.sql} can be made")
            return literals
        case "bytea":
            return joined("\\x", _cut(2 * sizes, 16, rng))
        case "varbit":
            return _cut(sizes, 2, rng)
        case "xml":
            return joined("<a>", _words(sizes - 7, rng), "</a>")
        case "tsvector":
            places = np.concatenate([[0], np.cumsum(sizes)])
            flat = joined("'", digits(rng.integers(36**4, size=int(places[-1])), 4), "'")
            return pc.binary_join(pa.ListArray.from_arrays(pa.array(places, pa.int32()), flat), " ")
    raise ValueError(f"no measure of size {measure!r}")


def _cut(sizes: Ints, base: int, rng: Rng) -> pa.Array:
    """Random digits, as many in every row as its size says."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return strings(ends, BASE36[rng.integers(base, size=int(ends[-1]))])


def _words(sizes: Ints, rng: Rng) -> pa.Array:
    """Random letters, which need no escape in a document."""
    shape = np.full(len(sizes), SHAPES.index("lower"), dtype=np.int64)
    return made_text(shape, np.maximum(sizes, 0), rng)
