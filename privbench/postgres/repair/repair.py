"""The order of repairs during a load."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from privbench.postgres.failures import database_errors
from privbench.postgres.load import Loader
from privbench.postgres.repair import exclusions, partitions, uniques
from privbench.postgres.repair.checks import Checks
from privbench.postgres.repair.references import end_circles, end_dangling
from privbench.postgres.repair.rows import TargetTables
from privbench.rng import generator
from privbench.schema import Table

logger = logging.getLogger(__name__)

#: Rounds over all rules, as the repair of one may break another: two leave rows of the zoo that the
#: third repairs; a fourth finds nothing.
ROUNDS = 3


class Repair:
    """The repairs of one load: created when the tables are empty, applied when they are filled.

    They know of types and expressions only what the target's catalog states. The tables will hold
    synthetic rows; rows of the suspects may be missing although others refer to them. With the seed
    of the sample the same rows are repaired in the same way.

    Attributes:
        loose: CHECKs that most rows break, so that they apply to later rows alone.
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
        self.loose: tuple[str, ...] = ()
        self._clone = clone = TargetTables(loader.connection, map(loader.table, tables), suspects)
        with database_errors("reading the rules of the schema"):
            with loader.rehearsal():
                self._indexes = uniques.find(clone)
                self._periods, self._exclusions = exclusions.find(clone)
            self._passing, self._checks = partitions.make(clone), Checks(clone)

    @property
    def changed(self) -> dict[str, int]:
        """The numbers of changed rows, by table; they depend on the synthetic rows alone."""
        return dict(+self._clone.changed)

    @property
    def deleted(self) -> dict[str, int]:
        """The numbers of deleted rows, by table; they depend on the synthetic rows alone."""
        return dict(+self._clone.deleted)

    def missing(self, table: Table, count: int) -> None:
        """Record that rows of a table could not be copied, to which other rows may refer."""
        self._clone.note(table.key, deleted=count)

    def settle(self) -> None:
        """Repair the rows and restore the constraints."""
        clone = self._clone
        if self._seed is not None:
            value = generator(self._seed, "repair").uniform(-1.0, 1.0)
            with database_errors("seeding the repairs"):
                clone.run("SELECT pg_catalog.setseed({})", value)
        with clone.watch() as touched:
            partitions.repair(clone, self._passing)
        clone.lost |= touched
        for _ in range(ROUNDS):
            self._check(touched, everywhere=True)
            with clone.watch() as parted:
                uniques.repair(clone, self._indexes, touched)
            if not parted:
                break
        else:
            self._check(touched, everywhere=True)
        uniques.repair(clone, self._indexes, touched, last=True)
        self._place()
        clone.lost |= {str(key.target) for key in self._periods}
        while clone.lost:
            self._end_dangling()
        self._checks.restore()
        self.loose = tuple(sorted(self._checks.loose))
        for place in self.loose:
            logger.warning("%s: most synthetic rows break this CHECK; it is NOT VALID", place)
        for key in sorted(self.deleted):
            logger.warning("%s: rows that break a rule of the schema were left out", key)

    def _check(self, touched: set[str], *, everywhere: bool = False) -> None:
        """CHECKs, and circles of self-references in tables of which rows were changed."""
        for _ in range(2):
            with self._clone.watch() as changed:
                self._checks.repair(None if everywhere else touched)
            touched |= changed
            with self._clone.watch() as ended:
                end_circles(self._clone, touched)
            if not ended:
                break

    def _place(self, touched: Collection[str] | None = None) -> None:
        """Move rows under EXCLUDE constraints of some tables, or under all of these and periods."""
        with self._clone.watch() as moved:
            exclusions.repair(self._clone, self._periods, self._exclusions, touched)
        # Rows that had to move may break a CHECK, and leave what refers to them behind.
        self._clone.lost |= moved
        self._check(moved)

    def _end_dangling(self) -> None:
        """End references to deleted rows; repair or delete rows that break another rule by that."""
        with self._clone.watch() as touched:
            end_dangling(self._clone)
            exclusions.end(self._clone, self._periods)
        if touched:
            self._check(touched)
            self._place(touched)
        # Rows may no longer be unique since references of theirs are NULL, or other ones.
        uniques.repair(self._clone, self._indexes, touched, last=True)
