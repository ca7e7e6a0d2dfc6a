"""Check a clone's integrity by queries that count the violations of constraints."""

from collections.abc import Container, Iterator

from psycopg import sql

from privbench.metrics.base import Part
from privbench.metrics.columns import count
from privbench.postgres.connect import SELECT, Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.statement import build
from privbench.postgres.statement import source as from_table
from privbench.schema import ForeignKey, Schema, Table, TableName, Unique


class CheckPart(Part):
    """One constraint of the schema and its violations in the clone."""

    table: str  # the table, as ``schema.table``
    kind: str  # what is promised: ``primary key``, ``unique``, ``foreign key``, ``present``, …
    name: str  # the constraint or column
    violations: int  # rows (for keys: key values) that break it


#: CHECK constraints that depend on a function, an operator or a cast made by users.
_OF_USERS = """
SELECT DISTINCT n.nspname, r.relname, c.conname FROM pg_catalog.pg_constraint c
JOIN pg_catalog.pg_class r ON r.oid = c.conrelid
JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass
  AND d.objid = c.oid AND d.refclassid IN ('pg_catalog.pg_proc'::pg_catalog.regclass,
  'pg_catalog.pg_operator'::pg_catalog.regclass, 'pg_catalog.pg_cast'::pg_catalog.regclass)
WHERE c.contype = 'c'
"""


def of_users(connection: Connection) -> frozenset[tuple[str, str]]:
    """Return the CHECKs (table, name) that call functions of users; a comparison skips them."""
    with database_errors("asking what CHECKs call"):
        rows = connection.execute(_OF_USERS).fetchall()
    return frozenset((str(TableName(schema, table)), name) for schema, table, name in rows)


def check(
    connection: Connection, schema: Schema, clone: Schema, skipped: Container[tuple[str, str]] = ()
) -> list[CheckPart]:
    """Check every key, NOT NULL and CHECK of the source's schema on the clone's rows, by table.

    Violations are counted by queries, so the clone need not have the constraints. Each object that
    the clone's own schema lacks is one violation of ``present``. CHECKs in `skipped` (table and
    name) are not evaluated; see `of_users`.
    """
    return [
        CheckPart(table=table.key, kind=kind, name=name, violations=violations)
        for table in schema
        for kind, name, violations in _table_violations(connection, table, clone, skipped)
    ]


def has_key(schema: Schema, key: ForeignKey) -> bool:
    """Return whether a schema has the tables and columns on both ends of a foreign key."""
    ends = ((key.table, key.columns), (key.ref_table, key.ref_columns))
    return all(
        table in schema and {column.name for column in schema.table(table).columns} >= {*columns}
        for table, columns in ends
    )


def row_count(connection: Connection, table: Table) -> int:
    """Return the exact number of rows of a table."""
    with database_errors("counting rows", table.key):
        return count(connection, SELECT + build("pg_catalog.count(*) FROM {}", from_table(table)))


def _table_violations(
    connection: Connection, table: Table, clone: Schema, skipped: Container[tuple[str, str]]
) -> Iterator[tuple[str, str, int]]:
    """Kind, name and violations of every constraint of one table."""
    if table.name not in clone:
        yield "present", table.key, 1
        return
    there = {column.name for column in clone.table(table.name).columns}
    for column in table.columns:
        if column.name not in there:
            yield "present", column.name, 1
    with database_errors("checking integrity", table.key):
        yield from _not_null(connection, table, there)
        for unique in table.unique_sets:
            if there.issuperset(unique.columns):
                kind = "primary key" if unique.primary else "unique"
                yield kind, unique.name, count(connection, _duplicates(table, unique))
        for key in table.foreign_keys:
            if has_key(clone, key) and key.validated:
                dangling = _dangling(table, key, clone.table(key.ref_table))
                yield "foreign key", key.name, count(connection, dangling)
        for constraint in table.checks:
            known = (table.key, constraint.name) not in skipped
            if known and there.issuperset(constraint.columns):
                holds = sql.SQL(constraint.expression)
                broken = build(
                    "pg_catalog.count(*) FROM {} WHERE NOT ({})", from_table(table), holds
                )
                yield "check", constraint.name, count(connection, SELECT + broken)


def _not_null(
    connection: Connection, table: Table, there: set[str]
) -> Iterator[tuple[str, str, int]]:
    names = [column.name for column in table.columns if column.not_null and column.name in there]
    if not names:
        return
    counts = [build("pg_catalog.count(*) FILTER (WHERE {} IS NULL)", name) for name in names]
    query = SELECT + build("{} FROM {}", counts, from_table(table))
    row = connection.execute(query).fetchone() or ()
    for name, violations in zip(names, row, strict=True):
        yield "not null", name, int(violations)


def _duplicates(table: Table, unique: Unique) -> sql.Composed:
    whole = sql.SQL(" AND ").join(build("{} IS NOT NULL", name) for name in unique.columns)
    return SELECT + build(
        "pg_catalog.count(*) FROM (SELECT 1 FROM {table} WHERE {whole}"
        " GROUP BY {columns} HAVING pg_catalog.count(*) > 1) AS d",
        table=from_table(table),
        whole=sql.SQL("true") if unique.nulls_not_distinct else whole,
        columns=unique.columns,
    )


def _dangling(table: Table, key: ForeignKey, target: Table) -> sql.Composed:
    """Rows whose key has no NULL and no parent (with MATCH FULL: also those partly NULL)."""
    child = [sql.Identifier("c", name) for name in key.columns]
    parent = [sql.Identifier("p", name) for name in key.ref_columns]
    both = sql.SQL(" AND ")
    filled = both.join(build("{} IS NOT NULL", name) for name in child)
    empty = both.join(build("{} IS NULL", name) for name in child)
    return SELECT + build(
        "pg_catalog.count(*) FROM {table} AS c WHERE {asked}"
        " AND NOT EXISTS (SELECT FROM {target} AS p WHERE {equal})",
        table=from_table(table),
        asked=build("NOT ({})", empty) if key.match == "f" else filled,
        target=from_table(target),
        equal=both.join(build("{} = {}", *ends) for ends in zip(parent, child, strict=True)),
    )
