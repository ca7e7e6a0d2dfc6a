"""Rows that no partition takes: caught in passing partitions, then moved or dropped.

Ranges and lists get a default partition where they have none; of hash partitions, which cannot have
one, those that are missing are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.mend import rows
from privbench.postgres.statement import run
from privbench.schema import Table

#: Partitioned tables of a tree that want a default partition, and the columns of their keys, those
#: in expressions included: each is noted as a part of its own table.
_LEVELS: LiteralString = """
SELECT n.nspname, c.relname,
  array(SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid
          AND EXISTS (
            SELECT FROM pg_catalog.pg_depend d
            WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid
              AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = c.oid
              AND d.objsubid = a.attnum AND d.refobjsubid = 0 AND d.deptype = 'i'))
FROM pg_catalog.pg_partition_tree(pg_catalog.format('%%I.%%I', %(schema)s::text, %(name)s::text)
  ::regclass) t
JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = t.relid
JOIN pg_catalog.pg_class c ON c.oid = t.relid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE p.partdefid = 0 AND p.partstrat = ANY(%(kinds)s::"char"[])
ORDER BY n.nspname, c.relname
"""
#: Bounds of the hash partitions right beneath a table.
_HASHES: LiteralString = """
SELECT pg_catalog.pg_get_expr(c.relpartbound, c.oid)
FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = pg_catalog.format('%%I.%%I', %(schema)s::text, %(name)s::text)::regclass
"""
_HASH = re.compile(r"modulus (\d+), remainder (\d+)", re.IGNORECASE)
#: Largest modulus that is made whole.
_MODULUS = 4096


_DEFAULT: list[sql.Composable] = [sql.SQL("DEFAULT")]


@dataclass(frozen=True, slots=True)
class Rest:
    """A passing partition.

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
    """Give every partitioned table partitions for what it has none for.

    Args:
        connection: In the transaction that made the tables.
        tables: Tables that will hold synthetic rows.
    """
    found: list[Rest] = []
    for table in tables:
        if table.kind != "p":
            continue
        with database_errors("catching rows that no partition takes", table.key):
            for kind, schema, name, columns in _levels(connection, table):
                free = tuple(c for c in columns if _is_movable(table, c))
                bounds = _DEFAULT if kind == "default" else _missing(connection, schema, name)
                for bound in bounds:
                    rest = sql.Identifier(table.name.schema, f"privbench rest {len(found)}")
                    run(
                        connection,
                        sql.SQL("CREATE TABLE {} PARTITION OF {} {}").format(
                            rest, sql.Identifier(schema, name), bound
                        ),
                    )
                    found.append(Rest(table, rest, free))
    return found


def _levels(connection: Connection, table: Table) -> list[tuple[str, str, str, list[str]]]:
    names = {"schema": table.name.schema, "name": table.name.name}
    return [
        (kind, *row)
        for kind, kinds in (("default", ["l", "r"]), ("hash", ["h"]))
        for row in run(connection, _LEVELS, {**names, "kinds": kinds}).fetchall()
    ]


def _missing(connection: Connection, schema: str, name: str) -> list[sql.Composable]:
    """Bounds of the hash partitions that a table lacks."""
    listed = run(connection, _HASHES, {"schema": schema, "name": name}).fetchall()
    parts = [
        (int(found[1]), int(found[2])) for (text,) in listed if (found := _HASH.search(str(text)))
    ]
    modulus = max((size for size, _ in parts), default=1)
    if modulus > _MODULUS:
        return []
    return [
        sql.SQL("FOR VALUES WITH (MODULUS {}, REMAINDER {})").format(modulus, left)
        for left in range(modulus)
        if all(left % size != taken for size, taken in parts)
    ]


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
            run(connection, sql.SQL("DROP TABLE {}").format(rest.name))
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
