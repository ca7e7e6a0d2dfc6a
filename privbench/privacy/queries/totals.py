"""Noisy sizes; those of the tables are the first events of a fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.query import Integers, Sensitivity, TableQuery
from privbench.privacy.spec import DatabaseSpec
from privbench.privacy.units import single


@dataclass(frozen=True, slots=True)
class Total(TableQuery):
    """Number of rows of a table, each unit counting at most ``clip`` rows.

    Statistic: Σ over units of min(n, clip), n the unit's rows. Shape (1,), counted in rows.

    Sensitivity: a unit adds min(n, clip), between 0 and clip, and moves no other unit's n. So clip
    under add/remove, and clip under replace too, since both units' shares lie in [0, clip]. Where
    the schema lets a unit have one row only (root tables, ``unit = "row"``, one-to-one keys), clip
    is 1.

    Attributes:
        clip: Most rows that count for one unit.
    """

    clip: int = 100
    kind = "total"
    unit = 1

    def __post_init__(self) -> None:
        if self.clip < 1:
            raise SchemaError("clip is at least 1.", table=self.source)

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
        if data.spec.tables[self.source].own is None:
            return np.array([data._rows(self.source)], dtype=np.int64)
        _, sizes = data._units.members(self.source)
        total = int(np.minimum(sizes, self._clip(data.spec)).sum())
        return np.array([total], dtype=np.int64)
