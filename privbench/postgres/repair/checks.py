"""CHECKs of tables and domains: set aside during the copy, rows repaired, put back.

A row that breaks a CHECK takes the cheapest of some candidates that PostgreSQL lets pass
(`candidates`). Rows that are still broken go, unless they are most of the table: then the CHECK is
put back as NOT VALID, so that it holds for every row to come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import count

import psycopg
from psycopg import errors, sql

from privbench.postgres.failures import database_errors
from privbench.postgres.repair import rows
from privbench.postgres.repair.candidates import try_candidates
from privbench.postgres.repair.rows import Rows
from privbench.postgres.repair.rules import Rule, find, guarded
from privbench.schema import Table

#: Rounds over all CHECKs of a table: the repair of one may break another.
ROUNDS = 4
#: A CHECK itself raises on some row (an overflow, a cast, a function's own check_violation): such
#: rows break it.
_RAISED = (psycopg.DataError, psycopg.IntegrityError, errors.RaiseException)
#: Larger shares of a table than this are not dropped for the sake of a CHECK.
MOST = 0.5


class Checks:
    """All CHECKs that synthetic rows may break; ``loose`` names those that most rows break."""

    def __init__(self, clone: Rows) -> None:
        self._clone = clone
        self._breached: set[str] = set()
        self._serial = count()
        self._made, rules = find(clone)
        self._rules: dict[str, list[Rule]] = {}
        for rule in rules:
            self._rules.setdefault(rule.table.key, []).append(rule)
        self._held: set[str] = set()
        self.loose: set[str] = set()
        for place, (owner, name, _) in self._made.items():
            with database_errors("setting CHECK constraints aside", place):
                clone.run("{} DROP CONSTRAINT {}", owner, name)

    def restore(self) -> None:
        """Put all CHECKs back; those that most rows break become NOT VALID, so that rows stay."""
        for place, (owner, name, definition) in self._made.items():
            kept = place not in self.loose or definition.endswith((" NOT VALID", "ENFORCED"))
            whole = rows.raw(definition + ("" if kept else " NOT VALID"))
            with database_errors(f"putting back the CHECK constraint {name!r}", place):
                self._clone.run("{} ADD CONSTRAINT {} {}", owner, name, whole)

    def breached(self) -> set[str]:
        """Tables in which some row breaks a CHECK, or makes it raise an error."""
        found = set()
        for key, rules in self._rules.items():
            try:
                with self._clone.attempt():
                    broken = sql.SQL(" OR ").join(rule.broken for rule in rules)
                    asked = "SELECT EXISTS (SELECT FROM {} WHERE {})"
                    if self._clone.first(asked, rules[0].table.name, broken)[0]:
                        found.add(key)
            except _RAISED:
                found.add(key)
        return found

    def repair(self, among: Collection[str] | None = None) -> None:
        """Repair the rows of some tables; None means all."""
        for key, rules in self._rules.items():
            if among is not None and key not in among:
                continue
            with database_errors("repairing rows that break a CHECK constraint", key):
                try:
                    with self._clone.attempt():
                        self._repair(rules)
                except _RAISED:
                    rules[:] = [guarded(self._clone, rule, next(self._serial)) for rule in rules]
                    self._repair(rules)

    def hold(self, table: Table, columns: Collection[str]) -> None:
        """Let no later repair change these columns of a table, its references or UNIQUE columns.

        A row may then have no change that keeps all CHECKs at once. For such rows one CHECK at a
        time is repaired, even if that breaks another, which is repaired after it.
        """
        rules = self._rules.get(table.key, [])
        rules[:] = [rule.without(columns) for rule in rules]
        self._held.add(table.key)

    def kept(self, table: Table) -> sql.Composable:
        """Condition of the rows that keep every CHECK of a table."""
        return rows.every(rule.kept for rule in self._heeded(table))

    def _heeded(self, table: Table) -> list[Rule]:
        """Rules that rows must keep; of a single partition, only once a row broke one."""
        return [
            rule
            for rule in self._rules.get(table.key, ())
            if rule.constraint not in self.loose
            and (rule.within == rows.TRUE or rule.constraint in self._breached)
        ]

    def _broken(self, rules: Iterable[Rule]) -> list[Rule]:
        """The rules that some row breaks; `kept` includes them from now on."""
        heeded = (rule for rule in rules if rule.constraint not in self.loose)
        found = [rule for rule in heeded if rule.breaks(self._clone)]
        self._breached.update(rule.constraint for rule in found)
        return found

    def _repair(self, rules: Sequence[Rule]) -> None:
        for _ in range(ROUNDS):
            broken = self._broken(rules)
            if not broken:
                return
            for rule in broken:
                try_candidates(self._clone, rule, self._near(rule))
                if rule.table.key in self._held:
                    try_candidates(self._clone, rule, [rule])
        for rule in self._broken(rules):
            if rule.share(self._clone) > MOST:
                self.loose.add(rule.constraint)
            else:
                self._clone.delete(rule.table, rule.broken_rows)

    def _near(self, rule: Rule) -> list[Rule]:
        """Rules that share columns with a rule, itself first."""
        others = (o for o in self._heeded(rule.table) if o.constraint != rule.constraint)
        return [rule, *(other for other in others if other.uses & rule.uses)]
