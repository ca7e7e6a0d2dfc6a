"""Load a clone: schema, rows, keys, indexes, sequences and statistics, all or nothing."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

import psycopg
import pyarrow as pa
from psycopg import sql

from privbench.errors import TargetError
from privbench.postgres import staging, target, upkeep
from privbench.postgres.connect import Connection, connect
from privbench.postgres.csvtext import csv_blocks
from privbench.postgres.ddl import Ddl
from privbench.postgres.failures import database_errors
from privbench.postgres.sequences import move_sequences
from privbench.postgres.views import fill_views
from privbench.schema import Schema, Table

logger = logging.getLogger(__name__)

#: Called with what is being done, and the rows copied into that table so far (or None).
Progress = Callable[[str, int | None], None]

_SETTINGS = {
    "search_path": "",
    "client_encoding": "UTF8",
    "check_function_bodies": "off",
    "client_min_messages": "warning",
    "standard_conforming_strings": "on",
    "xmloption": "content",
    "row_security": "off",
    # Rows whose commit is not on disk yet are not marked visible by the VACUUM that follows.
    "synchronous_commit": "on",
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "lc_monetary": "C",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
#: Any number will do that nobody else is likely to lock.
_LOCK = 0x70726976_6C6F6164


class Loader:
    """One transaction that fills a target database.

    Enter it, copy the tables in any order, call `finish`. Until `finish` returns, the target is as
    it was: an error, a lost connection or a killed process leave nothing behind.

    Args:
        dsn: The target; see `privbench.postgres.connect`.
        schema: The clone's schema.
        ddl: Its DDL.
        replace: Drop what the target holds, all objects of users in it, in the same transaction.
        source: A connection to the source, so that it is not taken for the target.
        lock_timeout: Seconds to wait for an object that somebody is using.
        progress: Told of every step.
        split: Cuts DDL that is not trusted into statements; each is then sent by the protocol that
            takes one at a time. None sends trusted DDL as a whole.

    Raises:
        ConnectionFailed: The target is unreachable.
        TargetError: It is the source, is not empty, lacks an extension, or is being loaded.
        AccessDenied: The role may not create or drop.
        DatabaseError: The server refused.
    """

    def __init__(
        self,
        dsn: str,
        schema: Schema,
        ddl: Ddl,
        *,
        replace: bool = False,
        source: Connection | None = None,
        lock_timeout: float = 30,
        progress: Progress | None = None,
        split: Callable[[str], Iterable[str]] | None = None,
    ) -> None:
        self._split = split
        self._schema = schema
        self._ddl = ddl
        self._progress = progress or (lambda step, rows: None)
        self.connection = connect(dsn, lock_timeout=lock_timeout)
        try:
            self._prepare(replace, source)
        except BaseException:
            self.close()
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
        """Undo what is not finished, and disconnect."""
        with contextlib.suppress(psycopg.Error):
            self.connection.rollback()
        self.connection.close()

    def copy_table(
        self,
        table: Table | str,
        columns: Sequence[str],
        batches: Iterable[pa.RecordBatch | pa.Table],
    ) -> int:
        """Copy rows into a table.

        Args:
            table: The table; rows of a partitioned one find their partition.
            columns: Which columns the batches hold, in their order; generated columns must not be
                among them. Columns left out get their defaults.
            batches: Record batches or tables, as they come.

        Returns:
            The number of rows.

        Raises:
            ValueError: A generated column is named, or a batch has another number of columns.
            DatabaseError: The server refused a row; the message names the constraint, not the row.
        """
        table = table if isinstance(table, Table) else self._schema.table(table)
        generated = [name for name in columns if table.column(name).generated]
        if generated:
            raise ValueError(f"{table.key}: generated columns cannot be copied: {generated}")
        if not columns:
            return 0
        self._progress(f"copy {table.key}", 0)
        with database_errors("loading rows", table.key):
            rows = self._copy(table, columns, batches)
        self._progress(f"copy {table.key}", rows)
        return rows

    def without_values(self, table: Table) -> list[str]:
        """Columns left to their default: xml that may be NULL, on a server that was built without.

        Raises:
            DatabaseError: The server refused.
        """
        names = [c.name for c in table.columns if c.type.base == "xml" and not c.not_null]
        if not names:
            return []
        with database_errors("asking for xml"):
            try:
                with self.connection.transaction():
                    self.connection.execute("SELECT '<a/>'::xml")
            except psycopg.errors.FeatureNotSupported:
                logger.warning("%s: this server knows no xml; NULL instead: %s", table.key, names)
                return names
        return []

    def add_rows(self, table: Table, count: int) -> int:
        """Add rows of which every column has its default, or that have no columns at all.

        Raises:
            DatabaseError: The server refused.
        """
        statement = sql.SQL("INSERT INTO {} SELECT FROM pg_catalog.generate_series(1, {})")
        named = sql.Identifier(table.name.schema, table.name.name)
        with database_errors("loading rows", table.key):
            return self.connection.execute(statement.format(named, count)).rowcount

    @contextlib.contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Within it, indexes and constraints are made on the rows there are; then they go again.

        Raises:
            DatabaseError: The server refused.
        """
        with (
            database_errors("making indexes and constraints"),
            self.connection.transaction(force_rollback=True),
        ):
            self._script(self._ddl.constraints)
            self._protect()
            yield

    def finish(self) -> None:
        """Indexes, constraints, triggers, sequences, views, statistics, commit, VACUUM.

        A relation that cannot be vacuumed is logged: the load stands, with its statistics.

        Raises:
            DatabaseError: A constraint does not hold, or the server refused.
        """
        self._progress("indexes and constraints", None)
        with database_errors("making indexes and constraints"):
            self._script(self._ddl.constraints)
        self._progress("sequences", None)
        move_sequences(self.connection, self._schema)
        filled = [
            *(table.name for table in self._schema),
            *fill_views(self.connection, self._progress),
        ]
        self._progress("analyze", None)
        with database_errors("gathering statistics"):
            upkeep.analyze(self.connection, filled)
        with database_errors("making policies"):
            for statement in self._protect():
                logger.warning(
                    "left out, since it speaks of a role that is not here: %s", statement
                )
        with database_errors("committing the load"):
            self.connection.commit()
        self._progress("vacuum", None)
        skipped = upkeep.vacuum(self.connection, filled)
        if skipped:
            listed = ", ".join(map(str, skipped))
            logger.warning("the clone is complete, but these could not be vacuumed: %s", listed)

    def _prepare(self, replace: bool, source: Connection | None) -> None:
        with database_errors("preparing the target"):
            target.refuse_source(self.connection, source)
            for name, value in _SETTINGS.items():
                self.connection.execute("SELECT set_config(%s, %s, true)", [name, value])
            row = self.connection.execute(
                "SELECT pg_catalog.pg_try_advisory_xact_lock(%s::bigint)", [_LOCK]
            ).fetchone()
        if row is None or not row[0]:
            raise TargetError("another load into this database is running.")
        target.refuse_missing_extensions(
            self.connection, self._ddl.extensions, self._ddl.extension_schemas
        )
        found = target.contents(self.connection)
        if replace:
            target.drop_contents(self.connection, found)
        else:
            target.refuse_contents(found)
        self._progress("schema", None)
        with database_errors("making the schema"):
            self.connection.execute("CREATE SCHEMA IF NOT EXISTS public")
            self._extend()
            self._script(self._ddl.objects)

    def _extend(self) -> None:
        """Extensions; those that only the text of functions may need if the server has them.

        They come first: PostgreSQL reads the text of some functions when it makes a table.
        """
        for statement, needed in self._ddl.making_extensions:
            if needed:
                self._script(statement)
                continue
            try:
                with self.connection.transaction():
                    self._script(statement)
            except psycopg.Error as error:
                said = error.diag.message_primary or type(error).__name__
                if self.connection.closed:
                    raise TargetError(f"the server broke off at {statement}: {said}") from None
                logger.warning("left out, since the server refuses it: %s (%s)", statement, said)

    def _script(self, text: str) -> None:
        if self._split is not None:
            for statement in self._split(text):
                # Asking for binary results makes psycopg use the extended protocol.
                self.connection.execute(statement.encode(), binary=True)
        elif text.strip():
            # Bytes without parameters go out as they are: several statements, any % sign.
            self.connection.execute(text.encode())

    def _protect(self) -> list[str]:
        """Row-level security, last: it would hide rows from the load itself.

        Returns:
            Policies that speak of roles which the target does not have; without them rows are
            hidden from more users, never from fewer.
        """
        absent = []
        for statement in self._ddl.row_security:
            try:
                with self.connection.transaction():
                    self._script(statement)
            except psycopg.errors.UndefinedObject:
                absent.append(" ".join(statement.partition("CREATE POLICY ")[1:]).strip())
        return absent

    def _copy(
        self, table: Table, columns: Sequence[str], batches: Iterable[pa.RecordBatch | pa.Table]
    ) -> int:
        named = sql.Identifier(table.name.schema, table.name.name)
        blocks = csv_blocks(batches, len(columns))
        if staging.is_staged(table):
            return staging.copy(self.connection, named, columns, blocks)
        # The table is this transaction's own, so its pages may be written as already frozen and
        # visible, as a vacuumed table's are. PostgreSQL cannot do that through a partition's root.
        return staging.copy_blocks(
            self.connection, named, columns, blocks, freeze=table.kind == "r"
        )
