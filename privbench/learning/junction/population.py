"""Synthetic rows of several tables, and what those of owners give to those that they own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Codes
from privbench.learning.junction.given import BinRows, Given, GivenColumn
from privbench.learning.junction.model import TableLaw

Ints = NDArray[np.int64]


class Population:
    """Tables drawn so far, owners before what they own.

    Args:
        parents: The owner's table of every table, None for root tables.
        taus: τ of every table: weights of a unit's n rows are proportional to min(n, τ)/n.
    """

    def __init__(self, parents: Mapping[str, str | None], taus: Mapping[str, int]) -> None:
        self._parents, self._taus = dict(parents), dict(taus)
        self._codes: dict[str, Mapping[str, Codes]] = {}
        self._owners: dict[str, Ints] = {}
        self._identity: dict[str, Ints] = {}
        self._units = 0
        self._lock = Lock()

    def add(self, table: str, codes: Mapping[str, Codes], owners: Ints | None, rows: int) -> None:
        """Add the rows of a table; its owner's table is there already. Threads take turns."""
        self._codes[table] = codes
        self._owners[table] = np.full(rows, -1, np.int64) if owners is None else owners
        with self._lock:
            self._identity[table] = self.identify(table, self._owners[table])
            self._units = max(self._units, int(self._identity[table].max(initial=-1)) + 1)

    def codes(self, table: str, variable: str) -> Codes:
        """Codes of a variable, shape (rows,)."""
        return self._codes[table][variable]

    def find(self, table: str, variable: str) -> Codes | None:
        """Codes of a variable, or None where the rows or the variable are missing."""
        return self._codes.get(table, {}).get(variable)

    def identity(self, table: str) -> Ints:
        """Unit of every row, the same numbers in all tables; shape (rows,)."""
        return self._identity[table]

    def sizes(self, table: str) -> Ints:
        """How many rows the row's unit has in the table; shape (rows,)."""
        return _sizes(self._identity[table])

    def identify(self, table: str, owners: Ints) -> Ints:
        """Unit of every row, for rows with these owners; shape (rows,)."""
        parent = self._parents[table]
        identity = np.arange(self._units, self._units + len(owners))
        if parent is None or not len(self._identity[parent]):
            return identity
        return np.where(owners >= 0, self._identity[parent][np.maximum(owners, 0)], identity)

    def weights(self, table: str, owners: Ints) -> NDArray[np.float64]:
        """Weights of rows with these owners, up to a factor, as measurements weigh rows."""
        return self.weighed(table, self.units(table, owners))

    def weighed(self, table: str, units: Ints) -> NDArray[np.float64]:
        """Weights of rows of which the units have so many rows each (`units`)."""
        return np.asarray(np.minimum(units, self._taus[table]) / units, np.float64)

    def units(self, table: str, owners: Ints) -> Ints:
        """Number of rows of every row's unit, for rows with these owners; shape (rows,)."""
        return _sizes(self.identify(table, owners))

    def counted(self, table: str, owners: Ints) -> Callable[[Ints], Ints]:
        """What `units` finds, for some of the rows with these owners at a time."""
        identity = self._identity[self._parents[table] or ""]
        held = np.bincount(owners[owners >= 0], minlength=len(identity))
        counts = np.zeros(self._units, np.int64)
        np.add.at(counts, identity, held)

        def units(some: Ints) -> Ints:
            if not len(identity):
                return np.ones(len(some), np.int64)
            return np.where(some >= 0, counts[identity[np.maximum(some, 0)]], 1)

        return units

    def index(self, table: str, owners: Ints, level: int) -> Ints:
        """Row number of every row's owner at a level, −m where it ends at level m."""
        index = np.where(owners < 0, -1, owners)
        for step in range(2, level + 1):
            table = self._parents[table] or ""
            above = self._owners[table]
            if not len(above):
                return index
            higher = above[np.maximum(index, 0)]
            index = np.where(index < 0, index, np.where(higher < 0, -step, higher))
        return index

    def given(self, table: str, owners: Ints, columns: Sequence[GivenColumn]) -> BinRows:
        """Bins of given attributes for rows with these owners, shape (attributes, rows)."""
        out = np.zeros((len(columns), len(owners)), np.uint16)
        chain = [self._parents[table]]
        places: dict[int, Ints] = {}
        for row, column in zip(out, columns, strict=True):
            while len(chain) < column.levels:
                chain.append(self._parents[chain[-1] or ""])
            if column.levels not in places:
                places[column.levels] = self.index(table, owners, column.levels)
            codes = self.codes(chain[column.levels - 1] or "", column.name)
            row[:] = column.bins(codes, places[column.levels])
        return out


def _sizes(identity: Ints) -> Ints:
    """How many rows have each row's unit; shape (rows,)."""
    local = identity - (identity.min() if len(identity) else 0)
    return np.asarray(np.bincount(local)[local], np.int64)


def given_rows(
    law: TableLaw,
    people: Population,
    table: str,
    owners: Ints | None,
    counted: Callable[[Ints], Ints] | None = None,
) -> Given | None:
    """What is given for the rows of a table, or None where its law has no given attributes.

    Args:
        law: The table's law.
        people: What is drawn so far.
        table: The table.
        owners: Owner of every row, or None.
        counted: From `Population.counted`, where these are not all of the table's rows.
    """
    if owners is None or not (law.given or law.by_rows):
        return None
    bins = people.given(table, owners, law.given)
    sizes = tuple(column.size for column in law.given)
    units = people.units(table, owners) if counted is None else counted(owners)
    return Given(sizes, bins, people.weighed(table, units), units)
