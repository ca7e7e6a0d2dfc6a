"""Capture from the view ``pg_stat_statements``: normalised texts and how often each was called."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from privbench.errors import AccessDenied, DatabaseError, UsageError
from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.workload.capture.gather import Capture, Execution, Gatherer

_HIDDEN = "<insufficient privilege>"
_NESTED = "it ran inside a function"
_SHOW = (
    "Add pg_stat_statements to shared_preload_libraries, restart the server,"
    " and CREATE EXTENSION pg_stat_statements in this database."
)
# `toplevel` is there since PostgreSQL 14.
_TEXTS = """
SELECT s.query, coalesce((pg_catalog.to_jsonb(s) ->> 'toplevel')::boolean, true),
  pg_catalog.sum(s.calls)::bigint
FROM {view} AS s
WHERE s.dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname
  = pg_catalog.current_database())
GROUP BY 1, 2 ORDER BY 3 DESC, 1
"""


def capture_statements(connection: Connection) -> Capture:
    """Read the statements of the current database with their calls.

    Constants stand as ``$1``, ``$2``, … in them: they run only after their literals are re-bound.

    Raises:
        UsageError: The extension is not installed in this database, or no query is there.
        AccessDenied: Other roles' statements are hidden, and there are no others.
        DatabaseError: The server does not load the extension's library, or refused.
    """
    gatherer, seen, hidden = Gatherer(), 0, 0
    for text, top, calls in _read(connection):
        if text is None or text == _HIDDEN:
            hidden += calls
        elif not top:
            gatherer.skip(_NESTED, calls)
        else:
            seen += 1
            gatherer.add(Execution(text, calls=calls))
    grant = f"GRANT pg_read_all_stats TO {connection.info.user};"
    if hidden:
        gatherer.skip(f"its text is hidden from this role ({grant})", hidden)
    found = gatherer.capture(connection.info.dbname)
    if not found.workload.queries:
        if hidden:
            raise AccessDenied("the texts of other roles' statements are hidden.", remedy=grant)
        raise UsageError(
            f"pg_stat_statements holds no query of this database ({seen} other statements).",
            remedy="Let the applications run for a while; pg_stat_statements_reset() empties it.",
        )
    return found


def _read(connection: Connection) -> list[tuple[Any, ...]]:
    with database_errors("reading pg_stat_statements"):
        schema = connection.execute(
            "SELECT n.nspname FROM pg_catalog.pg_extension e"
            " JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace"
            " WHERE e.extname = 'pg_stat_statements'"
        ).fetchone()
        if schema is None:
            raise UsageError("pg_stat_statements is not installed in this database.", remedy=_SHOW)
        view = sql.Identifier(schema[0], "pg_stat_statements")
        try:
            return connection.execute(sql.SQL(_TEXTS).format(view=view)).fetchall()
        except psycopg.errors.ObjectNotInPrerequisiteState:
            raise DatabaseError(
                "the server does not load the library of pg_stat_statements.", remedy=_SHOW
            ) from None
