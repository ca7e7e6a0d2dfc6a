"""CHECK constraints that synthetic rows break: set aside during the copy, repaired, put back.

PostgreSQL itself judges the rows, so any expression will do. A row that breaks a CHECK takes the
check's columns from a row that keeps all of the table's CHECKs, drawn at random; what cannot be
mended so becomes NULL where columns allow it. All of it is post-processing of synthetic rows, in
the transaction of the load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from privbench.errors import DatabaseError
from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.schema import Table

#: Rounds over all CHECKs of a table; mending one may break another.
ROUNDS = 4

#: Asked of the target, whose catalog holds what its own parser understood.
_CHECKS: LiteralString = """
SELECT k.conname, pg_catalog.pg_get_constraintdef(k.oid),
  pg_catalog.pg_get_expr(k.conbin, k.conrelid),
  array(SELECT a.attname::text FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = k.conrelid AND a.attnum = ANY(k.conkey) ORDER BY a.attnum)
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE k.contype = 'c' AND k.conislocal AND k.coninhcount = 0
  AND n.nspname = %s AND c.relname = %s
ORDER BY k.conname
"""


@dataclass(frozen=True, slots=True)
class Suspended:
    """A CHECK that is off for the moment.

    Attributes:
        table: Its table.
        name: Its name.
        definition: What puts it back.
        expression: What it demands.
        columns: Columns that a repair may change.
    """

    table: Table
    name: str
    definition: str
    expression: str
    columns: tuple[str, ...]


def suspend(connection: Connection, tables: Iterable[Table]) -> list[Suspended]:
    """Drop the CHECKs of some tables for the time of the copy.

    Args:
        connection: In the transaction that made the tables.
        tables: Tables that will hold synthetic rows.

    Raises:
        DatabaseError: The server refused.
    """
    found = []
    for table in tables:
        with database_errors("setting CHECK constraints aside", table.key):
            rows = connection.execute(_CHECKS, [table.name.schema, table.name.name]).fetchall()
            for name, definition, expression, columns in rows:
                connection.execute(
                    sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(
                        _name(table), sql.Identifier(name)
                    )
                )
                free = tuple(column for column in columns if _is_free(table, column))
                found.append(Suspended(table, name, definition, expression, free))
    return found


def settle(connection: Connection, suspended: Sequence[Suspended]) -> dict[str, int]:
    """Mend the rows and put the CHECKs back.

    Returns:
        How many rows were mended, by ``table: constraint``; the synthetic rows alone decide it.

    Raises:
        DatabaseError: Rows still break a CHECK; the message names it.
    """
    mended: dict[str, int] = {}
    tables = {item.table.key: item.table for item in suspended}
    for key, table in tables.items():
        mine = [item for item in suspended if item.table.key == key]
        with database_errors("repairing rows that break a CHECK constraint", key):
            _repair(connection, mine, mended)
        for item in mine:
            with database_errors(f"putting back the CHECK constraint {item.name!r}", key):
                connection.execute(
                    sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} {}").format(
                        _name(table), sql.Identifier(item.name), _raw(item.definition)
                    )
                )
    return mended


def _repair(connection: Connection, checks: Sequence[Suspended], mended: dict[str, int]) -> None:
    kept = sql.SQL(" AND ").join(
        sql.SQL("({}) IS NOT FALSE").format(_raw(item.expression)) for item in checks
    )
    for last in [False] * (ROUNDS - 1) + [True]:
        broken = [item for item in checks if _breaks(connection, item)]
        if not broken:
            return
        for item in broken:
            changed = _borrow(connection, item, kept) if item.columns else 0
            if last or not changed:
                changed += _empty(connection, item)
            place = f"{item.table.key}: {item.name}"
            mended[place] = mended.get(place, 0) + changed
    for item in checks:
        if _breaks(connection, item):
            raise DatabaseError(
                f"synthetic rows break the CHECK constraint {item.name!r} and cannot be mended.",
                table=item.table.key,
                remedy="Declare domains for its columns in the config; the model is kept.",
            )


def _breaks(connection: Connection, item: Suspended) -> bool:
    row = connection.execute(
        sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE ({}) IS FALSE)").format(
            _name(item.table), _raw(item.expression)
        )
    ).fetchone()
    return bool(row and row[0])


def _borrow(connection: Connection, item: Suspended, kept: sql.Composable) -> int:
    """Give broken rows the columns of rows that keep every CHECK."""
    columns = sql.SQL(", ").join(map(sql.Identifier, item.columns))
    assignments = sql.SQL(", ").join(
        sql.SQL("{0} = good.{0}").format(sql.Identifier(name)) for name in item.columns
    )
    statement = sql.SQL(
        "WITH bad AS (SELECT tableoid AS t, ctid AS id, row_number() OVER () AS k FROM {table}"
        " WHERE ({expression}) IS FALSE),"
        " drawn AS (SELECT {columns} FROM {table} WHERE {kept}"
        " ORDER BY random() LIMIT (SELECT count(*) FROM bad)),"
        " good AS (SELECT *, row_number() OVER () AS k, count(*) OVER () AS size FROM drawn)"
        " UPDATE {table} AS broken SET {assignments} FROM bad JOIN good"
        " ON good.k = (bad.k - 1) % good.size + 1"
        " WHERE broken.ctid = bad.id AND broken.tableoid = bad.t"
    ).format(
        table=_name(item.table),
        expression=_raw(item.expression),
        columns=columns,
        kept=kept,
        assignments=assignments,
    )
    return connection.execute(statement).rowcount


def _empty(connection: Connection, item: Suspended) -> int:
    """Set what may be NULL to NULL in rows that are still broken."""
    names = [name for name in item.columns if not item.table.column(name).not_null]
    if not names:
        return 0
    statement = sql.SQL("UPDATE {} SET {} WHERE ({}) IS FALSE").format(
        _name(item.table),
        sql.SQL(", ").join(sql.SQL("{} = NULL").format(sql.Identifier(name)) for name in names),
        _raw(item.expression),
    )
    return connection.execute(statement).rowcount


def _is_free(table: Table, column: str) -> bool:
    """Whether a repair may change a column: no key, not unique, not generated."""
    tied = {name for item in table.unique_sets for name in item.columns} | table.key_columns
    return column not in tied and not table.column(column).generated


def _name(table: Table) -> sql.Composable:
    return sql.Identifier(table.name.schema, table.name.name)


def _raw(text: str) -> sql.Composable:
    """Text that the target's own catalog printed; the only raw SQL here.

    Statements run without parameters, so that a % sign in it stands for itself.
    """
    return sql.SQL(text)
