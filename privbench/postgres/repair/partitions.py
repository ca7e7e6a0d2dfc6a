"""Rows that no partition takes: caught in passing partitions, then moved or dropped.

Ranges and lists get a default partition where they have none; of hash partitions, which cannot have
one, those that are missing are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import LiteralString

from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.repair import rows
from privbench.postgres.repair.rows import build, columns_in
from privbench.postgres.statement import run
from privbench.schema import Table

#: Partitioned tables of a tree without a default partition, their keys, and the bounds of the
#: partitions right beneath those by hash (None for others).
_LEVELS: LiteralString = """
SELECT wanted.schema, wanted.name, own.schema, own.name, pg_catalog.pg_get_partkeydef(own.oid),
  CASE WHEN p.partstrat = 'h' THEN array(SELECT pg_catalog.pg_get_expr(b.relpartbound, b.oid)
    FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class b ON b.oid = i.inhrelid
    WHERE i.inhparent = own.oid) END
FROM {parts}
JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = own.oid
WHERE p.partdefid = 0
ORDER BY p.partstrat = 'h', own.schema, own.name
"""
_HASH = re.compile(r"modulus (\d+), remainder (\d+)", re.IGNORECASE)
#: Largest modulus that is made whole: beyond it, so many tables cost more than the rows are worth.
_MODULUS = 4096

#: Passing partitions, and the columns that decide on them and may change, by table.
Rests = Mapping[str, tuple[Table, list[sql.Identifier], dict[str, str]]]


def open_rests(connection: Connection, tables: Iterable[Table]) -> Rests:
    """Give every partitioned table partitions for what it has none for.

    Args:
        connection: In the transaction that made the tables.
        tables: Tables that will hold synthetic rows.
    """
    found: dict[str, tuple[Table, list[sql.Identifier], dict[str, str]]] = {}
    parted = [table for table in tables if table.kind == "p"]
    with database_errors("catching rows that no partition takes"):
        levels = rows.ask_all(connection, _LEVELS, parted)
        for table in parted:
            _, names, columns = found[table.key] = table, [], {}
            for schema, name, key, hashes in levels[table.name]:
                for bound in [sql.SQL("DEFAULT")] if hashes is None else _missing(hashes):
                    number = sum(len(item[1]) for item in found.values())
                    names.append(sql.Identifier(table.name.schema, f"privbench rest {number}"))
                    parent = sql.Identifier(schema, name)
                    made = "CREATE TABLE {} PARTITION OF {} {}"
                    run(connection, build(made, names[-1], parent, bound))
                read = columns_in(table, key)
                columns.update({c: c for c in read if rows.is_movable(table, c)})
    return found


def _missing(bounds: Iterable[str]) -> list[sql.Composable]:
    """Bounds of the hash partitions that a table lacks, from the bounds of those that it has."""
    parts = [(int(found[1]), int(found[2])) for text in bounds if (found := _HASH.search(text))]
    modulus = max((size for size, _ in parts), default=1)
    return [
        build("FOR VALUES WITH (MODULUS {}, REMAINDER {})", modulus, left)
        for left in range(modulus if modulus <= _MODULUS else 0)
        if all(left % size != taken for size, taken in parts)
    ]


def close_rests(connection: Connection, rests: Rests) -> tuple[dict[str, int], dict[str, int]]:
    """Move the rows caught to where others lie, drop what cannot be moved, drop the partitions.

    Returns:
        How many rows were changed, and how many were deleted, by table.
    """
    changed: dict[str, int] = {}
    deleted: dict[str, int] = {}
    for key, (table, names, columns) in rests.items():
        if not names:
            continue
        bad = sql.SQL(" UNION ALL ").join(rows.rows_of(name, rows.TRUE) for name in names)
        good = rows.among(table, [build("tableoid NOT IN (SELECT t FROM ({}) AS bad)", bad)])
        with database_errors("moving rows that no partition takes", key):
            changed[key] = rows.borrow(connection, table, columns, bad, good)
            deleted[key] = rows.delete(connection, table, bad)
            for name in names:
                run(connection, build("DROP TABLE {}", name))
    return changed, deleted
