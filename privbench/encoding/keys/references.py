"""Foreign keys of synthetic rows: which parent row, and its key values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from privbench.encoding.keys.table import TableRows, known
from privbench.encoding.keys.uniqueness import Indices, Mask, combine, factorize, ranks
from privbench.forest import circle_heads
from privbench.schema import ForeignKey, Table

#: No reference.
NONE = -1
#: The parent row was dropped: another one is to be found.
DANGLING = -3


def remap(parents: Indices, keep: Mask) -> Indices:
    """Parent indices after some parent rows were dropped; rows that lost theirs get `DANGLING`."""
    moved = np.where(keep, np.cumsum(keep) - 1, DANGLING)
    # One more entry, reached by the index −1, stands for "no reference".
    table = np.append(moved, NONE)
    result: Indices = table[np.where(parents >= 0, parents, -1)]
    return result


class ParentSampler:
    """Parent rows to draw from, by group; popular parents as often as they were drawn before."""

    def __init__(self, drawn: Indices, groups: Indices) -> None:
        candidates = np.concatenate([np.arange(len(groups)), drawn[drawn >= 0]])
        order = np.argsort(groups[candidates], kind="stable")
        self._rows = candidates[order]
        self._groups = groups[candidates][order]

    def draw(self, wanted: Indices, rng: np.random.Generator) -> Indices:
        """A parent of each wanted group; `NONE` where the group has none."""
        first = np.searchsorted(self._groups, wanted, side="left")
        count = np.searchsorted(self._groups, wanted, side="right") - first
        place = first + (rng.random(len(wanted)) * count).astype(np.int64)
        result = np.full(len(wanted), NONE, dtype=np.int64)
        some = count > 0
        result[some] = self._rows[np.minimum(place, first + count - 1)[some]]
        return result


def shared_groups(
    fixed: Sequence[pa.Array], referred: Sequence[pa.Array], rows: int, parents: int
) -> tuple[Indices, Indices, Mask]:
    """Groups by the columns that earlier keys have set.

    Returns:
        Group of every child row, group of every parent row (equal groups agree), and the child
        rows with a NULL among the fixed columns, which refer to nothing.
    """
    codes = [_joint(child, parent) for child, parent in zip(fixed, referred, strict=True)]
    joint = combine(codes, rows + parents)
    null = np.zeros(rows, dtype=np.bool_)
    for child in fixed:
        null |= ~known(child)
    return joint[:rows], joint[rows:], null


def _joint(child: pa.Array, parent: pa.Array) -> Indices:
    if child.type != parent.type:
        child, parent = child.cast(pa.string()), parent.cast(pa.string())
    return factorize(pa.concat_arrays([child, parent]))


def without_repeats(
    index: Indices, child_groups: Indices, parent_groups: Indices, rng: np.random.Generator
) -> Indices:
    """Parents without replacement: later repeats take unused parents of their own group."""
    used = index >= 0
    taken = np.zeros(len(parent_groups), dtype=np.bool_)
    taken[index[used]] = True
    again = np.zeros(len(index), dtype=np.bool_)
    rows = np.flatnonzero(used)
    again[rows] = ranks(index[rows]) > 0 if len(rows) else False
    needy = np.flatnonzero(again)
    free = rng.permutation(np.flatnonzero(~taken))
    result = index.copy()
    result[needy] = _deal(child_groups[needy], free, parent_groups[free])
    return result


def _deal(wanted: Indices, free: Indices, groups: Indices) -> Indices:
    """The k-th free parent of a group to the k-th row that wants one; `NONE` past the last."""
    order = np.argsort(groups, kind="stable")
    free, groups = free[order], groups[order]
    first = np.searchsorted(groups, wanted, side="left")
    count = np.searchsorted(groups, wanted, side="right") - first
    rank = ranks(wanted) if len(wanted) else np.empty(0, dtype=np.int64)
    result = np.full(len(wanted), NONE, dtype=np.int64)
    some = rank < count
    result[some] = free[(first + rank)[some]]
    return result


def one_to_one(table: Table, key: ForeignKey) -> bool:
    """Whether a UNIQUE set lies within the key's columns: each parent has at most one row."""
    return any(set(item.columns) <= set(key.columns) for item in table.unique_sets)


def nullable_columns(table: Table, key: ForeignKey) -> tuple[str, ...]:
    """The key's columns that may be NULL so that it refers to nothing; under MATCH FULL, all."""
    result = tuple(name for name in key.columns if not table.column(name).not_null)
    return () if key.match == "f" and len(result) < len(key.columns) else result


def take_key(
    table: Table,
    key: ForeignKey,
    index: Indices,
    referred: Mapping[str, pa.Array],
    columns: Sequence[str],
) -> dict[str, pa.Array]:
    """Values of some of a key's columns from the parent rows.

    A row without a reference has NULL where the column allows it (all columns under MATCH FULL),
    and elsewhere the value of some parent that has one, of each in turn.
    """
    none = index < 0
    if not none.any():
        whole = pa.array(index)
        return {name: referred[name].take(whole) for name in columns}
    result = {}
    for name in columns:
        values = referred[name]
        filled = np.flatnonzero(known(values))
        if table.column(name).not_null and len(filled):
            turn = filled[np.arange(len(index)) % len(filled)]
            result[name] = values.take(pa.array(np.where(none, turn, index)))
        else:
            result[name] = values.take(pa.array(np.where(none, 0, index), mask=none))
    return result


