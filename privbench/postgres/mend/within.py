"""Elements of arrays over a domain whose CHECK is not understood: made in the target.

PostgreSQL cannot set such a CHECK aside during the copy, so the elements come as NULL. Simple
values of the domain's type are tried against the domain itself; those that it takes fill arrays
that hold nothing but NULL.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import LiteralString

import psycopg
import sqlglot
from psycopg import sql
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.mend import rows
from privbench.schema import Table

#: Values that are tried for one domain, and values that are enough.
_MOST, _ENOUGH = 256, 48
_TEXTS = ("x", "X", "a", "A", "ab", "AB", "abc", "ABC", "Abc", "abcd", "word", "Word", "a b", "")
#: Columns that are arrays of a domain, with the type under it and the CHECKs of all domains on the
#: way there.
_COLUMNS: LiteralString = """
WITH RECURSIVE under(type, base) AS (
  SELECT oid, typbasetype FROM pg_catalog.pg_type WHERE typtype = 'd'
  UNION
  SELECT u.type, d.typbasetype FROM under u JOIN pg_catalog.pg_type d
    ON d.typtype = 'd' AND d.oid = u.base)
SELECT a.attname::text, pg_catalog.format_type(d.oid, NULL),
  (SELECT b.typcategory::text FROM under u JOIN pg_catalog.pg_type b
    ON b.oid = u.base AND b.typtype <> 'd' WHERE u.type = d.oid),
  array(SELECT pg_catalog.pg_get_expr(k.conbin, 0) FROM pg_catalog.pg_constraint k
    WHERE k.contypid = d.oid OR k.contypid IN (SELECT u.base FROM under u WHERE u.type = d.oid)
    ORDER BY k.conname)
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_type d ON d.typtype = 'd' AND d.typarray = a.atttypid
WHERE n.nspname = %(schema)s AND c.relname = %(name)s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""


def fill(connection: Connection, table: Table) -> int:
    """Fill a table's arrays of NULLs over a domain with values of the domain; how many rows.

    Raises:
        DatabaseError: The server refused.
    """
    changed = 0
    if not any(column.type.category == "A" for column in table.columns):
        return changed
    with database_errors("filling arrays over a domain", table.key):
        for column, domain, category, checks in rows.ask(connection, _COLUMNS, table):
            if checks and rows.is_free(table, column):
                changed += _fill(connection, table, column, domain, _tried(category, checks))
    return changed


def _fill(connection: Connection, table: Table, column: str, domain: str, tried: list[str]) -> int:
    """Fill the arrays of one column."""
    name = sql.SQL("{}.{}").format(rows.name_of(table), sql.Identifier(column))
    empty = sql.SQL(
        "{0} IS NOT NULL AND cardinality({0}) > 0 AND array_ndims({0}) = 1"
        " AND NOT EXISTS (SELECT FROM unnest({0}) AS e(v) WHERE e.v IS NOT NULL)"
    ).format(name)
    if not rows.holds(connection, table, empty):
        return 0
    taken = list(_taken(connection, domain, tried))
    if not taken:
        return 0
    statement = sql.SQL(
        "UPDATE {table} SET {column} = (SELECT array_agg("
        "(ARRAY[{values}]::{domain}[])"
        "[1 + abs(hashtext(concat({table}.ctid, ' ', i))::bigint) % {count}])"
        " FROM generate_subscripts({name}, 1) AS i) WHERE {empty}"
    ).format(
        table=rows.name_of(table),
        column=sql.Identifier(column),
        values=sql.SQL(", ").join(sql.Literal(value) for value in taken),
        domain=rows.raw(domain),
        count=sql.Literal(len(taken)),
        name=name,
        empty=empty,
    )
    return connection.execute(statement).rowcount


def _taken(connection: Connection, domain: str, tried: list[str]) -> Iterator[str]:
    """Values that the domain takes."""
    found = 0
    for value in tried:
        statement = sql.SQL("SELECT {}::{}").format(sql.Literal(value), rows.raw(domain))
        with contextlib.suppress(psycopg.Error):
            with connection.transaction():
                connection.execute(statement)
            found += 1
            yield value
        if found == _ENOUGH:
            return


def _tried(category: str, checks: list[str]) -> list[str]:
    """Texts of values to try: those that a CHECK speaks of, then simple ones of the type."""
    found = [node.this for check in checks for node in _literals(check)]
    if category == "N":
        numbers = [int(text) for text in found if text.lstrip("-").isdigit()]
        found += [str(number + step) for number in numbers for step in (1, -1)]
        found += [str(number) for number in range(1, 100)] + ["0", "-1", "0.5", "1000"]
    elif category == "S":
        found += [*_TEXTS, *(str(number) for number in range(10))]
        found += [digit * size for size in range(2, 13) for digit in ("0", "x", "X")]
    elif category == "D":
        found += [f"20{year:02}-01-01" for year in range(30)] + ["12:00"]
    return list(dict.fromkeys(found))[:_MOST]


def _literals(check: str) -> list[exp.Literal]:
    try:
        return list(sqlglot.parse_one(check, read="postgres").find_all(exp.Literal))
    except (SqlglotError, RecursionError):
        return []
