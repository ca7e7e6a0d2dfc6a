"""CHECK constraints of tables and domains: set aside during the copy, rows mended, put back.

A row that breaks a CHECK takes the check's columns, references among them, from a row of its kind
that keeps all of the table's CHECKs, drawn at random. Where none does, it takes the arm of the
CHECK that changes it least (`choose`); then the columns of any row that keeps the CHECKs; then
values that the CHECK itself speaks of are tried; what cannot be mended so becomes NULL where
columns allow it. Rows that are still broken go, unless they are most of the table: then the CHECK
is put back as not validated, so that it holds for every row to come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.mend import rows
from privbench.postgres.mend.arms import has_equation
from privbench.postgres.mend.attempts import empty, end, propose
from privbench.postgres.mend.choose import choose
from privbench.postgres.mend.constraints import DOMAIN_CHECKS, TABLE_CHECKS, Constraint
from privbench.postgres.mend.rules import (
    Rule,
    free_columns,
    guarded,
    lent_columns,
    tied_columns,
)
from privbench.schema import Table

#: Rounds over all CHECKs of a table; mending one may break another.
ROUNDS = 4
#: Larger shares of a table than this are not dropped for the sake of a CHECK.
MOST = 0.5


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
        self._breached: set[int] = set()
        tables = tuple(tables)
        self._referred = rows.referred(tables)
        domains: dict[int, int] = {}
        with database_errors("reading CHECK constraints"):
            listed = rows.ask_all(connection, TABLE_CHECKS, tables)
            for table in tables:
                self._of_table(table, listed[table.name])
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
                        changed[key], deleted[key] = self._repair(rules)
                except psycopg.DataError:
                    # A CHECK itself fails on some row (an overflow, a cast): such rows break it.
                    rules[:] = [guarded(self._connection, rule) for rule in rules]
                    changed[key], deleted[key] = self._repair(rules)
        return changed, deleted

    def restore(self) -> list[str]:
        """Put all CHECKs back, and say which hold for rows to come alone."""
        for number, constraint in enumerate(self._constraints):
            constraint.restore(self._connection, kept=number not in self._loose)
        return [self._constraints[number].place for number in sorted(self._loose)]

    def follow(self, table: Table, fixed: Collection[str]) -> int:
        """Mend rows of which some columns had to change, without changing those; how many."""
        total = 0
        with database_errors("repairing rows that moved", table.key):
            for _ in range(ROUNDS):
                changed = sum(
                    self._follow(rule, fixed)
                    for rule in self._active(self._rules.get(table.key, ()))
                )
                total += changed
                if not changed:
                    break
            else:
                # The last round may have broken a rule that `kept` does not speak of yet.
                self._broken(self._rules.get(table.key, ()))
        return total

    def _follow(self, rule: Rule, fixed: Collection[str]) -> int:
        free = tuple(name for name in rule.columns if name not in fixed)
        if not self._broken([rule]) or not free:
            return 0
        rest = replace(rule, columns=free, tied=(), lent=())
        return (
            propose(self._connection, rest) or self._choose(rest) or empty(self._connection, rest)
        )

    def kept(self, table: Table) -> sql.Composable:
        """Condition of the rows that keep every CHECK of a table."""
        return rows.every(rule.kept for rule in self._heeded(table))

    def _heeded(self, table: Table) -> list[Rule]:
        """Rules that rows must keep; those of partitions, which may be many, once one is broken."""
        rules = self._active(self._rules.get(table.key, ()))
        return [rule for rule in rules if rule.part is None or rule.constraint in self._breached]

    def _of_table(self, table: Table, listed: Iterable[Sequence[Any]]) -> None:
        for schema, name, constraint, definition, expression, columns, partition in listed:
            owner = sql.SQL("ALTER TABLE {}").format(sql.Identifier(schema, name))
            place = f"{schema}.{name}: {constraint}"
            self._constraints.append(Constraint(place, owner, constraint, definition))
            alone = partition is not None
            self._add(
                Rule(
                    table,
                    len(self._constraints) - 1,
                    rows.raw(expression),
                    free_columns(table, columns),
                    frozenset(columns),
                    expression,
                    tied_columns(table, columns, self._referred),
                    lent_columns(table, columns, self._referred),
                    rows.in_partition(partition) if alone else rows.TRUE,
                    sql.Identifier(schema, name) if alone else None,
                )
            )

    def _of_domains(self, table: Table, known: dict[int, int]) -> None:
        if not any(column.type.domain for column in table.columns):
            return
        for oid, schema, domain, name, definition, expression, columns, plain in rows.ask(
            self._connection, DOMAIN_CHECKS, table
        ):
            if columns and oid not in known:
                known[oid] = len(self._constraints)
                owner = sql.SQL("ALTER DOMAIN {}").format(sql.Identifier(schema, domain))
                self._constraints.append(Constraint(f"{domain}: {name}", owner, name, definition))
            for column in columns:
                # Read as its plain type: operators of enums and arrays know nothing of domains.
                condition = sql.SQL("(SELECT {} FROM (SELECT {}::{}) AS given(value))").format(
                    rows.raw(expression),
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

    def _broken(self, rules: Iterable[Rule]) -> list[Rule]:
        """Rules that some row breaks; from now on `kept` speaks of them."""
        found = [rule for rule in self._active(rules) if rule.breaks(self._connection)]
        self._breached.update(rule.constraint for rule in found)
        return found

    def _repair(self, rules: Sequence[Rule]) -> tuple[int, int]:
        """How many rows were changed, and how many were deleted."""
        total = 0
        for last in [False] * (ROUNDS - 1) + [True]:
            broken = self._broken(rules)
            if not broken:
                return total, 0
            total += sum(self._mend(rule, last=last) for rule in broken)
        return total, self._delete(rules)

    def _mend(self, rule: Rule, *, last: bool) -> int:
        """Mend one rule, as little as will do; how many rows were changed."""
        steps: list[Callable[[Rule], int]] = [self._choose, self._borrow]
        if not (rule.labels or rule.lent or has_equation(rule.text)):
            # Without a kind of row or a reference to keep, all columns of a row that keeps the
            # CHECK fit together better than an arm's.
            steps.reverse()
        elif rule.labels and not has_equation(rule.text):
            steps.insert(0, self._borrow_alike)
        changed = 0
        for step in steps:
            if rule.breaks(self._connection):
                changed += step(rule)
        for attempt in (propose, empty, end):
            if last or not changed:
                changed += attempt(self._connection, rule)
        return changed

    def _near(self, rule: Rule) -> list[Rule]:
        """Rules that share columns with a rule, itself among them."""
        return [other for other in self._heeded(rule.table) if other.uses & rule.uses]

    def _choose(self, rule: Rule) -> int:
        """Take arms of the CHECK."""
        near = [other for other in self._near(rule) if other.constraint != rule.constraint]
        return choose(self._connection, rule, [rule, *near], (*rule.columns, *rule.lent))

    def _borrow_alike(self, rule: Rule) -> int:
        """Take columns of rows of the same kind: an order's status stays, its dates follow."""
        return self._borrow(rule, rule.labels)

    def _borrow(self, rule: Rule, labels: Sequence[str] = ()) -> int:
        """Take the columns of rows that keep all CHECKs, else of those that keep the ones near.

        Rows of which the CHECK is true come first: others may keep it for want of a value.
        """
        near = self._near(rule)
        taken = tuple(name for name in (*rule.columns, *rule.lent) if name not in labels)
        kept = self.kept(rule.table)
        true = sql.SQL("({}) IS TRUE").format(rule.condition)
        for good in (rows.every([kept, true]), kept, rows.every(other.kept for other in near)):
            changed = self._take(rule, taken, good, labels)
            if changed:
                return changed
        return 0

    def _take(
        self, rule: Rule, columns: Sequence[str], good: sql.Composable, alike: Sequence[str] = ()
    ) -> int:
        # Rows of other partitions keep the CHECK of one only because it does not speak of them.
        good = rows.every([rule.within, good])
        if len(columns) == 1 and not alike:
            # A value that breaks the CHECK is a value: NULL comes last (`empty`).
            good = rows.every([good, sql.SQL("{} IS NOT NULL").format(sql.Identifier(columns[0]))])
        bad = rule.broken_rows
        return rows.borrow(self._connection, rule.table, columns, bad, good, alike)

    def _delete(self, rules: Sequence[Rule]) -> int:
        total = 0
        for rule in self._broken(rules):
            bad, size = rule.count(self._connection)
            if bad > MOST * size:
                self._loose.add(rule.constraint)
            else:
                total += rows.delete(self._connection, rule.table, rule.broken_rows)
        return total
