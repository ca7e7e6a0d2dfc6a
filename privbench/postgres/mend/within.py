"""Values within types over a domain whose CHECK is not understood: made in the target.

PostgreSQL cannot set such a CHECK aside during the copy, so elements of arrays and fields of
composite types come as NULL, and ranges without bounds. Simple values of the domain's type are
tried against the domain itself; those that it takes fill what holds nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from psycopg import sql
from sqlglot import expressions as exp

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.mend import rows
from privbench.postgres.mend.parsed import parsed
from privbench.postgres.statement import run
from privbench.schema import Table

#: Values that are tried for one domain, and values that are enough.
_MOST, _ENOUGH = 256, 48
_TEXTS = ("x", "X", "a", "A", "ab", "AB", "abc", "ABC", "Abc", "abcd", "word", "Word", "a b", "")
#: Columns whose type holds a domain: how (a array, r range, c composite), which field, the type of
#: the column, the type under the domain, and the CHECKs of all domains on the way there.
_COLUMNS = sql.SQL("""
WITH RECURSIVE {under},
held(type, how, field, domain) AS (
  SELECT typarray, 'a', NULL::text, oid FROM pg_catalog.pg_type WHERE typtype = 'd'
  UNION ALL
  SELECT rngtypid, 'r', NULL, rngsubtype FROM pg_catalog.pg_range
  UNION ALL
  SELECT t.oid, 'c', f.attname::text, f.atttypid FROM pg_catalog.pg_type t
    JOIN pg_catalog.pg_attribute f ON f.attrelid = t.typrelid AND f.attnum > 0
      AND NOT f.attisdropped WHERE t.typtype = 'c')
SELECT a.attname::text, h.how, h.field, pg_catalog.format_type(a.atttypid, NULL),
  pg_catalog.format_type(d.oid, NULL),
  (SELECT b.typcategory::text FROM under u JOIN pg_catalog.pg_type b
    ON b.oid = u.base AND b.typtype <> 'd' WHERE u.type = d.oid),
  array(SELECT pg_catalog.pg_get_expr(k.conbin, 0) FROM pg_catalog.pg_constraint k
    WHERE k.contypid = d.oid OR k.contypid IN (SELECT u.base FROM under u WHERE u.type = d.oid)
    ORDER BY k.conname)
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN held h ON h.type = a.atttypid
JOIN pg_catalog.pg_type d ON d.typtype = 'd' AND d.oid = h.domain
WHERE n.nspname = %(schema)s AND c.relname = %(name)s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum, h.field
""").format(under=rows.UNDER)


@dataclass(frozen=True, slots=True)
class _Gap:
    """What of a column is to be filled: elements, both bounds, or one field."""

    table: Table
    column: str
    how: str
    field: str | None
    type: str
    domain: str

    @property
    def name(self) -> sql.Composable:
        return sql.SQL("{}.{}").format(rows.name_of(self.table), sql.Identifier(self.column))

    @property
    def empty(self) -> sql.Composable:
        """Condition of the rows that hold nothing there."""
        if self.how == "r":
            return sql.SQL("lower_inf({0}) AND upper_inf({0})").format(self.name)
        if self.field is not None:
            # A value of a composite type whose fields are all NULL counts as one.
            return sql.SQL("num_nulls({0}) = 0 AND ({0}).{1} IS NULL").format(
                self.name, sql.Identifier(self.field)
            )
        return sql.SQL(
            "{0} IS NOT NULL AND cardinality({0}) > 0 AND array_ndims({0}) = 1"
            " AND NOT EXISTS (SELECT FROM unnest({0}) AS e(v) WHERE e.v IS NOT NULL)"
        ).format(self.name)

    def filled(self, values: list[str]) -> sql.Composable:
        """The assignment that fills it, with other values in other rows."""
        column = sql.Identifier(self.column)
        if self.how == "r":
            return sql.SQL(
                "{} = (SELECT {}(least(a, b), greatest(a, b), '[]')"
                " FROM (SELECT {}, {}) AS e(a, b))"
            ).format(column, rows.raw(self.type), self._any(values, 1), self._any(values, 2))
        if self.field is not None:
            field = sql.Identifier(self.field)
            return sql.SQL("{}.{} = {}").format(column, field, self._any(values, self.field))
        return sql.SQL("{} = (SELECT array_agg({}) FROM generate_subscripts({}, 1) AS i)").format(
            column, self._any(values, sql.SQL("i")), self.name
        )

    def _any(self, values: list[str], turn: object) -> sql.Composable:
        """One of the values, by the row and something else."""
        return sql.SQL(
            "(ARRAY[{values}]::{domain}[])"
            "[1 + abs(hashtext(concat({table}.ctid, ' ', {turn}))::bigint) % {count}]"
        ).format(
            values=sql.SQL(", ").join(sql.Literal(value) for value in values),
            domain=rows.raw(self.domain),
            table=rows.name_of(self.table),
            turn=turn if isinstance(turn, sql.Composable) else sql.Literal(str(turn)),
            count=sql.Literal(len(values)),
        )


def fill(connection: Connection, table: Table) -> int:
    """Fill a table's NULLs within types over a domain with values of the domain; how many rows.

    Raises:
        DatabaseError: The server refused.
    """
    changed = 0
    if not any(column.type.parts for column in table.columns):
        return changed
    with database_errors("filling values over a domain", table.key):
        for column, how, field, type_, domain, category, checks in rows.ask(
            connection, _COLUMNS, table
        ):
            if checks and rows.is_free(table, column):
                gap = _Gap(table, column, how, field, type_, domain)
                changed += _fill(connection, gap, _tried(category, checks))
    return changed


def _fill(connection: Connection, gap: _Gap, tried: list[str]) -> int:
    """Fill what is empty, if there are values."""
    if not rows.holds(connection, gap.table, gap.empty):
        return 0
    taken = list(_taken(connection, gap.domain, tried))
    if not taken:
        return 0
    statement = sql.SQL("UPDATE {} SET {} WHERE {}").format(
        rows.name_of(gap.table), gap.filled(taken), gap.empty
    )
    return run(connection, statement).rowcount


def _taken(connection: Connection, domain: str, tried: list[str]) -> Iterator[str]:
    """Values that the domain takes."""
    found = 0
    for value in tried:
        statement = sql.SQL("SELECT {}::{}").format(sql.Literal(value), rows.raw(domain))
        with contextlib.suppress(psycopg.Error):
            with connection.transaction():
                run(connection, statement)
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
    tree = parsed(check)
    return [] if tree is None else list(tree.find_all(exp.Literal))
