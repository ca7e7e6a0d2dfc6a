"""Load a clone: schema, rows, keys, indexes, sequences and statistics, all or nothing."""

import contextlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import LiteralString

import psycopg
import pyarrow as pa
from psycopg import errors

from privbench.errors import DatabaseError, TargetError
from privbench.pgsql.ddl import head
from privbench.postgres import copy_in, finishing, target
from privbench.postgres.connect import Connection, major_version, psql
from privbench.postgres.ddl import Ddl
from privbench.postgres.failures import database_errors, describe, translate
from privbench.postgres.introspect import introspect
from privbench.postgres.load_mark import PARTS, Mark, refuse_unfinished
from privbench.postgres.locks import lock
from privbench.postgres.statement import build, run, source
from privbench.postgres.transaction import TargetTransaction
from privbench.schema import Schema, Table, TableName

logger = logging.getLogger(__name__)


#: SQLSTATE classes (feature, parameter, syntax or name) of errors that an old server may raise
#: because it lacks a feature.
_UNKNOWN = ("0A", "22", "42")
#: Sets the memory for checking a foreign key: the server's own setting, or if that is smaller, the
#: size of its shared buffers up to 1 GB. A check of 36 million rows then takes 4.2 s instead of
#: 6.4 s. An index over keys in random order is faster with the server's 64 MB: 11.5 s, not 13.9 s.
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
#: The key of the advisory lock of loads: any number that nobody else is likely to lock.
_LOCK = 0x70726976_6C6F6164
_HOLDER: LiteralString = """
SELECT l.pid FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d ON d.oid = l.database
WHERE l.locktype = 'advisory' AND l.granted AND d.datname = pg_catalog.current_database()
  AND l.classid::bigint = {} AND l.objid::bigint = {} AND l.objsubid = 1
"""


#: Statements that make an index which rows may not fit, or that are of some index.
_OF_INDEX = re.compile(
    r"CREATE (?:UNIQUE )?INDEX |ALTER INDEX |"
    r"ALTER TABLE .*? (?:EXCLUDE|CLUSTER ON|REPLICA IDENTITY USING INDEX) ",
    re.DOTALL,
)


