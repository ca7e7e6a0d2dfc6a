"""Where generators take rows from, and how they learn the answers of their queries.

Rows come from a database or from a model. Those of a database make a workload CONFIDENTIAL; those
of a model are synthetic, and a workload with their values may be published.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from privbench.postgres.connect import SELECT
from privbench.postgres.reading import assignment
from privbench.postgres.statement import build
from privbench.schema import Column, Table
from privbench.workload.generators.draft import (
    DATES,
    Draft,
    JoinTree,
    Link,
    Row,
    Values,
    judged,
    pick,
)

# Rows of a table that queries are drawn around, and those of them that literals come from. Twice or
# half as many change which values are drawn and no property of the workload.
_START_ROWS, _SAMPLE = 2000, 500
_SEEDS = 2**31


class RowSource(ABC):
    """Rows to take literals from; each table is sampled once."""

    def __init__(self) -> None:
        self._values: dict[str, list[Values]] = {}
        self._starts: dict[str, list[Row]] = {}

    def values(self, table: Table) -> list[Values]:
        """The usable columns of a table with their values in some of its rows."""
        if table.key not in self._values:
            self._values[table.key] = judged(table, self.starts(table)[:_SAMPLE])
        return self._values[table.key]

    def starts(self, table: Table) -> list[Row]:
        """Some rows of a table, in an order that the seed decides."""
        if table.key not in self._starts:
            self._starts[table.key] = self.sample(table, _START_ROWS)
        return self._starts[table.key]

    @abstractmethod
    def sample(self, table: Table, most: int) -> list[Row]:
        """At most so many rows of a table, chosen by the seed."""

    @abstractmethod
    def match(self, table: Table, wanted: Mapping[str, str], seed: int) -> Row | None:
        """A row of the table with these values, of several the one that the seed decides."""


class Answers(ABC):
    """Answers of drafted queries."""

    #: Whether the answers belong into the workload.
    stated: bool

    @abstractmethod
    def count(self, draft: Draft, enough: int | None = None) -> int | None:
        """The number of rows that satisfy the conditions; None where counting takes too long.

        Counting may stop at ``enough`` rows.
        """


def joined(
    tables: Mapping[int, Table],
    links: Sequence[Link],
    start: int,
    rows: RowSource,
    rng: np.random.Generator,
) -> dict[int, Row]:
    """Rows that join: a random one of the first table, then along the links a random one that fits.

    Tables are numbered, and ``start`` is the first one's number. Those have a row that were reached
    before a table had none that fits.
    """
    starts = rows.starts(tables[start])
    found = {start: pick(starts, rng)} if starts else {}
    ends = [end for link in links for end in (link, link[::-1])]
    while found:
        reached = (new for (old, _), (new, _) in ends if old in found and new not in found)
        new = next(reached, None)
        if new is None:
            break
        wanted = {
            name: found[old][given]
            for (old, given), (other, name) in ends
            if other == new and old in found
        }
        known = {name: value for name, value in wanted.items() if value is not None}
        if len(known) < len(wanted):
            break
        row = rows.match(tables[new], known, int(rng.integers(_SEEDS)))
        if row is None:
            break
        found[new] = row
    return found


def anchored(tree: JoinTree, rows: RowSource, rng: np.random.Generator) -> list[Row] | None:
    """Rows that join, one of each of the tree's tables; None where the draw met a dead end.

    A query whose predicates hold for such rows has an answer of at least one.
    """
    found = joined(dict(enumerate(tree.tables)), tree.links, 0, rows, rng)
    return [found[place] for place in range(len(found))] if len(found) == len(tree.tables) else None


class DatabaseRows(RowSource):
    """Rows chosen by a hash of their content and the seed, whatever their physical order."""

    def __init__(self, connection: psycopg.Connection[Any], seed: int) -> None:
        super().__init__()
        self._connection = connection
        self._seed = seed

    def sample(self, table: Table, most: int) -> list[Row]:
        """The first rows in the order of the hash."""
        return self._rows(table, sql.SQL("true"), self._seed, most)

    def match(self, table: Table, wanted: Mapping[str, str], seed: int) -> Row | None:
        """A row with these values."""
        condition = sql.SQL(" AND ").join(
            build("t.{} = {}", name, sql.Literal(value)) for name, value in wanted.items()
        )
        found = self._rows(table, condition, seed, 1)
        return found[0] if found else None

    def _rows(self, table: Table, condition: sql.Composable, seed: int, most: int) -> list[Row]:
        if not table.columns:
            return []
        query = SELECT + build(
            "{columns} FROM {table} AS t WHERE {condition}"
            " ORDER BY pg_catalog.hashtextextended("
            "pg_catalog.array_to_string(ARRAY[{columns}], ','), {seed}::bigint) LIMIT {most}",
            columns=list(map(_as_text, table.columns)),
            table=table.name,
            condition=condition,
            seed=seed,
            most=most,
        )
        names = [column.name for column in table.columns]
        found = self._connection.execute(query).fetchall()
        return [dict(zip(names, row, strict=True)) for row in found]


class DatabaseAnswers(Answers):
    """Answers by running the query, for so many seconds at most."""

    stated = True

    def __init__(self, connection: psycopg.Connection[Any], timeout: float = 20.0) -> None:
        self._connection = connection
        self._timeout = timeout

    def count(self, draft: Draft, enough: int | None = None) -> int | None:
        """How many rows the conditions leave; None where that takes too long."""
        limit = str(max(1, round(1000 * self._timeout)))
        try:
            # Rolled back, so that the time-out ends with the query.
            with self._connection.transaction(force_rollback=True):
                self._connection.execute(assignment("statement_timeout", limit))
                row = self._connection.execute(draft.counting(enough).encode()).fetchone()
        except psycopg.errors.QueryCanceled:
            return None
        return int(row[0]) if row else None


def _as_text(column: Column) -> sql.Composable:
    """The column as text; dates in ISO order whatever the session's DateStyle."""
    form = "pg_catalog.to_json({}) #>> '{{}}'" if column.type.base in DATES else None
    return sql.SQL(form or column.type.text_form).format(sql.Identifier("t", column.name))
