"""Rows and answers of a database. Of the source, they make a workload CONFIDENTIAL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from privbench.postgres.connect import SELECT
from privbench.postgres.reading import assignment
from privbench.postgres.statement import build
from privbench.schema import Column, Table
from privbench.workload.generators.draft import DATES, Draft, Row
from privbench.workload.generators.rows import Answers, RowSource


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
