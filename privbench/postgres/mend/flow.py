"""The order of repairs during a load."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from privbench.postgres.load import Loader
from privbench.postgres.mend import (
    exclusions,
    orphans,
    partitions,
    periods,
    rows,
    trees,
    uniques,
    within,
)
from privbench.postgres.mend.checks import Checks
from privbench.rng import generator
from privbench.schema import Table

logger = logging.getLogger(__name__)

#: Rounds over all rules; mending one may break another.
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Mended:
    """What the repairs did; the synthetic rows alone decide it.

    Attributes:
        changed: Rows that were changed, by table.
        deleted: Rows that were deleted, by table.
        loose: CHECKs that most rows break and that hold for rows to come alone.
    """

    changed: Mapping[str, int]
    deleted: Mapping[str, int]
    loose: tuple[str, ...]


class Mending:
    """Repairs of one load: made when the tables are there and empty, settled when they are full.

    Args:
        loader: The load. What its target's catalog states of the tables is all that the repairs
            know of types and expressions.
        tables: Tables that will hold synthetic rows.
        suspects: Tables that may lack rows which others refer to.
        seed: Seed of the sample; the same rows are then mended in the same way.

    Raises:
        DatabaseError: The server refused.
    """

    def __init__(
        self,
        loader: Loader,
        tables: Sequence[Table],
        suspects: Sequence[str] = (),
        *,
        seed: int | None = None,
    ) -> None:
        self._seed = seed
        connection = self._connection = loader.connection
        tables = self._tables = tuple(loader.table(table) for table in tables)
        self._lost = set(suspects)
        self._touched: set[str] = set()
        self._changed: Counter[str] = Counter()
        self._deleted: Counter[str] = Counter()
        with loader.rehearsal():
            self._uniques = uniques.find(connection, tables)
            self._periods = periods.find(connection, tables)
            self._exclusions = exclusions.find(connection, tables, self._periods)
        self._rests = partitions.open_rests(connection, tables)
        self._checks = Checks(connection, tables)

    def missing(self, table: Table, count: int) -> None:
        """Say that rows could not be copied, which others may refer to."""
        self._note({}, {table.key: count})

    def settle(self) -> Mended:
        """Mend the rows and put back what was set aside.

        Raises:
            DatabaseError: The server refused.
        """
        if self._seed is not None:
            rows.set_seed(self._connection, generator(self._seed, "mend").uniform(-1.0, 1.0))
        moved, gone = partitions.close_rests(self._connection, self._rests)
        self._touched |= {key for key, count in moved.items() if count}
        self._lost |= self._touched
        self._note(moved, gone)
        for table in self._tables:
            self._note({table.key: within.fill(self._connection, table)}, {})
        for _ in range(ROUNDS):
            if not self._round(last=False):
                break
        self._round(last=True)
        self._place()
        self._end_orphans()
        loose = tuple(self._checks.restore())
        self._tell(loose)
        return Mended(dict(+self._changed), dict(+self._deleted), loose)

    def _round(self, *, last: bool) -> bool:
        """CHECKs, then UNIQUE indexes; whether rows were changed for the latter."""
        self._check()
        if self._plant(self._touched):
            self._check()
        count = 0
        for table in self._tables:
            mine = [index for index in self._uniques if index.table == table]
            some, gone = uniques.repair(
                self._connection, mine, self._touched, self._checks.kept(table), last=last
            )
            self._note({table.key: some}, {table.key: gone})
            count += some
        return count > 0

    def _check(self) -> None:
        changed, deleted = self._checks.repair()
        self._note(changed, deleted)
        self._touched |= {key for key, some in changed.items() if some}

    def _plant(self, keys: Collection[str]) -> bool:
        """End circles of self-references; whether there were any."""
        changed = trees.repair(self._connection, self._tables, keys)
        self._note(changed, {})
        return any(changed.values())

    def _place(self) -> None:
        """EXCLUDE constraints and keys of periods; rows that had to move may break a CHECK."""
        bound = {key.table.key for key in self._periods}
        free = [item for item in self._exclusions if item.table.key not in bound]
        moved: Counter[str] = Counter()
        moved.update(self._exclude(free))
        for key in self._periods:
            # Its targets have their places now.
            some = periods.draw(self._connection, key)
            mine = [item for item in self._exclusions if item.table == key.table]
            moved.update({key.table.key: some})
            moved.update(self._exclude(mine))
            periods.forget(self._connection, key)
            self._end(key)
        for table in self._tables:
            if moved[table.key]:
                self._lost.add(table.key)
                self._note({table.key: self._checks.follow(table, self._moving(table))}, {})
                broken = sql.SQL("SELECT {} FROM {} WHERE NOT coalesce(({}), true)").format(
                    rows.row_of(table), rows.name_of(table), self._checks.kept(table)
                )
                self._note({}, {table.key: rows.delete(self._connection, table, broken)})

    def _moving(self, table: Table) -> set[str]:
        """Columns that repairs of EXCLUDE constraints and of keys of periods have changed."""
        places = [item.mover for item in self._exclusions if item.table == table]
        places += [key for key in self._periods if key.table == table]
        return {name for place in places if place is not None for name in place.columns}

    def _exclude(self, items: Sequence[exclusions.Exclusion]) -> dict[str, int]:
        moved, gone = exclusions.repair(self._connection, items)
        self._note(moved, gone)
        return moved

    def _end_orphans(self) -> None:
        """References to deleted rows; ending them may break another rule, and rows go for that."""
        while self._lost:
            changed, deleted = orphans.repair(self._connection, self._tables, self._lost)
            self._note(changed, deleted)
            self._lost = set()
            touched = {key for key, some in changed.items() if some}
            touched |= {key.table.key for key in self._periods if self._end(key)}
            if touched:
                self._plant(touched)
                self._note(*self._checks.repair())
            self._part(touched)

    def _end(self, key: periods.PeriodKey) -> int:
        changed, deleted = periods.end(self._connection, key)
        self._note({key.table.key: changed}, {key.table.key: deleted})
        return changed

    def _part(self, keys: Collection[str]) -> None:
        """Rows that are no longer unique since references of theirs are NULL, or other ones."""
        for table in self._tables:
            if table.key in keys:
                mine = [index for index in self._uniques if index.table == table]
                kept = self._checks.kept(table)
                _, gone = uniques.repair(self._connection, mine, keys, kept, last=True)
                self._note({}, {table.key: gone})

    def _note(self, changed: Mapping[str, int], deleted: Mapping[str, int]) -> None:
        self._changed.update(changed)
        self._deleted.update(deleted)
        self._lost |= {key for key, count in deleted.items() if count}

    def _tell(self, loose: Sequence[str]) -> None:
        for place in loose:
            logger.warning("%s: most synthetic rows break this CHECK; it is NOT VALID", place)
        for key in sorted(+self._deleted):
            logger.warning("%s: rows that break a rule of the schema were left out", key)
