"""Copy files into a temporary PostgreSQL server for as long as one command needs them.

The server is started once in a process and goes with the process
(`privbench.postgres.embedded.Lifeline`). It listens on a socket in a folder that only its account
can enter. A copy has no identity of its own in the ledger: this process remembers the server, and
to others the role that reads a copy may not tell the system identifier.
"""

import contextlib
import logging
import os
import secrets
from collections.abc import Iterator
from functools import cache
from threading import Lock
from typing import Any, LiteralString

import psycopg
from psycopg import conninfo, errors, sql

from privbench.config import Config
from privbench.errors import DatabaseError, SchemaError
from privbench.postgres import embedded
from privbench.postgres.connect import COPIES, Connection, connect
from privbench.postgres.copy_in import copy_rows
from privbench.postgres.failures import database_errors, translate
from privbench.postgres.finishing import vacuum
from privbench.postgres.statement import build
from privbench.schema import TableName
from privbench.sources.files import Files, FileTable, is_file
from privbench.sources.keys import settle
from privbench.sources.types import element_type, postgres_type

logger = logging.getLogger(__name__)

_SETTINGS = {**embedded.FAST, "maintenance_work_mem": "256MB", "max_wal_size": "4GB"}
_starting = Lock()
#: The role that reads a copy. It may only SELECT, so that no query of a workload can do more.
_READER = "reader"
#: The errors of rows that violate a key.
_BROKEN = (errors.UniqueViolation, errors.NotNullViolation, errors.ForeignKeyViolation)
#: The errors of values that a type does not hold, the last two those of deeply nested ones.
_NOT_HELD = (psycopg.DataError, errors.ProgramLimitExceeded, errors.StatementTooComplex)
_STAGE = sql.Identifier("pg_temp", "privbench stage")
_HELD: LiteralString = """
CREATE OR REPLACE FUNCTION pg_temp.held(value text, kind anyelement) RETURNS anyelement
LANGUAGE plpgsql AS $$
BEGIN
  kind := value;
  RETURN kind;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
  RETURN NULL;
END
$$
"""
_HELD_VALUE: LiteralString = "pg_temp.held({column}, NULL::{kind})"
_HELD_LIST: LiteralString = """
CASE WHEN {column} IS NOT NULL
  THEN ARRAY(SELECT pg_temp.held(element, NULL::{kind}) FROM unnest({column}) element) END
"""


@contextlib.contextmanager
def staged(source: str, config: Config, *, rows: bool = True) -> Iterator[str]:
    """Give the DSN of a PostgreSQL database with the content of the source.

    The DSN of a PostgreSQL source is returned as it is. Files, whose keys the config may declare,
    are copied, and the copy is dropped at the end. Without ``rows`` it has only tables and keys.

    Raises:
        UsageError: DuckDB or a PostgreSQL to copy into is not installed.
        ConfigError: The config names what the files do not hold.
        SchemaError: A type has no counterpart, or rows violate a key; the message holds no value.
        DatabaseError: The files cannot be read.
    """
    if not is_file(source):
        yield source
        return
    with contextlib.ExitStack() as stack:
        with Files(source) as files:
            if files.views:
                logger.info("views are not read: %s", ", ".join(map(str, files.views)))
            tables = settle(files.tables, config.source)
            for table in tables:
                _require_types(table)
            if rows:
                logger.info("the files are copied into a PostgreSQL of privbench's own")
            dsn = stack.enter_context(_database())
            _fill(dsn, files if rows else None, tables)
        yield conninfo.make_conninfo(dsn, user=_READER)


def _require_types(table: FileTable) -> None:
    """Refuse a table without columns, or with one of a type that PostgreSQL lacks."""
    for name, kind in table.columns.items():
        if postgres_type(kind) is None:
            raise SchemaError(
                f"its type {kind.partition('(')[0]} has no counterpart in PostgreSQL.",
                table=table.key,
                column=name,
                remedy="Leave it out in the config, leave_out under "
                f"[source.tables.'{table.key}'], or write the file anew with a column of another "
                "type.",
            )
    if not table.columns:
        raise SchemaError("no column of it is left to read.", table=table.key)


@contextlib.contextmanager
def _database() -> Iterator[str]:
    """An empty database of the server, dropped at the end."""
    with _starting:
        server = _server(os.getpid())
    name = f"files_{secrets.token_hex(8)}"
    with (
        database_errors("making a database for the files"),
        connect(server.dsn, autocommit=True) as admin,
    ):
        admin.execute(build("CREATE DATABASE {} TEMPLATE template0", name))
    try:
        yield conninfo.make_conninfo(server.dsn, dbname=name)
    finally:
        # If anything fails here, the lifeline removes the server.
        with (
            contextlib.suppress(psycopg.Error, DatabaseError),
            connect(server.dsn, autocommit=True) as admin,
        ):
            admin.execute(build("DROP DATABASE {} WITH (FORCE)", name))


