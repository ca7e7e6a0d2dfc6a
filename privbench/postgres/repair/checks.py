"""CHECKs of tables and domains: dropped during the copy, then rows are repaired, then restored.

A row that breaks a CHECK takes the cheapest of some candidates that PostgreSQL lets pass
(`candidates`). Rows that still break it are deleted, unless they are most of the table: then the
CHECK is restored as NOT VALID, so that it holds for every later row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import count

import psycopg
from psycopg import errors

from privbench.postgres.failures import database_errors
from privbench.postgres.repair import rows
from privbench.postgres.repair.candidates import try_candidates
from privbench.postgres.repair.rows import TargetTables
from privbench.postgres.repair.target_checks import TargetCheck, find, guarded
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

    def __init__(self, clone: TargetTables) -> None:
        self.clone = clone
        self._breached: set[str] = set()
        self._serial = count()
        self._made, checks = find(clone)
        self._checks: dict[str, list[TargetCheck]] = {}
        for check in checks:
            self._checks.setdefault(check.table.key, []).append(check)
        self.loose: set[str] = set()
        clone.kept = lambda table: rows.every(check.kept for check in self._heeded(table))
        for place, (owner, name, _) in self._made.items():
            with database_errors("setting CHECK constraints aside", place):
                clone.run("{} DROP CONSTRAINT {}", owner, name)

    def restore(self) -> None:
        """Restore all CHECKs; those that most rows break become NOT VALID, so that rows stay."""
        for place, (owner, name, definition) in self._made.items():
            validated = place not in self.loose or definition.endswith((" NOT VALID", "ENFORCED"))
            whole = rows.raw(definition + ("" if validated else " NOT VALID"))
            with database_errors(f"putting back the CHECK constraint {name!r}", place):
                self.clone.run("{} ADD CONSTRAINT {} {}", owner, name, whole)

    def repair(self, touched: Collection[str] | None) -> None:
        """Change rows so that they satisfy the CHECKs; None for ``touched`` means all tables."""
        for key, checks in self._checks.items():
            if touched is not None and key not in touched:
                continue
            with database_errors("repairing rows that break a CHECK constraint", key):
                try:
                    with self.clone.attempt():
                        self._repair(checks)
                except _RAISED:
                    checks[:] = [guarded(self.clone, check, next(self._serial)) for check in checks]
                    self._repair(checks)

    def _heeded(self, table: Table) -> list[TargetCheck]:
        """CHECKs that rows must keep; of a single partition, only once a row broke one."""
        return [
            check
            for check in self._checks.get(table.key, ())
            if check.constraint not in self.loose
            and (check.within == rows.TRUE or check.constraint in self._breached)
        ]

    def _broken(self, checks: Iterable[TargetCheck]) -> list[TargetCheck]:
        """The CHECKs that some row breaks; `kept` includes them from now on."""
        heeded = (check for check in checks if check.constraint not in self.loose)
        broken = [check for check in heeded if check.breaks(self.clone)]
        self._breached.update(check.constraint for check in broken)
        return broken

    def _repair(self, checks: Sequence[TargetCheck]) -> None:
        for _ in range(ROUNDS):
            broken = self._broken(checks)
            if not broken:
                return
            for check in broken:
                fixed = self.clone.fixed[check.table.key]
                free = check.without(fixed) if fixed else check
                near = [free, *self._near(check)]
                try_candidates(self.clone, free, near)
                if fixed:
                    # No change may keep all CHECKs at once: another is broken, and repaired next.
                    try_candidates(self.clone, free, [free])
        for check in self._broken(checks):
            if check.share(self.clone) > MOST:
                self.loose.add(check.constraint)
            else:
                self.clone.delete(check.table, check.broken_rows)

    def _near(self, check: TargetCheck) -> list[TargetCheck]:
        """Other CHECKs that share columns with one."""
        others = (o for o in self._heeded(check.table) if o.constraint != check.constraint)
        return [other for other in others if other.uses & check.uses]
