"""Values that the predicates of a generated query take their literals from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from psycopg import sql

from privbench.schema import Column, Table

#: One row of a table by column: as PostgreSQL prints the values, None for NULL.
Row = dict[str, str | None]
Item = TypeVar("Item")

#: Types whose texts are to be in ISO order, whatever the session's DateStyle.
DATES = frozenset({"date", "timestamp", "timestamptz"})
_WHOLE = frozenset({"int2", "int4", "int8", "date"})
# Types whose texts sort as their values do.
_ORDERED = DATES | {"int2", "int4", "int8", "numeric", "float4", "float8", "time"}
_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")
# Characters of a literal: longer values would make queries that nobody can read.
_LONGEST = 64
# Beyond this many distinct values in the sample an equality hardly ever holds on a clone.
_FEW = 64


@dataclass(frozen=True, slots=True)
class Values:
    """Values of one column to take literals from.

    Attributes:
        column: The column.
        texts: One a sampled row, None for NULL and for what is too long; in no order.
        ordered: Whether ranges make sense.
        few: Whether equality makes sense on another database of the same distribution.
    """

    column: Column
    texts: tuple[str | None, ...]
    ordered: bool
    few: bool

    @classmethod
    def of(cls, column: Column, texts: Sequence[str | None]) -> Values:
        """Judge a column by a sample of its values."""
        short = tuple(cls.short(text) for text in texts)
        distinct = len({text for text in short if text is not None})
        few = 0 < distinct <= _FEW and 2 * distinct <= max(len(texts), 2)
        return cls(column, short, column.type.base in _ORDERED, few)

    @property
    def usable(self) -> bool:
        """Whether a predicate can be made at all."""
        return (self.ordered or self.few) and any(text is not None for text in self.texts)

    @property
    def whole(self) -> bool:
        """Whether the values are whole numbers or days: equality may ask for any of them."""
        return self.column.type.base in _WHOLE

    @property
    def is_text(self) -> bool:
        """Whether the values are strings."""
        return self.column.type.category == "S"

    def place(self, text: str) -> tuple[float, str]:
        """Where a value stands in the column's order; for strings that of their code points."""
        return (float(text), "") if self.column.type.category == "N" else (0.0, text)

    @staticmethod
    def short(text: str | None) -> str | None:
        """The text, or None where it is NULL or too long for a literal."""
        return text if text is not None and len(text) <= _LONGEST else None

    def literal(self, text: str) -> sql.Composable:
        """The text as a literal of the column's type."""
        if self.column.type.category == "N" and _NUMBER.match(text):
            return sql.SQL(text)
        if self.column.type.category == "D":
            return sql.SQL("{}::{}").format(sql.Literal(text), sql.SQL(self.column.type.sql))
        return sql.Literal(text)


def judged(table: Table, rows: Sequence[Row]) -> list[Values]:
    """The usable columns of a table with their values in some of its rows.

    Keys and columns of composite types are none: queries do not select by them.
    """
    keys = table.key_columns | set(table.primary_key.columns if table.primary_key else ())
    keys |= {unique.columns[0] for unique in table.unique_sets if len(unique.columns) == 1}
    found = [
        Values.of(column, [row[column.name] for row in rows])
        for column in table.columns
        if column.name not in keys and (column.type.category in "NDTBS" or column.type.kind == "e")
    ]
    return [values for values in found if values.usable]


def pick(items: Sequence[Item], rng: np.random.Generator) -> Item:
    """A random one of some items."""
    return items[int(rng.integers(len(items)))]
