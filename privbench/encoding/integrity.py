"""Keys of one synthetic table: minted, referred, unique, within their CHECKs. Post-processing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privbench.encoding.base import Codec
from privbench.encoding.checks import column_limits
from privbench.encoding.indexes import folded_uniques, kept_uniques
from privbench.encoding.keys import is_counted, is_discriminator, role_of
from privbench.encoding.patterns import column_pattern
from privbench.encoding.placeholders import any_pool, random_uuids
from privbench.encoding.references import remap
from privbench.encoding.referring import end_orphans, plant, refer, refill
from privbench.encoding.repair import part_self, repair_orders, repair_uniques
from privbench.encoding.uniqueness import ranks
from privbench.encoding.workbench import Workbench
from privbench.schema import Column, ForeignKey, Table, Unique

Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]
#: Characters of a UUID as text.
_UUID_LENGTH = 36
#: Rows that are numbered at a time, for memory alone.
_BLOCK = 2**20
#: The referenced columns of a key's parent rows that are kept, in `ref_columns` order.
ParentKeys = Callable[[ForeignKey], Sequence[pa.Array]]


@dataclass(frozen=True)
class Minted:
    """A synthetic table whose keys are filled in.

    Attributes:
        columns: Values of every column that the load writes, kept rows only.
        parents: Parent row of every kept row by foreign key, −1 for none.
        keep: Which of the given rows are kept.
        torn: Whether rows were dropped when others may have referred to them already, on a cycle
            of NOT NULL keys.
    """

    columns: dict[str, pa.Array]
    parents: dict[str, Indices]
    keep: Mask
    torn: bool = False

    @property
    def rows(self) -> int:
        """Number of rows that are kept."""
        return int(self.keep.sum())

    @property
    def dropped(self) -> int:
        """Number of rows for which no valid key was left."""
        return len(self.keep) - self.rows


def mint(
    table: Table,
    decoded: Mapping[str, pa.Array],
    parents: Mapping[str, Indices],
    parent_keys: ParentKeys,
    rng: np.random.Generator,
    *,
    rows: int,
    codecs: Mapping[str, Codec] | None = None,
    deferred: Collection[str] = (),
    wanted: Collection[str] = (),
    own: str | None = None,
) -> Minted:
    """Fill in all keys of a table and repair its UNIQUE sets.

    Args:
        table: The table.
        decoded: Decoded values of the modelled columns, each of shape (rows,).
        parents: Parent row by foreign key's name, negative for none; indices count the parent's
            kept rows (see `privbench.encoding.references.remap`), or the given rows of the table
            itself where the key is a self-reference.
        parent_keys: Gives the parent's key values; not asked for self-references.
        rng: Source of randomness.
        rows: Number of rows.
        codecs: Codecs of the modelled columns, whose public lists and ranges a repair respects.
        deferred: Keys that are filled in later (`fill_deferred`), when their parent exists.
        wanted: Columns of deferred keys that others refer to already: they are minted.
        own: The key whose parents should change last.

    Returns:
        The table; rows for which no valid key is left are dropped.
    """
    work = Workbench(table, decoded, parents, rng, rows, codecs, own)
    work.fixed |= table.pinned_columns & set(work.columns)
    outer = [key for key in table.foreign_keys if not key.is_self and key.name not in deferred]
    for key in sorted(outer, key=lambda key: (key.name != own, -len(key.columns))):
        values = parent_keys(key)
        refer(work, key, dict(zip(key.columns, values, strict=True)))
    repair_orders(work)
    _mint_keys(work, wanted)
    selves = [key for key in table.foreign_keys if key.is_self and key.name not in deferred]
    for key in selves:
        refer(work, key, work.own_keys(key))
        part_self(work, key)
        plant(work, key)
        refill(work, key)
    open_sets = [
        item
        for item in _unique_sets(table, work.columns)
        if not work.distinct.intersection(item.columns)
    ]
    repair_uniques(work, open_sets)
    for key in selves:
        plant(work, key)
        refill(work, key)
    # What rows refer to may have moved, and their references with it.
    moved = {name for key in selves for name in key.columns}
    for item in open_sets:
        if moved & set(item.columns):
            work.alive &= ~work.duplicates(item)
    return _result(work, selves)


def fill_deferred(
    table: Table,
    minted: Minted,
    key: ForeignKey,
    index: Indices,
    parent_keys: Sequence[pa.Array],
    rng: np.random.Generator,
) -> Minted:
    """Fill in a key that was deferred to break a cycle, now that its parent's rows exist.

    Args:
        table: The table.
        minted: Its rows so far.
        key: The deferred key.
        index: Parent row of every kept row, negative for none.
        parent_keys: The parent's key values.
        rng: Source of randomness.
    """
    work = Workbench(table, minted.columns, {key.name: index}, rng, minted.rows)
    work.fixed = set(table.key_columns) & set(minted.columns)
    refer(work, key, dict(zip(key.columns, parent_keys, strict=True)))
    repair_uniques(
        work,
        [
            item
            for item in _unique_sets(table, work.columns)
            if set(item.columns) & set(key.columns)
        ],
    )
    found = _result(work, [])
    keep = minted.keep.copy()
    keep[np.flatnonzero(keep)] = found.keep
    kept = {name: values[found.keep] for name, values in minted.parents.items()}
    torn = minted.torn or found.rows < minted.rows
    return Minted(found.columns, {**kept, **found.parents}, keep, torn)


def _unique_sets(table: Table, columns: Collection[str]) -> list[Unique]:
    """UNIQUE sets whose columns are all filled in (generated ones are PostgreSQL's business)."""
    sets = kept_uniques(table) + folded_uniques(table)
    return [item for item in sets if set(item.columns) <= set(columns)]


def _mint_keys(work: Workbench, wanted: Collection[str]) -> None:
    """Values of all columns that are neither modelled nor refer to others."""
    for column in work.table.columns:
        made = role_of(work.table, column) == "minted" or column.name in wanted
        if column.name in work.columns or not made:
            continue
        if column.type.base == "uuid" or _is_uuid_text(work.table, column):
            work.columns[column.name] = random_uuids(work.rows, work.rng)
        elif is_discriminator(work.table, column) and not _counts_all(work, column):
            assert work.table.primary_key is not None
            others = [name for name in work.table.primary_key.columns if name in work.fixed]
            _number(work, column, ranks(work.group(others)))
        else:
            number: Indices = np.cumsum(work.alive, dtype=np.int64)
            number -= 1
            if _number(work, column, number):
                work.distinct.add(column.name)


def _counts_all(work: Workbench, column: Column) -> bool:
    """Whether a sequence numbers all rows; not where its type has too few numbers above 0."""
    pool = any_pool(work.table, column, None, work.rows) if is_counted(column) else None
    rows = int(np.count_nonzero(work.alive))
    return pool is not None and min(pool.capacity, pool.hi) >= rows


def _is_uuid_text(table: Table, column: Column) -> bool:
    """Whether a key is a text with room for a UUID and nothing else, and no CHECK says more."""
    texts = column.type.base in ("varchar", "bpchar") and column.type.length == _UUID_LENGTH
    return texts and not column_limits(table, column) and column_pattern(table, column) is None


def _number(work: Workbench, column: Column, index: Indices) -> bool:
    """Give a key column the values of the given numbers; rows past the last value are dropped.

    Returns:
        Whether distinct numbers gave distinct values.
    """
    pool = any_pool(work.table, column, None, work.rows)
    pattern = column_pattern(work.table, column)
    if pattern is not None and not (pool and pool.values) and work.rows:
        made = pattern.distinct(work.rows, work.rng)
        work.alive &= index < len(made)
        work.columns[column.name] = made.take(pa.array(np.clip(index, 0, len(made) - 1)))
        return True
    if pool is None:
        # No numbering is known for the type: what distinguishes rows must be left to repair.
        work.columns[column.name] = pa.nulls(work.rows, pa.string())
        return False
    made = []
    for first in range(0, max(work.rows, 1), _BLOCK):
        some = slice(first, first + _BLOCK)
        number = np.maximum(index[some], 0)
        work.alive[some] &= number < pool.capacity
        made.append(pool.nth(np.minimum(number, pool.capacity - 1)))
    work.columns[column.name] = made[0] if len(made) == 1 else pa.concat_arrays(made)
    return True


def _result(work: Workbench, selves: Sequence[ForeignKey]) -> Minted:
    """The rows that are kept, self-references in their new numbers."""
    for key in selves:
        end_orphans(work, key)
    keep = work.alive
    columns, parents = dict(work.columns), dict(work.parents)
    if not keep.all():
        columns = {name: values.filter(pa.array(keep)) for name, values in columns.items()}
        parents = {name: index[keep] for name, index in parents.items()}
    for key in selves:
        parents[key.name] = remap(parents[key.name], keep)
    return Minted(columns, parents, keep)
