"""Read rows in bulk from one snapshot of a database, by any number of readers."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Self

import psycopg
import pyarrow as pa
from psycopg import conninfo, sql

from privbench.domain import PublicValues
from privbench.errors import ConnectionFailed, DatabaseError, SchemaError
from privbench.postgres.connect import Connection, ask_one, resolved
from privbench.postgres.failures import database_errors
from privbench.postgres.introspect import introspect
from privbench.postgres.locks import lock
from privbench.postgres.packed import READS_PAGES
from privbench.postgres.reading import ROWS, WAIT, reading
from privbench.postgres.statement import source
from privbench.postgres.stream import SelectItem, stream
from privbench.rules.facts import with_rules
from privbench.schema import Schema, Table, quoted

#: Settings that leave only a sequential scan from the first page on, the one plan with a fixed
#: order of rows.
_SCAN = {
    "synchronize_seqscans": "off",
    "enable_indexscan": "off",
    "enable_indexonlyscan": "off",
    "enable_bitmapscan": "off",
    "enable_tidscan": "on",
    "enable_parallel_append": "off",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
}
#: Encodings in which every string has a form in UTF-8.
ALL_TEXT = ("UTF8", "LATIN1", "LATIN9")
#: Kinds of relations whose rows are in the database itself; partitions may also be of other kinds.
_OWN_ROWS = ("r", "p")
_KINDS = """
SELECT c.relname, c.relkind::pg_catalog.text FROM pg_catalog.pg_class c
WHERE c.oid = %(table)s::pg_catalog.regclass OR (%(root)s AND c.oid IN (
  SELECT t.relid FROM pg_catalog.pg_partition_tree(%(table)s::pg_catalog.regclass) t))
"""
_PAGES = """
SELECT pg_catalog.pg_relation_size(%s::pg_catalog.regclass)
  / pg_catalog.current_setting('block_size')::pg_catalog.int8
