"""The last steps of a load, after the rows: sequences, materialised views, statistics, VACUUM."""

import contextlib
from collections.abc import Callable, Sequence
from typing import LiteralString

import psycopg
from psycopg import errors, sql

from privbench.limits import CLONE
from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors, describe
from privbench.postgres.reading import assignment
from privbench.postgres.statement import build, run
from privbench.postgres.transaction import flush_statistics
from privbench.schema import Schema, TableName
from privbench.schema import Sequence as SchemaSequence

_UNPOPULATED: LiteralString = """
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'm' AND NOT c.relispopulated
ORDER BY c.oid
"""
_SAID: LiteralString = """
SELECT d.datname, pg_catalog.shobj_description(d.oid, 'pg_database')
FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()
"""
#: Errors for which an index may be missing, as synthetic rows can cause them: a value that cannot
#: be computed, an entry that is too long, a function or an extension that raises.
UNFIT = (
    psycopg.DataError,
    psycopg.InternalError,
    errors.ProgramLimitExceeded,
    errors.RaiseException,
)


def move_sequences(connection: Connection, schema: Schema) -> None:
    """Set every sequence past the values of the columns that it fills."""
    by_name = {sequence.name: sequence for sequence in schema.sequences}
    users: dict[SchemaSequence, list[sql.Composable]] = {}
    for table in schema:
        for column in table.columns:
            sequence = by_name.get(column.sequence) if column.sequence else None
            if sequence is not None and column.type.category == "N":
                keys = build("SELECT {}::numeric AS k FROM {}", column.name, table.name)
                users.setdefault(sequence, []).append(keys)
    with database_errors("setting sequences"):
        for sequence, columns in users.items():
            moved = build(
                "SELECT pg_catalog.setval({}, greatest({}, least({}, {}))::bigint)"
                " FROM ({}) AS keys HAVING count(k) > 0",
                sql.Literal(str(sequence.name)),
                *(sequence.minimum, sequence.maximum),
                sql.SQL("ceil(max(k))" if sequence.increment > 0 else "floor(min(k))"),
                sql.SQL(" UNION ALL ").join(columns),
            )
            run(connection, moved)


def name_clone(connection: Connection) -> None:
    """Add to the database's comment that it is a clone, for tools that may write to no source.

    The role must own the database; otherwise the comment stays unchanged.
    """
    with contextlib.suppress(errors.InsufficientPrivilege), connection.transaction():
        ((name, said),) = run(connection, _SAID).fetchall()
        if CLONE not in (said or ""):
            text = sql.Literal(f"{said}\n{CLONE}" if said else CLONE)
            run(connection, build("COMMENT ON DATABASE {} IS {}", name, text))


def fill_views(
    connection: Connection, progress: Callable[[str, int | None], None]
) -> tuple[list[TableName], list[str]]:
    """Fill the materialised views; return the filled ones, and a reason for each empty one."""
    filled, empty = [], []
    with database_errors("refreshing materialised views"):
        # Views are filled in the order of creation, in which each follows those it depends on.
        views = run(connection, _UNPOPULATED).fetchall()
        for view in [TableName(schema, name) for schema, name in views]:
            progress(f"refresh {view}", None)
            why = _fill(connection, view)
            if why is None:
                filled.append(view)
            else:
                empty.append(f"the materialised view {view} stays without data: {why}")
    return filled, empty


def _fill(connection: Connection, view: TableName) -> str | None:
    """Fill one view; return None, or the reason why the server refuses it.

    Rows and schema can be the cause, even a view that its source itself cannot refresh any more.
    """
    try:
        # Functions that the view calls may rely on the database's own path.
        with connection.transaction():
            run(connection, "SET LOCAL search_path TO DEFAULT")
            run(connection, build("REFRESH MATERIALIZED VIEW {}", view))
            run(connection, assignment("search_path", ""))
    except errors.ObjectNotInPrerequisiteState as error:
        return describe(error)
    except psycopg.OperationalError as error:
        # The connection, the machine or its operator: of a longer value alone it is the rows.
        if not isinstance(error, errors.ProgramLimitExceeded):
            raise
        return describe(error)
    except psycopg.Error as error:
        return describe(error)
    return None


def vacuum(
    connection: Connection, names: Sequence[TableName], role: str | None, *, analyze: bool
) -> list[TableName]:
    """VACUUM the tables, so that autovacuum has nothing to do and the work of queries is stable.

    COPY and repairs leave empty pages and pages that are not marked visible; where all are frozen
    it takes no time. Autovacuum counts a table as changed if it was analysed in the transaction
    that filled it: ``analyze`` it again. VACUUM cannot run within a transaction, so the load must
    be committed; the connection is left in autocommit.

    Returns the relations that the role of the load may not vacuum; they keep what ANALYZE gathered.
    """
    try:
        connection.autocommit = True
        run(connection, "SET search_path TO ''")
        run(connection, "SET statement_timeout TO 0")
        # VACUUM does not mark rows as visible while the commit of their neighbours is not on disk.
        run(connection, "SET synchronous_commit TO on")
        if role is not None:
            run(connection, build("SET ROLE {}", role))
        flush_statistics(connection)
    except psycopg.Error:
        return list(names)
    skipped = []
    for name in names:
        try:
            run(connection, build("VACUUM (ANALYZE {}) {}", sql.SQL(str(analyze)), name))
        except psycopg.Error:
            skipped.append(name)
    with contextlib.suppress(psycopg.Error):
        run(connection, "RESET ROLE")
    return skipped
