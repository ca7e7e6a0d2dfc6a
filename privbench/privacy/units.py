"""The units to which rows belong: identity, size, random ranks and weights of their rows.

All four follow from the OWN forest alone. They are computed over all of a unit's rows in a table,
before any filter, split or partition, and depend on nothing outside the unit; so a unit keeps them
when another unit is removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from itertools import accumulate, pairwise
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Ints, Mask
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

#: Least rows of a block of units, and most blocks: each block is found by a pass over all rows.
#: With twice or half of either number, all blocks together take about as long.
_BLOCK, _BLOCKS = 2**20, 16

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


def random_ranks(identity: RowIndex, keys: NDArray[np.uint64]) -> RowIndex:
    """Return a random rank of every row within its unit, from 0, shape (rows,).

    There is at least one row; ``keys`` are uniform numbers.
    """
    rows = identity.size
    order = _by_unit_and_key(identity, keys)
    grouped = identity[order]
    first = np.ones(rows, dtype=bool)
    first[1:] = grouped[1:] != grouped[:-1]
    starts = np.flatnonzero(first)
    position = np.arange(rows) - np.repeat(starts, np.diff(np.append(starts, rows)))
    ranks = np.empty(rows, dtype=index_type(rows))
    ranks[order] = position
    return ranks


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
    for start in range(0, places.size, 4 * _BLOCK):
        block = places[start : start + 4 * _BLOCK]
        counts += np.bincount(block[block >= 0], minlength=size)
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


class Units:
    """Unit identity, size, rank and weight of every row; computed on first use.

    ``owners`` has, for every table with an OWN key, the row index of each row's owner. ``ranks``
    were drawn before; they are given for a neighbouring database, whose units keep their ranks.
    ``remainders`` has the unit number of rows without an owner where that is not their own: a row
    whose owner alone was removed stays in its unit. No rows of a source are so, but claims hold for
    them, so that finer units have a bound, too (`ledger_state.UnitDefinition.parts`).
    """

    __slots__ = ("_known", "_offsets", "_owners", "_remainders", "_rows", "_spec", "keys")

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
        self._known: dict[tuple[str, str], Any] = {
            ("ranks", table): drawn for table, drawn in (ranks or {}).items()
        }
        names = sorted(rows)
        starts = accumulate((rows[name] for name in names), initial=0)
        self._offsets = dict(zip(names, starts, strict=False))

    def __repr__(self) -> str:
        return "Units(private)"

    def number(self, table: str, row: int) -> int:
        """Return the unit number that a row has when it is the root of a unit."""
        return self._offsets[table] + row

    @_once
    def identity(self, table: str) -> RowIndex:
        """Return the unit number of every row, the same numbers in all tables; shape (rows,)."""
        rows, start = self._rows[table], self._offsets[table]
        kind = index_type(sum(self._rows.values()))
        itself = self._remainders.get(table, np.arange(start, start + rows, dtype=kind))
        own = self._spec.tables[table].own
        if own is None or self._rows[own.parent] == 0:
            return itself
        owner = self._owners[table]
        above = self.identity(own.parent)[np.maximum(owner, 0)]
        return np.where(owner >= 0, above, itself)

    def sizes(self, table: str, rows: NDArray[np.integer[Any]] | None = None) -> RowIndex:
        """Return how many rows of the table each row's unit has, for all rows or for some."""
        least, counts = self.members(table)
        identity = self.identity(table)
        return counts[(identity if rows is None else identity[rows]) - least]

    @_once
    def members(self, table: str) -> tuple[int, RowIndex]:
        """Return the least unit number in a table, and the number of rows of it and later ones."""
        identity = self.identity(table)
        least = int(identity.min()) if identity.size else 0
        most = int(identity.max(initial=least - 1))
        counts = tally(identity - least, most - least + 1)
        return least, counts.astype(index_type(identity.size))

    def blocks(self, table: str) -> Iterator[Ints]:
        """Yield the positions of all rows in blocks, so that less memory is used at once.

        All rows of a unit are in one block.
        """
        least, counts = self.members(table)
        identity = self.identity(table)
        step = max(_BLOCK, identity.size // _BLOCKS)
        ends = np.searchsorted(np.cumsum(counts), np.arange(step, identity.size, step)) + 1
        for first, end in pairwise(np.unique([0, *ends, counts.size])):
            yield np.flatnonzero((identity >= least + first) & (identity < least + end))

    @_once
    def ranks(self, table: str) -> RowIndex:
        """Return a random rank of every row within its unit and table; shape (rows,).

        None are drawn where every unit has one row.
        """
        if self._spec.tables[table].own is None or self.members(table)[1].max(initial=0) < 2:
            return np.broadcast_to(np.zeros((), dtype=np.int32), self._rows[table])
        identity, keys = self.identity(table), self.keys(self._rows[table], table)
        ranks = np.empty(identity.size, dtype=index_type(identity.size))
        for rows in self.blocks(table):
            ranks[rows] = random_ranks(identity[rows], keys[rows])
        return ranks

    def first(self, table: str, most: int) -> Mask:
        """Return a mask of the rows that count where ``most`` rows of a unit do, shape (rows,).

        They are the first of the unit's rows by random rank, whatever a constraint says of their
        number: every claim for a bounded number of rows rests on this. It has one number, broadcast
        to that shape, where no ranks were drawn: then all rows count.
        """
        ranks = self.ranks(table)
        alone = ranks.strides == (0,)
        return np.broadcast_to(np.True_, ranks.shape) if alone else ranks < most

    @_once
    def weights(self, table: str) -> NDArray[np.int32]:
        """Return the weight of every row in grid units, shape (rows,).

        For a root table, where every weight is `GRID`, it is one number, broadcast to that shape.
        """
        spec = self._spec.tables[table]
        if spec.own is None:
            return np.broadcast_to(np.int32(GRID), self._rows[table])
        tau = bound(self._spec, table)
        if spec.bound == "truncation":
            return np.where(self.first(table, tau), np.int32(GRID), np.int32(0))
        return row_weights(self.sizes(table), tau)