@cache
def _server(process: int) -> embedded.Server:
    """The server of this process."""
    server = embedded.any_server(_SETTINGS)
    COPIES.add(str(conninfo.conninfo_to_dict(server.dsn)["host"]))
    with (
        database_errors("making the role that reads"),
        connect(server.dsn, autocommit=True) as admin,
    ):
        admin.execute(build("CREATE ROLE {} LOGIN", _READER))
    return server


def _fill(dsn: str, files: Files | None, tables: list[FileTable]) -> None:
    """Make tables, copy rows and add keys in one transaction, so that rows are frozen."""
    with database_errors("copying the files"), connect(dsn) as connection:
        connection.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        schemas = sorted({table.name.schema for table in tables})
        for schema in schemas:
            if schema != "public":
                connection.execute(build("CREATE SCHEMA {}", schema))
        for table in tables:
            _create(connection, table)
        if files is not None:
            for table in tables:
                _copy(connection, files, table)
        _add_keys(connection, tables)
        for schema in schemas:
            connection.execute(build("GRANT USAGE ON SCHEMA {} TO {}", schema, _READER))
            granted = build("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}", schema, _READER)
            connection.execute(granted)
        connection.commit()
    if files is not None:
        with database_errors("gathering statistics"), connect(dsn, autocommit=True) as connection:
            vacuum(connection, [table.name for table in tables], None, analyze=True)


def _add_keys(connection: Connection, tables: list[FileTable]) -> None:
    """Add the keys: primary and unique keys first, since foreign keys refer to them."""
    for table in tables:
        for name in table.not_null:
            _add_key(connection, table.name, "ALTER {} SET NOT NULL", name)
        for columns in table.unique:
            _add_key(connection, table.name, "ADD UNIQUE ({})", columns)
        if table.primary:
            _add_key(connection, table.name, "ADD PRIMARY KEY ({})", table.primary)
    for table in tables:
        for key in table.foreign:
            goes = key.columns, key.ref_table, key.ref_columns
            _add_key(connection, table.name, "ADD FOREIGN KEY ({}) REFERENCES {} ({})", *goes)


def _create(connection: Connection, table: FileTable) -> None:
    columns = [
        build("{} {}", name, sql.SQL(str(postgres_type(kind))))
        for name, kind in table.columns.items()
    ]
    with database_errors("making a table", table.key):
        connection.execute(build("CREATE TABLE {} ({})", table.name, columns))


def _copy(connection: Connection, files: Files, table: FileTable) -> None:
    """Copy the rows of a table; what PostgreSQL's types do not hold becomes NULL.

    The types themselves decide, each value and each element of a list alone: no rule here could
    differ from theirs, and no row refuses others. That is slow, and done only if the rows cannot be
    copied as they are.
    """
    names, named = list(table.columns), build("{}", table.name)
    with contextlib.suppress(*_NOT_HELD), connection.transaction():
        connection.execute(build("TRUNCATE {}", table.name))  # FREEZE needs it
        copy_rows(connection, named, names, files.batches(table), freeze=True)
        return
    _copy_held(connection, files, table)


def _copy_held(connection: Connection, files: Files, table: FileTable) -> None:
    """Copy the rows through a table of texts."""
    texts, expressions = [], []
    for name, kind in table.columns.items():
        element = element_type(kind)
        texts.append(build("{} text[]" if element else "{} text", name))
        expressions.append(
            build(
                _HELD_LIST if element else _HELD_VALUE,
                column=name,
                kind=sql.SQL(str(postgres_type(element or kind))),
            )
        )
    names = list(table.columns)
    connection.execute(_HELD)
    connection.execute(build("CREATE TEMPORARY TABLE {} ({})", _STAGE, texts))
    copy_rows(connection, _STAGE, names, files.batches(table))
    filled = "INSERT INTO {} ({}) SELECT {} FROM {}"
    connection.execute(build(filled, table.name, names, expressions, _STAGE))
    connection.execute(build("DROP TABLE {}", _STAGE))


def _add_key(connection: Connection, table: TableName, kind: LiteralString, *of: Any) -> None:
    """Add a key, or NOT NULL; a SchemaError if rows violate it."""
    try:
        connection.execute(build("ALTER TABLE {} " + kind, table, *of))
    except _BROKEN:
        names = of[0] if isinstance(of[0], str) else ", ".join(of[0])
        raise SchemaError(
            f"its rows break what is declared: {kind.partition(' REF')[0].format(names)}.",
            table=str(table),
            remedy="Repair the rows, or the declaration.",
        ) from None
    except psycopg.Error as error:
        raise translate(error, "adding a key", str(table)) from None
