"""Queries: exact integer statistics of the private database, with their claimed sensitivity.

A query is a frozen value. It states what it measures, how far one privacy unit can change it, and
why; `Session` alone evaluates it, and only to add noise. The stability harness replays every query
of a fit on every neighbour and checks the claim against the exact integers.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from privbench.arrays import Ints
from privbench.limits import Amount, Natural
from privbench.privacy.spec import DatabaseSpec
from privbench.privacy.units import GRID as GRID

if TYPE_CHECKING:
    from privbench.privacy.data import PrivateDatabase


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far a statistic changes between neighbours, in grid units, by norm."""

    l1: Natural  # largest L1 change
    l2: Amount  # largest L2 change (an upper bound, at most ``l1``)
    linf: Natural  # largest change of one cell; what a selection is charged by
    l0: Natural | None = None  # most cells that change; used by threshold releases alone


class Query(ABC):
    """An exact integer statistic of private rows.

    Subclasses are frozen dataclasses whose fields are public: names, shapes, released values.
    """

    #: Short name of what is measured, as the ledger and ``plan`` print it.
    kind: str
    #: Grid units per counted 1: `GRID` for weighted statistics, 1 for plain counts.
    unit: int
    #: Whether it reads attributes whose domain is not settled: it is evaluated before any recoding.
    reads_raw: ClassVar[bool] = False

    @property
    @abstractmethod
    def table(self) -> str:
        """The table whose rows are counted."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The attributes or keys that are read."""
        return ()

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of the statistic; public, independent of rows."""

    @abstractmethod
    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        """Return the claim under ``spec.relation``; its proof is the subclass's docstring."""

    @abstractmethod
    def evaluate(self, data: PrivateDatabase) -> Ints:
        """Return the exact statistic, of `shape`.

        Only `Session` and the stability harness call it.
        """

    def roots(self, spec: DatabaseSpec) -> frozenset[str]:
        """Return the root tables whose units can change the statistic, which are charged."""
        return spec.roots(self.table)


@dataclass(frozen=True, slots=True)
class TableQuery(Query):
    """A query that names its table in a field."""

    source: str  # the table

    @property
    def table(self) -> str:
        """The table that is counted, which is a field of the query."""
        return self.source


@dataclass(frozen=True, slots=True)
class RawQuery(TableQuery):
    """A statistic of one attribute, evaluated before any recoding (`Query.reads_raw`)."""

    attribute: str
    reads_raw = True

    @property
    def columns(self) -> tuple[str, ...]:
        """The attribute that is read, which is a field of the query."""
        return (self.attribute,)


class PublicArray:
    """A read-only int64 array of public values, equal to every array of the same content.

    >>> PublicArray([1, 2]) == PublicArray([1, 2]), PublicArray([1, 2]) == PublicArray([[1, 2]])
    (True, False)
    """

    __slots__ = ("digest", "norm", "values")

    def __init__(self, values: ArrayLike) -> None:
        array = np.array(values)
        if array.size and array.dtype.kind not in "iu":
            raise ValueError("public arrays must hold integers")
        self.values: Ints = np.ascontiguousarray(array, dtype=np.int64)
        self.values.flags.writeable = False
        self.norm = float(np.abs(self.values.astype(np.float64)).sum())  # L1, in floating point
        content = hashlib.sha256(repr(self.values.shape).encode())
        content.update(self.values.data)
        self.digest = content.digest()

    @classmethod
    def rounded(cls, values: ArrayLike, scale: int) -> PublicArray:
        """Return public numbers times ``scale``, rounded to integers within ±2⁶²."""
        scaled = np.nan_to_num(np.asarray(values, dtype=np.float64) * scale)
        return cls(np.rint(np.clip(scaled, -(2.0**62), 2.0**62)).astype(np.int64))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.values.shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicArray) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"PublicArray(shape={self.shape}, {self.digest.hex()})"
