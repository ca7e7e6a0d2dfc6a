"""Whether a key refers, and to which public row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import Axis, Read, Refers
from privbench.privacy.queries.claims import weighted
from privbench.privacy.queries.counting import cells, histogram
from privbench.privacy.query import GRID, Integers, Query, Sensitivity
from privbench.privacy.spec import DatabaseSpec, KeySpec


@dataclass(frozen=True, slots=True)
class Presence(Query):
    """Weighted rows without and with a reference by one key.

    Statistic: weights of the rows whose edge is NULL, and of those with a reference, ⊥ included;
    with ``own`` the latter in two cells, targets in other units or gone, and targets in the row's
    own unit. Shape (2,) or (3,).

    Sensitivity: `claims.weighted` with one cell per row. A row's cell does not change when its
    target's unit goes: the edge becomes ⊥, which counts as a reference and as not in the own
    unit. So only the removed unit's own rows leave. With NULL in place of ⊥, one hub could move any
    number of rows.

    Attributes:
        key: The key.
        own: Whether targets in the row's own unit are counted apart.
    """

    key: KeySpec
    own: bool = False
    kind = "presence"
    unit = GRID

    @property
    def table(self) -> str:
        """The referring table."""
        return self.key.table

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.key.name,)

    @property
    def shape(self) -> tuple[int, ...]:
        return (3 if self.own else 2,)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return weighted(spec, self.key.table)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        return histogram(data, self.key.table, (Refers(self.key, self.own),))


@dataclass(frozen=True, slots=True)
class PublicTarget(Axis):
    """Row of a public table that a row refers to; the last cell is NULL.

    Attributes:
        key: A key whose parent is public.
        rows: Number of rows of the public table.
    """

    key: KeySpec
    rows: int

    def __post_init__(self) -> None:
        if self.key.role != "public":
            raise SchemaError(f"key {self.key.name!r} leads to no public table.")

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.rows + 1

    @property
    def label(self) -> str:
        return self.key.name

    def read(self, data: PrivateDatabase, table: str) -> Read:
        edges = data._parents(self.key)
        return np.where((edges >= 0) & (edges < self.rows), edges, self.rows), None


@dataclass(frozen=True, slots=True)
class PublicTargets(Query):
    """Weighted histogram of the rows of a public table that a key refers to, NULL last.

    Statistic: shape (rows of the public table + 1,). Sensitivity: `claims.weighted` with one cell
    per row: the targets are public and never go, so a row's cell is its own.

    Attributes:
        key: A key whose parent is public.
        rows: Number of rows of the public table.
    """

    key: KeySpec
    rows: int
    kind = "public targets"
    unit = GRID

    def __post_init__(self) -> None:
        cells(self.shape)

    @property
    def table(self) -> str:
        """The referring table."""
        return self.key.table

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.key.name,)

    @property
    def shape(self) -> tuple[int, ...]:
        """One cell for each public row, and NULL."""
        return (self.rows + 1,)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return weighted(spec, self.key.table)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        return histogram(data, self.key.table, (PublicTarget(self.key, self.rows),))
