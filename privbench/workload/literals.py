"""Where the literals of a generated workload come from.

`SampledLiterals` reads rows of the source, so a workload made with it is CONFIDENTIAL. A workload
for publication takes its literals from a model instead: another class with the same two methods.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import psycopg
from psycopg import sql

from privbench.schema import Column, Table

_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")
_LONGEST = 64
# Types whose texts below sort as their values do.
_DATES = frozenset({"date", "timestamp", "timestamptz"})
_ORDERED = _DATES | {"int2", "int4", "int8", "numeric", "float4", "float8", "time"}
# Beyond this many distinct values in the sample an equality hardly ever holds on a clone.
_FEW = 64


@dataclass(frozen=True, slots=True)
class Values:
    """Values of one column to take literals from, as PostgreSQL prints them.

    Attributes:
        column: The column.
        texts: One a sampled row, None for NULL; in no order.
        ordered: Whether ranges make sense.
        few: Whether equality makes sense.
    """

    column: Column
    texts: tuple[str | None, ...]
    ordered: bool
    few: bool

    @property
    def usable(self) -> bool:
        """Whether a predicate can be made at all."""
        return (self.ordered or self.few) and any(text is not None for text in self.texts)

    def place(self, text: str) -> tuple[float, str]:
        """Where a value stands in the column's order, if it is `ordered`."""
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


class Literals(Protocol):
    """A source of literals."""

    def values(self, table: Table) -> list[Values]:
        """The usable columns of a table with values for them."""
        ...

    def holds(self, query: sql.Composable) -> bool:
        """Whether a query may be assumed to give a row."""
        ...


class SampledLiterals:
    """Literals from a seeded sample of the source's rows.

    Args:
        connection: To the source; only read.
        seed: Chooses the rows, by a hash of their content: their physical order has no say.
        rows: Rows a table.
    """

    def __init__(self, connection: psycopg.Connection[Any], seed: int, rows: int = 500) -> None:
        self._connection = connection
        self._seed = seed
        self._rows = rows
        self._found: dict[str, list[Values]] = {}

    def values(self, table: Table) -> list[Values]:
        """The usable columns of a table with their sampled values."""
        if table.key not in self._found:
            self._found[table.key] = self._sample(table)
        return self._found[table.key]

    def holds(self, query: sql.Composable) -> bool:
        """Whether the query gives a row on the source."""
        probe = sql.SQL("SELECT EXISTS ({})").format(query)
        row = self._connection.execute(probe).fetchone()
        return bool(row and row[0])

    def _sample(self, table: Table) -> list[Values]:
        columns = [column for column in table.columns if _plain(table, column)]
        if not columns:
            return []
        query = sql.SQL(
            "SELECT {columns} FROM {table} AS t"
            " ORDER BY hashtextextended(to_json(t)::text, {seed}) LIMIT {n}"
        ).format(
            columns=sql.SQL(", ").join(as_text(column) for column in columns),
            table=sql.Identifier(table.name.schema, table.name.name),
            seed=sql.Literal(self._seed),
            n=sql.Literal(self._rows),
        )
        rows = self._connection.execute(query).fetchall()
        cells = zip(*rows, strict=True) if rows else [()] * len(columns)
        found = [_values(column, texts) for column, texts in zip(columns, cells, strict=True)]
        return [values for values in found if values.usable]


def _plain(table: Table, column: Column) -> bool:
    """Whether the column is a value that queries select by: no key, no composite type."""
    keys = table.key_columns | {
        name for unique in table.unique_sets if len(unique.columns) == 1 for name in unique.columns
    }
    if table.primary_key is not None:
        keys |= set(table.primary_key.columns)
    return column.name not in keys and (column.type.category in "NDTBS" or column.type.kind == "e")


def as_text(column: Column) -> sql.Composable:
    """The column as text; dates in ISO order whatever the session's DateStyle."""
    form = "to_json(t.{}) #>> '{{}}'" if column.type.base in _DATES else "t.{}::text"
    return sql.SQL(form).format(sql.Identifier(column.name))


def _values(column: Column, texts: tuple[str | None, ...]) -> Values:
    short = tuple(Values.short(text) for text in texts)
    distinct = len({text for text in short if text is not None})
    return Values(
        column,
        short,
        ordered=column.type.base in _ORDERED,
        few=0 < distinct <= _FEW and 2 * distinct <= max(len(texts), 2),
    )


def pick(values: Values, rng: np.random.Generator) -> str | None:
    """The value of a random sampled row; NULL as often as the column holds it."""
    return values.texts[int(rng.integers(len(values.texts)))]


def column_of(alias: str, values: Values) -> sql.Composable:
    """The column, of the table under that alias."""
    return sql.Identifier(alias, values.column.name)
