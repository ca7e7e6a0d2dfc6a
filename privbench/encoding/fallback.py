"""Types that are not modelled, semantic text, and skipped columns: at most the rate of NULL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from privbench.domain import Domain
from privbench.encoding.base import (
    AnyCodes,
    Codec,
    ColumnReader,
    Released,
    concatenate,
    null_mask,
    row_count,
)
from privbench.encoding.fillers import fill, filler_of
from privbench.encoding.scale import scale_of
from privbench.errors import SchemaError
from privbench.privacy.data import Attribute, Cells
from privbench.schema import Column

#: One cell for "a value", one for NULL.
PRESENCE = Domain(1, nullable=True)
#: One cell for "a value", one for the empty text; with and without one for NULL.
BLANKS = {nullable: Domain(2, nullable=nullable) for nullable in (False, True)}


@dataclass(frozen=True)
class FillReader(ColumnReader):
    """Reads only whether a value is there, or nothing at all.

    Attributes:
        filler: What makes the values (`privbench.encoding.fillers.fill`), or ``default``.
        measured: Whether the rate of NULL is read.
        how: For the coverage map.
        why: For the coverage map.
        blank: Whether the rate of the empty text is read too.
    """

    filler: str
    measured: bool
    how: str
    why: str
    blank: bool = False

    @property
    def attributes(self) -> tuple[str, ...]:
        """The column's presence, where it is read and not certain."""
        return (self.name,) if self.measured and (self.nullable or self.blank) else ()

    @property
    def _domain(self) -> Domain:
        return BLANKS[self.nullable] if self.blank else PRESENCE

    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        """``IS NULL``, the cell, or nothing."""
        if not self.attributes:
            return []
        if self.blank:
            cell = sql.SQL(
                "(CASE WHEN {0} = '' THEN 1 WHEN {0} IS NULL THEN 2 ELSE 0 END)::integer"
            )
            return [
                (cell.format(sql.SQL(self.column.type.text_form).format(identifier)), self.alias())
            ]
        return [(sql.SQL("({} IS NULL)").format(identifier), self.alias())]

    def read(self, batch: Mapping[str, pa.Array]) -> dict[str, Any]:
        """0 for a value; 1 for NULL, or for the empty text where it is told apart."""
        if not self.attributes:
            return {}
        return {self.name: batch[self.alias()].cast(pa.uint8()).to_numpy(zero_copy_only=False)}

    def collect(self, pieces: Sequence[Mapping[str, Any]]) -> dict[str, Attribute]:
        """Two cells, or nothing."""
        if not self.attributes:
            return {}
        return {self.name: Cells(concatenate(pieces, self.name, np.uint8), self._domain)}

    def finish(self, released: Mapping[str, Released]) -> Codec:
        """The codec; it needs no release."""
        return FillCodec(
            self.name,
            self.column.type,
            self.nullable,
            self.filler,
            bool(self.attributes),
            self.blank,
        )

    def describe(self) -> tuple[str, str]:
        """What stands in, and why."""
        return self.how, self.why


@dataclass(frozen=True)
class FillCodec(Codec):
    """Fills in valid values that say nothing of the source.

    Attributes:
        filler: What makes them.
        measured: Whether there is an attribute for NULL.
        blank: Whether it tells the empty text too.
    """

    kind: ClassVar[str] = "fill"

    filler: str
    measured: bool
    blank: bool = False

    @property
    def domains(self) -> dict[str, Domain]:
        """Presence, or nothing."""
        return {self.column: self._domain} if self.measured else {}

    @property
    def _domain(self) -> Domain:
        return BLANKS[self.nullable] if self.blank else PRESENCE

    @property
    def omitted(self) -> bool:
        """Whether the column's own default is to apply."""
        return self.filler == "default"

    def decode(
        self, codes: Mapping[str, AnyCodes], rng: np.random.Generator, rows: int | None = None
    ) -> pa.Array:
        """Valid values, NULL where the code says so; NULL throughout for an omitted column."""
        count = row_count(codes, rows)
        made = fill("null" if self.omitted else self.filler, self.type, count, rng)
        if not self.measured:
            return made
        null = null_mask(codes[self.column], self._domain)
        if self.blank:
            empty = pa.array(np.asarray(codes[self.column] == 1))
            made = pc.if_else(empty, pa.scalar("", made.type), made)
        return pc.if_else(pa.array(null), pa.scalar(None, made.type), made)

    def to_json(self) -> dict[str, Any]:
        """The filler's name."""
        return {**self.header(), "filler": self.filler, "measured": self.measured} | (
            {"blank": True} if self.blank else {}
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The codec that `to_json` wrote."""
        return cls(
            **cls.head_from_json(data),
            filler=str(data["filler"]),
            measured=bool(data["measured"]),
            blank=bool(data.get("blank", False)),
        )


def fallback_reader(table: str, column: Column) -> ColumnReader:
    """For types that are never modelled.

    Raises:
        SchemaError: No valid value of the type is known, and none may be left out.
    """
    filler = filler_of(column.type)
    if filler is not None:
        how = "random, made by construction" if filler == "uuid" else "valid filler, NULL rate only"
        return FillReader(table, column, filler, True, how, f"{column.type.sql} is not modelled")
    unknown = f"no valid value of type {column.type.sql} is known"
    if not column.not_null:
        return FillReader(table, column, "null", False, "NULL", unknown)
    if column.default is not None:
        return FillReader(table, column, "default", False, "column default", unknown)
    raise SchemaError(
        f"{unknown}, and the column is NOT NULL without a default.",
        table=table,
        column=column.name,
        remedy="Give the column a DEFAULT, or exclude the table.",
    )


def skip_reader(table: str, column: Column) -> ColumnReader:
    """For ``kind = "skip"``: NULL, else the default, else a constant; nothing is read.

    Raises:
        SchemaError: The column allows none of these.
    """
    why = 'kind = "skip"'
    if not column.not_null:
        return FillReader(table, column, "null", False, "NULL, not read", why)
    if column.default is not None or column.identity or column.generated:
        return FillReader(table, column, "default", False, "column default, not read", why)
    problem = f"a NOT NULL column of type {column.type.sql} without a default cannot be skipped."
    filler = _stand_in(table, column, problem, "Give it a DEFAULT, or another kind.")
    return FillReader(table, column, filler, False, "one constant, not read", why)


def period_reader(table: str, column: Column) -> ColumnReader:
    """For a reference by a PERIOD foreign key: the load gives every row a target.

    Raises:
        SchemaError: No valid value of the type is known to stand in until then.
    """
    problem = f"a PERIOD foreign key by a column of type {column.type.sql} cannot be honoured."
    filler = _stand_in(table, column, problem, "Leave one of the tables out.")
    how = "a synthetic row that holds the period, NULL rate only"
    return FillReader(table, column, filler, True, how, "PERIOD foreign key")


def _stand_in(table: str, column: Column, problem: str, remedy: str) -> str:
    """The filler of `constant_of`, or a refusal."""
    filler = constant_of(column)
    if filler is None:
        raise SchemaError(problem, table=table, column=column.name, remedy=remedy)
    return filler


def constant_of(column: Column) -> str | None:
    """A filler that is valid for a column of any known type, or None.

    >>> from privbench.schema import ColumnType
    >>> constant_of(Column("n", 1, ColumnType("integer", "int4")))
    'text:0'
    """
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
