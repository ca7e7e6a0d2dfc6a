"""Load a clone: schema, rows, keys, indexes, sequences and statistics."""

import contextlib
import logging
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import LiteralString

import psycopg
import pyarrow as pa
from psycopg import errors

from privbench.errors import DatabaseError, TargetError
from privbench.pgsql.ddl import head
from privbench.pgsql.judge import relation_name
from privbench.postgres import copy_in, finishing, target
from privbench.postgres.connect import Connection, major_version, psql
from privbench.postgres.ddl import Ddl
from privbench.postgres.failures import database_errors, describe, translate
from privbench.postgres.introspect import introspect
from privbench.postgres.load_mark import (
    STEPS,
    LoadStep,
    Mark,
    guard,
    once,
    refuse_crashed,
    refuse_unfinished,
    spread_steps,
)
from privbench.postgres.reading import assignment
from privbench.postgres.statement import build, run
from privbench.postgres.transaction import TargetTransaction
from privbench.schema import Schema, Table, TableName
from privbench.threads import JOBS, cores

logger = logging.getLogger(__name__)


#: SQLSTATE classes (feature, parameter, syntax or name) of errors that an old server may raise
#: because it lacks a feature.
_UNKNOWN = ("0A", "22", "42")
#: Sets the memory for checking a foreign key: the server's own setting, or if that is smaller, the
#: part of one connection in the size of its shared buffers up to 1 GB. A check of 36 million rows
#: then takes 4.2 s instead of 6.4 s. An index over keys in random order is faster with the server's
#: 64 MB: 11.5 s, not 13.9 s.
_MEMORY: LiteralString = """
SELECT pg_catalog.set_config('maintenance_work_mem', pg_catalog.concat(greatest(
    (SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = 'maintenance_work_mem'),
    least(1048576, (SELECT setting::bigint * 8 FROM pg_catalog.pg_settings
      WHERE name = 'shared_buffers')) / {}), 'kB'), true)
"""
_NO_PUBLIC: LiteralString = """
SELECT 1 WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'public')
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
#: Constraints that PostgreSQL keeps by an index.
_BY_INDEX = frozenset({"CONSTR_PRIMARY", "CONSTR_UNIQUE", "CONSTR_EXCLUSION"})
#: Most connections, unless the user says how many. Rows are decoded in one process, each connection
#: keeps some 20 MiB of them, and a server's connections are few. On two cores four take
#: 4 % more processor time than two.
_CONNECTIONS = 4
_SIZES: LiteralString = """
SELECT n.nspname, c.relname, pg_catalog.pg_relation_size(c.oid)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r'
"""
_MAY_MARK: LiteralString = """
SELECT WHERE pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')
"""


class Loader(TargetTransaction):
    """A load into a target database: one transaction, or with a mark one for each of its steps.

    Enter it, copy the tables in any order, call `finish`. Until `finish` returns, the target is
    unchanged: an error, a lost connection or a killed process leave nothing behind. With a mark,
    `publish` commits the empty schema and the mark. From then on `run` does steps by several
    connections at once, each in a transaction of its own, while that of this connection keeps other
    loads out; `finish` removes the mark.

    Args:
        dsn: The target; see `privbench.postgres.connect`.
        schema: The clone's schema.
        ddl: Its DDL.
        replace: Drop all objects of users in the target, in the same transaction.
        source: A connection to the source, so that a target which is the source is refused.
        progress: Called at every step.
        trust: Run all of the DDL, programs included; else only statements on the allow-list.
        as_role: Become this role before any text of the model runs, see `target.become`.
        mark: The mark of a load in several transactions, with its seed. If the target has this
            mark, its load is continued.

    Attributes:
        connection: The connection, which is in the transaction.
        lost: Parts of the schema that the target lacks, a line each; complete after `finish`.
        mark: The mark; None for a load in one transaction.

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
        self._dsn, self._others = dsn, list[TargetTransaction]()
        self._schema = schema
        self._script, self._needed = ddl.script(trust=trust), ddl.extensions
        self._major = schema.server_version // 10000
        self.mark, self._resumed, self._many_indexes = mark, False, False
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
        """Copy rows into a table by this connection, see `copy_in.copy_table`."""
        table = self.table(table)
        self._progress(f"copy {table.key}", 0)
        rows = copy_in.copy_table(self.connection, table, columns, batches) if columns else 0
        self._progress(f"copy {table.key}", rows)
        return rows

    def close(self) -> None:
        """Roll back what is open, and disconnect."""
        for other in self._others:
            other.close()
        super().close()

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
        """Commit the empty schema with its mark, and open the connections for steps.

        If the role may not make the mark, or the server takes no second connection, a line of the
        log says so, and the load is one transaction.
        """
        if self.mark is None:
            return
        reason = (
            ""
            if self._resumed or run(self.connection, _MAY_MARK).rowcount
            else ("the role may not make a schema for the mark of an unfinished load")
        )
        reason = reason or self._open()
        if reason and self._resumed:
            raise TargetError(f"an unfinished load needs two connections: {reason}")
        if reason:
            logger.warning("the load is one transaction: %s", reason)
            self.mark = None
            return
        if not self._resumed:
            self.mark.make(self.connection)
            self.commit()
            self.begin()
        guard(self.connection, [STEPS])
        refuse_crashed(self.connection)

    def _open(self) -> str:
        """Open further connections; return why there is none, or ''."""
        wanted, reason = JOBS.get() or min(cores(), _CONNECTIONS), ""
        try:
            while len(self._others) < wanted:
                other = TargetTransaction(self._dsn, self._role)
                self._others.append(other)
                # So a pooler gives it a session that no other one has.
                other.begin()
        except DatabaseError as error:
            reason = error.message
            logger.warning("%d connections, not %d: %s", len(self._others), wanted, reason)
        for other in self._others:
            other.connection.rollback()
        return "" if self._others else reason

    def run(self, steps: Iterable[LoadStep]) -> Generator[tuple[LoadStep, str]]:
        """Do steps, large ones first, by the connections that `publish` has opened.

        Yields each with its result.
        """
        ordered = sorted(steps, key=lambda step: -step.size)
        if self.mark is None or not self._others:
            return ((step, step.work(self)) for step in ordered)
        return spread_steps(self._others, self.mark, ordered)

    def alone(self, step: LoadStep) -> str:
        """Do a step by this connection, while no other works; return its result."""
        if self.mark is None:
            return step.work(self)
        guard(self.connection, [table.name for table in self._schema])
        (result,) = once(self, self.mark, [step])
        self.begin()
        return result

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
                for steps in self._constraints():
                    for step in steps:
                        step.work(self)
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
            for steps in self._constraints(full=True):
                self.lost += [result for _, result in self.run(steps) if result]
        self._progress("analyze", None)
        tables = [table.name for table in self._schema]
        with database_errors("gathering statistics"):
            sizes = self._sizes()
            for _ in self.run(_analysis(name, sizes.get(name, 0)) for name in tables):
                pass
        if self.mark is not None:
            guard(self.connection, [STEPS, *tables])
        self._progress("sequences", None)
        finishing.move_sequences(self.connection, self._schema)
        views, empty = finishing.fill_views(self.connection, self._progress)
        if views:
            with database_errors("gathering statistics"):
                run(self.connection, build("ANALYZE {}", views))
        with self._making("policies"):
            protected = self._protect()
        finishing.name_clone(self.connection)
        self.lost += [line for line in (*empty, *protected) if line not in self.lost]
        for line in self.lost:
            logger.warning("%s", line)
        if self.mark is not None:
            self.mark.remove(self.connection)
        # The DDL of a trusted model may have made the mark, which would keep every reader away.
        refuse_unfinished(self.connection)
        self.commit()
        self._progress("vacuum", None)
        skipped = finishing.vacuum(
            self.connection, [*tables, *views], self._role, analyze=self.mark is None
        )
        if skipped:
            listed = ", ".join(map(str, skipped))
            logger.warning("the clone is complete, but these could not be vacuumed: %s", listed)

    def _prepare(self, replace: bool, source: Connection | None) -> None:
        with database_errors("preparing the target"):
            target.refuse_source(self.connection, source)
        self.begin()
        contents = target.contents(self.connection)
        if replace:
            target.drop_contents(self.connection, contents)
        elif self.mark is not None and self.mark.found(self.connection):
            self._resumed = True
            return
        else:
            refuse_unfinished(self.connection)
            target.refuse_contents(contents)
        self._make()

    def _enter(self) -> None:
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
        """Guard the DDL that is run within, by `keeping`, and translate errors of the server.

        ``what`` completes "making …" in the error. If the server is older than the source's and
        may not know the statement, the error's remedy says so.
        """
        here = major_version(self.connection)
        try:
            with self.keeping():
                yield
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

    def _constraints(self, *, full: bool = False) -> list[list[LoadStep]]:
        """The steps that make indexes, then what may name these, then foreign keys, their checks.

        If the tables are ``full``, an index on an expression or a range that some row does not fit
        is left out, with what is said of it afterwards, rather than the load lost.
        """
        groups: list[list[LoadStep]] = [[], [], [], []]
        indexes, others, keys, checks = groups
        make, sizes = self._make_index if full else self._make_one, self._sizes()
        tables = self._script.partitioned.union(sizes)
        for number, statement in enumerate(self._script.constraints):
            text, tree = statement.text, statement.tree
            nodes = [*tree.walk()]
            names = [relation_name(node) for node in nodes if node.kind == "RangeVar"]
            places = tables.intersection(TableName(*name) for name in names if len(name) == 2)
            constraints = [node for node in nodes if node.kind == "Constraint"]
            kinds = {node.get("contype") for node in constraints}
            name, index = f"statement {number}", tree.kind == "IndexStmt"
            size = max((sizes.get(place, 0) for place in places), default=0)
            if index or kinds & _BY_INDEX:
                indexes.append(LoadStep(name, partial(make, text), places, index, size))
                continue
            if kinds != {"CONSTR_FOREIGN"}:
                # These take little time, and one may depend on another.
                others.append(LoadStep(name, partial(make, text), places | {STEPS}))
                continue
            table = TableName(*relation_name(tree.nodes("relation")[0]))
            # PostgreSQL before 18 checks later only the key itself, not its parts for partitions.
            parted = not places.isdisjoint(self._script.partitioned)
            if constraints[0].get("skip_validation") or parted:
                checks.append(LoadStep(name, partial(self._check, text), places, size=size))
                continue
            # A key that is checked later keeps others from the table that it refers to only for a
            # moment.
            keys.append(LoadStep(name, partial(self._make_one, f"{text} NOT VALID"), places))
            validated = "ALTER TABLE {} VALIDATE CONSTRAINT {}"
            check = build(validated, table, str(constraints[0].get("conname"))).as_string()
            work = partial(self._check, check)
            checks.append(LoadStep(f"check of {name}", work, frozenset([table]), size=size))
        self._many_indexes = len(indexes) > len(self._others) > 0
        return groups

    def _sizes(self) -> dict[TableName, int]:
        """The bytes of tables and partitions."""
        listed = run(self.connection, _SIZES).fetchall()
        return {TableName(schema, name): size for schema, name, size in listed}

    def _make_one(self, text: str, transaction: TargetTransaction) -> str:
        with transaction.keeping():
            run(transaction.connection, text.encode())
        return ""

    def _check(self, text: str, transaction: TargetTransaction) -> str:
        """Run a statement that checks a foreign key, with more memory."""
        run(transaction.connection, build(_MEMORY, max(1, len(self._others))))
        return self._make_one(text, transaction)

    def _make_index(self, text: str, transaction: TargetTransaction) -> str:
        """Run a statement; one of an index is left out and named if rows do not fit it."""
        try:
            with transaction.connection.transaction():
                if self._many_indexes:
                    # One process an index takes 6 % less processor time in all.
                    one = assignment("max_parallel_maintenance_workers", "0")
                    run(transaction.connection, one)
                return self._make_one(text, transaction)
        except finishing.UNFIT as error:
            if not _OF_INDEX.match(text):
                raise
            why = f"left out, since rows of the clone do not fit it: {head(text)}"
            return f"{why}: {describe(error)}"
        except (errors.UndefinedObject, errors.UndefinedTable):
            # What is said of an index that was left out goes with it.
            if not _OF_INDEX.match(text) or text.startswith("CREATE") or " EXCLUDE " in text:
                raise
            return ""

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


def _analysis(name: TableName, size: int) -> LoadStep:
    """The step that gathers a table's statistics."""

    def work(transaction: TargetTransaction) -> str:
        run(transaction.connection, build("ANALYZE {}", name))
        return ""

    return LoadStep(f"statistics of {name}", work, frozenset([name]), size=size)
