"""Materialised views of a clone: filled from its rows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import LiteralString

import psycopg
from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.schema import TableName

logger = logging.getLogger(__name__)

_UNPOPULATED: LiteralString = """
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'm' AND NOT c.relispopulated
ORDER BY c.oid
"""


def fill_views(
    connection: Connection, progress: Callable[[str, int | None], None]
) -> list[TableName]:
    """Fill the materialised views there are, and say which.

    Raises:
        DatabaseError: The server refused.
    """
    with database_errors("refreshing materialised views"):
        # In the order of their making, which is the order of their dependence.
        found = connection.execute(_UNPOPULATED).fetchall()
        connection.execute("SET LOCAL search_path TO DEFAULT")
        return [
            view
            for schema, name in found
            if _filled(connection, view := TableName(schema, name), progress)
        ]


def _filled(
    connection: Connection, view: TableName, progress: Callable[[str, int | None], None]
) -> bool:
    """Fill one view; synthetic rows may be such that its query fails, and it stays empty."""
    progress(f"refresh {view}", None)
    statement = sql.SQL("REFRESH MATERIALIZED VIEW {}")
    try:
        with connection.transaction():
            connection.execute(statement.format(sql.Identifier(view.schema, view.name)))
    except (psycopg.DataError, psycopg.errors.ObjectNotInPrerequisiteState):
        logger.warning("the materialised view %s cannot be computed and stays empty", view)
        return False
    return True
