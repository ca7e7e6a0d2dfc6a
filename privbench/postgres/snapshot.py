"""Read rows from one frozen moment of a database, in bulk, by any number of readers."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import adbc_driver_postgresql.dbapi
import psycopg
import pyarrow as pa
from adbc_driver_manager import Error as AdbcError
from psycopg import conninfo, sql

from privbench.errors import ConnectionFailed, DatabaseError
from privbench.postgres.arrow import empty_batch, plain_batch
from privbench.postgres.connect import Connection, connect, resolved
from privbench.postgres.failures import database_errors
from privbench.schema import Table

#: What a reader selects: an expression, and the name its column gets.
Expression = tuple[sql.Composable, str]

#: Settings of every session: values print alike everywhere, and a row filter is an error.
_SESSION = {
    "row_security": "off",
    "search_path": "",
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "lc_monetary": "C",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "idle_in_transaction_session_timeout": "0",
}
#: A plain scan from the first page on is the one plan whose row order is the same every time.
_SCAN = {
    "synchronize_seqscans": "off",
    "enable_indexscan": "off",
    "enable_indexonlyscan": "off",
    "enable_bitmapscan": "off",
    "enable_tidscan": "off",
    "enable_parallel_append": "off",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
}
_BATCH_OPTION = "adbc.postgresql.batch_size_hint_bytes"
#: The messages of a failed read that hold names only; all others may hold values of rows.
_SAFE = re.compile(
    r"ERROR:\s+((?:permission denied for|canceling statement due to|cannot|"
    r"query would be affected by row-level security|terminating connection|"
    r"(?:relation|column|function|type|operator) .*does not exist)[^\n]*)"
)


class Snapshot:
    """One REPEATABLE READ READ ONLY transaction, and readers bound to its snapshot.

    Rows of a table come in the same order in every stream of one snapshot. Streams are
    independent of one another and may run in threads, one connection each.

    Args:
        dsn: The database; see `privbench.postgres.connect`.
        statement_timeout: Seconds that one statement, a whole stream included, may take; 0 means
            no limit.
        lock_timeout: Seconds to wait for a table that somebody is altering.

    Attributes:
        connection: The transaction itself, for reading the catalog.
        id: The exported snapshot, for pg_dump; never released (PRIVACY P5).

    Raises:
        ConnectionFailed: The server is unreachable.
        DatabaseError: The server refused.
    """

    connection: Connection
    id: str

    def __init__(self, dsn: str, *, statement_timeout: float = 0, lock_timeout: float = 30) -> None:
        self._timeouts = {
            "statement_timeout": str(round(statement_timeout * 1000)),
            "lock_timeout": str(round(lock_timeout * 1000)),
        }
        self._locked: set[str] = set()
        self._idle: list[Any] = []
        self.connection = connect(dsn)
        try:
            self.id = self._begin()
        except BaseException:
            self.connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the transaction; streams still open fail on their next batch."""
        while self._idle:
            self._idle.pop().close()
        with contextlib.suppress(psycopg.Error):
            self.connection.rollback()
        self.connection.close()

    def stream(
        self, table: Table, expressions: Sequence[Expression], *, batch_bytes: int = 16 << 20
    ) -> Iterator[pa.RecordBatch]:
        """The table's rows, by binary COPY, in the order they lie in.

        Children of ordinary inheritance are tables of their own, so their rows do not show in the
        parent's stream; rows of partitions show in their root's.

        Args:
            table: The table.
            expressions: What to select, with the names of the batch's columns. Functions and types
                need their schema: the search path is empty.
            batch_bytes: About how large a batch is to be.

        Yields:
            Batches of plain Arrow types, at least one, which may be empty. A numeric comes as
            decimal text, uuid as 16 bytes, json as text; types that Arrow lacks come as the bytes
            PostgreSQL sends, so cast them to text.

        Raises:
            AccessDenied: SELECT is missing.
            DatabaseError: The server refused; nothing of its message that may hold values is kept.
        """
        if not expressions:
            raise ValueError("nothing to select")
        self.lock(table)
        names = [name for _, name in expressions]
        statement = _select(table, [expression for expression, _ in expressions])
        with self._reader() as reader, contextlib.closing(reader.cursor()) as cursor:
            yield from _batches(
                cursor, statement.as_string(self.connection), names, batch_bytes, table.key
            )

    def read(self, table: Table, expressions: Sequence[Expression]) -> pa.Table:
        """All rows of `stream` at once. Arguments and errors are the same."""
        return pa.Table.from_batches(list(self.stream(table, expressions)))

    def lock(self, table: Table) -> None:
        """Keep the table from being truncated or rewritten until the snapshot closes.

        Raises:
            AccessDenied: SELECT is missing.
            DatabaseError: Somebody holds the table longer than the lock time-out.
        """
        if table.key in self._locked:
            return
        with database_errors("locking the table in ACCESS SHARE mode", table.key):
            self.connection.execute(
                sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(_source(table))
            )
        self._locked.add(table.key)

    def _begin(self) -> str:
        self.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        self.connection.read_only = True
        with database_errors("opening a snapshot"):
            for name, value in {**_SESSION, **self._timeouts}.items():
                self.connection.execute("SELECT set_config(%s, %s, true)", [name, value])
            row = self.connection.execute("SELECT pg_catalog.pg_export_snapshot()").fetchone()
        if row is None:
            raise DatabaseError("the server exports no snapshot.")
        return str(row[0])

    @contextlib.contextmanager
    def _reader(self) -> Iterator[Any]:
        """A connection that no other stream is using; kept for the next, unless this one fails."""
        reader = self._idle.pop() if self._idle else self._joined()
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        self._idle.append(reader)

    def _joined(self) -> Any:
        """A connection of its own to the same server, bound to the same snapshot."""
        try:
            reader = adbc_driver_postgresql.dbapi.connect(
                conninfo.make_conninfo("", **resolved(self.connection)), autocommit=True
            )
        except AdbcError:
            raise ConnectionFailed("a second connection for reading was refused.") from None
        statements = [
            sql.SQL("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
            sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(self.id)),
            *(
                sql.SQL("SET LOCAL {} = {}").format(sql.Identifier(name), sql.Literal(value))
                for name, value in {**_SESSION, **_SCAN, **self._timeouts}.items()
            ),
        ]
        try:
            with contextlib.closing(reader.cursor()) as cursor:
                for statement in statements:
                    cursor.execute(statement.as_string(self.connection))
        except AdbcError:
            reader.close()
            raise DatabaseError("a reader could not join the snapshot.") from None
        return reader


