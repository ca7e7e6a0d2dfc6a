"""Fan-out: how many rows a parent row owns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privbench.errors import PrivacyRefusal
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import (
    FAN_OUT_BOUNDS,
    Children,
    bucket,
    check_bounds,
    children,
)
from privbench.privacy.queries.claims import doubled, up, weighted
from privbench.privacy.queries.counting import histogram
from privbench.privacy.query import GRID, Integers, Query, Sensitivity
from privbench.privacy.spec import DatabaseSpec, KeySpec


@dataclass(frozen=True, slots=True)
class FanOut(Query):
    """Histogram of parent rows by the bucket of their number of children.

    Statistic: for every bucket, the weight of the parent rows whose number of children by the key
    lies in it, in grid units. Shape (buckets,).

    Sensitivity, unit = owner: the key is an OWN key, so children lie in their parent's unit and
    the count of a parent row that stays does not change. `claims.weighted` for the parent table:
    GRID, whatever the counts; for roots a unit moves one whole cell.

    Sensitivity, unit = row: parent rows weigh GRID each and keys are REF. Removing a child
    row moves its parent from one bucket to another: 2 in L1, √2 in L2, 1 in L∞. Removing a parent
    row takes it from its bucket: 1; its children's edges become ⊥, which moves no other parent.
    If the key points into its own table, one row does both: its parent leaves bucket a and enters
    b ≠ a while the row itself leaves c: 3 in L1; worst for c = a: √5 in L2 and 2 in L∞. Replace
    doubles all of it. The event is charged to both tables.

    Other keys are refused: use `FanIn`.

    Attributes:
        key: An OWN key, or any key between private tables under ``unit = "row"``.
        bounds: Lower ends of the buckets, ascending from 0.
    """

    key: KeySpec
    bounds: tuple[int, ...] = FAN_OUT_BOUNDS
    kind = "fan-out"
    unit = GRID

    def __post_init__(self) -> None:
        check_bounds(self.bounds)

    @property
    def table(self) -> str:
        """The parent table."""
        return self.key.parent

    @property
    def columns(self) -> tuple[str, ...]:
        return (f"{self.key.table}.{self.key.name}",)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.bounds),)

    def _check(self, spec: DatabaseSpec) -> bool:
        """Whether units are rows; refuses what is not allowed."""
        row = spec.relation.unit == "row"
        if self.key.role == "public" or (self.key.role == "ref" and not row):
            raise PrivacyRefusal(
                f"the fan-out of key {self.key.name!r} is not bounded by one unit.",
                table=self.key.table,
                remedy="Measure its fan-in.",
            )
        return row

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        if not self._check(spec):
            return weighted(spec, self.key.parent)
        if self.key.table == self.key.parent:
            claim = Sensitivity(3 * GRID, up(GRID * math.sqrt(5)), 2 * GRID)
        else:
            claim = Sensitivity(2 * GRID, up(GRID * math.sqrt(2)), GRID)
        return doubled(spec, claim)

    def roots(self, spec: DatabaseSpec) -> frozenset[str]:
        """Roots of the parent table; under ``unit = "row"`` the child table's too."""
        if spec.relation.unit == "row":
            return spec.roots(self.key.parent) | spec.roots(self.key.table)
        return spec.roots(self.key.parent)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        if not self._check(data.spec):
            return histogram(data, self.key.parent, (Children(self.key, self.bounds),))
        codes = bucket(children(data, self.key), self.bounds)
        return np.bincount(codes, minlength=len(self.bounds)).astype(np.int64) * GRID
