"""Literals of the same rank: reads the source, so what is made with it is CONFIDENTIAL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.schema import Column
from privbench.workload.rebind.choose import place
from privbench.workload.rebind.columns import Operand

_STRINGS = "S"


class SourceRanks:
    """Ranks of literals in the columns of the source.

    Args:
        connection: To the source; only read.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._shares: dict[tuple[str, str, str], float | None] = {}

    def matched(self, operand: Operand, old: str, values: Sequence[str]) -> str | None:
        """The value at the rank among synthetic values that a literal has among the source's."""
        if operand.steps or not values:
            return None
        key = (operand.table.key, operand.column.name, old)
        if key not in self._shares:
            self._shares[key] = self._share(operand, old)
        share = self._shares[key]
        if share is None:
            return None
        ordered = sorted(values, key=place)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]

    def _share(self, operand: Operand, old: str) -> float | None:
        """The share of rows below the literal, those that equal it halved; None without a rank."""
        column = operand.column
        query = sql.SQL(
            "SELECT pg_catalog.count(*) FILTER (WHERE {c} < {v})"
            " + pg_catalog.count(*) FILTER (WHERE {c} <= {v}),"
            " 2 * pg_catalog.count({c}) FROM {table}"
        ).format(
            c=_ordered(sql.Identifier(column.name), column),
            v=_ordered(
                sql.SQL("{}::{}").format(sql.Literal(old), sql.SQL(column.type.sql)), column
            ),
            table=sql.Identifier(operand.table.name.schema, operand.table.name.name),
        )
        row: tuple[Any, ...] | None
        try:
            with self._connection.transaction(force_rollback=True):
                row = self._connection.execute(query).fetchone()
        except psycopg.Error:
            # Not a value of the column's type, or a type without an order.
            return None
        return float(row[0]) / float(row[1]) if row and row[1] else None


def _ordered(item: sql.Composable, column: Column) -> sql.Composable:
    """Strings in the order of their code points, as Python sorts them."""
    if column.type.category != _STRINGS:
        return item
    return sql.SQL('{}::pg_catalog.text COLLATE pg_catalog."C"').format(item)
