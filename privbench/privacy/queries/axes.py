"""Axes of a histogram: public maps that give every row of a table a small code.

Every axis reads the row itself and, along OWN keys, other rows of its own unit; never another
unit's rows. So a row keeps its code when another unit is removed, and a histogram over any axes has
the sensitivity of its table's weights. An edge that is ⊥ is not distinguished from an edge into
another unit.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import AnyInts
from privbench.errors import PrivacyRefusal, SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.query import PublicArray, TableQuery
from privbench.privacy.spec import DatabaseSpec, KeySpec
from privbench.privacy.units import NONE, RowIndex, index_type

#: Lower ends of the fan-out buckets 0, 1, 2, 3–4, 5–8, 9–16 … 2¹⁵+1 and more.
FAN_OUT_BOUNDS = (0, 1, 2, *(2**k + 1 for k in range(1, 16)))

#: Rows that are looked up at a time.
_BLOCK = 2**18

#: Most joint cells of a `Joined` axis.
MOST_JOINED = 2**24

#: The code of every row and, if codes are not yet cells, a table with the cell of each code; −1 and
#: −2 are its last codes. The table is public, or says something of the rows too.
AxisCodes = tuple[NDArray[np.integer[Any]], AnyInts | None]


class Axis(ABC):
    """A public map of rows to codes ``0 .. size-1``."""

    size: int

    @property
    @abstractmethod
    def label(self) -> str:
        """The axis's name in the ledger."""

    @abstractmethod
    def read(self, data: PrivateDatabase, table: str) -> AxisCodes:
        """Return codes of the rows of ``table``, and the lookup that turns codes into cells.

        The lookup is None where the codes are the cells.
        """

    def codes(self, data: PrivateDatabase, table: str) -> NDArray[np.integer[Any]]:
        """Return the cells of the rows of ``table``, shape (rows,)."""
        codes, lookup = self.read(data, table)
        if lookup is None:
            return codes
        narrow = lookup.astype(np.min_scalar_type(max(self.size - 1, 0)))
        cells = np.empty(codes.size, narrow.dtype)
        # NumPy makes a wider copy of what it looks up.
        for start in range(0, codes.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            cells[block] = narrow[codes[block]]
        return cells


@dataclass(frozen=True, slots=True)
class Column(Axis):
    """An axis over the codes of an attribute with a public domain, or over public bins of them."""

    attribute: str  # its name
    size: int  # number of cells: the domain's size, or the number of bins
    bins: PublicArray | None = None  # bin of every code, shape (domain size,), or None

    def __post_init__(self) -> None:
        if self.bins is not None and self.bins.values.size:
            low, high = int(self.bins.values.min()), int(self.bins.values.max())
            if low < 0 or high >= self.size:
                raise SchemaError("a bin lies outside its axis.", column=self.attribute)

    @classmethod
    def of(
        cls, spec: DatabaseSpec, table: str, attribute: str, bins: PublicArray | None = None
    ) -> Column:
        """Return the axis of an attribute; ``bins`` maps its codes to 0 .. max(bins)."""
        domain = spec.tables[table].attributes.get(attribute)
        if domain is None:
            raise SchemaError("its domain is not settled.", table=table, column=attribute)
        if bins is None:
            return cls(attribute, domain.size)
        if bins.shape != (domain.size,):
            raise SchemaError("bins do not fit the domain.", table=table, column=attribute)
        return cls(attribute, int(bins.values.max()) + 1, bins)

    @property
    def label(self) -> str:
        return self.attribute

    def read(self, data: PrivateDatabase, table: str) -> AxisCodes:
        codes, domain = data._codes(table, self.attribute)
        lookup = None if self.bins is None else self.bins.values
        if domain.size != (self.size if lookup is None else lookup.size):
            raise SchemaError("the axis does not fit.", table=table, column=self.attribute)
        return codes, lookup


@dataclass(frozen=True, slots=True)
class Whole(Axis):
    """The axis with a single cell, which holds all rows."""

    size: int = 1

    @property
    def label(self) -> str:
        return "*"

    def read(self, data: PrivateDatabase, table: str) -> AxisCodes:
        return np.broadcast_to(np.uint8(0), data._rows(table)), None


def _edges(data: PrivateDatabase, key: KeySpec, table: str) -> NDArray[np.integer[Any]]:
    """The parent row index of every row of ``table``, which must be the table that has the key."""
    if table != key.table:
        raise SchemaError(f"it has no key {key.name!r}.", table=table)
    return data._parents(key)


def _edges_into(data: PrivateDatabase, key: KeySpec, table: str) -> RowIndex:
    """Parent row indices of the rows that have a key into ``table``."""
    if table != key.parent:
        raise SchemaError(f"it is not the parent of {key.name!r}.", table=table)
    return data._parents(key)


def _require_own(key: KeySpec, otherwise: str) -> None:
    if key.role != "own":
        raise PrivacyRefusal(f"key {key.name!r} is no OWN key: {otherwise}.", table=key.table)


@dataclass(frozen=True, slots=True)
class Refers(Axis):
    """An axis of whether a row has a reference by some key: 0 is NULL, 1 a reference, ⊥ included.

    With ``own`` there are three cells: 0 is NULL, 1 a reference into another unit or ⊥, 2 a
    reference into the row's own unit. When the target's unit is removed, the edge becomes ⊥ and the
    code stays 1. If it became NULL instead, removing one hub could move any number of rows. By an
    OWN key, 1 is a row with a value but without an owner, which is the root of a unit, and 2 a row
    that has one.
    """

    key: KeySpec
    own: bool = False

    @property
    def size(self) -> int:  # type: ignore[override]
        return 3 if self.own else 2

    @property
    def label(self) -> str:
        return self.key.name

    def read(self, data: PrivateDatabase, table: str) -> AxisCodes:
        edges = _edges(data, self.key, table)
        codes = (edges != NONE).astype(np.uint8)
        if self.own and data._rows(self.key.parent):
            target = data._units.identity(self.key.parent, np.maximum(edges, 0))
            codes[(edges >= 0) & (target == data._units.identity(table))] = 2
        return codes, None


@dataclass(frozen=True, slots=True)
class PublicTarget(Axis):
    """An axis of the row of a public table to which a row refers.

    The last cell is that of all other rows: they refer to nothing, or by a key that no public row
    or several have. Public rows are never removed, so a row's code depends on the row alone.
    """

    key: KeySpec  # a key whose parent is public
    rows: int  # number of rows of the public table

    def __post_init__(self) -> None:
        if self.key.role != "public":
            raise SchemaError(f"key {self.key.name!r} leads to no public table.")

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.rows + 1

    @property
    def label(self) -> str:
        return self.key.name

    def read(self, data: PrivateDatabase, table: str) -> AxisCodes:
        edges = _edges(data, self.key, table)
        return np.where((edges >= 0) & (edges < self.rows), edges, self.rows), None


class Buckets(Axis):
    """An axis of buckets of some number of rows, given by their lower ends, ascending from 0."""

    bounds: tuple[int, ...]

    def __post_init__(self) -> None:
        bounds = self.bounds
        if not bounds or bounds[0] != 0 or any(a >= b for a, b in pairwise(bounds)):
            raise SchemaError("buckets must ascend from 0.")

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.bounds)

    @abstractmethod
    def counts(self, data: PrivateDatabase, table: str) -> NDArray[np.integer[Any]]:
        """Return the number that is bucketed, for every row of ``table``."""

    def read(self, data: PrivateDatabase, table: str) -> AxisCodes:
        counts = self.counts(data, table)
        numbers = np.arange(int(counts.max(initial=0)) + 1)
        buckets = np.searchsorted(self.bounds, numbers, side="right") - 1
        return counts, buckets.astype(np.min_scalar_type(self.size))


