"""Repair foreign keys: references to deleted rows, and cycles of references of a table to itself.

A reference to a deleted row becomes NULL where it may, else it goes to another row; where it can do
neither (it is part of a key), its row is deleted too. A cycle ends at one row, which refers to
nothing, or to itself where it must refer to something.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from psycopg import sql

from privbench.forest import circle_heads
from privbench.postgres.failures import database_errors
from privbench.postgres.repair import rows
from privbench.postgres.repair.rows import TargetTables
from privbench.postgres.statement import build, own_rows, run, source
from privbench.schema import ForeignKey, Table

_NUMBERED = sql.Identifier("pg_temp", "privbench numbered")


def end_circles(clone: TargetTables, touched: Collection[str]) -> None:
    """End cycles of references of a table to itself, in tables whose rows were changed.

    As they were generated, references have no cycles.
    """
    for table, key in clone.references:
        if key.is_self and table.key in touched:
            with database_errors("ending circles of references", table.key):
                _end_circles(clone, table, key)


def end_dangling(clone: TargetTables) -> None:
    """Repair references into tables that lost rows, and into tables that lose rows by that."""
    known = {table.key: table for table in clone.tables}
    while clone.lost:
        parent = min(clone.lost)
        clone.lost.remove(parent)
        for table, key in clone.references:
            if str(key.ref_table) == parent:
                with database_errors("repairing references to rows that are gone", table.key):
                    _end(clone, table, key, known.get(parent))


def _ending(table: Table, key: ForeignKey) -> list[str]:
    """Columns to set to NULL to end a reference: all of the key under MATCH FULL, or none."""
    nullable = [name for name in key.columns if not table.column(name).not_null]
    if key.match == "f":
        return nullable if len(nullable) == len(key.columns) else []
    return [name for name in nullable if name not in _others(table, key)] or nullable


def _others(table: Table, key: ForeignKey) -> set[str]:
    """Columns of a table's other foreign keys."""
    return {name for o in table.foreign_keys if o.name != key.name for name in o.columns}


def _tied(table: Table, key: ForeignKey) -> set[str]:
    """Columns that other foreign keys or UNIQUE sets of a table need."""
    return _others(table, key) | {name for item in table.unique_sets for name in item.columns}


def _end(clone: TargetTables, table: Table, key: ForeignKey, target: Table | None) -> None:
    """End references to rows that are not there, or give them another target, or delete the rows.

    Columns that other keys need stay: a row goes on to refer to rows of its own tenant.
    """
    # Tables that inherit from the target do not count.
    parent = own_rows(key.ref_table, whole=target is None or target.kind == "p")
    pairs = dict(zip(key.columns, key.ref_columns, strict=True))
    equal = (build("parent.{} = {}.{}", t, table.name, o) for o, t in pairs.items())
    there = build("EXISTS (SELECT FROM {} AS parent WHERE {})", parent, rows.every(equal))
    bad = rows.rows_of(source(table), build("{} AND NOT {}", rows.present(key.columns), there))
    ended = _ending(table, key)
    if ended:
        clone.update(table, rows.nulls(ended), bad)
        return
    needed = _tied(table, key)
    changed = {
        child: target_column for child, target_column in pairs.items() if child not in needed
    }
    alike = {child: target_column for child, target_column in pairs.items() if child in needed}
    good = build("{} WHERE {}", parent, rows.present(key.ref_columns))
    clone.borrow(table, changed, bad, good, alike)
    clone.delete(table, bad)


def _end_circles(clone: TargetTables, table: Table, key: ForeignKey) -> None:
    ended = rows.nulls(_ending(table, key))
    if not _ending(table, key):
        pairs = [(o, t) for o, t in zip(key.columns, key.ref_columns, strict=True) if o != t]
        if not pairs or _tied(table, key) & {child for child, _ in pairs}:
            return
        ended = build("{}", [build("{} = broken.{}", *pair) for pair in pairs])
    clone.run("CREATE TEMPORARY TABLE {} AS {}", _NUMBERED, _numbered(table, key))
    # Eight bytes a row: of a hundred million rows the list is a gigabyte, not thirty.
    packed = build(
        "SELECT string_agg(int8send(coalesce(above, -1)), '' ORDER BY number) FROM {}"
        " GROUP BY number / 1000000 ORDER BY number / 1000000",
        _NUMBERED,
    )
    parents = np.frombuffer(b"".join(row[0] for row in run(clone.connection, packed)), ">i8")
    heads = circle_heads(parents.astype(np.int64)).tolist()
    if heads:
        bad = "SELECT t, id FROM {} WHERE number = ANY({}::int8[])"
        clone.update(table, ended, build(bad, _NUMBERED, sql.Literal(heads)))
    clone.run("DROP TABLE {}", _NUMBERED)


def _numbered(table: Table, key: ForeignKey) -> sql.Composed:
    """A query of every row's place, its number from 0, and that of the row it refers to."""
    names = tuple(dict.fromkeys((*key.columns, *key.ref_columns)))
    slots = {name: sql.Identifier(f"slot {place}") for place, name in enumerate(names)}
    return build(
        "WITH numbered AS MATERIALIZED (SELECT tableoid AS t, ctid AS id,"
        " row_number() OVER () - 1 AS number, {} FROM {})"
        " SELECT child.t, child.id, child.number, parent.number AS above"
        " FROM numbered AS child LEFT JOIN numbered AS parent ON {}",
        rows.renamed(names, slots.values()),
        source(table),
        rows.every(
            build("child.{} = parent.{}", slots[child], slots[parent])
            for child, parent in zip(key.columns, key.ref_columns, strict=True)
        ),
    )
