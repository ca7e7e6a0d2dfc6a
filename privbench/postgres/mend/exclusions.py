"""EXCLUDE constraints: rows are put in one by one, and those that conflict are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import LiteralString

from psycopg import errors, sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.mend import rows
from privbench.schema import Table

_EXCLUSIONS: LiteralString = """
SELECT k.conname, pg_catalog.pg_get_constraintdef(k.oid)
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE k.contype = 'x' AND n.nspname = %(schema)s AND c.relname = %(name)s
ORDER BY k.conname
"""
#: A deferred constraint cannot say which row conflicts.
_DEFERRED = re.compile(r" DEFERRABLE(?: INITIALLY DEFERRED)?\Z")
_STAGE = sql.Identifier("pg_temp", "privbench rows")


@dataclass(frozen=True, slots=True)
class Exclusion:
    """An EXCLUDE constraint of the finished clone.

    Attributes:
        table: Its table.
        name: Its name.
        definition: What makes it.
    """

    table: Table
    name: str
    definition: str


def find(connection: Connection, tables: Iterable[Table]) -> list[Exclusion]:
    """The EXCLUDE constraints that are there; arguments as in `uniques.find`."""
    found = []
    for table in tables:
        with database_errors("reading EXCLUDE constraints", table.key):
            for name, definition in rows.ask(connection, _EXCLUSIONS, table):
                found.append(Exclusion(table, name, _DEFERRED.sub("", definition)))
    return found


def repair(connection: Connection, exclusions: Iterable[Exclusion]) -> dict[str, int]:
    """Delete rows that conflict with others; how many, by table."""
    deleted: dict[str, int] = {}
    for item in exclusions:
        with database_errors("repairing rows that exclude each other", item.table.key):
            if _conflicts(connection, item):
                lost = _insert_again(connection, item)
                deleted[item.table.key] = deleted.get(item.table.key, 0) + lost
    return deleted


def _conflicts(connection: Connection, item: Exclusion) -> bool:
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(_add(item))
    except errors.ExclusionViolation:
        return True
    return False


def _add(item: Exclusion) -> sql.Composed:
    return sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} {}").format(
        rows.name_of(item.table), sql.Identifier(item.name), rows.raw(item.definition)
    )


def _insert_again(connection: Connection, item: Exclusion) -> int:
    table = rows.name_of(item.table)
    columns = sql.SQL(", ").join(
        sql.Identifier(column.name) for column in item.table.columns if not column.generated
    )
    parts = {"table": table, "columns": columns, "stage": _STAGE}
    made = connection.execute(
        sql.SQL("CREATE TEMPORARY TABLE {stage} AS SELECT {columns} FROM {table}").format(**parts)
    ).rowcount
    connection.execute(sql.SQL("DELETE FROM {table}").format(**parts))
    connection.execute(_add(item))
    kept = connection.execute(
        sql.SQL(
            "INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {stage}"
            " ON CONFLICT DO NOTHING"
        ).format(**parts)
    ).rowcount
    connection.execute(
        sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(table, sql.Identifier(item.name))
    )
    connection.execute(sql.SQL("DROP TABLE {stage}").format(**parts))
    return made - kept
