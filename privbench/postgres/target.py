"""The target of a load: its contents, which may be refused or dropped, and the load's role."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import LiteralString

from psycopg import sql

from privbench.errors import ModelError, TargetError
from privbench.postgres import catalog
from privbench.postgres.connect import Connection, same_database
from privbench.postgres.failures import database_errors
from privbench.postgres.locks import lock
from privbench.postgres.statement import build, run
from privbench.schema import Schema, Table

#: Catalogs of further objects, and their columns of schemas.
_OTHERS: Mapping[LiteralString, LiteralString] = {
    "pg_proc": "pronamespace",
    "pg_operator": "oprnamespace",
    "pg_opfamily": "opfnamespace",
    "pg_collation": "collnamespace",
    "pg_conversion": "connamespace",
    "pg_ts_config": "cfgnamespace",
    "pg_ts_dict": "dictnamespace",
}
#: Objects of users, most visible first: relations, types (a range takes its constructors along),
#: routines, and last schemas other than public and those of extensions.
_CONTENTS: LiteralString = (
    """
WITH members AS (
  SELECT classid, objid FROM pg_catalog.pg_depend WHERE deptype = 'e'),
spaces AS (
  SELECT n.oid, n.nspname FROM pg_catalog.pg_namespace n
  WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND ('pg_catalog.pg_namespace'::regclass, n.oid) NOT IN (SELECT classid, objid FROM members))
SELECT i.type AS kind, i.identity AS name FROM (
  SELECT 1 AS rank, 'pg_catalog.pg_class'::regclass::oid AS catalog, c.oid
  FROM pg_catalog.pg_class c JOIN spaces s ON s.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND NOT c.relispartition
  UNION ALL
  SELECT 2, 'pg_catalog.pg_type'::regclass, t.oid
  FROM pg_catalog.pg_type t JOIN spaces s ON s.oid = t.typnamespace
  WHERE t.typtype IN ('d', 'e', 'r') OR t.typtype = 'c' AND EXISTS (
    SELECT FROM pg_catalog.pg_class k WHERE k.oid = t.typrelid AND k.relkind = 'c')
"""  # noqa: S608
    + "".join(
        f"""  UNION ALL
  SELECT {rank}, 'pg_catalog.{name}'::regclass, o.oid
  FROM pg_catalog.{name} o JOIN spaces s ON s.oid = o.{space}
"""  # noqa: S608
        for rank, (name, space) in enumerate(_OTHERS.items(), 3)
    )
    + """  UNION ALL
  SELECT 10, 'pg_catalog.pg_namespace'::regclass, s.oid
  FROM spaces s WHERE s.nspname <> 'public' AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_depend d
    WHERE d.refclassid = 'pg_catalog.pg_namespace'::regclass AND d.refobjid = s.oid
      AND (d.classid = 'pg_catalog.pg_extension'::regclass
        OR (d.classid, d.objid) IN (SELECT classid, objid FROM members)))
) objects, LATERAL pg_catalog.pg_identify_object(objects.catalog, objects.oid, 0) i
WHERE (objects.catalog, objects.oid) NOT IN (SELECT classid, objid FROM members)
ORDER BY objects.rank, i.identity
"""
)

_DROP: LiteralString = r"""
SELECT pg_catalog.format('DROP %%s IF EXISTS %%s CASCADE', pg_catalog.upper(kind),
  CASE kind WHEN 'aggregate' THEN pg_catalog.regexp_replace(name, '\(\)$', '(*)') ELSE name END)
  AS statement
FROM unnest(%(kinds)s::text[], %(names)s::text[]) WITH ORDINALITY AS objects(kind, name, position)
ORDER BY position
"""

#: Rights of a role beyond its own objects. A member of a role can become it, so each membership is
#: such a right, except in pg_database_owner, which grants nothing outside the database.
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
_PROTECTED: LiteralString = """
SELECT WHERE pg_catalog.current_setting('default_transaction_read_only') = 'on'
"""
_ROLE = "Make one that owns the target and nothing else; docs/security.md says how."
_SHOWN = 6
_COLUMN = "the model's header and its DDL disagree on whether there is such a column."


def refuse_source(target: Connection, source: Connection | None) -> None:
    """Refuse a target that is the source, a replica of the source, or read-only."""
    if source is not None and same_database(target, source):
        raise TargetError(
            "the target is the source database itself.",
            remedy="Create another database and name that.",
        )
    if catalog.ask(target, "SELECT WHERE pg_catalog.pg_is_in_recovery()", {}):
        raise TargetError("the target is a standby.", remedy="Name its primary.")
    if catalog.ask(target, _PROTECTED, {}):
        raise TargetError(
            "the role or the database has default_transaction_read_only = on.",
            remedy="Name another database, or if this one may be written, add to the connection "
            "string: options='-c default_transaction_read_only=off'.",
        )


def contents(target: Connection) -> list[tuple[str, str]]:
    """Return the users' objects in the target, without those of extensions: kind and full name."""
    with catalog.bare_search_path(target):
        return [(row.kind, row.name) for row in catalog.ask(target, _CONTENTS, {})]


