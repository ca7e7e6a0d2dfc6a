"""Noisy sizes; those of the tables are the first events of a fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.regions import Region, rows_of
from privbench.privacy.query import Integers, Sensitivity, TableQuery
from privbench.privacy.spec import DatabaseSpec
from privbench.privacy.units import single


@dataclass(frozen=True, slots=True)
class Total(TableQuery):
    """Number of rows of a table or a region, each unit counting at most ``clip`` rows.

    Statistic: Σ over units of min(n, clip), n the unit's rows in the table, or in the region.
    Shape (1,), counted in rows.

    Sensitivity: a unit adds min(n, clip), between 0 and clip, and moves no other unit's n, since
    its rows' membership in a region follows from itself (`regions`). So clip under add/remove, and
    clip under replace too, since both units' shares lie in [0, clip]. Where the schema lets a unit
    have one row only (root tables, ``unit = "row"``, one-to-one keys), clip is 1.

    Attributes:
        source: The table.
        clip: Most rows that count for one unit.
        region: The region, or None for all rows.
    """

    clip: int = 100
    region: Region | None = None
    kind = "total"
    unit = 1

    def __post_init__(self) -> None:
        if self.clip < 1:
            raise SchemaError("clip is at least 1.", table=self.source)
        if self.region is not None and self.region.table != self.source:
            raise SchemaError("the region belongs to another table.", table=self.source)

    @property
    def shape(self) -> tuple[int, ...]:
        """One number."""
        return (1,)

    def _clip(self, spec: DatabaseSpec) -> int:
        return 1 if single(spec, self.source) else self.clip

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        clip = self._clip(spec)
        return Sensitivity(clip, float(clip), clip)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        rows = rows_of(data, self.region)
        if data.spec.tables[self.source].own is None:
            count = data._rows(self.source) if rows is None else rows.size
            return np.array([count], dtype=np.int64)
        if rows is None:
            _, sizes = data._units.members(self.source)
        else:
            _, sizes = np.unique(data._units.identity(self.source)[rows], return_counts=True)
        total = int(np.minimum(sizes, self._clip(data.spec)).sum())
        return np.array([total], dtype=np.int64)
