"""Load a clone: schema, rows, keys, indexes, sequences and statistics, all or nothing."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import LiteralString

import psycopg
import pyarrow as pa

from privbench.errors import DatabaseError, TargetError
from privbench.postgres import finishing, staging, target
from privbench.postgres.connect import Connection, major_version
from privbench.postgres.ddl import Ddl
from privbench.postgres.failures import database_errors, describe, translate
from privbench.postgres.filling import Filling
from privbench.postgres.introspect import introspect
from privbench.postgres.locks import lock
from privbench.postgres.statement import build, run, source
from privbench.postgres.unfinished import PARTS, Mark, refuse_unfinished
from privbench.schema import Schema, Table, TableName

logger = logging.getLogger(__name__)

#: Called with what is being done, and the rows copied into that table so far (or None).
Progress = Callable[[str, int | None], None]

#: SQLSTATE classes (feature, parameter, syntax or name) of what a server refuses if it is too old.
_UNKNOWN = ("0A", "22", "42")
#: Memory for checking a foreign key: what the server gives, or as much as its administrator has set
#: aside for shared buffers, at most 1 GB. Of 36 million rows it then takes 4.2 s for 6.4. An index
#: over keys in random order is sorted sooner in the server's own (64 MB): 11.5 s for 13.9.
_MEMORY: LiteralString = """
SELECT pg_catalog.set_config('maintenance_work_mem', pg_catalog.concat(greatest(
    (SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = 'maintenance_work_mem'),
    least(1048576, (SELECT setting::bigint * 8 FROM pg_catalog.pg_settings
      WHERE name = 'shared_buffers'))), 'kB'), true)
