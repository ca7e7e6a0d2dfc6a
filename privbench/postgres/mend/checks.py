"""CHECK constraints of tables and domains: set aside during the copy, rows mended, put back.

A row that breaks a CHECK takes the check's columns from a row that keeps all of the table's CHECKs,
drawn at random; where none does, values that the CHECK itself speaks of are tried; what cannot be
mended so becomes NULL where columns allow it. Rows that are still
broken go, unless they are most of the table: then the CHECK is put back as not validated, so that
it holds for every row to come.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.mend import rows
from privbench.postgres.mend.proposals import proposals
from privbench.postgres.mend.rules import Rule, free_columns, guarded, tied_columns
from privbench.schema import Table

#: Rounds over all CHECKs of a table; mending one may break another.
ROUNDS = 4
#: Larger shares of a table than this are not dropped for the sake of a CHECK.
MOST = 0.5

#: Asked of the target, whose catalog holds what its own parser understood.
_TABLE_CHECKS: LiteralString = """
SELECT k.conname, pg_catalog.pg_get_constraintdef(k.oid),
  pg_catalog.pg_get_expr(k.conbin, k.conrelid),
  array(SELECT a.attname::text FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = k.conrelid AND a.attnum = ANY(k.conkey) ORDER BY a.attnum)
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE k.contype = 'c' AND k.conislocal AND k.coninhcount = 0
  AND n.nspname = %(schema)s AND c.relname = %(name)s
ORDER BY k.conname
"""
#: Domains with a CHECK, and the columns of that type or of a domain over it. PostgreSQL cannot put
#: a CHECK back on a domain that stands within an array or a composite type, so those stay.
_DOMAIN_CHECKS: LiteralString = """
WITH RECURSIVE over(base, type) AS (
  SELECT oid, oid FROM pg_catalog.pg_type WHERE typtype = 'd'
  UNION
  SELECT o.base, d.oid FROM over o JOIN pg_catalog.pg_type d
    ON d.typtype = 'd' AND d.typbasetype = o.type),
under(type, base) AS (
  SELECT oid, typbasetype FROM pg_catalog.pg_type WHERE typtype = 'd'
  UNION
  SELECT u.type, d.typbasetype FROM under u JOIN pg_catalog.pg_type d
    ON d.typtype = 'd' AND d.oid = u.base)
SELECT k.oid::bigint, n.nspname, t.typname, k.conname, pg_catalog.pg_get_constraintdef(k.oid),
  pg_catalog.pg_get_expr(k.conbin, 0),
  array(SELECT a.attname::text FROM pg_catalog.pg_attribute a
        JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
        JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
        JOIN over o ON o.type = a.atttypid AND o.base = t.oid
        WHERE s.nspname = %(schema)s AND c.relname = %(name)s
          AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) AS columns,
  (SELECT pg_catalog.format_type(u.base, NULL) FROM under u
   JOIN pg_catalog.pg_type b ON b.oid = u.base AND b.typtype <> 'd'
   WHERE u.type = t.oid) AS plain
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_type t ON t.oid = k.contypid
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE k.contype = 'c' AND NOT EXISTS (
    SELECT FROM over o JOIN pg_catalog.pg_type d ON d.oid = o.type
    JOIN pg_catalog.pg_attribute a ON a.atttypid IN (d.oid, d.typarray)
    JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    WHERE o.base = t.oid AND (a.atttypid = d.typarray OR c.relkind = 'c'))
  AND NOT EXISTS (SELECT FROM over o JOIN pg_catalog.pg_range r ON r.rngsubtype = o.type
    WHERE o.base = t.oid)
