"""References to rows that a repair has deleted: NULL where they may be, else to another row.

Where a reference can be neither (it is part of a key), its row goes too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.mend import rows
from privbench.schema import ForeignKey, Table


def repair(
    connection: Connection, tables: Iterable[Table], suspects: Collection[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Settle every reference into tables that lost rows, and into those that lose rows by it.

    Args:
        connection: To the target.
        tables: Tables that hold synthetic rows.
        suspects: Tables that lost rows.

    Returns:
        How many rows were changed, and how many were deleted, by table.
    """
    known = {table.key: table for table in tables}
    changed: dict[str, int] = {}
    deleted: dict[str, int] = {}
    left = set(suspects)
    while left:
        parent = left.pop()
        for table in known.values():
            for key in table.foreign_keys:
                if str(key.ref_table) != parent or not key.validated:
                    continue
                with database_errors("repairing references to rows that are gone", table.key):
                    emptied, gone = _settle(connection, table, key, known.get(parent))
                changed[table.key] = changed.get(table.key, 0) + emptied
                deleted[table.key] = deleted.get(table.key, 0) + gone
                if gone:
                    left.add(table.key)
    return changed, deleted


def _settle(
    connection: Connection, table: Table, key: ForeignKey, parent: Table | None
) -> tuple[int, int]:
    orphans = _orphans(table, key, parent)
    names = _may_be_null(table, key)
    if not names:
        moved = _adopt(connection, table, key, orphans, parent)
        return moved, rows.delete(connection, table, orphans)
    statement = sql.SQL(
        "UPDATE {} AS broken SET {} FROM ({}) AS bad"
        " WHERE broken.ctid = bad.id AND broken.tableoid = bad.t"
    ).format(
        rows.name_of(table),
        sql.SQL(", ").join(sql.SQL("{} = NULL").format(sql.Identifier(name)) for name in names),
        orphans,
    )
    return connection.execute(statement).rowcount, 0


def _adopt(
    connection: Connection,
    table: Table,
    key: ForeignKey,
    orphans: sql.Composable,
    parent: Table | None,
) -> int:
    """Let rows refer to other rows of the parent, drawn at random; none where a key forbids it."""
    others = {name for o in table.foreign_keys if o.name != key.name for name in o.columns}
    tied = others | {name for item in table.unique_sets for name in item.columns}
    if tied & set(key.columns):
        return 0
    pairs = [
        (sql.Identifier(ours), sql.Identifier(f"taken {place}"), sql.Identifier(theirs))
        for place, (ours, theirs) in enumerate(zip(key.columns, key.ref_columns, strict=True))
    ]
    statement = sql.SQL(
        "WITH listed AS MATERIALIZED ({bad}),"
        " bad AS (SELECT t, id, row_number() OVER () AS turn FROM listed),"
        " drawn AS (SELECT {taken} FROM {only} {parent} WHERE {whole}"
        " ORDER BY random() LIMIT (SELECT count(*) FROM listed)),"
        " good AS (SELECT *, row_number() OVER () AS turn, count(*) OVER () AS size FROM drawn)"
        " UPDATE {table} AS broken SET {assignments} FROM bad JOIN good"
        " ON good.turn = (bad.turn - 1) % good.size + 1"
        " WHERE broken.ctid = bad.id AND broken.tableoid = bad.t"
    ).format(
        bad=orphans,
        taken=sql.SQL(", ").join(sql.SQL("{} AS {}").format(c, b) for _, b, c in pairs),
        only=sql.SQL("" if parent is None or parent.kind == "p" else "ONLY"),
        parent=sql.Identifier(key.ref_table.schema, key.ref_table.name),
        whole=rows.every(sql.SQL("{} IS NOT NULL").format(c) for _, _, c in pairs),
        table=rows.name_of(table),
        assignments=sql.SQL(", ").join(sql.SQL("{} = good.{}").format(a, b) for a, b, _ in pairs),
    )
    return connection.execute(statement).rowcount


def _orphans(table: Table, key: ForeignKey, parent: Table | None) -> sql.Composable:
    """Query of the rows whose target is not there; a parent's inheriting tables do not count."""
    child = rows.name_of(table)
    pairs = [
        (sql.SQL("{}.{}").format(child, sql.Identifier(ours)), sql.Identifier("parent", theirs))
        for ours, theirs in zip(key.columns, key.ref_columns, strict=True)
    ]
    whole = parent is None or parent.kind == "p"
    return sql.SQL(
        "SELECT {row} FROM {child} WHERE {present}"
        " AND NOT EXISTS (SELECT FROM {only} {parent} AS parent WHERE {equal})"
    ).format(
        row=rows.row_of(table),
        child=child,
        present=rows.every(sql.SQL("{} IS NOT NULL").format(ours) for ours, _ in pairs),
        only=sql.SQL("" if whole else "ONLY"),
        parent=sql.Identifier(key.ref_table.schema, key.ref_table.name),
        equal=rows.every(sql.SQL("{} = {}").format(theirs, ours) for ours, theirs in pairs),
    )


def _may_be_null(table: Table, key: ForeignKey) -> list[str]:
    """Columns that end a reference: all of them under MATCH FULL, else those of this key alone."""
    nullable = [name for name in key.columns if not table.column(name).not_null]
    if key.match == "f":
        return nullable if len(nullable) == len(key.columns) else []
    others = {name for o in table.foreign_keys if o.name != key.name for name in o.columns}
    return [name for name in nullable if name not in others] or nullable
