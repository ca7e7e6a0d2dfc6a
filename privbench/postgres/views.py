"""Materialised views of a clone: filled from its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import LiteralString

import psycopg
from psycopg import errors, sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors, describe
from privbench.postgres.reading import assignment
from privbench.postgres.statement import run
from privbench.schema import TableName

_UNPOPULATED: LiteralString = """
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'm' AND NOT c.relispopulated
ORDER BY c.oid
"""


#: Why a query on synthetic rows may give nothing that its view can hold: a value that it cannot
#: compute, a unique index, a subquery of several rows, an index entry too long, a function that
#: raises, or another view that stayed empty.
_EMPTY = (
    psycopg.DataError,
    psycopg.IntegrityError,
    errors.CardinalityViolation,
    errors.ProgramLimitExceeded,
    errors.RaiseException,
    errors.ObjectNotInPrerequisiteState,
)


def fill_views(
    connection: Connection, progress: Callable[[str, int | None], None]
) -> tuple[list[TableName], list[str]]:
    """Fill the materialised views there are.

    Returns:
        Those that are filled, and a line for every one that stays without data.

    Raises:
        DatabaseError: The server refused.
    """
    filled, empty = [], []
    with database_errors("refreshing materialised views"):
        # In the order of their making, which is the order of their dependence.
        found = run(connection, _UNPOPULATED).fetchall()
        for view in [TableName(schema, name) for schema, name in found]:
            progress(f"refresh {view}", None)
            why = _fill(connection, view)
            if why is None:
                filled.append(view)
            else:
                empty.append(f"the materialised view {view} stays without data: {why}")
    return filled, empty


def _fill(connection: Connection, view: TableName) -> str | None:
    """Fill one view; why it cannot be done with synthetic rows, or None."""
    statement = sql.SQL("REFRESH MATERIALIZED VIEW {}").format(
        sql.Identifier(view.schema, view.name)
    )
    try:
        # Functions that the view calls may rely on the database's own path.
        with connection.transaction():
            run(connection, "SET LOCAL search_path TO DEFAULT")
            run(connection, statement)
            run(connection, assignment("search_path", ""))
    except _EMPTY as error:
        return describe(error)
    return None
