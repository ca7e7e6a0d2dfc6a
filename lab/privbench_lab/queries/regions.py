"""Regions: public descriptions of sets of rows, as paths of public splits.

A split gives every row of a table one of k parts by public lookup tables alone. It reads the row
itself, so a region costs nothing; it reveals nothing until a measurement over it is released.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Codes
from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries import RowSubset
from privbench.privacy.query import PublicArray
from privbench.privacy.units import RowIndex, index_type

_BLOCK = 2**17


@dataclass(frozen=True, slots=True)
class Split:
    """A public partition of a table's rows into k parts.

    A row goes to the part k that minimises Σ over attributes of ``lut[code, k]``, and to the lowest
    such k in case of a tie. If costs are squared distances to released centres, this is the
    assignment of k-means; with a single attribute and costs 0 and 1 it can be any partition of its
    codes.
    """

    attributes: tuple[str, ...]
    luts: tuple[PublicArray, ...]  # for each of them, int64 costs of shape (domain size, k)

    def __post_init__(self) -> None:
        if not self.attributes or len(self.attributes) != len(self.luts):
            raise SchemaError("a split must have one table of costs for each attribute.")
        widths = {lut.shape[1] if len(lut.shape) == 2 else 0 for lut in self.luts}
        if len(widths) != 1 or 0 in widths or max(widths) > 255:
            raise SchemaError("all costs of a split must have the same 1 to 255 parts.")
        limit = 2**62 // len(self.luts)
        if any(lut.values.size and int(np.abs(lut.values).max()) > limit for lut in self.luts):
            raise SchemaError("the costs of a split are too large to add.")

    @classmethod
    def of(cls, luts: Mapping[str, NDArray[np.int64]]) -> Split:
        """A split from a mapping of attributes to costs of shape (domain size, k)."""
        return cls(tuple(luts), tuple(PublicArray(lut) for lut in luts.values()))

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
class Region(RowSubset):
    """The rows of a table that follow a path of splits; the empty path is the whole table."""

    table: str
    path: tuple[tuple[Split, int], ...] = ()  # each split on the way and the part that was taken

    def __post_init__(self) -> None:
        if any(not 0 <= part < split.parts for split, part in self.path):
            raise SchemaError("a region takes a part that its split does not have.")

    def child(self, split: Split, part: int) -> Region:
        """The part of this region that a further split gives."""
        return Region(self.table, (*self.path, (split, part)))

    def children(self, split: Split) -> tuple[Region, ...]:
        """All parts of this region under a further split; disjoint, together the region."""
        return tuple(self.child(split, part) for part in range(split.parts))

    @property
    def whole(self) -> bool:
        """Whether it is the whole table."""
        return not self.path

    def rows(self, data: PrivateDatabase) -> RowIndex | None:
        """See `RowSubset.rows`."""
        return rows_of(data, self)

    @staticmethod
    def overlap(amounts: Iterable[tuple[RowSubset | None, float]]) -> float:
        """See `RowSubset.overlap`; exact, by `overlap`."""
        return overlap(cast(Iterable[tuple[Region | None, float]], amounts))


def overlap(regions: Iterable[tuple[Region | None, float]], depth: int = 0) -> float:
    """Largest sum of amounts over the regions that one row can lie in, from their paths alone.

    A row takes one part at every split. So of the regions that continue a common path by the same
    split, it lies in those of a single part: the maximum over parts counts. Regions that continue
    the path by different splits may overlap: their sum counts. Regions whose path ends there hold
    the row: they are added.

    ``depth`` is the number of first splits that all regions have in common. A region that is None
    stands for all rows.

    >>> split = Split.by_code("a", [0, 1])
    >>> low, high = Region("t").children(split)
    >>> overlap([(None, 1), (low, 1), (high, 3)])
    4.0
    """
    here = 0.0
    below: dict[Split, dict[int, list[tuple[Region, float]]]] = {}
    for region, amount in regions:
        if region is None or len(region.path) == depth:
            here += amount
        else:
            split, part = region.path[depth]
            below.setdefault(split, {}).setdefault(part, []).append((region, amount))
    deeper = (max(overlap(part, depth + 1) for part in parts.values()) for parts in below.values())
    return here + sum(deeper)


def rows_of(data: PrivateDatabase, region: Region | None) -> RowIndex | None:
    """Row indices of a region, ascending; None for a whole table."""
    if region is None or not region.path:
        return None
    split, part = region.path[-1]
    return divide(data, Region(region.table, region.path[:-1]), split)[part]


def divide(data: PrivateDatabase, region: Region, split: Split) -> tuple[RowIndex, ...]:
    """Row indices of every part of a region under a split; cached in the database."""

    def make() -> tuple[RowIndex, ...]:
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
    data: PrivateDatabase, table: str, attribute: str, rows: RowIndex | None
) -> tuple[Codes, int]:
    codes, domain = data._codes(table, attribute)
    return (codes if rows is None else codes[rows]), domain.size
