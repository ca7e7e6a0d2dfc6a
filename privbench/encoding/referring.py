"""Filling in one foreign key of a synthetic table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privbench.encoding.references import (
    NONE,
    ORPHAN,
    Pools,
    agreement,
    heirs,
    nullable_columns,
    one_to_one,
    take_key,
    without_repeats,
)
from privbench.encoding.workbench import Mask, Workbench, known
from privbench.forest import circle_heads
from privbench.schema import ForeignKey

Indices = NDArray[np.int64]
#: A group of parents that no row is in.
_NOBODY = -1


def refer(work: Workbench, key: ForeignKey, referred: dict[str, pa.Array]) -> None:
    """Settle the parent of every row and fill in the key's columns.

    The parent agrees on the columns that earlier keys have filled; where it does not, another one
    is drawn among those that do. Where there is none, the reference is NULL if it may be, else the
    row is dropped.

    Args:
        work: The table in the making.
        key: The foreign key.
        referred: The parent's values by referencing column.
    """
    work.referred[key.name] = referred
    count = len(next(iter(referred.values())))
    shared = [name for name in key.columns if name in work.fixed]
    mine, theirs, null = agreement(
        [work.columns[name] for name in shared],
        [referred[name] for name in shared],
        work.rows,
        count,
    )
    # Nothing can refer to a row whose referenced columns are not all filled in.
    empty = _with_null(referred)
    theirs = np.where(empty, _NOBODY, theirs)
    work.targets[key.name] = np.flatnonzero(~empty)
    given = work.parents.get(key.name)
    given = np.full(work.rows, NONE, dtype=np.int64) if given is None else given
    index = np.where(given >= count, ORPHAN, given)
    index[null] = NONE
    free = _free(work, key, shared)
    wrong = (index == ORPHAN) | ((index < 0) & (~null & (not free)))
    if shared or empty.any():
        seen = np.flatnonzero(index >= 0)
        wrong[seen] |= mine[seen] != theirs[index[seen]]
    if wrong.any():
        _redraw(work, index, mine, theirs, np.flatnonzero(wrong))
    if one_to_one(work.table, key) and count:
        index = without_repeats(index, mine, theirs, work.rng)
    if not free:
        work.alive &= (index >= 0) | null
    work.parents[key.name] = index
    _fill(work, key, referred, [name for name in key.columns if name not in work.fixed])
    work.fixed |= set(key.columns)


def _fill(
    work: Workbench, key: ForeignKey, referred: dict[str, pa.Array], columns: Sequence[str]
) -> None:
    """Fill in some of a key's columns; what must not be NULL, and no parent has, is made up."""
    found = take_key(work.table, key, work.parents[key.name], referred, columns)
    for name in columns:
        if work.table.column(name).not_null and found[name].null_count:
            pool = work.pool(name)
            if pool is None:
                work.alive &= known(found[name])
            else:
                found[name] = pool.nth(np.arange(work.rows) % pool.capacity)
    work.columns.update(found)


def _with_null(referred: Mapping[str, pa.Array]) -> Mask:
    """Parent rows with a NULL among the columns that a key refers to."""
    nulls = [values.is_null().to_numpy(zero_copy_only=False) for values in referred.values()]
    found: Mask = np.logical_or.reduce(nulls)
    return found


def _free(work: Workbench, key: ForeignKey, shared: Sequence[str]) -> list[str]:
    """Columns that can be NULL without touching another key."""
    if key.match == "f" and shared:
        return []
    return [name for name in nullable_columns(work.table, key) if name not in shared]


def _redraw(work: Workbench, index: Indices, mine: Indices, theirs: Indices, rows: Indices) -> None:
    """Draw again where the parent is gone, disagrees, or is missing and must not be."""
    index[rows] = Pools(index, theirs).draw(mine[rows], work.rng)


def refill(work: Workbench, key: ForeignKey) -> None:
    """A self-reference's columns again, after a repair may have moved what they refer to."""
    own = [name for name in key.columns if not _filled_by_others(work, key, name)]
    _fill(work, key, work.own_keys(key), own)


def plant(work: Workbench, key: ForeignKey) -> None:
    """End circles of a self-reference at a row each, so that no row is its own ancestor.

    Where a reference must lead somewhere, that row refers to itself, as roots do then; unless a
    row has at most one child, or a CHECK forbids it (`part_self`).
    """
    if not work.rows:
        return
    index = work.parents[key.name]
    shared = [name for name in key.columns if _filled_by_others(work, key, name)]
    heads = circle_heads(index)
    if _free(work, key, shared):
        index[heads] = NONE
    elif not one_to_one(work.table, key) and not work.may_not_be_own_parent(key):
        pairs = dict(zip(key.columns, key.ref_columns, strict=True))
        if all(pairs[name] == name for name in shared):
            index[heads] = heads


def _filled_by_others(work: Workbench, key: ForeignKey, name: str) -> bool:
    others = (other for other in work.table.foreign_keys if other.name != key.name)
    return name in work.table.pinned_columns or any(name in other.columns for other in others)


def end_orphans(work: Workbench, key: ForeignKey) -> None:
    """References to dropped rows of the table itself lead to what these referred to.

    Where that is nothing, or a row might no longer be unique, they end, or point at their own row.
    """
    index = work.parents[key.name]
    found = heirs(index, work.alive)
    if (found == index).all():
        return
    # A row that was dropped as a duplicate refers to what another row refers to as well.
    if any(set(item.columns) & set(key.columns) for item in work.table.unique_sets):
        found = np.where(found == index, index, NONE)
    rows = np.arange(work.rows)
    if nullable_columns(work.table, key):
        # Of two rows that refer to each other, one that stays must not refer to itself.
        found = np.where((found == rows) & (index != rows), NONE, found)
    else:
        found = np.where(found < 0, rows, found)
    work.parents[key.name] = found
    refill(work, key)
