"""Repair UNIQUE indexes on expressions and partial UNIQUE indexes, which keys do not cover.

Of rows with the same key all but one are changed, in the first way that is possible. A text that is
the whole key gets a number. In a partial index, rows take the predicate's columns from a row
outside it; else a text of the key gets a number, one of the key's several columns takes its value
from another row, or a column becomes NULL if the index ignores NULL. Rows that are still not unique
in the end are deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from privbench.postgres.failures import database_errors
from privbench.postgres.repair import rows
from privbench.postgres.repair.rows import TargetTables, columns_in
from privbench.postgres.statement import build, own_rows
from privbench.schema import Table, TableName

_TEXTS = ("text", "varchar", "citext")
_NUMBERED: LiteralString = (
    "pg_catalog.regexp_replace(broken.{}::text, '(?=@|$)', '-' || bad.n || (random() * 1e6)::int)"
)
#: UNIQUE indexes, and whether one has an expression or a collation that takes different texts for
#: equal: keys that were made unique may be equal there.
_INDEXES: LiteralString = """
SELECT wanted.schema, wanted.name, pg_catalog.pg_get_expr(i.indpred, i.indrelid),
  coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false),
  array(SELECT pg_catalog.pg_get_indexdef(i.indexrelid, k, false)
        FROM generate_series(1, i.indnkeyatts) k ORDER BY k),
  i.indexprs IS NOT NULL OR EXISTS (SELECT FROM pg_catalog.pg_collation co
    WHERE co.oid = ANY(i.indcollation::oid[]) AND NOT co.collisdeterministic),
  own.part, own.schema, own.name, own.whole
FROM {parts}
JOIN pg_catalog.pg_index i ON i.indrelid = own.oid
JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
WHERE i.indisunique AND NOT i.indisexclusion
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhrelid = i.indexrelid)
ORDER BY x.relname, x.oid
"""


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """A UNIQUE index of the finished clone."""

    table: Table
    leaving: tuple[str, ...]  # free columns that decide whether a row is in it
    within: sql.Composable  # condition of the rows of its partition
    outside: sql.Composable | None  # condition of those that are not in it; None if all are
    text: str | None  # a free text in its key, or None
    length: int | None  # the greatest length of that text, or None
    drawn: str | None  # a free column of a key of several, or None
    ended: str | None  # a free column without a value of which a row is not in it, or None
    plain: bool  # whether keys by construction cover it
    # Query of all rows but one of every key: ``t``, ``id`` and their number ``n``.
    surplus: sql.Composable


def find(clone: TargetTables) -> list[UniqueIndex]:
    """Return the UNIQUE indexes of a clone, read in a rehearsal of the load."""
    found: list[UniqueIndex] = []
    listed = clone.ask_all(_INDEXES)
    for table in clone.tables:
        hung = {name for target, name in clone.referred if target == table.name}
        for predicate, nulls_equal, keys, risky, partition, *name, whole in listed[table.name]:
            read = [column for key in keys for column in columns_in(table, key)]
            columns = rows.bases(table, read)
            computed = any(table.column(column).generated for column in read)
            decided = rows.bases(table, columns_in(table, predicate or ""))
            leaving = [c for c in decided if rows.is_free(table, c)]
            others = [c for c in leaving if c not in columns]
            texts = [c for c in columns if c not in hung and _is_text(table, c)]
            free = [c for c in columns if c not in hung and rows.is_free(table, c)]
            ended = [c for c in free if not (nulls_equal or table.column(c).not_null)]
            inside = [rows.raw(predicate)] if predicate else []
            if not nulls_equal:
                inside += [build("({}) IS NOT NULL", rows.raw(key)) for key in keys]
            # Only this partition is read: to read all of them for each one's index takes long.
            surplus = build(
                "SELECT t, id, n - 1 AS n FROM (SELECT tableoid AS t, ctid AS id,"
                " row_number() OVER (PARTITION BY {keys}) AS n"
                " FROM {place} WHERE {inside}) AS numbered WHERE n > 1",
                place=own_rows(TableName(*name), whole=whole),
                keys=[build("({})", rows.raw(key)) for key in keys],
                inside=rows.every(inside),
            )
            outside = build("({}) IS NOT TRUE", rows.raw(predicate or "true"))
            counted = texts == columns  # a text is the whole key
            found.append(
                UniqueIndex(
                    table,
                    () if counted else tuple(others or leaving),
                    rows.within(partition),
                    outside if predicate else None,
                    next(iter(texts), None),
                    table.column(texts[0]).type.length if texts else None,
                    free[-1] if free and len(columns) > 1 else None,
                    next(iter(ended), None),
                    not (risky or computed or predicate) and partition is None,
                    surplus,
                )
            )
    return found


def repair(
    clone: TargetTables,
    indexes: Iterable[UniqueIndex],
    touched: Collection[str] | None,
    *,
    last: bool = False,
) -> None:
    """Change rows so that they are unique; with ``last``, delete rows that still are not.

    Tables of which no row was changed still have the unique plain keys with which they were
    generated.
    """
    for index in indexes:
        if index.plain and touched is not None and index.table.key not in touched:
            continue
        with database_errors("repairing rows that are not unique", index.table.key):
            if last:
                clone.delete(index.table, index.surplus)
            else:
                _change(clone, index)


def _change(clone: TargetTables, index: UniqueIndex) -> None:
    table, surplus = index.table, index.surplus
    # Values of another partition might take the row there, or say nothing of its own.
    lenders = [index.within, clone.kept(table)]
    if index.outside is not None:
        leaving = {name: name for name in index.leaving}
        good = rows.among(table, [*lenders, index.outside])
        if clone.borrow(table, leaving, surplus, good):
            return
    if index.text is not None:
        # A number drawn anew is unlike any that other rows of the index may hold already.
        # It stands before the @ of an e-mail address.
        new = build(_NUMBERED, index.text)
        if index.length is not None:
            new = build("pg_catalog.right({}, {})", new, index.length)
        clone.update(table, build("{} = {}", index.text, new), surplus)
    elif index.drawn is not None:
        drawn = {index.drawn: index.drawn}
        clone.borrow(table, drawn, surplus, rows.among(table, lenders))
    elif index.ended is not None:
        clone.update(table, rows.nulls([index.ended]), surplus)


def _is_text(table: Table, name: str) -> bool:
    """Whether a column is a text that may get a number."""
    type_ = table.column(name).type
    plain = type_.domain is None and type_.base in _TEXTS
    return plain and rows.is_movable(table, name)