def refuse_contents(objects: list[tuple[str, str]]) -> None:
    """Refuse a target that holds any object; the TargetError names some of them."""
    if not objects:
        return
    names = ", ".join(f"{kind} {name}" for kind, name in objects[:_SHOWN])
    more = f" and {len(objects) - _SHOWN} more" if len(objects) > _SHOWN else ""
    raise TargetError(
        f"the target is not empty: it holds {names}{more}.",
        remedy="Name an empty database, or say --replace to drop all of these.",
    )


def drop_contents(target: Connection, objects: list[tuple[str, str]]) -> None:
    """Drop everything that `contents` found, within the running transaction."""
    # The catalog's description of an object (kind, name) is what a DROP statement needs.
    listed = {"kinds": [kind for kind, _ in objects], "names": [name for _, name in objects]}
    with catalog.bare_search_path(target):
        statements = catalog.ask(target, _DROP, listed)
        for kind, name in objects:
            if kind == "table":
                lock(target, sql.SQL(name), name, "ACCESS EXCLUSIVE")
        with database_errors("dropping what the target holds"):
            for row in statements:
                run(target, row.statement.encode())


def refuse_missing_extensions(
    target: Connection, extensions: tuple[str, ...], spaces: Mapping[str, str]
) -> None:
    """Refuse a target that lacks a needed extension, or has it in another PostgreSQL schema.

    These ``extensions`` must be available, and if they exist, in the PostgreSQL schemas that the
    DDL names (``spaces``). The TargetError names all missing ones.
    """
    rows = catalog.ask(
        target,
        "SELECT w.name, w.space, a.name IS NULL AS lacking, n.nspname AS here"
        " FROM unnest(%(names)s::text[], %(spaces)s::text[]) AS w(name, space)"
        " LEFT JOIN pg_catalog.pg_available_extensions a ON a.name = w.name"
        " LEFT JOIN pg_catalog.pg_extension e ON e.extname = w.name"
        " LEFT JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace ORDER BY 1",
        {"names": extensions, "spaces": [spaces.get(name) for name in extensions]},
    )
    lacking = [row.name for row in rows if row.lacking]
    if lacking:
        raise TargetError(
            f"the target's server lacks the extensions {', '.join(lacking)}.",
            remedy="Install their packages on that server, or name a database of another "
            "(publish: --database DSN).",
        )
    for row in rows:
        if row.space and row.here and row.space != row.here:
            raise TargetError(
                f"the target has the extension {row.name} in schema {row.here}, the source in "
                f"{row.space}.",
                remedy=f"In the target: ALTER EXTENSION {row.name} SET SCHEMA {row.space}, or drop "
                "it there.",
            )


def become(connection: Connection, role: str) -> None:
    """Set a role that has rights only on its own objects, until the transaction ends.

    Raises:
        TargetError: There is no such role, or it may do more than that.
        AccessDenied: The session may not become it.
    """
    with database_errors(f"asking what the role {role!r} may do"):
        row = run(connection, _POWERS, [role]).fetchone()
    if row is None:
        raise TargetError(f"there is no role {role!r} to load as.", remedy=_ROLE)
    if row[0]:
        raise TargetError(
            f"the role {role!r} may do too much: it {', '.join(row[0])}.", remedy=_ROLE
        )
    with database_errors(f"becoming the role {role!r}"):
        run(connection, build("SET LOCAL ROLE {}", role))


def as_made(stated: Schema, created: Schema) -> Schema:
    """Return a model's schema, with columns, kinds and sequences as the target states them.

    The model's header is a text that somebody else may have written. Its types, defaults and
    generated columns never become SQL: they are read from the target's own catalog (`introspect`,
    after the DDL of the tables). Only names are kept from the header, and they must be names of
    tables and columns that the load has made.

    Raises:
        ModelError: The header names a table or column that the DDL does not make.
    """
    known = {table.name: table for table in created}
    for table in stated:
        if table.name not in known:
            raise _forged("is in the model's header, but its DDL does not make it.", table)
        for key in table.foreign_keys:
            if key.ref_table not in known:
                what = f"refers to {key.ref_table}, which the model's DDL does not make."
                raise _forged(what, table)
            _refuse_unknown(known[key.ref_table], key.ref_columns)
    tables = tuple(_as_made(table, known[table.name]) for table in stated)
    return replace(stated, tables=tables, sequences=created.sequences)


def _as_made(stated: Table, created: Table) -> Table:
    own = {column.name: column for column in stated.columns}
    _refuse_unknown(created, own)
    _refuse_unknown(created, stated.key_columns)
    _refuse_unknown(created, [name for unique in stated.unique_sets for name in unique.columns])
    for column in created.columns:
        if column.name not in own:
            raise _forged(_COLUMN, stated, column.name)
        if column.generated != own[column.name].generated:
            what = "the model's header and its DDL disagree on whether it is generated."
            raise _forged(what, stated, column.name)
    return replace(stated, columns=tuple(created.column(name) for name in own), kind=created.kind)


def _refuse_unknown(created: Table, names: Iterable[str]) -> None:
    known = {column.name for column in created.columns}
    for name in names:
        if name not in known:
            raise _forged(_COLUMN, created, name)


def _forged(what: str, table: Table, column: str | None = None) -> ModelError:
    remedy = "The file is damaged or forged: fit the model again."
    return ModelError(what, table=table.key, column=column, remedy=remedy)
