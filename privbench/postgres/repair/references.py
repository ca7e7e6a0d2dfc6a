"""Foreign keys: references to rows that are gone.

A reference to a row that is gone becomes NULL where it may, else it goes to another row; where it
can be neither (it is part of a key), its row goes too. A row of the same table could be one that
lies below, which would lead in a circle: such a reference goes to its own row.
"""

from __future__ import annotations

from privbench.postgres.failures import database_errors
from privbench.postgres.repair import rows
from privbench.postgres.repair.rows import Rows
from privbench.postgres.statement import build, own_rows, source
from privbench.schema import ForeignKey, Table


def end_dangling(clone: Rows) -> None:
    """Repair every reference into tables that lost rows, and into those that lose rows by it."""
    known = {table.key: table for table in clone.tables}
    while clone.lost:
        parent = min(clone.lost)
        clone.lost.remove(parent)
        for table in clone.tables:
            for key in table.foreign_keys:
                if str(key.ref_table) == parent and key.validated:
                    with database_errors("repairing references to rows that are gone", table.key):
                        _end(clone, table, key, known.get(parent))


def _ending(table: Table, key: ForeignKey, others: set[str]) -> list[str]:
    """Columns to set to NULL to end a reference: all of the key under MATCH FULL, or none.

    Else those that no other key of the table has, if there are such columns.
    """
    nullable = [name for name in key.columns if not table.column(name).not_null]
    if key.match == "f":
        return nullable if len(nullable) == len(key.columns) else []
    return [name for name in nullable if name not in others] or nullable


def _end(clone: Rows, table: Table, key: ForeignKey, target: Table | None) -> None:
    """End references to rows that are not there, or give them another target, or delete the rows.

    Columns that other keys or UNIQUE sets need stay.
    """
    # Tables that inherit from the target do not count.
    parent = own_rows(key.ref_table, whole=target is None or target.kind == "p")
    pairs = dict(zip(key.columns, key.ref_columns, strict=True))
    equal = (build("parent.{} = {}.{}", t, table.name, o) for o, t in pairs.items())
    there = build("EXISTS (SELECT FROM {} AS parent WHERE {})", parent, rows.every(equal))
    bad = rows.rows_of(source(table), build("{} AND NOT {}", rows.present(key.columns), there))
    others = {name for o in table.foreign_keys if o.name != key.name for name in o.columns}
    ended = _ending(table, key, others)
    if ended:
        clone.update(table, rows.nulls(ended), bad)
        return
    tied = others.union(*(item.columns for item in table.unique_sets))
    taken = {ours: theirs for ours, theirs in pairs.items() if ours not in tied}
    if key.is_self and taken:
        own = [build("{} = broken.{}", *pair) for pair in taken.items()]
        clone.update(table, build("{}", own), bad)
    elif taken == pairs:
        good = build("{} WHERE {}", parent, rows.present(key.ref_columns))
        clone.borrow(table, taken, bad, good)
    clone.delete(table, bad)
