"""Columns with a list of values that is public (enum, boolean, declared) or released under δ."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from privbench.arrays import Rng
from privbench.domain import Domain, PublicValues
from privbench.encoding.base import (
    CategoriesNeed,
    Codec,
    CodeMap,
    ColumnReader,
    Need,
    ReleasedDomain,
    SettledReader,
    head,
    null_mask,
)
from privbench.encoding.scale import GREATEST, LEAST, scale_of
from privbench.privacy.recoding import LabelsRecoding, Recoding
from privbench.schema import Column, ColumnType

#: Stands for every text that is too long to be a category; no PostgreSQL text can hold it.
LONG = "\x00"
#: Most values of a list that the database is asked to number in SQL.
_FEW = 16
#: The longest text that can be a category, in characters.
MAX_LABEL = 128


def labels_of(type_: ColumnType) -> tuple[str, ...]:
    """Return all values of an enum or a boolean type, in order; an empty tuple for other types."""
    if type_.base == "bool":
        return ("false", "true")
    return type_.labels if type_.kind == "e" else ()


@dataclass(frozen=True)
class ListCodec(Codec):
    """Turns each code into its listed value; the code ``other`` becomes a random listed value."""

    kind: ClassVar[str] = "list"

    values: tuple[str, ...]  # the values, as PostgreSQL prints them (or as the config wrote them)
    ordered: bool  # whether range predicates follow the list's order
    other: bool  # whether the column may hold values outside the list
    settled: bool  # whether the list was public before the fit

    @property
    def domains(self) -> dict[str, Domain]:
        other = ("other",) if self.other else ()
        return {self.column: Domain(len(self.values), self.ordered, other, self.nullable)}

    @property
    def listed(self) -> tuple[str, ...]:
        return self.values

    @property
    def recodings(self) -> dict[str, Recoding]:
        if self.settled:
            return {}
        return {self.column: LabelsRecoding(self.values, self.other, self.nullable)}

    def decode(self, codes: CodeMap, rng: Rng, rows: int | None = None) -> pa.Array:
        """Return the listed values as an Arrow array, of the column's type where Arrow has it."""
        domain = self.domains[self.column]
        positions = codes[self.column].astype(np.int64)
        drawn = rng.integers(len(self.values), size=len(positions))
        chosen = np.where(positions < domain.values, positions, drawn)
        null = null_mask(codes[self.column], domain)
        if self.type.base == "bool":
            truth = np.array([value == "true" for value in self.values])
            return pa.array(truth[chosen], mask=null)
        scale = scale_of(self.type)
        if scale is not None and self.settled:
            points = np.array([scale.parse(value) for value in self.values], dtype=np.int64)
            return scale.build(points[chosen], {"null": null})
        return pa.array(self.values, pa.string()).take(pa.array(chosen, mask=null))


@dataclass(frozen=True)
class ListReader(SettledReader):
    """Reads a column whose list of values is public."""

    codec: ListCodec
    domain: Domain | None = None  # the cells, where some of the values are special ones

    @property
    def cells(self) -> dict[str, Domain]:
        return {self.name: self.domain} if self.domain else self.codec.domains

    @cached_property
    def _points(self) -> list[int]:
        """The grid points of the values; none where the type has no grid."""
        scale = scale_of(self.column.type)
        return [] if scale is None else [scale.parse(value) for value in self.codec.values]

    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        scale = scale_of(self.column.type)
        if scale is not None:
            return [(scale.select(identifier), self.alias())]
        form = "{}::boolean" if self.column.type.base == "bool" else self.column.type.text_form
        return [(sql.SQL(form).format(identifier), self.alias())]

    @property
    def known(self) -> dict[str, PublicValues]:
        scale, values = scale_of(self.column.type), self.codec.values
        if scale is None:
            # ASCII texts have the same bytes whatever the encoding of the database.
            plain = all(value.isascii() and "\0" not in value for value in values)
            return {self.alias(): values} if plain and 0 < len(values) <= _FEW else {}
        points = self._points
        if not points or min(points) < LEAST or max(points) > GREATEST:
            return {}
        return {self.alias(): range(min(points), max(points) + 1)}

    def read(self, batch: Mapping[str, pa.Array]) -> dict[str, Any]:
        array, scale, values = batch[self.alias()], scale_of(self.column.type), self.codec.values
        if scale is not None:
            listed: pa.Array = pa.array(self._points, pa.int64())
            result = pc.index_in(pa.array(scale.read(array)), value_set=listed)
        else:
            texts = array.cast(pa.string())
            result = pc.index_in(texts, value_set=pa.array(values, pa.string()))
        domain = self.cells[self.name]
        missing = domain.special_code("other") if self.codec.other else domain.values - 1
        codes = np.asarray(result.fill_null(missing))
        null = np.asarray(array.is_null())
        codes = np.where(null, missing if domain.null_code is None else domain.null_code, codes)
        return {self.name: codes.astype(domain.dtype)}


def list_reader(
    table: str,
    column: Column,
    values: tuple[str, ...],
    why: str,
    *,
    ordered: bool = False,
    other: bool = False,
) -> ListReader:
    """Return the reader of a column with a public list of values; see `ListCodec`."""
    codec = ListCodec(*head(column), values, ordered, other, True)
    return ListReader(table, column, codec, f"{len(values)} public values", why)


@dataclass(frozen=True)
class LabelReader(ColumnReader):
    """Reads a column whose values are neither ordered nor described by text shapes.

    Its values are categories, which are released under δ.
    """

    per_unit: int = 1  # how many distinct values one unit may propose
    filler: str = ""  # makes valid values where nothing is released and NULL is not allowed
    repeats: bool = False  # whether many rows are expected to share few values
    public: tuple[str, ...] = ()  # values that are counted whether or not a row has them

    @property
    def needs(self) -> tuple[Need, ...]:
        return (CategoriesNeed(self.name, self.per_unit, self.repeats, public=self.public),)

    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        return [(self.text(identifier, MAX_LABEL + 1), self.alias())]

    def read(self, batch: Mapping[str, pa.Array]) -> dict[str, Any]:
        return {self.name: label_piece(batch[self.alias()])}

    @property
    def labelled(self) -> bool:
        return True

    def finish(self, released: Mapping[str, ReleasedDomain]) -> Codec:
        values = released_labels(released, self.name) or (self.filler,)
        return ListCodec(*self.head, values, False, True, False)

    def describe(self) -> tuple[str, str]:
        return "categories, released list", "used by enough units, under δ"


def label_piece(text: pa.Array) -> pa.DictionaryArray:
    """Return a batch of texts as a dictionary array, in which long texts share one entry.

    Texts are long if they cannot become a category.
    """
    long = pc.greater(pc.utf8_length(text), MAX_LABEL)
    short = pc.if_else(long.fill_null(False), pa.scalar(LONG, text.type), text)
    return short.cast(pa.string()).dictionary_encode()


def released_labels(released: Mapping[str, ReleasedDomain], name: str) -> tuple[str, ...]:
    """Return the released list without the entry that stands for long texts."""
    values = released[name]
    assert isinstance(values, tuple)
    return tuple(value for value in values if value != LONG)
