"""COPY into a table, and into one whose generated columns may not be computable for every row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import LiteralString

import psycopg
from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.statement import run
from privbench.schema import Table

_STAGE = sql.Identifier("pg_temp", "privbench stage")
_SINGLY: LiteralString = """
DECLARE place tid;
BEGIN
  FOR place IN SELECT ctid FROM {stage} LOOP
    BEGIN
      INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE
        SELECT {columns} FROM {stage} WHERE ctid = place;
    EXCEPTION WHEN data_exception THEN NULL;
    END;
  END LOOP;
END
"""


def is_staged(table: Table) -> bool:
    """Whether rows reach the table by way of a stage (`copy`)."""
    return any(column.generated == "s" for column in table.columns)


def copy_blocks(
    connection: Connection,
    table: sql.Composable,
    columns: Sequence[str],
    blocks: Iterable[bytes | memoryview],
    *,
    freeze: bool = False,
) -> int:
    """COPY blocks of CSV; the number of rows.

    Raises:
        psycopg.Error: The server refused.
    """
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv, FREEZE {})").format(
        table,
        sql.SQL(", ").join(sql.Identifier(name) for name in columns),
        sql.SQL("true" if freeze else "false"),
    )
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for block in blocks:
                copy.write(memoryview(block))
        return cursor.rowcount


def copy(
    connection: Connection,
    table: sql.Composable,
    columns: Sequence[str],
    blocks: Iterable[bytes | memoryview],
) -> int:
    """COPY by way of a stage: rows of which a generated column fails (an overflow) are left out.

    Returns:
        The number of rows that the table took.

    Raises:
        psycopg.Error: The server refused.
    """
    listed = sql.SQL(", ").join(sql.Identifier(name) for name in columns)
    parts = {"stage": _STAGE, "columns": listed, "table": table}
    run(
        connection,
        sql.SQL(
            'CREATE TEMPORARY TABLE "privbench stage" AS SELECT {columns} FROM {table} WITH NO DATA'
        ).format(**parts),
    )
    copy_blocks(connection, _STAGE, columns, blocks)
    try:
        with connection.transaction():
            taken = run(
                connection,
                sql.SQL(
                    "INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE"
                    " SELECT {columns} FROM {stage}"
                ).format(**parts),
            ).rowcount
    except psycopg.DataError:
        body = sql.SQL(_SINGLY).format(**parts).as_string(connection)
        run(connection, sql.SQL("DO {}").format(sql.Literal(body)))
        row = run(connection, sql.SQL("SELECT count(*) FROM {table}").format(**parts)).fetchone()
        taken = int(row[0]) if row else 0
    run(connection, sql.SQL("DROP TABLE {stage}").format(**parts))
    return taken
