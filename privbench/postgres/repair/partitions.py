"""Rows for which no partition exists go to temporary partitions, and are then moved or dropped.

Tables partitioned by ranges and lists get a default partition where they have none; for hash
partitions, which cannot have one, the missing partitions are created.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import LiteralString

from psycopg import sql

from privbench.postgres.failures import database_errors
from privbench.postgres.repair import rows
from privbench.postgres.repair.rows import TargetTables, columns_in
from privbench.postgres.statement import build
from privbench.schema import Table, TableName

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


def make(clone: TargetTables) -> list[tuple[Table, list[TableName], dict[str, str]]]:
    """Create temporary partitions for rows for which a partitioned table has no partition.

    Each table is returned with its temporary partitions, and the columns that decide on the
    partition and may change.
    """
    found = []
    parted = [table for table in clone.tables if table.kind == "p"]
    levels = clone.ask_all(_LEVELS, parted)
    number = itertools.count()
    for table in parted:
        names, columns = list[TableName](), dict[str, str]()
        for schema, name, key, hashes in levels[table.name]:
            for bound in [sql.SQL("DEFAULT")] if hashes is None else _missing(hashes):
                names.append(TableName(table.name.schema, f"privbench rest {next(number)}"))
                parent = TableName(schema, name)
                clone.run("CREATE TABLE {} PARTITION OF {} {}", names[-1], parent, bound)
            read = columns_in(table, key)
            columns.update({c: c for c in read if rows.is_movable(table, c)})
        if names:
            found.append((table, names, columns))
    return found


def repair(
    clone: TargetTables, passing: Iterable[tuple[Table, list[TableName], dict[str, str]]]
) -> None:
    """Move rows without a partition to key values of other rows; then drop temporary partitions.

    Rows that still have no partition are deleted.
    """
    for table, names, columns in passing:
        bad = sql.SQL(" UNION ALL ").join(rows.rows_of(name, rows.TRUE) for name in names)
        good = rows.among(table, [build("tableoid NOT IN (SELECT t FROM ({}) AS bad)", bad)])
        with database_errors("moving rows that no partition takes", table.key):
            clone.borrow(table, columns, bad, good)
            clone.delete(table, bad)
            for name in names:
                clone.run("DROP TABLE {}", name)


def _missing(bounds: Iterable[str]) -> list[sql.Composable]:
    """Bounds of the hash partitions that a table lacks, from the bounds of those that it has."""
    parts = [(int(match[1]), int(match[2])) for text in bounds if (match := _HASH.search(text))]
    modulus = max((size for size, _ in parts), default=1)
    return [
        build("FOR VALUES WITH (MODULUS {}, REMAINDER {})", modulus, left)
        for left in range(modulus if modulus <= _MODULUS else 0)
        if all(left % size != used for size, used in parts)
    ]