class Loader(TargetTransaction):
    """One transaction that fills a target database.

    Enter it, copy the tables in any order, call `finish`. Until `finish` returns, the target is
    unchanged: an error, a lost connection or a killed process leave nothing behind. With a mark
    there are two transactions: `publish` commits the empty schema and the mark, `finish` all the
    rest, and between them other transactions copy parts of tables.

    Args:
        dsn: The target; see `privbench.postgres.connect`.
        schema: The clone's schema.
        ddl: Its DDL.
        replace: Drop all objects of users in the target, in the same transaction.
        source: A connection to the source, so that a target which is the source is refused.
        progress: Called at every step.
        trust: Run all of the DDL, programs included; else only statements on the allow-list.
        as_role: Become this role before any text of the model runs, see `target.become`.
        mark: The mark of a load part by part, with its seed. If the target has this mark, its load
            is continued.

    Attributes:
        connection: The connection, which is in the transaction.
        lost: Parts of the schema that the target lacks, a line each; complete after `finish`.

    Raises:
        ModelError: The schema and its DDL do not fit.
        TargetError: The target is the source, is not empty, lacks an extension, or is being loaded.
    """

    def __init__(
        self,
        dsn: str,
        schema: Schema,
        ddl: Ddl,
        *,
        replace: bool = False,
        source: Connection | None = None,
        progress: Callable[[str, int | None], None] | None = None,
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
        """Return the table as the target's catalog states it.

        Raise a SchemaError if it is missing.
        """
        return self._schema.table(table.name if isinstance(table, Table) else table)

    def copy_table(
        self,
        table: Table | str,
        columns: Sequence[str],
        batches: Iterable[pa.RecordBatch | pa.Table],
    ) -> int:
        """Copy rows into a table, and return their number.

        Rows of a partitioned table find their partition. Columns that are missing from the batches
        get their defaults; the batches must not have generated columns.

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
        arguments = self.connection, build("{}", table.name), columns, batches, kinds
        self._progress(f"copy {table.key}", 0)
        with database_errors("loading rows", table.key):
            self._empty(table)
            if any(column.generated == "s" for column in table.columns):
                rows = copy_in.copy_through_stage(*arguments)
            else:
                # The table was made or emptied in this transaction, so its pages may be written as
                # frozen and visible, like those of a vacuumed table. PostgreSQL cannot do that for
                # rows that are copied into a partitioned table.
                rows = copy_in.copy_rows(*arguments, freeze=table.kind == "r")
        self._progress(f"copy {table.key}", rows)
        return rows

    @contextlib.contextmanager
    def emptied(self) -> Iterator[None]:
        """Give a context in which the tables exist and are empty, as when the load began.

        If a load is continued, the tables are created anew and restored afterwards, so that
        properties of the empty schema are read in the same way as in a new load.
        """
        if not self._resumed:
            yield
            return
        with self.connection.transaction(force_rollback=True):
            target.drop_contents(self.connection, target.contents(self.connection))
            self._make()
            yield

    def publish(self) -> None:
        """Commit the empty schema with its mark, and begin the transaction that finishes the load.

        The locks of that transaction keep others from replacing the load's tables by tables whose
        triggers would run as the role of the load. Tables of another role are a TargetError.
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
            parameters = {"schemas": [n.schema for n in names], "names": [n.name for n in names]}
            strange = run(self.connection, _STRANGE, parameters).fetchone()
        if strange:
            raise TargetError(
                f"{strange[0]} in the target belongs to another role than the one that loads.",
                remedy="Go on as the role that began, or say --replace to begin anew.",
            )

    def without_values(self, table: Table) -> list[str]:
        """Return nullable xml columns, which get NULL if the server lacks support for xml."""
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
        """Add rows whose columns all have their defaults; the table may have no columns at all."""
        added = "INSERT INTO {} SELECT FROM pg_catalog.generate_series(1, {})"
        with database_errors("loading rows", table.key):
            self._empty(self.table(table))
            return run(self.connection, build(added, table.name, count)).rowcount

    @contextlib.contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Give a context in which the indexes and constraints exist.

        They are rolled back after it.
        """
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
        """Create indexes, constraints and triggers, then complete and commit the load.

        It moves sequences, fills views, runs ANALYZE, commits, and runs VACUUM. A relation that
        cannot be vacuumed is logged: the load stays committed, with its statistics. Raises a
        TargetError if the transaction of the load was ended by something else.
        """
        self._progress("indexes and constraints", None)
        with self._making("indexes and constraints"):
            self._constrain(full=True)
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
        finishing.name_clone(self.connection)
        self.lost += [line for line in (*empty, *protected) if line not in self.lost]
        for line in self.lost:
            logger.warning("%s", line)
        if self._mark is not None:
            self._mark.remove(self.connection)
        # The DDL of a trusted model may have made the mark, which would keep every reader away.
        refuse_unfinished(self.connection)
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
        contents = target.contents(self.connection)
        if replace:
            target.drop_contents(self.connection, contents)
        elif self._mark is not None and self._mark.found(self.connection):
            self._resumed = True
            return
        else:
            refuse_unfinished(self.connection)
            target.refuse_contents(contents)
        self._make()

    def _lock(self) -> None:
        """Keep other loads out until the transaction ends; refuse a server without extensions."""
        with database_errors("preparing the target"):
            locked = build("SELECT WHERE pg_catalog.pg_try_advisory_xact_lock({}::bigint)", _LOCK)
            alone = run(self.connection, locked).rowcount
        if not alone:
            self._refuse_other()
        spaces = {name: space for name, space, _ in self._script.extensions if space}
        target.refuse_missing_extensions(self.connection, self._needed, spaces)

    def _refuse_other(self) -> None:
        """Refuse a target that another load is filling, perhaps one that was killed."""
        with database_errors("asking which load is running"):
            query = build(_HOLDER, _LOCK >> 32, _LOCK & 0xFFFFFFFF)
            holder = run(self.connection, query).fetchone()
        if holder is None:
            raise TargetError("another load into this database was running.", remedy="Try again.")
        end = psql(self.connection, f"SELECT pg_catalog.pg_terminate_backend({holder[0]})")
        raise TargetError(
            f"another load into this database is running, as server process {holder[0]}.",
            remedy=f"Wait for it, or if nobody waits for it any more, end it: {end}",
        )

    def _make(self) -> None:
        """Make the empty tables."""
        self._progress("schema", None)
        with self._making("the schema"):
            # The schema is made only if it is missing: a role may lack the right to make schemas.
            if run(self.connection, _NO_PUBLIC).fetchone():
                run(self.connection, "CREATE SCHEMA public")
            self._extend()
            self._run_all(self._script.objects)
        self._schema = target.as_made(self._schema, introspect(self.connection))

    @contextlib.contextmanager
    def _making(self, what: str) -> Iterator[None]:
        """A context for the model's DDL, which must not change transaction, settings or role.

        Raises a TargetError if the DDL makes temporary objects. If the server may be too old for a
        statement that it refuses, the remedy of the error says so.
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
            translated = translate(error, f"making {what}")
            unknown = type(translated) is DatabaseError and str(error.sqlstate)[:2] in _UNKNOWN
            if unknown and here < self._major:
                translated.remedy = (
                    f"The target is PostgreSQL {here}, the source {self._major}: an older server "
                    f"may not know this, so take one of {self._major} or later."
                )
            raise translated from None

    def _extend(self) -> None:
        """Make the extensions; those that only texts of functions may need are optional."""
        for name, space, text in self._script.extensions:
            if space is not None and not space.startswith("pg_"):
                run(self.connection, build("CREATE SCHEMA IF NOT EXISTS {}", space))
            if name in self._needed:
                self._run_all([text])
                continue
            try:
                with self.connection.transaction():
                    self._run_all([text])
            except psycopg.Error as error:
                reason = describe(error)
                if self.connection.closed:
                    raise TargetError(f"the server broke off at {text}: {reason}") from None
                self.lost.append(f"left out, since the server refuses it: {text}: {reason}")

    def _constrain(self, *, full: bool = False) -> None:
        """Make indexes, constraints and triggers in order, foreign keys with more memory.

        If the tables are ``full``, an index on an expression or a range that some row does not fit
        is left out, with what is said of it afterwards, rather than the load lost.
        """
        texts = self._script.constraints
        first = next((at for at, text in enumerate(texts) if "FOREIGN KEY" in text), len(texts))
        for text in texts[:first]:
            if full and _OF_INDEX.match(text):
                self._make_index(text)
            else:
                self._run_all([text])
        run(self.connection, _MEMORY)
        self._run_all(texts[first:])

    def _make_index(self, text: str) -> None:
        """Run a statement of an index, which is left out and named if rows do not fit it."""
        try:
            with self.connection.transaction():
                self._run_all([text])
        except finishing.UNFIT as error:
            why = f"left out, since rows of the clone do not fit it: {head(text)}"
            self.lost.append(f"{why}: {describe(error)}")
        except (errors.UndefinedObject, errors.UndefinedTable):
            # What is said of an index that was left out goes with it.
            if text.startswith("CREATE") or " EXCLUDE " in text:
                raise

    def _run_all(self, texts: Iterable[str]) -> None:
        for text in texts:
            run(self.connection, text.encode())

    def _protect(self) -> list[str]:
        """Enable row-level security as the last step, as it hides rows; return what is left out."""
        absent = []
        for statement in self._script.row_security:
            try:
                with self.connection.transaction():
                    self._run_all([statement])
            except psycopg.errors.UndefinedObject:
                # Without a policy, rows are hidden from more users, never from fewer.
                policy = "".join(statement.partition("CREATE POLICY ")[1:])
                absent.append(f"left out, since it names a role that is not here: {policy}")
        return absent

    def _empty(self, table: Table) -> None:
        """Empty a table, and reset its sequences, if another transaction may have filled it."""
        if self._mark is not None:
            run(self.connection, build("TRUNCATE {} RESTART IDENTITY", source(table)))
