"""The units to which rows belong: identity, size, random ranks and weights of their rows.

All four follow from the OWN forest alone. They are computed over all of a unit's rows in a table,
before any filter, split or partition, and depend on nothing outside the unit; so a unit keeps them
when another unit is removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from itertools import accumulate, pairwise
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import AnyInts, Ints, Mask
from privbench.privacy.spec import DatabaseSpec

#: Grid of the weights: a weight of 1 is GRID units.
GRID = 2**30

#: Row index of the parent of a row whose reference is NULL.
NONE = -1
#: Row index of the parent, written ⊥, of a row whose reference is not NULL but whose target was
#: removed.
BOTTOM = -2

#: Row indices, counts or unit numbers: int32 where that suffices, else int64.
RowIndex = NDArray[np.signedinteger[Any]]

#: Rows of a block of units, about. A quarter stays in the processor's cache; twice or half takes
#: about as long.
_BLOCK = 2**18
#: Most parts in which rows are put in order, of at least four blocks; each is found by a pass over
#: one byte of every row. Twice or half takes about as long.
_PARTS = 16

_Mapped = TypeVar("_Mapped")


def index_type(largest: int) -> np.dtype[Any]:
    """Return the narrowest of int32 and int64 that holds ``largest``."""
    return np.dtype(np.int32 if largest < 2**31 else np.int64)


def single(spec: DatabaseSpec, table: str) -> bool:
    """Return whether at most one row of a unit counts in the table.

    This is so for root tables, under ``unit = "row"``, and along one-to-one OWN keys. The last case
    relies on a constraint, which rows may violate: further rows of a unit are then left out
    (`Units.first`), or all of them share one weight.
    """
    own = spec.tables[table].own
    return own is None or (own.unique and single(spec, own.parent))


def bound(spec: DatabaseSpec, table: str) -> int:
    """Return the effective τ: the declared one, or 1 where one row of a unit counts (`single`)."""
    return 1 if single(spec, table) else spec.tables[table].tau


def contribution(spec: DatabaseSpec, table: str) -> int:
    """Return the largest total weight of one unit's rows in a table, in grid units.

    For weights it is `GRID`: n rows of ⌊GRID·min(n,τ)/(τ·n)⌋ sum to at most GRID·min(n,τ)/τ.
    For truncation it is τ·`GRID`: at most τ rows count `GRID` each.
    """
    if spec.tables[table].bound == "truncation":
        return GRID * bound(spec, table)
    return GRID


def system_keys(rows: int, table: str) -> NDArray[np.uint64]:
    """Return uniform numbers from operating-system entropy, shape (rows,)."""
    return np.frombuffer(os.urandom(8 * rows), dtype=np.uint64)


def _by_unit_and_key(identity: RowIndex, keys: NDArray[np.uint64]) -> Ints:
    """The order of rows by unit, then by key.

    One number holds the unit and as many leading bits of the key as there is room for: one sort
    takes a fifth of the time of two. Should two of these numbers be equal, both are sorted in full,
    so that the order never depends on how many bits there was room for.
    """
    place = identity - identity.min()
    bits = np.uint64(int(place.max()).bit_length())
    packed = (place.astype(np.uint64) << (np.uint64(64) - bits)) | (keys >> bits)
    order = np.argsort(packed)
    ascending = packed[order]
    if (ascending[1:] == ascending[:-1]).any():
        order = np.lexsort((keys, identity))
    return np.asarray(order)


def tally(places: RowIndex, size: int) -> Ints:
    """Count how often every position from 0 to before ``size`` occurs; negative ones are ignored.

    It is counted block by block, since NumPy first makes a wider copy of what it counts.
    """
    counts = np.zeros(size, dtype=np.int64)
    step = max(_BLOCK, size)
    for start in range(0, places.size, step):
        block = places[start : start + step]
        counts += np.bincount(block if block.min() >= 0 else block[block >= 0], minlength=size)
    return counts


def row_weights(sizes: RowIndex, tau: int) -> NDArray[np.int32]:
    """Return ⌊GRID·min(n,τ)/(τ·n)⌋ by integer division, shape of ``sizes``."""
    table = np.arange(int(sizes.max(initial=0)) + 1, dtype=np.int64)
    table[0] = 1
    return (GRID * np.minimum(table, tau) // (tau * table)).astype(np.int32)[sizes]


def _once(find: Callable[[Units, str], _Mapped]) -> Callable[[Units, str], _Mapped]:
    """Compute a property of a table on first use, and keep it."""

    @wraps(find)
    def kept(units: Units, table: str) -> _Mapped:
        key = find.__name__, table
        if key not in units._known:
            units._known[key] = find(units, table)
        return cast(_Mapped, units._known[key])

    return kept


@dataclass(frozen=True, repr=False)
class UnitBlock:
    """All rows of some units: their positions by unit and then by random rank, shape (rows,)."""

    rows: RowIndex
    counts: RowIndex  # rows of every unit, 0 for some, shape (units,)

    @property
    def units(self) -> Ints:
        """The number of each row's unit within the block, ascending; shape (rows,)."""
        return np.repeat(np.arange(self.counts.size), self.counts)

    @property
    def sizes(self) -> RowIndex:
        """How many rows each row's unit has; shape (rows,)."""
        return np.repeat(self.counts, self.counts)

    @property
    def ranks(self) -> Ints:
        """The random rank of each row within its unit, from 0; shape (rows,)."""
        starts = np.cumsum(self.counts) - self.counts
        return np.arange(self.rows.size) - np.repeat(starts, self.counts)