"""
_NO_PUBLIC: LiteralString = """
SELECT 1 WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'public')
"""
_STRANGE: LiteralString = """
SELECT c.oid::pg_catalog.regclass::text
FROM ROWS FROM (pg_catalog.unnest(%(schemas)s::text[]), pg_catalog.unnest(%(names)s::text[]))
  AS wanted(schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = wanted.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = wanted.name
WHERE pg_catalog.pg_get_userbyid(c.relowner) <> current_user
ORDER BY 1
"""
#: Any number will do that nobody else is likely to lock.
_LOCK = 0x70726976_6C6F6164


class Loader(Filling):
    """One transaction that fills a target database.

    Enter it, copy the tables in any order, call `finish`. Until `finish` returns, the target is as
    it was: an error, a lost connection or a killed process leave nothing behind. With a mark it is
    two: `publish` commits the empty schema and the mark, `finish` all the rest, and between them
    other transactions copy parts of tables.

    Args:
        dsn: The target; see `privbench.postgres.connect`.
        schema: The clone's schema.
        ddl: Its DDL.
        replace: Drop what the target holds, all objects of users in it, in the same transaction.
        source: A connection to the source, so that it is not taken for the target.
        progress: Called at every step.
        trust: Run all of the DDL, programs included; else what is on the allow-list.
        as_role: Go on as this role before anything of the model's runs, see `target.become`.
        mark: The mark of a load part by part, with its seed. A target that has it is gone on with.

    Attributes:
        connection: In the transaction.
        lost: What of the schema the target does not have, a line each; complete after `finish`.

    Raises:
        ModelError: The schema and its DDL do not fit.
        TargetError: It is the source, is not empty, lacks an extension, or is being loaded.
    """

    def __init__(
        self,
        dsn: str,
        schema: Schema,
        ddl: Ddl,
        *,
        replace: bool = False,
        source: Connection | None = None,
        progress: Progress | None = None,
        trust: bool = True,
        as_role: str | None = None,
        mark: Mark | None = None,
    ) -> None:
        super().__init__(dsn, as_role)
        self._schema = schema
        self._script, self._needed = ddl.script(trust=trust), ddl.extensions
        self._major = schema.server_version // 10000
        self._mark, self._resumed = mark, False
        self.lost = list(self._script.left_out)
        self._progress = progress or (lambda step, rows: None)
        try:
            self._prepare(replace, source)
        except BaseException:
            self.close()
            raise

    def table(self, table: Table | TableName | str) -> Table:
        """The table as the target's own catalog states it; a SchemaError if it has none such."""
        return self._schema.table(table.name if isinstance(table, Table) else table)

    def copy_table(
        self,
        table: Table | str,
        columns: Sequence[str],
        batches: Iterable[pa.RecordBatch | pa.Table],
    ) -> int:
        """Copy rows into a table, and return their number.

        Rows of a partitioned table find their partition. Columns that the batches do not hold get
        their defaults; generated ones must not be among those that they hold.

        Raises:
            ValueError: A generated column is named, or a batch has another number of columns.
            DatabaseError: The server refused a row; the message names the constraint, not the row.
        """
        table = self.table(table)
        generated = [name for name in columns if table.column(name).generated]
        if generated:
            raise ValueError(f"{table.key}: generated columns cannot be copied: {generated}")
        if not columns:
            return 0
        kinds = [table.column(name).type for name in columns]
        given = self.connection, build("{}", table.name), columns, batches, kinds
        self._progress(f"copy {table.key}", 0)
        with database_errors("loading rows", table.key):
            self._empty(table)
            if any(column.generated == "s" for column in table.columns):
                rows = staging.copy(*given)
            else:
                # The table is this transaction's own, or was emptied in it, so its pages may be
                # written as already frozen and visible, as a vacuumed table's are. PostgreSQL
                # cannot do that through a partition's root.
                rows = staging.copy_rows(*given, freeze=table.kind == "r")
        self._progress(f"copy {table.key}", rows)
        return rows

    @contextlib.contextmanager
    def emptied(self) -> Iterator[None]:
        """Within it the tables are there and empty, as when the load began.

        Those of a load that is gone on with are made anew for that, and undone: what is read of
        the empty schema needs no second form that could be kept.
        """
        if not self._resumed:
            yield
            return
        with self.connection.transaction(force_rollback=True):
            target.drop_contents(self.connection, target.contents(self.connection))
            self._make()
            yield

    def publish(self) -> None:
        """Commit the empty schema with its mark, and begin the transaction that finishes it.

        While that is open, nobody can put tables of their own in place of those of the load, whose
        triggers would run as its role. A table that is not the role's own is refused (TargetError).
        """
        if self._mark is None:
            return
        if not self._resumed:
            self._mark.make(self.connection)
            self.commit()
            self.begin(self._lock)
        names = [PARTS, *(table.name for table in self._schema)]
        for name in names:
            lock(self.connection, build("{}", name), str(name))
        with database_errors("asking who owns the tables"):
            asked = {"schemas": [n.schema for n in names], "names": [n.name for n in names]}
            strange = run(self.connection, _STRANGE, asked).fetchone()
        if strange:
            raise TargetError(
                f"{strange[0]} in the target belongs to another role than the one that loads.",
                remedy="Go on as the role that began, or say --replace to begin anew.",
            )

    def without_values(self, table: Table) -> list[str]:
        """Columns left to their default: nullable xml, on a server that was built without it."""
        names = [
            c.name for c in self.table(table).columns if c.type.base == "xml" and not c.not_null
        ]
        if not names:
            return []
        with database_errors("asking for xml"):
            try:
                with self.connection.transaction():
                    run(self.connection, "SELECT '<a/>'::xml")
            except psycopg.errors.FeatureNotSupported:
                logger.warning(
                    "%s: this server does not support xml; NULL instead: %s", table.key, names
                )
                return names
        return []

    def add_rows(self, table: Table, count: int) -> int:
        """Add rows of which every column has its default, or that have no columns at all."""
        added = "INSERT INTO {} SELECT FROM pg_catalog.generate_series(1, {})"
        with database_errors("loading rows", table.key):
            self._empty(self.table(table))
            return run(self.connection, build(added, table.name, count)).rowcount

    @contextlib.contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Within it, indexes and constraints are made on the rows there are; then they go again."""
        with (
            database_errors("making indexes and constraints"),
            self.connection.transaction(force_rollback=True),
        ):
            with self._making("indexes and constraints"):
                self._constrain()
                lost = self._protect()
            self.lost += [line for line in lost if line not in self.lost]
            yield

    def finish(self) -> None:
        """Indexes, constraints, triggers, sequences, views, statistics, commit, VACUUM.

        A relation that cannot be vacuumed is logged: the load stands, with its statistics. A
        TargetError says that something has left the transaction of the load.
        """
        self._progress("indexes and constraints", None)
        with self._making("indexes and constraints"):
            self._constrain()
        self._progress("sequences", None)
        finishing.move_sequences(self.connection, self._schema)
        views, empty = finishing.fill_views(self.connection, self._progress)
        filled = [*(table.name for table in self._schema), *views]
        self._progress("analyze", None)
        if filled:
            with database_errors("gathering statistics"):
                run(self.connection, build("ANALYZE {}", filled))
        with self._making("policies"):
            protected = self._protect()
        self.lost += [line for line in (*empty, *protected) if line not in self.lost]
        for line in self.lost:
            logger.warning("%s", line)
        if self._mark is not None:
            self._mark.remove(self.connection)
        self.commit()
        self._progress("vacuum", None)
        skipped = finishing.vacuum(self.connection, filled, self._role)
        if skipped:
            listed = ", ".join(map(str, skipped))
            logger.warning("the clone is complete, but these could not be vacuumed: %s", listed)

    def _prepare(self, replace: bool, source: Connection | None) -> None:
        with database_errors("preparing the target"):
            target.refuse_source(self.connection, source)
        self.begin(self._lock)
        found = target.contents(self.connection)
        if replace:
            target.drop_contents(self.connection, found)
        elif self._mark is not None and self._mark.found(self.connection):
            self._resumed = True
            return
        else:
            refuse_unfinished(self.connection)
            target.refuse_contents(found)
        self._make()

    def _lock(self) -> None:
        """Keep other loads out until the transaction ends; refuse a server without extensions."""
        with database_errors("preparing the target"):
            locked = build("SELECT WHERE pg_catalog.pg_try_advisory_xact_lock({}::bigint)", _LOCK)
            alone = run(self.connection, locked).rowcount
        if not alone:
            raise TargetError("another load into this database is running.")
        spaces = {item.name: item.schema for item in self._script.extensions if item.schema}
        target.refuse_missing_extensions(self.connection, self._needed, spaces)

    def _make(self) -> None:
        """Make the empty tables."""
        self._progress("schema", None)
        with self._making("the schema"):
            # If it exists, the role does not need the right to make it.
            if run(self.connection, _NO_PUBLIC).fetchone():
                run(self.connection, "CREATE SCHEMA public")
            self._extend()
            self._run_all(self._script.objects)
        self._schema = target.as_made(self._schema, introspect(self.connection))

    @contextlib.contextmanager
    def _making(self, what: str) -> Iterator[None]:
        """A context for the model's DDL, which must not change transaction, settings or role.

        A TargetError if it makes temporary objects. If the server refuses something that it may be
        too old for, the error's remedy says so.
        """
        here = major_version(self.connection)
        try:
            before = self._state()
            yield
            self._require(before)
            if self._state()[-1] != before[-1]:
                raise TargetError(
                    "the model's DDL makes temporary objects, which could stand in for the "
                    "system's.",
                    remedy="Trust nothing that this model has made.",
                )
        except psycopg.Error as error:
            found = translate(error, f"making {what}")
            unknown = type(found) is DatabaseError and str(error.sqlstate)[:2] in _UNKNOWN
            if unknown and here < self._major:
                found.remedy = (
                    f"The target is PostgreSQL {here}, the source {self._major}: an older server "
                    f"may not know this, so take one of {self._major} or later."
                )
            raise found from None

    def _extend(self) -> None:
        """Extensions; those that only the text of functions may need if the server has them."""
        for extension in self._script.extensions:
            space = extension.schema
            if space is not None and not space.startswith("pg_"):
                run(self.connection, build("CREATE SCHEMA IF NOT EXISTS {}", space))
            if extension.needed:
                self._run_all([extension.text])
                continue
            try:
                with self.connection.transaction():
                    self._run_all([extension.text])
            except psycopg.Error as error:
                said = describe(error)
                if self.connection.closed:
                    raise TargetError(f"the server broke off at {extension.text}: {said}") from None
                self.lost.append(f"left out, since the server refuses it: {extension.text}: {said}")

    def _constrain(self) -> None:
        """Indexes, constraints and triggers, in order; foreign keys are among the last of them."""
        texts = self._script.constraints
        first = next((at for at, text in enumerate(texts) if "FOREIGN KEY" in text), len(texts))
        self._run_all(texts[:first])
        run(self.connection, _MEMORY)
        self._run_all(texts[first:])

    def _run_all(self, texts: Iterable[str]) -> None:
        for text in texts:
            run(self.connection, text.encode())

    def _protect(self) -> list[str]:
        """Row-level security, last: it would hide rows from the load. Lines of what is left out."""
        absent = []
        for statement in self._script.row_security:
            try:
                with self.connection.transaction():
                    self._run_all([statement])
            except psycopg.errors.UndefinedObject:
                # Without it rows are hidden from more users, never from fewer.
                policy = "".join(statement.partition("CREATE POLICY ")[1:])
                absent.append(f"left out, since it names a role that is not here: {policy}")
        return absent

    def _empty(self, table: Table) -> None:
        """Begin a table anew where another transaction may have filled it, or run its sequences."""
        if self._mark is not None:
            run(self.connection, build("TRUNCATE {} RESTART IDENTITY", source(table)))