ORDER BY n.nspname, t.typname, k.conname
"""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A CHECK that is off for the moment.

    Attributes:
        place: ``table: constraint`` or ``domain: constraint``, for people.
        owner: ``ALTER TABLE x`` or ``ALTER DOMAIN x``.
        name: Its name.
        definition: What puts it back.
    """

    place: str
    owner: sql.Composable
    name: str
    definition: str

    def drop(self, connection: Connection) -> None:
        """Set it aside."""
        with database_errors("setting CHECK constraints aside", self.place):
            connection.execute(
                sql.SQL("{} DROP CONSTRAINT {}").format(self.owner, sql.Identifier(self.name))
            )

    def restore(self, connection: Connection, *, kept: bool) -> None:
        """Put it back; as not validated where rows do not keep it."""
        loose = "" if kept or self.definition.endswith((" NOT VALID", "ENFORCED")) else " NOT VALID"
        with database_errors(f"putting back the CHECK constraint {self.name!r}", self.place):
            connection.execute(
                sql.SQL("{} ADD CONSTRAINT {} {}").format(
                    self.owner, sql.Identifier(self.name), rows.raw(self.definition + loose)
                )
            )


class Checks:
    """All CHECKs that synthetic rows may break.

    Args:
        connection: In the transaction that made the tables.
        tables: Tables that will hold synthetic rows.

    Raises:
        DatabaseError: The server refused.
    """

    def __init__(self, connection: Connection, tables: Iterable[Table]) -> None:
        self._connection = connection
        self._constraints: list[Constraint] = []
        self._rules: dict[str, list[Rule]] = {}
        self._loose: set[int] = set()
        tables = tuple(tables)
        self._referred = rows.referred(tables)
        domains: dict[int, int] = {}
        for table in tables:
            with database_errors("reading CHECK constraints", table.key):
                self._of_table(table)
                self._of_domains(table, domains)
        for constraint in self._constraints:
            constraint.drop(connection)

    def repair(self) -> tuple[dict[str, int], dict[str, int]]:
        """Mend the rows.

        Returns:
            How many rows were changed, and how many were deleted, by table.
        """
        changed: dict[str, int] = {}
        deleted: dict[str, int] = {}
        for key, rules in self._rules.items():
            with database_errors("repairing rows that break a CHECK constraint", key):
                try:
                    with self._connection.transaction():
                        changed[key], deleted[key] = self._mend(rules), self._delete(rules)
                except psycopg.DataError:
                    # A CHECK itself fails on some row (an overflow, a cast): such rows break it.
                    rules[:] = [guarded(self._connection, rule) for rule in rules]
                    changed[key], deleted[key] = self._mend(rules), self._delete(rules)
        return changed, deleted

    def restore(self) -> list[str]:
        """Put all CHECKs back, and say which hold for rows to come alone."""
        for number, constraint in enumerate(self._constraints):
            constraint.restore(self._connection, kept=number not in self._loose)
        return [self._constraints[number].place for number in sorted(self._loose)]

    def kept(self, table: Table) -> sql.Composable:
        """Condition of the rows that keep every CHECK of a table."""
        rules = (r for r in self._rules.get(table.key, ()) if r.constraint not in self._loose)
        return rows.every(sql.SQL("({}) IS NOT FALSE").format(rule.condition) for rule in rules)

    def _of_table(self, table: Table) -> None:
        owner = sql.SQL("ALTER TABLE {}").format(rows.name_of(table))
        for name, definition, expression, columns in rows.ask(
            self._connection, _TABLE_CHECKS, table
        ):
            self._constraints.append(Constraint(f"{table.key}: {name}", owner, name, definition))
            free = free_columns(table, columns)
            number, uses = len(self._constraints) - 1, frozenset(columns)
            tied = tied_columns(table, columns, self._referred)
            self._add(Rule(table, number, rows.raw(expression), free, uses, expression, tied))

    def _of_domains(self, table: Table, known: dict[int, int]) -> None:
        for oid, schema, domain, name, definition, expression, columns, plain in rows.ask(
            self._connection, _DOMAIN_CHECKS, table
        ):
            if columns and oid not in known:
                known[oid] = len(self._constraints)
                owner = sql.SQL("ALTER DOMAIN {}").format(sql.Identifier(schema, domain))
                self._constraints.append(Constraint(f"{domain}: {name}", owner, name, definition))
            for column in columns:
                # Read as its plain type: operators of enums and arrays know nothing of domains.
                condition = sql.SQL("(SELECT {} FROM (SELECT {}.{}::{}) AS given(value))").format(
                    rows.raw(expression),
                    rows.name_of(table),
                    sql.Identifier(column),
                    rows.raw(plain),
                )
                free = free_columns(table, [column])
                uses = frozenset({column})
                tied = tied_columns(table, [column], self._referred)
                self._add(Rule(table, known[oid], condition, free, uses, expression, tied))

    def _add(self, rule: Rule) -> None:
        self._rules.setdefault(rule.table.key, []).append(rule)

    def _active(self, rules: Iterable[Rule]) -> list[Rule]:
        return [rule for rule in rules if rule.constraint not in self._loose]

    def _mend(self, rules: Sequence[Rule]) -> int:
        total = 0
        for last in [False] * (ROUNDS - 1) + [True]:
            broken = [
                r for r in self._active(rules) if rows.holds(self._connection, r.table, r.broken)
            ]
            for rule in broken:
                changed = self._borrow(rule)
                if last or not changed:
                    changed += self._propose(rule)
                if last or not changed:
                    changed += self._empty(rule)
                total += changed
            if not broken:
                break
        return total

    def _borrow(self, rule: Rule) -> int:
        """Take the columns of rows that keep all CHECKs, else of those that keep the ones near."""
        bad = rule.broken_rows
        near = (
            other
            for other in self._rules[rule.table.key]
            if other.uses & rule.uses and other.constraint not in self._loose
        )
        for good in (
            self.kept(rule.table),
            rows.every(sql.SQL("({}) IS NOT FALSE").format(other.condition) for other in near),
        ):
            changed = rows.borrow(self._connection, rule.table, rule.columns, bad, good)
            if changed:
                return changed
        return 0

    def _propose(self, rule: Rule) -> int:
        """Set columns to what the CHECK itself speaks of, as far as fewer rows then break it."""
        left = before = self._count(rule)[0]
        columns = rule.columns or rule.tied
        tried = proposals(rule.table, rule.text, columns, apart=not rule.columns)
        for name, text in tried if left else ():
            statement = sql.SQL("UPDATE {} SET {} = {} WHERE {}").format(
                rows.name_of(rule.table), sql.Identifier(name), rows.raw(text), rule.broken
            )
            # A proposal that PostgreSQL refuses is none.
            with contextlib.suppress(psycopg.Error), self._connection.transaction() as point:
                self._connection.execute(statement)
                now = self._count(rule)[0]
                if now >= left:
                    raise psycopg.Rollback(point)
                left = now
            if not left:
                break
        return before - left

    def _empty(self, rule: Rule) -> int:
        """Set what may be NULL to NULL in rows that are still broken."""
        columns = rule.columns or rule.tied
        names = [name for name in columns if not rule.table.column(name).not_null]
        if not names:
            return 0
        statement = sql.SQL("UPDATE {} SET {} WHERE {}").format(
            rows.name_of(rule.table),
            sql.SQL(", ").join(sql.SQL("{} = NULL").format(sql.Identifier(name)) for name in names),
            rule.broken,
        )
        return self._connection.execute(statement).rowcount

    def _delete(self, rules: Sequence[Rule]) -> int:
        total = 0
        for rule in self._active(rules):
            bad, size = self._count(rule)
            if bad > MOST * size:
                self._loose.add(rule.constraint)
            elif bad:
                total += rows.delete(self._connection, rule.table, rule.broken_rows)
        return total

    def _count(self, rule: Rule) -> tuple[int, int]:
        row = self._connection.execute(
            sql.SQL("SELECT count(*) FILTER (WHERE {}), count(*) FROM {}").format(
                rule.broken, rows.name_of(rule.table)
            )
        ).fetchone()
        assert row is not None
        return int(row[0]), int(row[1])
