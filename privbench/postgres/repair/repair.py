"""The order of repairs during a load."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from privbench.postgres.failures import database_errors
from privbench.postgres.load import Loader
from privbench.postgres.repair import exclusions, partitions, references, uniques
from privbench.postgres.repair.checks import Checks
from privbench.postgres.statement import run
from privbench.rng import generator
from privbench.schema import Table

logger = logging.getLogger(__name__)

#: Rounds over all rules, as the repair of one may break another: two leave rows of the zoo that the
#: third repairs; a fourth finds nothing.
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Repaired:
    """What the repairs did; the synthetic rows alone decide it.

    Attributes:
        changed: Rows that were changed, by table.
        deleted: Rows that were deleted, by table.
        loose: CHECKs that most rows break and that hold for rows to come alone.
    """

    changed: Mapping[str, int]
    deleted: Mapping[str, int]
    loose: tuple[str, ...]


class Repair:
    """Repairs of one load: made when the tables are there and empty, settled when they are full.

    Args:
        loader: The load. What its target's catalog states of the tables is all that the repairs
            know of types and expressions.
        tables: Tables that will hold synthetic rows.
        suspects: Tables that may lack rows which others refer to.
        seed: Seed of the sample; the same rows are then repaired in the same way.

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
            self._periods = exclusions.find_periods(connection, tables)
            self._exclusions = exclusions.find(connection, tables, self._periods)
        self._rests = partitions.open_rests(connection, tables)
        self._checks = Checks(connection, tables)

    def missing(self, table: Table, count: int) -> None:
        """Say that rows could not be copied, which others may refer to."""
        self._note({}, {table.key: count})

    def settle(self) -> Repaired:
        """Repair the rows and put back what was set aside.

        Raises:
            DatabaseError: The server refused.
        """
        if self._seed is not None:
            value = generator(self._seed, "repair").uniform(-1.0, 1.0)
            with database_errors("seeding the repairs"):
                run(self._connection, "SELECT pg_catalog.setseed(%s)", [value])
        moved, gone = partitions.close_rests(self._connection, self._rests)
        self._touched |= {key for key, count in moved.items() if count}
        self._lost |= self._touched
        self._note(moved, gone)
        for turn in range(ROUNDS + 1):
            self._check(self._touched, everywhere=True)
            if self._part(self._touched, last=turn == ROUNDS) == 0 and turn < ROUNDS:
                self._part(self._touched, last=True)
                break
        self._place()
        self._lost |= {str(key.target) for key in self._periods}
        while self._lost:
            self._end_dangling()
        self._checks.restore()
        loose = tuple(sorted(self._checks.loose))
        for place in loose:
            logger.warning("%s: most synthetic rows break this CHECK; it is NOT VALID", place)
        for key in sorted(+self._deleted):
            logger.warning("%s: rows that break a rule of the schema were left out", key)
        return Repaired(dict(+self._changed), dict(+self._deleted), loose)

    def _check(self, touched: set[str], *, everywhere: bool = False) -> None:
        """CHECKs, and circles of self-references in tables of which rows were changed."""
        for _ in range(2):
            changed, deleted = self._checks.repair(None if everywhere else touched)
            self._note(changed, deleted)
            touched |= {key for key, some in changed.items() if some}
            ended = references.end_circles(self._connection, self._tables, touched)
            self._note(ended, {})
            if not any(ended.values()):
                break

    def _part(self, suspects: Collection[str], *, last: bool) -> int:
        """UNIQUE indexes; how many rows were changed."""
        total = 0
        for index in self._uniques:
            kept = self._checks.kept(index.table)
            changed, deleted = uniques.repair(self._connection, index, suspects, kept, last=last)
            self._note({index.table.key: changed}, {index.table.key: deleted})
            total += changed
        return total

    def _place(self, among: Collection[str] | None = None) -> None:
        """EXCLUDE constraints of some tables, or all and keys of periods; rows move under them."""
        moved: Counter[str] = Counter()
        turns = {key: turn for turn, key in enumerate(self._periods, start=1)}
        # Those without targets first, then targets of periods before what refers to them.
        for item in sorted(self._exclusions, key=lambda i: turns[i.key] if i.key else 0):
            if among is not None and (item.key is not None or item.table.key not in among):
                continue
            if item.key is not None:
                exclusions.make_pieces(self._connection, item.key)
            some, gone = exclusions.repair(self._connection, item)
            self._note({item.table.key: some}, {item.table.key: gone})
            moved[item.table.key] += some
        for table in {item.table.key: item.table for item in self._exclusions}.values():
            mine = (item for item in self._exclusions if item.table == table)
            self._checks.hold(table, {name for item in mine for name in item.reads})
        # Rows that had to move may break a CHECK, and leave what refers to them behind.
        self._check(set(+moved))
        self._lost |= set(+moved)

    def _end_dangling(self) -> None:
        """References to deleted rows; ending them may break another rule, and rows go for that."""
        changed, deleted = references.end_dangling(self._connection, self._tables, self._lost)
        self._note(changed, deleted)
        self._lost = set()
        touched = {key for key, some in changed.items() if some}
        for key in self._periods:
            some, gone = exclusions.end_periods(self._connection, key)
            self._note({key.table.key: some}, {key.table.key: gone})
            touched |= {key.table.key} if some else set()
        if touched:
            self._check(touched)
            self._place(touched)
        # Rows may no longer be unique since references of theirs are NULL, or other ones.
        self._part(touched, last=True)

    def _note(self, changed: Mapping[str, int], deleted: Mapping[str, int]) -> None:
        self._changed.update(changed)
        self._deleted.update(deleted)
        self._lost |= {key for key, count in deleted.items() if count}