def _source(table: Table) -> sql.Composable:
    name = sql.Identifier(table.name.schema, table.name.name)
    return name if table.kind == "p" else sql.SQL("ONLY {}").format(name)


def _select(table: Table, expressions: Sequence[sql.Composable]) -> sql.Composable:
    # PostgreSQL would cut long names off, so the server sees short ones.
    columns = [
        sql.SQL("{} AS {}").format(expression, sql.Identifier(f"c{position}"))
        for position, expression in enumerate(expressions)
    ]
    return sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(columns), _source(table))


def _batches(
    cursor: Any, statement: str, names: Sequence[str], batch_bytes: int, table: str
) -> Iterator[pa.RecordBatch]:
    cursor.adbc_statement.set_options(**{_BATCH_OPTION: str(batch_bytes)})
    try:
        cursor.execute(statement)
        reader = cursor.fetch_record_batch()
        schema = reader.schema
        seen = False
        while (batch := _next(reader)) is not None:
            seen = True
            yield plain_batch(batch, names)
    except (AdbcError, pa.ArrowException, OSError) as error:
        raise _read_error(error, table) from None
    if not seen:
        yield empty_batch(schema, names)


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def _read_error(error: Exception, table: str) -> DatabaseError:
    said = _SAFE.search(str(error))
    return DatabaseError(f"reading rows failed{f': {said[1]}' if said else ''}.", table=table)