def surviving_ancestors(index: Indices, alive: Mask) -> Indices:
    """Parents among the rows themselves once some rows are gone: those of gone parents.

    Returns:
        The nearest ancestor that stays; negative where there is none, `DANGLING` where gone rows
        go round in a circle.

    >>> surviving_ancestors(np.array([-1, 0, 1, 2]), np.array([True, False, False, True])).tolist()
    [-1, 0, 0, 0]
    """
    result, above = index.copy(), index
    # Every round doubles the number of gone rows that are passed.
    for _ in range(len(index).bit_length() + 1):
        gone = (result >= 0) & ~alive[np.maximum(result, 0)]
        if not gone.any():
            return result
        result = np.where(gone, above[np.maximum(result, 0)], result)
        above = result
    return np.where((result >= 0) & ~alive[np.maximum(result, 0)], DANGLING, result)


#: A group of parents that no row is in.
_NOBODY = -1


def fill_reference(work: TableRows, key: ForeignKey, referred: dict[str, pa.Array]) -> None:
    """Settle the parent of every row and fill in the key's columns.

    The parent agrees on the columns that earlier keys have filled; where it does not, another one
    is drawn among those that do. Where there is none, the reference is NULL if it may be, else the
    row is dropped.
    """
    work.referred[key.name] = referred
    count = len(next(iter(referred.values())))
    shared = [name for name in key.columns if name in work.fixed]
    mine, theirs, null = shared_groups(
        [work.columns[name] for name in shared],
        [referred[name] for name in shared],
        work.rows,
        count,
    )
    # Nothing can refer to a row whose referenced columns are not all filled in.
    empty: Mask = np.logical_or.reduce([~known(values) for values in referred.values()])
    theirs = np.where(empty, _NOBODY, theirs)
    work.targets[key.name] = np.flatnonzero(~empty)
    given = work.parents.get(key.name)
    given = np.full(work.rows, NONE, dtype=np.int64) if given is None else given
    index = np.where(given >= count, DANGLING, given)
    index[null] = NONE
    free = _free(work, key, shared)
    wrong = (index == DANGLING) | ((index < 0) & (~null & (not free)))
    if shared or empty.any():
        seen = np.flatnonzero(index >= 0)
        wrong[seen] |= mine[seen] != theirs[index[seen]]
    if wrong.any():
        # The parent is gone, disagrees, or is missing and must not be.
        index[wrong] = ParentSampler(index, theirs).draw(mine[wrong], work.rng)
    if one_to_one(work.table, key) and count:
        index = without_repeats(index, mine, theirs, work.rng)
    if not free:
        work.alive &= (index >= 0) | null
    work.parents[key.name] = index
    _fill(work, key, referred, [name for name in key.columns if name not in work.fixed])
    work.fixed |= set(key.columns)


def _fill(
    work: TableRows, key: ForeignKey, referred: dict[str, pa.Array], columns: Sequence[str]
) -> None:
    """Fill in some of a key's columns; any valid value where no parent has one for NOT NULL."""
    result = take_key(work.table, key, work.parents[key.name], referred, columns)
    for name in columns:
        if work.table.column(name).not_null and result[name].null_count:
            space = work.space(name)
            if space is None:
                work.alive &= known(result[name])
            else:
                result[name] = space.nth(np.arange(work.rows) % space.capacity)
    work.columns.update(result)


def _free(work: TableRows, key: ForeignKey, shared: Sequence[str]) -> list[str]:
    """Columns that can be NULL without touching another key."""
    if key.match == "f" and shared:
        return []
    return [name for name in nullable_columns(work.table, key) if name not in shared]


def refill_self_reference(work: TableRows, key: ForeignKey) -> None:
    """A self-reference's columns again, after a repair may have moved what they refer to."""
    own = [name for name in key.columns if not _filled_by_others(work, key, name)]
    _fill(work, key, work.own_keys(key), own)


def break_cycles(work: TableRows, key: ForeignKey) -> None:
    """End circles of a self-reference at a row each, so that no row is its own ancestor.

    Where a reference must lead somewhere, that row refers to itself, as roots do then; unless a
    row has at most one child, or a CHECK forbids it (`separate_from_self`).
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


def _filled_by_others(work: TableRows, key: ForeignKey, name: str) -> bool:
    others = (other for other in work.table.foreign_keys if other.name != key.name)
    return name in work.table.pinned_columns or any(name in other.columns for other in others)


def redirect_dangling(work: TableRows, key: ForeignKey) -> None:
    """References to dropped rows of the table itself lead to what these referred to.

    Where that is nothing, or a row might no longer be unique, they end, or point at their own row.
    """
    index = work.parents[key.name]
    result = surviving_ancestors(index, work.alive)
    if (result == index).all():
        return
    # A row that was dropped as a duplicate refers to what another row refers to as well.
    if any(set(item.columns) & set(key.columns) for item in work.table.unique_sets):
        result = np.where(result == index, index, NONE)
    rows = np.arange(work.rows)
    if nullable_columns(work.table, key):
        # Of two rows that refer to each other, one that stays must not refer to itself.
        result = np.where((result == rows) & (index != rows), NONE, result)
    else:
        result = np.where(result < 0, rows, result)
    work.parents[key.name] = result
    refill_self_reference(work, key)
