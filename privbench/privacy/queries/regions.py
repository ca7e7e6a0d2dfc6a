"""Regions: public descriptions of sets of rows, as paths of public splits.

A split gives every row of a table one of k parts by public lookup tables alone. It reads the row
itself, so a region costs nothing; it reveals nothing until a measurement over it is released.

A region may start from the *parents* of an OWN key instead of all rows: those that own at least one
row by it. Weights are then shared among these rows alone (`region_weights`). Whether a row is one
of them follows from its own unit, so n, the unit's number of them, stays when another unit goes,
and the weights sum to at most `units.contribution` as ever. The same filter by a REF key would
change other units' weights when its children's unit goes; it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Codes
from privbench.errors import PrivacyRefusal, SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.public import PublicArray, as_public
from privbench.privacy.query import GRID
from privbench.privacy.spec import KeySpec
from privbench.privacy.units import Index, bound, index_type, row_weights

_BLOCK = 2**17


@dataclass(frozen=True, slots=True)
class Split:
    """A public partition of a table's rows into k parts.

    A row goes to the part k that minimises Σ over attributes of ``lut[code, k]``, ties to the
    lowest k. With squared distances to released centres this is the assignment of k-means; with a
    single attribute and zeros and ones it is any partition of its codes.

    Attributes:
        attributes: Attributes that are read.
        luts: For each of them, int64 costs of shape (domain size, k).
    """

    attributes: tuple[str, ...]
    luts: tuple[PublicArray, ...]

    def __post_init__(self) -> None:
        if not self.attributes or len(self.attributes) != len(self.luts):
            raise SchemaError("a split has one table of costs for each attribute.")
        widths = {lut.shape[1] if len(lut.shape) == 2 else 0 for lut in self.luts}
        if len(widths) != 1 or 0 in widths or max(widths) > 255:
            raise SchemaError("all costs of a split have the same 1 to 255 parts.")
        limit = 2**62 // len(self.luts)
        if any(lut.values.size and int(np.abs(lut.values).max()) > limit for lut in self.luts):
            raise SchemaError("the costs of a split are too large to add.")

    @classmethod
    def of(cls, luts: Mapping[str, NDArray[np.int64]]) -> Split:
        """A split from a mapping of attributes to costs of shape (domain size, k)."""
        return cls(tuple(luts), tuple(as_public(lut) for lut in luts.values()))

    @classmethod
    def by_code(cls, attribute: str, parts: NDArray[np.integer[Any]] | list[int]) -> Split:
        """The partition that sends code c of one attribute to part ``parts[c]``."""
        chosen = np.asarray(parts, dtype=np.int64)
        costs = (chosen[:, None] != np.arange(int(chosen.max()) + 1)).astype(np.int64)
        return cls((attribute,), (PublicArray(costs),))

    @property
    def parts(self) -> int:
        """Number of parts k."""
        return self.luts[0].shape[1]

    def assign(self, columns: list[Codes]) -> NDArray[np.uint8]:
        """Part of every row; ``columns`` hold the codes of `attributes`, shape (rows,) each."""
        rows = columns[0].size
        parts = np.zeros(rows, dtype=np.uint8)
        for start in range(0, rows, _BLOCK):
            block = slice(start, start + _BLOCK)
            costs = np.zeros((columns[0][block].size, self.parts), dtype=np.int64)
            for codes, lut in zip(columns, self.luts, strict=True):
                costs += lut.values[codes[block]]
            parts[block] = costs.argmin(axis=1)
        return parts


@dataclass(frozen=True, slots=True)
class Region:
    """The rows of a table that follow a path of splits; the empty path is the whole table.

    Attributes:
        table: The table.
        path: Each split on the way and the part that was taken.
        parents: An OWN key into the table: only rows that own a row by it, weighted among
            themselves. None: all rows, with the table's weights.
    """

    table: str
    path: tuple[tuple[Split, int], ...] = ()
    parents: KeySpec | None = None

    def __post_init__(self) -> None:
        if any(not 0 <= part < split.parts for split, part in self.path):
            raise SchemaError("a region takes a part that its split does not have.")
        if self.parents is None:
            return
        if self.parents.role != "own":
            raise PrivacyRefusal(
                f"key {self.parents.name!r} is no OWN key: its parents depend on other units.",
                table=self.parents.table,
            )
        if self.parents.parent != self.table:
            raise SchemaError(f"it is not the parent of {self.parents.name!r}.", table=self.table)

    @classmethod
    def of_parents(cls, key: KeySpec) -> Region:
        """The rows that own at least one row by an OWN key, weighted among themselves."""
        return cls(key.parent, (), key)

    def child(self, split: Split, part: int) -> Region:
        """The part of this region that a further split gives."""
        return Region(self.table, (*self.path, (split, part)), self.parents)

    def children(self, split: Split) -> tuple[Region, ...]:
        """All parts of this region under a further split; disjoint, together the region."""
        return tuple(self.child(split, part) for part in range(split.parts))


_Path = tuple[tuple[Split, int], ...]


def overlap(regions: Iterable[tuple[Region | None, float]]) -> float:
    """Largest sum of amounts over the regions that one row can lie in, from their paths alone.

    A row takes one part at every split, so of the regions that continue one common path by the same
    split it lies in those of a single part: their maximum counts. Regions that continue it by
    different splits may overlap: their sum counts. Regions that end there hold the row: they add.

    Regions that start from different rows (`Region.parents`) weigh a row differently, so that a
    unit's rows in one of them and its rows in another do not share one weight. Their largest sums
    add, even where the regions are disjoint: a vector of L1 norm C·a in the entries of the one
    kind and C·b in those of the other has L1 norm at most C·(a + b), and L2 norm at most
    C·√(a + b) if these are C·√a and C·√b, since the entries are different ones.

    Args:
        regions: Every region, None for all rows, and its amount.

    >>> split = Split.by_code("a", [0, 1])
    >>> low, high = Region("t").children(split)
    >>> overlap([(None, 1), (low, 1), (high, 3)])
    4.0
    """
    kinds: dict[KeySpec | None, list[tuple[_Path, float]]] = {}
    for region, amount in regions:
        start, path = (None, ()) if region is None else (region.parents, region.path)
        kinds.setdefault(start, []).append((path, amount))
    return sum(_overlap(paths) for paths in kinds.values())


def _overlap(paths: Iterable[tuple[_Path, float]]) -> float:
    here = 0.0
    below: dict[Split, dict[int, list[tuple[_Path, float]]]] = {}
    for path, amount in paths:
        if not path:
            here += amount
        else:
            split, part = path[0]
            below.setdefault(split, {}).setdefault(part, []).append((path[1:], amount))
    return here + sum(max(_overlap(rest) for rest in parts.values()) for parts in below.values())


def rows_of(data: PrivateDatabase, region: Region | None) -> Index | None:
    """Row indices of a region, ascending; None for a whole table."""
    if region is None:
        return None
    if not region.path:
        return None if region.parents is None else _parent_rows(data, region.parents)
    split, part = region.path[-1]
    parent = Region(region.table, region.path[:-1], region.parents)
    return divide(data, parent, split)[part]


def region_weights(
    data: PrivateDatabase, table: str, region: Region | None, tau: int | None = None
) -> NDArray[np.int64]:
    """Weight of every row in grid units, shape (rows of the table,); see the module's docstring.

    Among the parents of an OWN key: ⌊`GRID`·min(n, τ)/(τ·n)⌋ with n the unit's number of them, or
    under truncation `GRID` for the τ of them that come first in random order; 0 for other rows.
    With ``tau`` given, τ is that, and there is no truncation.
    """
    if region is not None and region.parents is not None:
        return _parent_weights(data, region.parents, tau)
    if tau is not None:
        return row_weights(data._units.sizes(table), tau)
    return data._units.weights(table)


def _parent_rows(data: PrivateDatabase, key: KeySpec) -> Index:
    """The parents of an OWN key, ascending; cached."""

    def make() -> tuple[Index]:
        edges = data._parents(key)
        owns = np.zeros(data._rows(key.parent), dtype=bool)
        owns[edges[edges >= 0]] = True
        return (np.flatnonzero(owns).astype(index_type(owns.size)),)

    return data._cache.get(("parents", key), make)[0]


def _parent_weights(data: PrivateDatabase, key: KeySpec, tau: int | None) -> NDArray[np.int64]:
    """Weights of all rows, parents of an OWN key weighed among themselves; cached."""

    def make() -> tuple[NDArray[np.int64]]:
        table, rows = key.parent, _parent_rows(data, key)
        weights = np.zeros(data._rows(table), dtype=np.int64)
        unit, most = data._units.identity(table)[rows], bound(data.spec, table)
        if tau is None and data.spec.tables[table].bound == "truncation":
            order, place = _grouped(unit, data._units.ranks(table)[rows])
            weights[rows[order]] = np.where(place < most, GRID, 0)
        else:
            _, inverse, sizes = np.unique(unit, return_inverse=True, return_counts=True)
            weights[rows] = row_weights(sizes[inverse], tau or most)
        return (weights,)

    return data._cache.get(("parent weights", key, tau), make)[0]


def _grouped(unit: Index, rank: Index) -> tuple[Index, Index]:
    """Rows by unit and rank; in that order, each one's place in its unit."""
    order = np.lexsort((rank, unit))
    _, first, counts = np.unique(unit[order], return_index=True, return_counts=True)
    return order, np.arange(unit.size) - np.repeat(first, counts)


def divide(data: PrivateDatabase, region: Region, split: Split) -> tuple[Index, ...]:
    """Row indices of every part of a region under a split; cached in the database."""

    def make() -> tuple[Index, ...]:
        rows = rows_of(data, region)
        columns = [_column(data, region.table, name, rows) for name in split.attributes]
        if any(lut.shape[0] != size for (_, size), lut in zip(columns, split.luts, strict=True)):
            raise SchemaError("a split does not fit its attributes.", table=region.table)
        parts = split.assign([codes for codes, _ in columns])
        kind = index_type(data._rows(region.table))
        found = (np.flatnonzero(parts == part) for part in range(split.parts))
        return tuple((at if rows is None else rows[at]).astype(kind) for at in found)

    return data._cache.get(("rows", region, split), make)


def _column(
    data: PrivateDatabase, table: str, attribute: str, rows: Index | None
) -> tuple[Codes, int]:
    codes, domain = data._codes(table, attribute)
    return (codes if rows is None else codes[rows]), domain.size
