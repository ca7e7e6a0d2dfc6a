"""Rows that no partition takes: caught in a passing default partition, then moved or dropped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.mend import rows
from privbench.schema import Table

#: Partitioned tables of a tree that want a default partition, and the columns of their keys.
_LEVELS: LiteralString = """
SELECT n.nspname, c.relname,
  array(SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid
          AND a.attnum > 0 AND (a.attnum = ANY(p.partattrs::int2[])
            OR p.partexprs IS NOT NULL AND EXISTS (
                 SELECT FROM pg_catalog.pg_depend d
                 WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid
                   AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = c.oid
                   AND d.refobjsubid = a.attnum)))
FROM pg_catalog.pg_partition_tree(pg_catalog.format('%%I.%%I', %(schema)s::text, %(name)s::text)
  ::regclass) t
JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = t.relid
JOIN pg_catalog.pg_class c ON c.oid = t.relid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE p.partdefid = 0 AND p.partstrat IN ('l', 'r')
ORDER BY n.nspname, c.relname
"""


@dataclass(frozen=True, slots=True)
class Rest:
    """A passing default partition.

    Attributes:
        table: The root of the tree.
        name: The partition's name.
        columns: Columns that decide the partition, as far as a repair may change them.
    """

    table: Table
    name: sql.Identifier
    columns: tuple[str, ...]

    @property
    def caught(self) -> sql.Composable:
        """Query of the rows in it."""
        return sql.SQL("SELECT tableoid AS t, ctid AS id FROM {}").format(self.name)


def open_rests(connection: Connection, tables: Iterable[Table]) -> list[Rest]:
    """Give every partitioned table a default partition where it has none.

    Args:
        connection: In the transaction that made the tables.
        tables: Tables that will hold synthetic rows.
    """
    found: list[Rest] = []
    for table in tables:
        if table.kind != "p":
            continue
        with database_errors("catching rows that no partition takes", table.key):
            for schema, name, columns in rows.ask(connection, _LEVELS, table):
                rest = sql.Identifier(table.name.schema, f"privbench rest {len(found)}")
                connection.execute(
                    sql.SQL("CREATE TABLE {} PARTITION OF {} DEFAULT").format(
                        rest, sql.Identifier(schema, name)
                    )
                )
                free = tuple(c for c in columns if _is_movable(table, c))
                found.append(Rest(table, rest, free))
    return found


def close_rests(
    connection: Connection, rests: Iterable[Rest]
) -> tuple[dict[str, int], dict[str, int]]:
    """Move the rows caught to where others lie, drop what cannot be moved, drop the partitions.

    Returns:
        How many rows were changed, and how many were deleted, by table.
    """
    rests = list(rests)
    changed: dict[str, int] = {}
    deleted: dict[str, int] = {}
    for rest in rests:
        key = rest.table.key
        with database_errors("moving rows that no partition takes", key):
            changed[key] = changed.get(key, 0) + _move(connection, rest, rests)
    for rest in rests:
        key = rest.table.key
        with database_errors("dropping rows that no partition takes", key):
            gone = rows.delete(connection, rest.table, rest.caught)
            connection.execute(sql.SQL("DROP TABLE {}").format(rest.name))
        deleted[key] = deleted.get(key, 0) + gone
    return changed, deleted


def _move(connection: Connection, rest: Rest, rests: Iterable[Rest]) -> int:
    mine = [other for other in rests if other.table == rest.table]
    caught = sql.SQL(" UNION ALL ").join(
        sql.SQL("SELECT tableoid FROM {}").format(other.name) for other in mine
    )
    good = sql.SQL("tableoid NOT IN ({})").format(caught)
    columns = tuple(dict.fromkeys(name for other in mine for name in other.columns))
    return rows.borrow(connection, rest.table, columns, rest.caught, good)


def _is_movable(table: Table, column: str) -> bool:
    return column not in table.key_columns and not rows.is_computed(table, column)
