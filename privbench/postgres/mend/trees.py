"""Self-references that repairs have led in a circle: the circle ends at one row.

That row refers to nothing, or to itself where it must refer to something.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
from psycopg import sql

from privbench.forest import circle_heads
from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.mend import rows
from privbench.postgres.mend.orphans import ending, tied
from privbench.postgres.statement import run
from privbench.schema import ForeignKey, Table


def repair(
    connection: Connection, tables: Iterable[Table], touched: Collection[str]
) -> dict[str, int]:
    """End the circles of tables of which rows were changed; how many rows changed, by table.

    Args:
        connection: To the target.
        tables: Tables that hold synthetic rows.
        touched: Tables of which rows were changed.

    Raises:
        DatabaseError: The server refused.
    """
    changed = {}
    for table in tables:
        keys = [key for key in table.foreign_keys if key.is_self and key.validated]
        if keys and table.key in touched:
            with database_errors("ending circles of references", table.key):
                changed[table.key] = sum(_end(connection, table, key) for key in keys)
    return changed


def _end(connection: Connection, table: Table, key: ForeignKey) -> int:
    ended = _ended(table, key)
    if ended is None:
        return 0
    found = run(connection, _pairs(table, key)).fetchall()
    parents = np.array([-1 if above is None else above for _, _, above in found], np.int64)
    heads = [found[row][:2] for row in circle_heads(parents)]
    if not heads:
        return 0
    statement = sql.SQL(
        "UPDATE {} AS broken SET {} FROM (VALUES {}) AS head(t, id)"
        " WHERE broken.tableoid = head.t AND broken.ctid = head.id"
    ).format(
        rows.name_of(table),
        ended,
        sql.SQL(", ").join(
            sql.SQL("({}::oid, {}::tid)").format(sql.Literal(part), sql.Literal(place))
            for part, place in heads
        ),
    )
    return run(connection, statement).rowcount


def _ended(table: Table, key: ForeignKey) -> sql.Composable | None:
    """Assignments that end a row's reference; None where it must go on."""
    names = ending(table, key)
    if names:
        return rows.nulls(names)
    pairs = [
        (ours, theirs)
        for ours, theirs in zip(key.columns, key.ref_columns, strict=True)
        if ours != theirs
    ]
    if not pairs or tied(table, key) & {ours for ours, _ in pairs}:
        return None
    return sql.SQL(", ").join(
        sql.SQL("{} = broken.{}").format(sql.Identifier(ours), sql.Identifier(theirs))
        for ours, theirs in pairs
    )


def _pairs(table: Table, key: ForeignKey) -> sql.Composed:
    """Query of all rows, numbered from 0: table, place, and the number of the row referred to."""
    names = tuple(dict.fromkeys((*key.columns, *key.ref_columns)))
    slots = {name: sql.Identifier(f"slot {place}") for place, name in enumerate(names)}
    return sql.SQL(
        "WITH numbered(t, id, number, {slots}) AS MATERIALIZED"
        " (SELECT tableoid, ctid, row_number() OVER () - 1, {columns} FROM {table})"
        " SELECT child.t::int8, child.id::text, parent.number"
        " FROM numbered AS child LEFT JOIN numbered AS parent ON {equal} ORDER BY child.number"
    ).format(
        # Under numbered names: a column may be called anything.
        slots=sql.SQL(", ").join(slots[name] for name in names),
        columns=sql.SQL(", ").join(sql.Identifier(name) for name in names),
        table=rows.name_of(table),
        equal=rows.every(
            sql.SQL("child.{} = parent.{}").format(slots[ours], slots[theirs])
            for ours, theirs in zip(key.columns, key.ref_columns, strict=True)
        ),
    )
