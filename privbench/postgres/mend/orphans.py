"""References to rows that a repair has deleted: NULL where they may be, else to another row.

Where a reference can be neither (it is part of a key), its row goes too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.mend import rows
from privbench.postgres.statement import run
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
    names = ending(table, key)
    if not names:
        moved = _adopt(connection, table, key, orphans, parent)
        return moved, rows.delete(connection, table, orphans)
    statement = sql.SQL(
        "UPDATE {} AS broken SET {} FROM ({}) AS bad"
        " WHERE broken.ctid = bad.id AND broken.tableoid = bad.t"
    ).format(
        rows.name_of(table),
        rows.nulls(names),
        orphans,
    )
    return run(connection, statement).rowcount, 0


def _adopt(
    connection: Connection,
    table: Table,
    key: ForeignKey,
    orphans: sql.Composable,
    parent: Table | None,
) -> int:
    """Let rows refer to other rows of the parent, drawn at random; none where a key forbids it.

    Columns that other keys need stay: a row goes on to refer to rows of its own tenant.
    """
    needed = tied(table, key)
    pairs = list(zip(key.columns, key.ref_columns, strict=True))
    free = [(ours, theirs) for ours, theirs in pairs if ours not in needed]
    kept = [(ours, theirs) for ours, theirs in pairs if ours in needed]
    if not free:
        return 0
    taken = [sql.Identifier(f"taken {place}") for place in range(len(free))]
    same = [sql.Identifier(f"same {place}") for place in range(len(kept))]
    statement = sql.SQL(
        "WITH listed AS MATERIALIZED ({bad}), drawn AS MATERIALIZED"
        " (SELECT {theirs} FROM {only} {parent} WHERE {whole} ORDER BY random()),"
        " {turns}"
        " UPDATE {table} AS broken SET {assignments} FROM bad JOIN good ON good.turn = bad.turn"
        " WHERE broken.ctid = bad.id AND broken.tableoid = bad.t"
    ).format(
        bad=orphans,
        turns=rows.turns(
            sql.SQL(
                "(SELECT {} FROM listed JOIN {} AS child"
                " ON child.ctid = listed.id AND child.tableoid = listed.t)"
            ).format(
                _listed(
                    [
                        sql.SQL("listed.t, listed.id"),
                        *_named("child", [ours for ours, _ in kept], same),
                    ]
                ),
                rows.name_of(table),
            ),
            same,
        ),
        theirs=_listed(
            [
                *_named(None, [theirs for _, theirs in free], taken),
                *_named(None, [theirs for _, theirs in kept], same),
            ]
        ),
        only=sql.SQL("" if parent is None or parent.kind == "p" else "ONLY"),
        parent=sql.Identifier(key.ref_table.schema, key.ref_table.name),
        whole=rows.every(sql.SQL("{} IS NOT NULL").format(sql.Identifier(c)) for _, c in pairs),
        table=rows.name_of(table),
        assignments=_listed(
            sql.SQL("{} = good.{}").format(sql.Identifier(ours), slot)
            for (ours, _), slot in zip(free, taken, strict=True)
        ),
    )
    return rows.pair_off(connection, statement)


def tied(table: Table, key: ForeignKey) -> set[str]:
    """Columns that other foreign keys or UNIQUE sets of a table need."""
    others = {name for o in table.foreign_keys if o.name != key.name for name in o.columns}
    return others | {name for item in table.unique_sets for name in item.columns}


def _listed(parts: Iterable[sql.Composable]) -> sql.Composable:
    return sql.SQL(", ").join(parts)


def _named(
    table: str | None, columns: Sequence[str], slots: Sequence[sql.Identifier]
) -> list[sql.Composable]:
    """Columns under other names: they may be called anything."""
    return [
        sql.SQL("{} AS {}").format(sql.Identifier(*filter(None, (table, name))), slot)
        for name, slot in zip(columns, slots, strict=True)
    ]


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


def ending(table: Table, key: ForeignKey) -> list[str]:
    """Columns that end a reference: all of them under MATCH FULL, else those of this key alone."""
    nullable = [name for name in key.columns if not table.column(name).not_null]
    if key.match == "f":
        return nullable if len(nullable) == len(key.columns) else []
    others = {name for o in table.foreign_keys if o.name != key.name for name in o.columns}
    return [name for name in nullable if name not in others] or nullable
