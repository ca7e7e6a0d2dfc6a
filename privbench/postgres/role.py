"""The weak role as which a load may run."""

from __future__ import annotations

from typing import LiteralString

from psycopg import sql

from privbench.errors import TargetError
from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.statement import run

#: What a role may do beyond its own objects. A member of a role can become it, so that of another
#: role than the owner of the database, which grants nothing elsewhere, is one right too many.
_POWERS: LiteralString = """
SELECT array_remove(ARRAY[
    CASE WHEN r.rolsuper THEN 'is a superuser' END,
    CASE WHEN r.rolcreaterole THEN 'may create roles' END,
    CASE WHEN r.rolcreatedb THEN 'may create databases' END,
    CASE WHEN r.rolreplication THEN 'may replicate' END,
    CASE WHEN r.rolbypassrls THEN 'passes by row-level security' END], NULL)
  || ARRAY(SELECT pg_catalog.concat('is a member of ', o.rolname) FROM pg_catalog.pg_roles o
    WHERE o.oid <> r.oid AND o.rolname <> 'pg_database_owner'
      AND pg_catalog.pg_has_role(r.oid, o.oid, 'MEMBER') ORDER BY o.rolname)
  || ARRAY(SELECT pg_catalog.concat('may execute ', p.proname) FROM pg_catalog.pg_proc p
    WHERE p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace
      AND p.proname IN ('pg_read_file', 'pg_read_binary_file', 'pg_ls_dir', 'lo_import',
        'lo_export')
      AND pg_catalog.has_function_privilege(r.oid, p.oid, 'EXECUTE')
    GROUP BY p.proname ORDER BY p.proname)
FROM pg_catalog.pg_roles r WHERE r.rolname = %s
"""
_REMEDY = "Make one that owns the target and nothing else; docs/security.md says how."


def become(connection: Connection, role: str) -> None:
    """Go on as a role without any right but on its own objects, until the transaction ends.

    Args:
        connection: In the transaction of the load.
        role: The role's name.

    Raises:
        TargetError: There is no such role, or it may do more than that.
        AccessDenied: The session may not become it.
        DatabaseError: The server refused.
    """
    with database_errors(f"asking what the role {role!r} may do"):
        row = run(connection, _POWERS, [role]).fetchone()
    if row is None:
        raise TargetError(f"there is no role {role!r} to load as.", remedy=_REMEDY)
    if row[0]:
        raise TargetError(f"the role {role!r} is no wall: it {', '.join(row[0])}.", remedy=_REMEDY)
    with database_errors(f"becoming the role {role!r}"):
        run(connection, sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))