@dataclass(frozen=True, slots=True)
class Children(Buckets):
    """An axis of buckets of the number of rows that a row owns by one OWN key (its fan-out)."""

    key: KeySpec  # the OWN key of the owned table
    bounds: tuple[int, ...] = FAN_OUT_BOUNDS  # lower ends of the buckets, ascending from 0

    def __post_init__(self) -> None:
        _require_own(self.key, "its fan-out reads other units")
        Buckets.__post_init__(self)

    @property
    def label(self) -> str:
        return f"#{self.key.table}.{self.key.name}"

    def counts(self, data: PrivateDatabase, table: str) -> NDArray[np.integer[Any]]:
        _edges_into(data, self.key, table)
        return data._fan_out(self.key)


@dataclass(frozen=True, slots=True)
class UnitRows(Buckets):
    """An axis of buckets of the number of rows that the row's unit has in some table.

    The table may be the row's own or another. Only rows of the row's own unit count, so the code
    stays when another unit is removed. If no unit can have rows in both tables, the number is 0.
    """

    counted: str  # the table whose rows are counted
    bounds: tuple[int, ...] = FAN_OUT_BOUNDS  # lower ends of the buckets, ascending from 0

    @property
    def label(self) -> str:
        return f"#{self.counted}"

    def counts(self, data: PrivateDatabase, table: str) -> NDArray[np.integer[Any]]:
        def counts() -> tuple[NDArray[np.integer[Any]]]:
            mine = data._units.identity(table)
            least, counts = data._units.members(self.counted)
            inside = (mine >= least) & (mine < least + counts.size)
            # The place −1 selects the number 0, which is appended here.
            padded = np.append(counts, counts.dtype.type(0))
            return (padded[np.where(inside, mine - least, -1)],)

        return data._cache.get((UnitRows, self.counted, table), counts)[0]


