"""COPY rows into a table, directly or, if generated columns may fail, through a temporary table."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import LiteralString

import psycopg
import pyarrow as pa
from psycopg import sql

from privbench.postgres.binary import FOOT, HEAD, binary_rows, has_form
from privbench.postgres.connect import Connection
from privbench.postgres.csvtext import csv_block, parts
from privbench.postgres.failures import database_errors
from privbench.postgres.statement import StatementPart, build, run
from privbench.schema import ColumnType, Table
from privbench.threads import ahead

#: Errors of a row whose generated columns cannot be computed, or may not be what they are.
_REFUSED = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.InternalError,
    psycopg.errors.RaiseException,
)
_STAGE = sql.Identifier("pg_temp", "privbench stage")
_TOGETHER: LiteralString = """
INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {stage}
"""
_SINGLY: LiteralString = """
DECLARE {place} tid; {failed} bigint := 0;
BEGIN
  FOR {place} IN SELECT ctid FROM {stage} LOOP
    BEGIN
      {first} WHERE ctid = {place};
    EXCEPTION WHEN OTHERS THEN
      {failed} := {failed} + 1;
      BEGIN
        {plain} WHERE ctid = {place};
      EXCEPTION WHEN data_exception OR integrity_constraint_violation OR raise_exception
        OR internal_error THEN NULL;
      END;
    END;
  END LOOP;
  PERFORM pg_catalog.set_config('privbench.failed', {failed}::text, true);
END
"""


def copy_table(
    connection: Connection,
    table: Table,
    columns: Sequence[str],
    batches: Iterable[pa.RecordBatch | pa.Table],
) -> int:
    """Copy rows into a table that the transaction has made or emptied, and return their number.

    Rows of a partitioned table find their partition. Columns that are missing from the batches
    get their defaults; the batches must not have generated columns.

    Raises:
        ValueError: A generated column is named, or a batch has another number of columns.
        DatabaseError: The server refused a row; the message names the constraint, not the row.
    """
    generated = [name for name in columns if table.column(name).generated]
    if generated:
        raise ValueError(f"{table.key}: generated columns cannot be copied: {generated}")
    kinds = [table.column(name).type for name in columns]
    arguments = connection, build("{}", table.name), columns, batches, kinds
    with database_errors("loading rows", table.key):
        if any(column.generated == "s" for column in table.columns):
            return copy_through_stage(*arguments)
        # Pages may be written as frozen and visible, like those of a vacuumed table. PostgreSQL
        # cannot do that for rows that are copied into a partitioned table.
        return copy_rows(*arguments, freeze=table.kind == "r")


def copy_rows(
    connection: Connection,
    table: sql.Composable,
    columns: Sequence[str],
    batches: Iterable[pa.RecordBatch | pa.Table],
    kinds: Sequence[ColumnType] = (),
    *,
    freeze: bool = False,
) -> int:
    """COPY batches into a table, in binary form if all values have one, else as CSV.

    Returns the number of rows. While the server takes some rows, a thread makes the next rows and
    their bytes. Without ``kinds``, the types of the columns, CSV is used. With ``freeze``, the
    table must have been made or emptied in this transaction.
    """
    frozen = sql.SQL("true" if freeze else "false")
    rows = 0
    made = ahead(_blocks(batches, len(columns), kinds))
    with connection.cursor() as cursor, closing(made) as coming:
        for form, blocks in groupby(coming, itemgetter(0)):
            head, foot = (HEAD, FOOT) if form == "binary" else (b"", b"")
            copied = "COPY {} ({}) FROM STDIN (FORMAT {}, FREEZE {})"
            statement = build(copied, table, columns, sql.SQL(form), frozen)
            with cursor.copy(statement) as copy:
                copy.write(head)
                for _, block in blocks:
                    copy.write(memoryview(block))
                copy.write(foot)
            rows += cursor.rowcount
    return rows


def _blocks(
    batches: Iterable[pa.RecordBatch | pa.Table], columns: int, kinds: Sequence[ColumnType]
) -> Iterator[tuple[LiteralString, pa.Buffer]]:
    """The rows as blocks of bytes, each with the COPY format it is in."""
    known = bool(kinds) and all(map(has_form, kinds))
    for part in parts(batches, columns):
        rows = binary_rows(part, kinds) if known else None
        yield ("csv", csv_block(part)) if rows is None else ("binary", rows)


def copy_through_stage(
    connection: Connection,
    table: sql.Composable,
    columns: Sequence[str],
    batches: Iterable[pa.RecordBatch | pa.Table],
    kinds: Sequence[ColumnType],
) -> int:
    """COPY into a temporary table, then insert all rows except those whose generated columns fail.

    Returns the number of rows that the table took.
    """
    parts: dict[str, StatementPart] = {"stage": _STAGE, "columns": columns, "table": table}
    template = (
        'CREATE TEMPORARY TABLE "privbench stage" AS SELECT {columns} FROM {table} WITH NO DATA'
    )
    run(connection, build(template, **parts))
    copy_rows(connection, _STAGE, columns, batches, kinds)
    inserted = insert(connection, **parts)
    run(connection, build("DROP TABLE {}", _STAGE))
    return inserted


def insert(
    connection: Connection, *, stage: StatementPart, columns: StatementPart, table: StatementPart
) -> int:
    """Insert the rows of a staging table into an empty table, except rows that it refuses.

    Returns the number of rows that the table took.
    """
    parts = {"stage": stage, "columns": columns, "table": table}
    plain = build(_TOGETHER, **parts)
    try:
        with connection.transaction():
            return run(connection, plain).rowcount
    except _REFUSED:
        run(connection, singly(connection, plain, **parts))
        row = run(connection, build("SELECT count(*) FROM {}", table)).fetchone()
        return int(row[0]) if row else 0


def singly(
    connection: Connection,
    first: sql.Composed,
    *,
    stage: StatementPart,
    columns: StatementPart,
    table: StatementPart,
) -> sql.Composed:
    """Return a statement that inserts the rows of a staging table one by one.

    It tries the ``first`` statement for each row. Where that fails, the row is inserted as it is,
    unless the table refuses it. The setting ``privbench.failed`` counts such rows.
    """
    plain = build(_TOGETHER, stage=stage, columns=columns, table=table)
    names = {"place": "privbench place", "failed": "privbench failed"}
    body = build(_SINGLY, first=first, plain=plain, stage=stage, **names)
    return build("DO {}", sql.Literal(body.as_string(connection)))
