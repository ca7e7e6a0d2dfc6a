"""UNIQUE indexes that keys by construction do not cover: of expressions, of parts of the rows.

Those that a single partition alone has are among them.

Of rows with the same key all but one leave the index if it has a predicate (they take its columns
from a row outside it), else a text of the key gets a number, else they go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.mend import rows
from privbench.postgres.statement import run
from privbench.schema import Table

#: Room that a number may take at the end of a text.
_ROOM = 10
_TEXTS = ("text", "varchar", "citext")

_INDEXES: LiteralString = """
SELECT wanted.schema, wanted.name, pg_catalog.pg_get_expr(i.indpred, i.indrelid),
  coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false),
  array(SELECT pg_catalog.pg_get_indexdef(i.indexrelid, k, false)
        FROM generate_series(1, i.indnkeyatts) k ORDER BY k),
  array(SELECT a.attname::text FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey::int2[])),
  array(SELECT a.attname::text FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_attribute a
          ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
        WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = i.indexrelid
          AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = i.indrelid)
    || array(SELECT a.attname::text FROM pg_catalog.pg_attrdef f
        JOIN pg_catalog.pg_attribute g ON g.attrelid = f.adrelid AND g.attnum = f.adnum
          AND g.attgenerated <> '' AND g.attnum = ANY(i.indkey::int2[])
        JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_attrdef'::regclass
          AND d.objid = f.oid AND d.refclassid = 'pg_catalog.pg_class'::regclass
          AND d.refobjid = f.adrelid AND d.refobjsubid <> f.adnum
        JOIN pg_catalog.pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = d.refobjsubid
        WHERE f.adrelid = i.indrelid),
  i.indexprs IS NOT NULL OR i.indpred IS NOT NULL
    OR EXISTS (SELECT FROM pg_catalog.pg_collation co
               WHERE co.oid = ANY(i.indcollation::oid[]) AND NOT co.collisdeterministic)
    OR EXISTS (SELECT FROM pg_catalog.pg_attribute a
               WHERE a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey::int2[])
                 AND a.attgenerated <> ''),
  CASE WHEN i.indrelid <> root.oid THEN i.indrelid::int8 END, n.nspname, c.relname
FROM {parts}
JOIN pg_catalog.pg_index i ON i.indrelid = own.oid
JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
JOIN pg_catalog.pg_class c ON c.oid = own.oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE i.indisunique AND NOT i.indisexclusion
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhrelid = i.indexrelid)
ORDER BY x.relname, x.oid
"""


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """A UNIQUE index of the finished clone.

    Attributes:
        table: Its table.
        keys: Its key expressions.
        predicate: Condition of the rows in it, or None.
        nulls_equal: Whether NULLs count as equal.
        leaving: Free columns that decide whether a row is in it.
        text: A free text in its key, or None.
        plain: Whether keys by construction cover it.
        place: The table, or the partition that alone has it: asking all partitions for each one's
            index takes long.
        within: Condition of the table's rows that are there.
    """

    table: Table
    keys: tuple[str, ...]
    predicate: str | None
    nulls_equal: bool
    leaving: tuple[str, ...]
    text: str | None
    plain: bool
    place: sql.Composable
    within: sql.Composable

    @property
    def inside(self) -> sql.Composable:
        """Condition of the rows of its place that count."""
        conditions: list[sql.Composable] = []
        if self.predicate:
            conditions.append(sql.SQL("({})").format(rows.raw(self.predicate)))
        if not self.nulls_equal:
            conditions += [sql.SQL("({}) IS NOT NULL").format(rows.raw(key)) for key in self.keys]
        return rows.every(conditions)

    @property
    def surplus(self) -> sql.Composable:
        """Query of all rows but one of every key: ``t``, ``id`` and their number ``n``."""
        return sql.SQL(
            "SELECT t, id, n - 1 AS n FROM (SELECT {place}.tableoid AS t, {place}.ctid AS id,"
            " row_number() OVER (PARTITION BY {keys}) AS n"
            " FROM {place} WHERE {inside}) AS numbered WHERE n > 1"
        ).format(
            place=self.place,
            keys=sql.SQL(", ").join(sql.SQL("({})").format(rows.raw(key)) for key in self.keys),
            inside=self.inside,
        )


def find(connection: Connection, tables: Iterable[Table]) -> list[UniqueIndex]:
    """The UNIQUE indexes that are there.

    Args:
        connection: In a transaction in which the clone's indexes exist.
        tables: Tables that will hold synthetic rows.
    """
    tables = tuple(tables)
    referred = rows.referred(tables)
    found = []
    with database_errors("reading UNIQUE indexes"):
        listed = rows.ask_all(connection, _INDEXES, tables)
    for table in tables:
        for row in listed[table.name]:
            predicate, nulls_equal, keys, columns, depends, risky, partition, *name = row
            depends = list(dict.fromkeys(depends))
            leaving = tuple(
                name for name in depends if name not in columns and rows.is_free(table, name)
            )
            texts = (
                name
                for name in (*depends, *columns)
                if _renamable(table, name) and (table.name, name) not in referred
            )
            found.append(
                UniqueIndex(
                    table,
                    tuple(keys),
                    predicate,
                    nulls_equal,
                    leaving if predicate else (),
                    next(texts, None),
                    not risky and partition is None,
                    sql.Identifier(*name),
                    rows.TRUE if partition is None else rows.in_partition(partition),
                )
            )
    return found


def repair(
    connection: Connection,
    indexes: Iterable[UniqueIndex],
    suspects: Collection[str],
    kept: sql.Composable,
    *,
    last: bool,
) -> tuple[int, int]:
    """Make rows unique.

    Args:
        connection: To the target.
        indexes: UNIQUE indexes of one table.
        suspects: Tables whose plain keys may have been disturbed.
        kept: Condition of the rows that keep the table's CHECKs.
        last: Whether to delete at once what is not unique.

    Returns:
        How many rows were changed, and how many were deleted.
    """
    changed = deleted = 0
    for index in indexes:
        if index.plain and index.table.key not in suspects:
            continue
        with database_errors("repairing rows that are not unique", index.table.key):
            if not last:
                changed += _leave(connection, index, kept) or _rename(connection, index)
            else:
                deleted += rows.delete(connection, index.table, index.surplus)
    return changed, deleted


def _leave(connection: Connection, index: UniqueIndex, kept: sql.Composable) -> int:
    if index.predicate is None:
        return 0
    # Values of another partition might take the row there, or say nothing of its own.
    outside = sql.SQL("({}) IS NOT TRUE AND {} AND {}").format(
        rows.raw(index.predicate), index.within, kept
    )
    return rows.borrow(connection, index.table, index.leaving, index.surplus, outside)


def _rename(connection: Connection, index: UniqueIndex) -> int:
    if index.text is None:
        return 0
    # A number drawn anew is unlike any that other rows of the index may hold already.
    statement = sql.SQL(
        "UPDATE {} AS broken SET {column} = broken.{column}::text || '-' || bad.n ||"
        " (random() * 1e6)::int FROM ({}) AS bad"
        " WHERE broken.ctid = bad.id AND broken.tableoid = bad.t"
    ).format(rows.name_of(index.table), index.surplus, column=sql.Identifier(index.text))
    return run(connection, statement).rowcount


def _renamable(table: Table, name: str) -> bool:
    column = table.column(name)
    if column.generated or name in table.key_columns or column.type.domain is not None:
        return False
    return column.type.base in _TEXTS and column.type.length is None