@dataclass(frozen=True, slots=True)
class Owner(Axis):
    """An axis of the code that the row's owner has on another axis.

    The last code means no owner.
    """

    key: KeySpec  # the OWN key of the row's table
    axis: Axis  # an axis of the owner's table, itself possibly an `Owner`

    def __post_init__(self) -> None:
        _require_own(self.key, "its parent is another unit's row")

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.axis.size + 1

    @property
    def label(self) -> str:
        return f"{self.key.name}.{self.axis.label}"

    def read(self, data: PrivateDatabase, table: str) -> AxisCodes:
        edges = _edges(data, self.key, table)
        kind = np.min_scalar_type(self.axis.size)

        def of_owners() -> tuple[NDArray[np.integer[Any]]]:
            # A row without an owner has −1 or −2 as its owner's row index, which selects one of the
            # two codes appended here.
            known = np.append(self.axis.codes(data, self.key.parent), [self.axis.size] * 2)
            return (known.astype(kind),)

        return edges, data._cache.get(self, of_owners)[0]


@dataclass(frozen=True, slots=True)
class Sibling(Axis):
    """An axis of the codes of an owner's first or second owned row, in random order.

    The last code means that there is no such row. The order is over all rows that the owner has by
    the key, before any filter. It depends on ranks within the owner's unit, which do not change
    when another unit is removed (P14).
    """

    key: KeySpec  # the OWN key of the owned table
    axis: Axis  # an axis of the owned table
    place: int  # 0 or 1

    def __post_init__(self) -> None:
        _require_own(self.key, "siblings are of other units")

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.axis.size + 1

    @property
    def label(self) -> str:
        return f"{self.key.table}.{self.axis.label}"

    def read(self, data: PrivateDatabase, table: str) -> AxisCodes:
        _edges_into(data, self.key, table)
        (rows,) = data._cache.get((Sibling, self.key), lambda: (self._rows(data),))
        codes, lookup = self.axis.read(data, self.key.table)
        result = np.full(rows[0].size, self.axis.size, np.min_scalar_type(self.axis.size))
        there = rows[self.place] >= 0
        chosen = codes[rows[self.place][there]]
        result[there] = chosen if lookup is None else lookup[chosen]
        return result, None

    def _rows(self, data: PrivateDatabase) -> RowIndex:
        """The two rows of least rank that every row owns, or −1, shape (2, rows)."""
        edges = data._parents(self.key)
        both = np.full((2, data._rows(self.key.parent)), -1, index_type(edges.size))
        for block in data._units.blocks(self.key.table):
            rows = block.rows[edges[block.rows] >= 0]
            for first in both:
                owners = edges[rows]
                # Of several rows of an owner the last one stays, which has the least rank.
                first[owners[::-1]] = rows[::-1]
                rows = rows[first[owners] != rows]
        return both


@dataclass(frozen=True, slots=True)
class Joined(Axis):
    """Several axes of one table as one axis, whose cells are their joint cells or groups of these.

    It reads the row's own unit alone, because each of its axes does, and the grouping is public. It
    can serve as the axis of an `Owner`, for example.
    """

    axes: tuple[Axis, ...]  # the axes, the last one fastest
    groups: PublicArray | None = None  # group of every joint cell, shape (sizes of axes)

    def __post_init__(self) -> None:
        if not self.axes or math.prod(self._sizes) > MOST_JOINED:
            raise SchemaError(f"joined axes must have 1 to {MOST_JOINED} cells.")
        if self.groups is None:
            return
        if self.groups.shape != self._sizes or int(self.groups.values.min()) < 0:
            raise SchemaError("groups do not fit the joined axes.")

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)

    @property
    def size(self) -> int:  # type: ignore[override]
        """The number of cells or groups."""
        if self.groups is None:
            return math.prod(self._sizes)
        return int(self.groups.values.max()) + 1

    @property
    def label(self) -> str:
        return "×".join(axis.label for axis in self.axes)

    def read(self, data: PrivateDatabase, table: str) -> AxisCodes:
        (codes,) = data._cache.get((self.axes, table), lambda: (self._cells(data, table),))
        return codes, None if self.groups is None else self.groups.values.ravel()

    def _cells(self, data: PrivateDatabase, table: str) -> NDArray[np.integer[Any]]:
        index = np.zeros(data._rows(table), dtype=np.min_scalar_type(math.prod(self._sizes)))
        for axis in self.axes:
            index *= index.dtype.type(axis.size)
            index += axis.codes(data, table).astype(index.dtype, copy=False)
        return index


@dataclass(frozen=True, slots=True)
class OverAxes(TableQuery):
    """A statistic with a dimension for each of some axes of its table."""

    axes: tuple[Axis, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(axis.label for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)


#: What `axes` accepts for one axis.
AxisLike = Axis | str | tuple[str, PublicArray | None]


def axis(spec: DatabaseSpec, table: str, named: AxisLike) -> Axis:
    """Return the axis for an attribute's name, for a name with bins, or for an axis itself."""
    if isinstance(named, Axis):
        return named
    if isinstance(named, str):
        return Column.of(spec, table, named)
    return Column.of(spec, table, *named)