"""


class Snapshot:
    """One REPEATABLE READ READ ONLY transaction, and readers that see its snapshot.

    Rows of a table come in the same order in every stream of one snapshot. Streams are
    independent of one another and may run in threads, one connection each.

    Attributes:
        connection: The transaction itself, for reading the catalog.
        id: The name of the exported snapshot, for further readers; never released (PRIVACY P5).
    """

    connection: Connection
    id: str

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        # Readers in other threads and processes wait for locks as long as this one.
        self._wait = WAIT.get()
        self._settings = {**ROWS, **_SCAN, "lock_timeout": str(round(self._wait * 1000))}
        self._locked: set[str] = set()
        self._locking = Lock()
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self.connection = reading(dsn, ROWS, isolation=psycopg.IsolationLevel.REPEATABLE_READ)
        try:
            with database_errors("opening a snapshot"):
                (self.id,) = ask_one(self.connection, "SELECT pg_catalog.pg_export_snapshot()")
        except BaseException:
            self.connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """End the transaction; streams that are still open, also in other threads, fail."""
        for reader in list(self._busy):
            with contextlib.suppress(psycopg.Error):
                reader.cancel()
        while self._idle:
            self._idle.pop().close()
        with contextlib.suppress(psycopg.Error):
            self.connection.rollback()
        self.connection.close()

    def stream(
        self,
        table: Table,
        expressions: Sequence[SelectItem],
        *,
        batch_bytes: int = 16 << 20,
        known: Mapping[str, PublicValues] | None = None,
        pages: tuple[int, int | None] = (0, None),
    ) -> Iterator[pa.RecordBatch]:
        """Yield the table's rows in physical order.

        For the arguments see `privbench.postgres.stream`.

        Children of ordinary inheritance are tables of their own, so their rows are not part of the
        parent's stream; rows of partitions are part of their root's. Functions and types in
        expressions need their schema: the search path holds none but ``pg_catalog``.

        Yields:
            Batches, at least one, which may be empty. Integers, floats and booleans come as such,
            everything else as the text that PostgreSQL prints.

        Raises:
            DatabaseError: The server refused, or text cannot be read as UTF-8; nothing that may
                be a value is in the message.
        """
        if not expressions:
            raise ValueError("nothing to select")
        self.lock(table)
        with self._reader() as reader:
            for batch in stream(reader, table, expressions, batch_bytes, pages, known):
                if self.connection.closed:
                    raise DatabaseError("the snapshot was closed.", table=table.key)
                yield batch

    def parts(
        self,
        table: Table,
        expressions: Sequence[SelectItem],
        count: int,
        *,
        least: int = 1024,
        known: Mapping[str, PublicValues] | None = None,
    ) -> list[SnapshotPart]:
        """Return the stream of a table in at most ``count`` parts, for several readers.

        The parts one after another are the whole stream. The size of the table's file only decides
        which reader reads which pages; the order of rows does not depend on it. A part has at least
        ``least`` pages. Partitioned tables, and all tables before PostgreSQL 14, are one part.
        """
        self.lock(table)
        pages = 0
        if table.kind != "p" and self.connection.info.server_version >= READS_PAGES:
            with database_errors("asking for the size of a table", table.key):
                (pages,) = ask_one(
                    self.connection, _PAGES, [quoted(table.name.schema, table.name.name)]
                )
        bounds = range(0, pages or 1, least)
        bounds = bounds[:: -(-len(bounds) // count)]
        return [
            SnapshotPart(
                self._dsn, self.id, self._settings, table, tuple(expressions), first, last, known
            )
            for first, last in zip(bounds, [*bounds[1:], None], strict=True)
        ]

    def read(self, table: Table, expressions: Sequence[SelectItem]) -> pa.Table:
        """Return all rows of `stream` at once. Arguments and errors are the same."""
        return pa.Table.from_batches(list(self.stream(table, expressions)))

    @property
    def all_text(self) -> bool:
        """Return whether the database's encoding ensures that every value is valid text."""
        return self.connection.info.parameter_status("server_encoding") in ALL_TEXT

    def require_text(self, schema: Schema) -> None:
        """Lock the tables, and read every value once, to check that all values are text.

        Raises:
            DatabaseError: A value has no form in UTF-8; table and column are named where known.
        """
        for table in schema:
            columns = [column for column in table.columns if not column.generated]
            chosen = [
                (sql.SQL(column.type.text_form).format(sql.Identifier(column.name)), column.name)
                for column in columns
            ]
            try:
                self._read_through(table, chosen)
            except DatabaseError:
                for item in chosen:
                    self._read_through(table, [item])
                raise

    def _read_through(self, table: Table, expressions: Sequence[SelectItem]) -> None:
        try:
            for _ in self.stream(table, expressions) if expressions else ():
                pass
        except DatabaseError as error:
            if len(expressions) == 1:
                error.column = expressions[0][1]
            raise

    def lock(self, table: Table) -> None:
        """Keep the table from being truncated or rewritten until the snapshot closes."""
        with self._locking:
            if table.key not in self._locked:
                self._lock(table)

    def _lock(self, table: Table) -> None:
        lock(self.connection, source(table), table.key, seconds=self._wait)
        with database_errors("asking for the table's partitions", table.key):
            arguments = {
                "table": quoted(table.name.schema, table.name.name),
                "root": table.kind == "p",
            }
            kinds = self.connection.execute(_KINDS, arguments).fetchall()
        for name, kind in kinds:
            if kind not in _OWN_ROWS:
                raise DatabaseError(
                    f"{name!r} is no ordinary table any more (relkind {kind}).", table=table.key
                )
        self._locked.add(table.key)

    def hold(self, schema: Schema, keys: Container[str] | None = None) -> None:
        """Lock tables (all, or some by key) and check that the catalog still describes them.

        A snapshot does not fix the meaning of a statement: until its table is locked, a column can
        be replaced by one of a type whose casts run functions of users. Nor does it fix what plans
        rely on: keys, UNIQUE, NOT NULL and CHECKs. So everything that the catalog states of a table
        must be unchanged, except rules, references and formats, which the catalog does not have.

        Raises:
            SchemaError: A table was changed since the schema was read.
        """
        locked = [table for table in schema if keys is None or table.key in keys]
        for table in locked:
            self.lock(table)
        with reading(conninfo.make_conninfo("", **resolved(self.connection))) as now:
            current = introspect(now, tables=[table.name for table in schema])
        for table in locked:
            constraints = tuple(
                replace(key, natural=False) for key in table.foreign_keys if not key.declared
            )
            stated = replace(
                table,
                checks=tuple(check for check in table.checks if not check.declared),
                foreign_keys=constraints,
                arrays=(),
                columns=tuple(replace(c, templates=(), least=0, dated="") for c in table.columns),
            )
            stated = with_rules(stated)
            if table.name not in current or current.table(table.name) != stated:
                raise SchemaError(
                    "the table was changed while it was about to be read.",
                    table=table.key,
                    remedy="Run the command again.",
                )

    @contextlib.contextmanager
    def _reader(self) -> Iterator[Connection]:
        """A connection that no other stream is using; kept for the next, unless this one fails."""
        with self._locking:
            reader = self._idle.pop() if self._idle else None
        reader = reader or self._joined()
        self._busy.add(reader)
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        finally:
            self._busy.discard(reader)
        self._idle.append(reader)

    def _joined(self) -> Connection:
        """A connection of its own to the same server, bound to the same snapshot."""
        try:
            return reading(
                conninfo.make_conninfo("", **resolved(self.connection)),
                self._settings,
                isolation=psycopg.IsolationLevel.REPEATABLE_READ,
                snapshot=self.id,
            )
        except ConnectionFailed:
            raise ConnectionFailed(
                "another connection for reading was refused.",
                remedy="Fits read by one connection more than --jobs says, two without it.",
            ) from None


@dataclass(frozen=True)
class SnapshotPart:
    """The rows of some pages of a table in a snapshot, which any process can read.

    The process that made the snapshot has to keep it open; only the same database has it.
    """

    # The DSN as the user wrote it: the service file, PG* variables and password file of the machine
    # that reads the part apply.
    dsn: str = field(repr=False)
    snapshot: str
    settings: Mapping[str, str]  # settings of the transaction
    table: Table
    expressions: tuple[SelectItem, ...]  # SQL expressions to select
    first: int
    last: int | None  # one past the last page, or None for all that follow
    # Public knowledge of the values, see `privbench.postgres.stream`.
    known: Mapping[str, PublicValues] | None = None

    def stream(self, *, batch_bytes: int = 16 << 20) -> Iterator[pa.RecordBatch]:
        """Yield batches as `Snapshot.stream` does, over a connection of its own."""
        level = psycopg.IsolationLevel.REPEATABLE_READ
        reader = reading(self.dsn, self.settings, isolation=level, snapshot=self.snapshot)
        with contextlib.closing(reader):
            pages = (self.first, self.last)
            yield from stream(reader, self.table, self.expressions, batch_bytes, pages, self.known)
