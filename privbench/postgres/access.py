"""Does the role see what a fit needs: SELECT on tables, USAGE on schemas, no row filter?"""

from __future__ import annotations

from typing import Any, LiteralString

from psycopg import sql

from privbench.errors import AccessDenied
from privbench.postgres import catalog
from privbench.postgres.connect import Connection
from privbench.schema import Schema

#: pg_dump locks every table and every partition, for which a right on some columns is not enough.
_RIGHTS: LiteralString = """
SELECT n.nspname AS schema, c.relname AS name, current_user::pg_catalog.text AS role,
  pg_catalog.has_schema_privilege(n.oid, 'USAGE') AS usage,
  pg_catalog.has_table_privilege(c.oid, 'SELECT') AS readable,
  pg_catalog.row_security_active(c.oid) AS filtered
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN ROWS FROM (pg_catalog.unnest(%(schemas)s::pg_catalog.text[]),
  pg_catalog.unnest(%(names)s::pg_catalog.text[])) AS wanted(schema, name)
  ON n.nspname = wanted.schema AND c.relname = wanted.name
WHERE c.relkind IN ('r', 'p')
ORDER BY n.nspname, c.relname
"""


def check_access(connection: Connection, schema: Schema) -> None:
    """Check that this role may read every table of the schema, whole.

    Raises:
        AccessDenied: With the GRANT statements that are missing, all of them; or with the tables
            whose row-level security would hide rows from this role.
        DatabaseError: The server refused.
    """
    tables = [name for table in schema for name in (table.name, *table.partitions)]
    wanted = {"schemas": [t.schema for t in tables], "names": [t.name for t in tables]}
    rows = catalog.ask(connection, _RIGHTS, wanted)
    missing = _missing(rows, connection)
    if missing:
        raise AccessDenied(
            f"the role {rows[0].role!r} may not read everything.",
            remedy="Missing: " + " ".join(missing),
        )
    filtered = [f"{row.schema}.{row.name}" for row in rows if row.filtered]
    if filtered:
        raise AccessDenied(
            f"row-level security hides rows from the role {rows[0].role!r}: {', '.join(filtered)}.",
            remedy="Use a role with BYPASSRLS, or the tables' owner: a clone of some rows only "
            "would pass for a clone of all.",
        )


def _missing(rows: list[Any], connection: Connection) -> list[str]:
    schemas = dict.fromkeys((row.schema, row.role) for row in rows if not row.usage)
    usage = [
        sql.SQL("GRANT USAGE ON SCHEMA {} TO {};").format(
            sql.Identifier(schema), sql.Identifier(role)
        )
        for schema, role in schemas
    ]
    select = [
        sql.SQL("GRANT SELECT ON {} TO {};").format(
            sql.Identifier(row.schema, row.name), sql.Identifier(row.role)
        )
        for row in rows
        if not row.readable
    ]
    return [statement.as_string(connection) for statement in usage + select]
