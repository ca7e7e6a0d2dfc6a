"""Lock tables with a time limit, and log for which table the tool waits."""

import logging
from typing import LiteralString

from psycopg import errors, sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.reading import WAIT, assignment
from privbench.schema import TableName

logger = logging.getLogger(__name__)

#: Tables that another session has locked exclusively; catalog functions wait for such locks too.
_HELD: LiteralString = """
SELECT DISTINCT n.nspname, c.relname FROM pg_catalog.pg_locks l
JOIN pg_catalog.pg_class c ON c.oid = l.relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_database d ON d.oid = l.database
WHERE l.mode = 'AccessExclusiveLock' AND l.granted AND l.pid <> pg_catalog.pg_backend_pid()
  AND d.datname = pg_catalog.current_database() AND c.relkind IN ('r', 'p')
  AND n.nspname <> ALL (ARRAY['pg_catalog', 'pg_toast', 'information_schema'])
ORDER BY 1, 2
"""


def tell_held(connection: Connection) -> None:
    """Log the tables that other sessions have locked.

    The reason is that the catalog cannot be read meanwhile.
    """
    with database_errors("asking for locks"):
        for schema, name in connection.execute(_HELD).fetchall():
            _warn(str(TableName(schema, name)), WAIT.get())


def _warn(table: str, seconds: float) -> None:
    logger.warning("waiting for a lock on %s, for up to %g s", table, seconds)


def lock(
    connection: Connection,
    relation: sql.Composable,
    name: str,
    mode: LiteralString = "ACCESS SHARE",
    seconds: float | None = None,
) -> None:
    """Lock a table until the transaction ends; messages call it ``name``.

    If the lock is not free, log a line and wait up to ``seconds``, by default as long as `WAIT`.
    """
    wait = WAIT.get() if seconds is None else seconds
    statement = sql.SQL("LOCK TABLE {} IN " + mode + " MODE").format(relation)
    with database_errors(f"locking the table in {mode} mode", name), connection.transaction():
        try:
            with connection.transaction():
                connection.execute(statement + sql.SQL(" NOWAIT"))
        except errors.LockNotAvailable:
            _warn(name, wait)
            limit = str(round(wait * 1000))
            connection.execute(assignment("lock_timeout", limit))
            connection.execute(statement)
