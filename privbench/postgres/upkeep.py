"""ANALYZE within a load, VACUUM after it."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.schema import TableName

_FLUSHES = 150_000


def analyze(connection: Connection, names: Sequence[TableName]) -> None:
    """Gather the planner's statistics of relations, in the transaction there is.

    Raises:
        psycopg.Error: The server refused.
    """
    if names:
        listed = sql.SQL(", ").join(map(_quoted, names))
        connection.execute(sql.SQL("ANALYZE {}").format(listed))


def vacuum(connection: Connection, names: Sequence[TableName]) -> list[TableName]:
    """Leave autovacuum nothing to do, so that queries do the same work now as later.

    COPY and mending leave empty pages and pages that are not marked visible, and to autovacuum a
    table has changed though it was analysed in the transaction that filled it. VACUUM runs in no
    transaction but its own, so the load must be committed; the connection is left in autocommit.

    Returns:
        Relations that could not be vacuumed; they keep what `analyze` gathered.
    """
    try:
        connection.autocommit = True
        connection.execute("SET statement_timeout TO 0")
        # VACUUM leaves rows unmarked while a commit next to theirs is not on disk.
        connection.execute("SET synchronous_commit TO on")
        if connection.info.server_version >= _FLUSHES:
            # Else the load's own changes may be counted after VACUUM has set the count to 0.
            connection.execute("SELECT pg_catalog.pg_stat_force_next_flush()")
    except psycopg.Error:
        return list(names)
    return [name for name in names if not _vacuumed(connection, name)]


def _vacuumed(connection: Connection, name: TableName) -> bool:
    try:
        connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(_quoted(name)))
    except psycopg.Error:
        return False
    return True


def _quoted(name: TableName) -> sql.Identifier:
    return sql.Identifier(name.schema, name.name)
