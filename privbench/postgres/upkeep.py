"""ANALYZE within a load, VACUUM after it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import psycopg
from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.statement import run
from privbench.schema import TableName

_FLUSHES = 150_000


def analyze(connection: Connection, names: Sequence[TableName]) -> None:
    """Gather the planner's statistics of relations, in the transaction there is.

    Raises:
        psycopg.Error: The server refused.
    """
    if names:
        listed = sql.SQL(", ").join(map(_quoted, names))
        run(connection, sql.SQL("ANALYZE {}").format(listed))


def vacuum(
    connection: Connection, names: Sequence[TableName], role: str | None = None
) -> list[TableName]:
    """Leave autovacuum nothing to do, so that queries do the same work now as later.

    COPY and mending leave empty pages and pages that are not marked visible, and to autovacuum a
    table has changed though it was analysed in the transaction that filled it. VACUUM runs in no
    transaction but its own, so the load must be committed; the connection is left in autocommit.

    Args:
        connection: After the commit.
        names: What to vacuum.
        role: The role that loaded.

    Returns:
        Relations that could not be vacuumed; they keep what `analyze` gathered.
    """
    try:
        connection.autocommit = True
        run(connection, "SET search_path TO ''")
        run(connection, "SET statement_timeout TO 0")
        # VACUUM leaves rows unmarked while a commit next to theirs is not on disk.
        run(connection, "SET synchronous_commit TO on")
        if role is not None:
            run(connection, sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
        if connection.info.server_version >= _FLUSHES:
            # Else the load's own changes may be counted after VACUUM has set the count to 0.
            run(connection, "SELECT pg_catalog.pg_stat_force_next_flush()")
    except psycopg.Error:
        return list(names)
    skipped = [name for name in names if not _vacuumed(connection, name)]
    with contextlib.suppress(psycopg.Error):
        run(connection, "RESET ROLE")
    return skipped


def _vacuumed(connection: Connection, name: TableName) -> bool:
    try:
        run(connection, sql.SQL("VACUUM (ANALYZE) {}").format(_quoted(name)))
    except psycopg.Error:
        return False
    return True


def _quoted(name: TableName) -> sql.Identifier:
    return sql.Identifier(name.schema, name.name)