class Units:
    """Unit identity, size, rank and weight of every row; computed on first use.

    ``owners`` has, for every table with an OWN key, the row index of each row's owner. ``ranks``
    were drawn before; they are given for a neighbouring database, whose units keep their ranks.
    ``remainders`` has the unit number of rows without an owner where that is not their own: a row
    whose owner alone was removed stays in its unit. No rows of a source are so, but claims hold for
    them, so that finer units have a bound, too (`ledger_state.UnitDefinition.parts`).
    """

    __slots__ = ("_known", "_offsets", "_owners", "_ranks", "_remainders", "_rows", "_spec", "keys")

    def __init__(
        self,
        spec: DatabaseSpec,
        rows: Mapping[str, int],
        owners: Mapping[str, RowIndex],
        ranks: Mapping[str, RowIndex] | None = None,
        remainders: Mapping[str, RowIndex] | None = None,
    ) -> None:
        # Draws the uniform numbers that rank the rows of a table: from the system's entropy, except
        # in a fit whose noise is seeded.
        self.keys: Callable[[int, str], NDArray[np.uint64]] = system_keys
        self._spec = spec
        self._rows = dict(rows)
        self._owners = dict(owners)
        self._remainders = dict(remainders or {})
        self._ranks = dict(ranks or {})
        self._known: dict[tuple[str, str], Any] = {}
        names = sorted(rows)
        starts = accumulate((rows[name] for name in names), initial=0)
        self._offsets = dict(zip(names, starts, strict=False))

    def __repr__(self) -> str:
        return "Units(private)"

    def number(self, table: str, row: int) -> int:
        """Return the unit number that a row has when it is the root of a unit."""
        return self._offsets[table] + row

    def identity(
        self, table: str, rows: slice | NDArray[np.integer[Any]] | None = None
    ) -> RowIndex:
        """Return the unit number of every row, or of some rows, the same numbers in all tables.

        It is found along the owners each time, since to keep it takes 4 bytes a row.
        """
        at = slice(None) if rows is None else rows
        itself = self._itself(table, at)
        own = self._spec.tables[table].own
        if own is None or self._rows[own.parent] == 0:
            return itself
        owner = self._owners[table][at]
        above = self.identity(own.parent, np.maximum(owner, 0))
        return np.where(owner >= 0, above, itself)

    def _itself(self, table: str, at: slice | NDArray[np.integer[Any]]) -> RowIndex:
        """The unit number of rows that have no owner."""
        if table in self._remainders:
            return self._remainders[table][at]
        kind, start = index_type(sum(self._rows.values())), self._offsets[table]
        if isinstance(at, slice):
            first, end, _ = at.indices(self._rows[table])
            return np.arange(start + first, start + end, dtype=kind)
        return np.asarray(at.astype(kind) + kind.type(start))

    def _identities(self, table: str, step: int = 0) -> Iterator[RowIndex]:
        for rows in self._slices(table, step):
            yield self.identity(table, rows)

    def _slices(self, table: str, step: int = 0) -> Iterator[slice]:
        step = max(step, _BLOCK)
        for start in range(0, self._rows[table], step):
            yield slice(start, start + step)

    def sizes(self, table: str, rows: NDArray[np.integer[Any]] | None = None) -> RowIndex:
        """Return how many rows of the table each row's unit has, for all rows or for some."""
        least, counts = self.members(table)
        return counts[self.identity(table, rows) - least]

    @_once
    def _sizes(self, table: str) -> tuple[AnyInts, RowIndex]:
        """The number of each row's size among the distinct sizes of units, and these sizes."""
        least, counts = self.members(table)
        distinct, number = np.unique(counts, return_inverse=True)
        number = number.astype(np.min_scalar_type(distinct.size))
        sizes = np.empty(self._rows[table], number.dtype)
        for rows in self._slices(table):
            sizes[rows] = number[self.identity(table, rows) - least]
        return sizes, distinct

    @_once
    def members(self, table: str) -> tuple[int, RowIndex]:
        """Return the least unit number in a table, and how many rows each unit from it on has."""
        ends = [(int(part.min()), int(part.max())) for part in self._identities(table)]
        least = min((low for low, _ in ends), default=0)
        most = max((high for _, high in ends), default=-1)
        counts = np.zeros(most - least + 1, index_type(self._rows[table]))
        for part in self._identities(table, counts.size):
            counts += tally(part - least, counts.size).astype(counts.dtype)
        return least, counts

    def _cuts(self, table: str, rows: int) -> list[int]:
        """Numbers of units, from 0, between which whole units have about so many rows."""
        _, counts = self.members(table)
        ends = np.searchsorted(np.cumsum(counts), np.arange(rows, self._rows[table], rows)) + 1
        return sorted({0, *ends.tolist(), counts.size})

    @_once
    def order(self, table: str) -> RowIndex | None:
        """Return all rows by unit and, within a unit, in random order; None if no unit has two.

        Of a neighbouring database the order is that of the ranks which were drawn before.
        """
        least, counts = self.members(table)
        if self._spec.tables[table].own is None or counts.max(initial=0) < 2:
            return None
        size, drawn = self._rows[table], self._ranks.get(table)
        cuts = self._cuts(table, max(4 * _BLOCK, size // _PARTS))
        parts = np.arange(len(cuts) - 1, dtype=np.min_scalar_type(len(cuts)))
        part_of_unit = np.repeat(parts, np.diff(cuts))
        part = np.empty(size, parts.dtype)
        for some in self._slices(table):
            part[some] = part_of_unit[self.identity(table, some) - least]
        # Numbers of the system's entropy are drawn part by part, since all at once take 8 bytes a
        # row; those of a seed do not depend on how rows are divided.
        keys = None if self.keys is system_keys else self.keys(size, table)
        order, start = np.empty(size, index_type(size)), 0
        for number in parts:
            rows = np.flatnonzero(part == number)
            identity = self.identity(table, rows)
            if drawn is not None:
                places = np.lexsort((drawn[rows], identity))
            else:
                own_keys = system_keys(rows.size, table) if keys is None else keys[rows]
                places = _by_unit_and_key(identity, own_keys)
            order[start : start + rows.size] = rows[places]
            start += rows.size
        return order

    def blocks(self, table: str) -> Iterator[UnitBlock]:
        """Yield all rows in blocks of whole units, so that less memory is used at once."""
        order = self.order(table)
        if order is None:
            for some in self._slices(table):
                rows = np.arange(*some.indices(self._rows[table]))
                yield UnitBlock(rows, np.ones_like(rows))
            return
        _, counts = self.members(table)
        start = 0
        for first, end in pairwise(self._cuts(table, _BLOCK)):
            own = counts[first:end]
            stop = start + int(own.sum())
            yield UnitBlock(order[start:stop], own)
            start = stop

    def ranks(self, table: str) -> RowIndex:
        """Return a random rank of every row within its unit and table, from 0; shape (rows,).

        None are drawn where every unit has one row: then it is one number, broadcast.
        """
        if self.order(table) is None:
            return np.broadcast_to(np.zeros((), dtype=np.int32), self._rows[table])
        ranks = np.empty(self._rows[table], index_type(self._rows[table]))
        for block in self.blocks(table):
            ranks[block.rows] = block.ranks
        return ranks

    def first(self, table: str, most: int) -> Mask:
        """Return a mask of the rows that count where ``most`` rows of a unit do, shape (rows,).

        They are the first of the unit's rows by random rank, whatever a constraint says of their
        number: every claim for a bounded number of rows rests on this. It has one number, broadcast
        to that shape, where no ranks were drawn: then all rows count.
        """
        if self.order(table) is None:
            return np.broadcast_to(np.True_, self._rows[table])
        key = f"first {most}", table
        if key not in self._known:
            self._known[key] = self.ranks(table) < most
        return cast(Mask, self._known[key])

    def weights(self, table: str) -> NDArray[np.int32]:
        """Return the weight of every row in grid units, shape (rows,).

        For a root table, where every weight is `GRID`, it is one number, broadcast to that shape.
        """
        codes, weights = self.weight_codes(table)
        if codes.strides == (0,) and codes.size:
            return np.broadcast_to(weights[codes[0]], codes.shape)
        return weights[codes]

    def weight_codes(self, table: str) -> tuple[AnyInts, NDArray[np.int32]]:
        """Return a small number for every row, shape (rows,), and the weight of each number.

        Together they take 1 or 2 bytes a row where weights take 4.
        """
        spec = self._spec.tables[table]
        if spec.own is None:
            return np.broadcast_to(np.uint8(0), self._rows[table]), np.array([GRID], np.int32)
        tau = bound(self._spec, table)
        if spec.bound == "truncation":
            return self.first(table, tau).view(np.uint8), np.array([0, GRID], np.int32)
        codes, sizes = self._sizes(table)
        return codes, row_weights(sizes, tau)
