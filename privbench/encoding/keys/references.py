"""The state of a synthetic table while its keys are made, and how its foreign keys are filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privbench.arrays import Mask, Rng
from privbench.encoding.base import Codec
from privbench.encoding.keys.columns import ValueSpace, range_points, range_scale
from privbench.encoding.keys.placeholders import random_uuids, value_space
from privbench.encoding.scale import scale_of
from privbench.encoding.uniqueness import (
    combine,
    factorize,
    later_duplicates,
    ranks,
    replace_rows,
)
from privbench.forest import circle_heads
from privbench.privacy.units import BOTTOM, RowIndex, index_type
from privbench.rules.facts import differences, folded_uniques, orders
from privbench.schema import ForeignKey, Table, Unique


@dataclass
class TableRows:
    """A synthetic table while its keys are made: columns, parents and a mask of kept rows."""

    table: Table
    # Values so far, each of shape (rows,); at first those of modelled columns.
    columns: dict[str, pa.Array]
    # Parent row by foreign key, negative for none; each of shape (rows,). Indices count the
    # parent's kept rows, or the given rows of the table itself where the key is a self-reference.
    # Those that were given are never changed in place.
    parents: dict[str, RowIndex]
    rng: Rng
    rows: int  # number of rows, dropped ones included
    # Codecs of modelled columns, whose public lists and ranges a repair respects.
    codecs: Mapping[str, Codec] = field(default_factory=dict)
    own: str | None = None  # name of the OWN key, whose parents should change last, or None
    serial: int = 0  # whether keys ascend (1) or descend (-1) with the dates of rows
    owner_dates: RowIndex | None = None  # `moments` of owners, none after its rows'
    alive: Mask = field(init=False)  # rows that are kept so far
    fixed: set[str] = field(default_factory=set)  # columns that a foreign key has filled
    # Columns whose values were numbered: no two rows that are kept share one.
    distinct: set[str] = field(default_factory=set)
    # The parent's values by referencing column, for every key that is filled.
    referred: dict[str, dict[str, pa.Array]] = field(default_factory=dict)
    # Parent rows that can be referred to, ascending, for every key that is filled.
    targets: dict[str, RowIndex] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.columns, self.parents = dict(self.columns), dict(self.parents)
        self.alive = np.ones(self.rows, np.bool_)

    def space(self, name: str) -> ValueSpace | None:
        """Return the values that a column can take."""
        return value_space(self.table, self.table.column(name), self.codecs.get(name), self.rows)

    def points(self, name: str) -> RowIndex:
        """Return the grid points of a column (of ranges, the lower bounds); 0 if it has no grid."""
        ranged = range_scale(self.table.column(name).type) if name in self.columns else None
        if ranged is not None:
            return range_points(ranged, self.columns[name])[0]
        space = self.space(name) if name in self.columns else None
        return space.to_points(self.columns[name]) if space else np.zeros(self.rows, np.int64)

    def moments(self, name: str) -> tuple[RowIndex, int]:
        """Return a column's dates in microseconds, and the size of its step; 0 for no dates.

        Of ranges, these are the lower bounds.
        """
        type_ = self.table.column(name).type
        scale, points = range_scale(type_) or scale_of(type_), self.points(name)
        step = ((scale.places([1]) if scale else None) or (1,))[0]
        return np.where(abs(points // 2) < 2**59, points, 0) * step, step

    def in_other_keys(self, key: ForeignKey, name: str) -> bool:
        """Return whether another foreign key contains a column of this one."""
        keys = self.table.foreign_keys
        return any(name in other.columns for other in keys if other.name != key.name)

    def own_keys(self, key: ForeignKey) -> dict[str, pa.Array]:
        """Return the values of the table's own key columns, by the columns that refer to them.

        It is used for a self-reference.
        """
        pairs = zip(key.columns, key.ref_columns, strict=True)
        return {name: self.columns[other] for name, other in pairs}

    def may_not_be_own_parent(self, key: ForeignKey) -> bool:
        """Return whether a CHECK forbids that a row refers to itself by this single-column key."""
        pair = (key.columns[0], key.ref_columns[0])
        unlike = {*differences(self.table)}
        unlike |= {order.columns for order in orders(self.table) if order.strict}
        return len(key.columns) == 1 and bool({pair, pair[::-1]} & unlike)

    def group(self, names: Sequence[str], *, fold: bool = False) -> RowIndex:
        """Return an integer for each distinct combination of columns.

        With ``fold``, case is ignored.
        """
        return combine([factorize(self.columns[name], fold=fold) for name in names], self.rows)

    def folds(self, item: Unique) -> bool:
        """Return whether a UNIQUE set ignores the case of texts."""
        return item in folded_uniques(self.table)

    def duplicates(self, item: Unique) -> Mask:
        """Return a mask of the rows that repeat the combination of an earlier row."""
        columns = [self.table.column(name) for name in item.columns]
        fold = self.folds(item)
        codes = [
            factorize(self.columns[c.name], fold=fold or c.type.base == "citext") for c in columns
        ]
        counted = self.alive.copy()
        if not item.nulls_not_distinct:
            for code in codes:
                counted &= code >= 0
        return later_duplicates(combine(codes, self.rows), counted)

    def move(self, space: ValueSpace, rows: RowIndex, points: RowIndex) -> None:
        """Give rows the values with these new grid points (or list positions)."""
        old = self.columns[space.column.name]
        inside = np.clip(points, space.lo, space.hi)
        new = space.from_points(inside, text=pa.types.is_string(old.type)).cast(old.type)
        self.columns[space.column.name] = replace_rows(old, rows, new)


def rows_of_type(work: TableRows, key: ForeignKey) -> Mask:
    """Return a mask of the rows to which a typed (polymorphic) key applies.

    All rows for other keys.
    """
    if key.when is None or key.when[0] not in work.columns:
        return np.ones(work.rows, np.bool_)
    same = pc.equal(work.columns[key.when[0]].cast(pa.string()), key.when[1])
    mask: Mask = np.asarray(same.fill_null(False), np.bool_)
    return mask


def settle_types(work: TableRows) -> None:
    """Make the targets of polymorphic keys agree with the types of their rows.

    A model draws types and targets separately. Targets of rows of another type go to rows of the
    key's type that have none, first to rows that have a target by another key, so that as many rows
    have a reference as before.
    """
    groups: dict[tuple[str, ...], list[ForeignKey]] = {}
    for key in work.table.foreign_keys:
        if key.when is not None and key.name in work.parents:
            groups.setdefault((key.when[0], *key.columns), []).append(key)
    for keys in groups.values():
        refers = np.logical_or.reduce([work.parents[key.name] >= 0 for key in keys])
        for key in keys:
            index, mine = work.parents[key.name].copy(), rows_of_type(work, key)
            spare = work.rng.permutation(index[(index >= 0) & ~mine])
            lacking = work.rng.permutation(np.flatnonzero(mine & (index < 0)))
            lacking = lacking[np.argsort(~refers[lacking], kind="stable")]
            both = min(len(spare), len(lacking))
            index[lacking[:both]] = spare[:both]
            index[~mine] = NONE
            work.parents[key.name] = index


def known(array: pa.Array) -> Mask:
    """Return a mask of the rows that are not NULL."""
    mask: Mask = np.asarray(array.is_valid(), np.bool_)
    return mask


def finite(array: pa.Array) -> Mask:
    """Return a mask of the rows that are neither NULL, NaN nor infinite, as number or text."""
    if pa.types.is_string(array.type):
        special = pc.is_in(array, value_set=pa.array(["infinity", "-infinity", "NaN"]))
        return known(array) & ~np.asarray(special, np.bool_)
    if pa.types.is_floating(array.type):
        return known(pc.if_else(pc.is_finite(array), array, None))
    return known(array)


#: No reference.
NONE = -1
#: The parent row was dropped: another one is to be found.
DANGLING = -3


def remap(parents: RowIndex, keep: Mask) -> RowIndex:
    """Return parent indices after parent rows were dropped.

    `DANGLING` where the parent was dropped.
    """
    # One more entry, reached by the index −1, stands for "no reference".
    table = np.full(len(keep) + 1, NONE, index_type(len(keep)))
    np.cumsum(keep, dtype=table.dtype, out=table[:-1])
    table[:-1] = np.where(keep, table[:-1] - 1, DANGLING)
    result: RowIndex = table[np.maximum(parents, NONE)]
    result[parents == BOTTOM] = BOTTOM
    return result


def draw_parents(drawn: RowIndex, groups: RowIndex, wanted: RowIndex, rng: Rng) -> RowIndex:
    """Draw a parent in each wanted group; `NONE` where a group is empty.

    Each candidate has the weight of one plus its number of occurrences in ``drawn``, so that
    parents with many rows keep many.
    """
    candidates = np.concatenate([np.arange(len(groups)), drawn[drawn >= 0]])
    candidates, first, count = _of_group(candidates, groups, wanted)
    place = first + (rng.random(len(wanted)) * count).astype(np.int64)
    result = np.full(len(wanted), NONE, np.int64)
    some = count > 0
    result[some] = candidates[np.minimum(place, first + count - 1)[some]]
    return result


def _of_group(
    candidates: RowIndex, groups: RowIndex, groups_wanted: RowIndex
) -> tuple[RowIndex, RowIndex, RowIndex]:
    """Candidates sorted by group; the first, and how many there are, of each wanted group."""
    candidates = candidates[np.argsort(groups[candidates], kind="stable")]
    first = np.searchsorted(groups[candidates], groups_wanted, side="left")
    return (
        candidates,
        first,
        np.searchsorted(groups[candidates], groups_wanted, side="right") - first,
    )


def without_repeats(
    index: RowIndex, child_groups: RowIndex, parent_groups: RowIndex, rng: Rng
) -> RowIndex:
    """Return parents without replacement: a repeated one is replaced by an unused one of its group.

    >>> groups = np.array([0, 1, 1]), np.array([0, 0, 1, 1])
    >>> without_repeats(np.array([0, 2, 2]), *groups, np.random.default_rng(0)).tolist()
    [0, 2, 3]
    """
    again = np.flatnonzero(later_duplicates(index, index >= 0))
    groups_of_repeats = child_groups[again]
    free = rng.permutation(np.setdiff1d(np.arange(len(parent_groups)), index))
    free, first, count = _of_group(free, parent_groups, groups_of_repeats)
    rank = ranks(groups_of_repeats)
    result = index.copy()
    result[again] = NONE
    some = rank < count
    result[again[some]] = free[(first + rank)[some]]
    return result


def one_to_one(table: Table, key: ForeignKey) -> bool:
    """Return whether a UNIQUE set lies within a key, so that each parent has at most one row."""
    return any(set(item.columns) <= set(key.columns) for item in table.unique_sets)


def nullable_columns(table: Table, key: ForeignKey) -> tuple[str, ...]:
    """Return the key's columns that are set to NULL if a row has no target; under MATCH FULL, all.

    Under the other match types these are the nullable columns. The column of a declared reference
    that has values for "no target" counts as nullable.
    """
    result = tuple(name for name in key.columns if not table.column(name).not_null or key.none)
    return () if key.match == "f" and len(result) < len(key.columns) else result


def take_key(work: TableRows, key: ForeignKey, columns: Sequence[str]) -> None:
    """Fill in some of a key's columns from the parent rows.

    A row without a reference gets NULL where the column allows it (all columns under MATCH FULL),
    or else a value that by declaration refers to nothing, or else the values of existing parents in
    turn. A row whose parent was removed (⊥) gets a value that no parent has. Rows to which a typed
    key does not apply keep their values; if they have none yet, they get a value that refers to
    nothing.
    """
    index, referred = work.parents[key.name], work.referred[key.name]
    none, lost = (index < 0) & (index != BOTTOM), index == BOTTOM
    other = ~rows_of_type(work, key)
    if key.when and key.when[0] in work.columns:
        other &= known(work.columns[key.when[0]])
    open_column = _open_column(work, key)
    for name in columns:
        values, column = referred[name], work.table.column(name)
        filled = np.flatnonzero(known(values))
        if not (none.any() or lost.any()):
            work.columns[name] = values.take(pa.array(index))
            continue
        placeholders = (
            lost | (none & (column.not_null | other)) if len(filled) else np.zeros_like(none)
        )
        spare = filled[np.arange(len(index)) % len(filled)] if len(filled) else np.zeros_like(index)
        places = pa.array(
            np.where(placeholders, spare, np.maximum(index, 0)), mask=(index < 0) & ~placeholders
        )
        filled_in = values.take(places)
        if key.none and column.not_null:
            nothing = pa.array([key.none[0]] * int(none.sum()), pa.string()).cast(filled_in.type)
            filled_in = replace_rows(filled_in, np.flatnonzero(none), nothing)
        if name == open_column:
            filled_in = replace_rows(
                filled_in, np.flatnonzero(lost), _of_nobody(work, name, values, lost)
            )
        if key.when and name in work.columns and name in work.fixed:
            filled_in = _either(pa.array(rows_of_type(work, key)), filled_in, work.columns[name])
        work.columns[name] = filled_in


def _either(which: pa.Array, ones: pa.Array, others: pa.Array) -> pa.Array:
    """Values of one of two columns of keys, which may be of different types."""
    if ones.type != others.type:
        whole = pa.types.is_integer(ones.type) and pa.types.is_integer(others.type)
        common = pa.int64() if whole else pa.string()
        ones, others = ones.cast(common), others.cast(common)
    return pc.if_else(which, ones, others)


def _open_column(work: TableRows, key: ForeignKey) -> str:
    """The column of a key whose value decides that there is no such parent."""
    return max(key.columns, key=lambda name: not _filled_by_others(work, key, name))


def _of_nobody(work: TableRows, name: str, values: pa.Array, rows: Mask) -> pa.Array:
    """Values of some rows that no parent has, each another one as long as there are so many."""
    column, count = work.table.column(name), int(rows.sum())
    space = work.space(name)
    if column.type.base == "uuid" or space is None:
        unused = random_uuids(count, work.rng)
    else:
        unused = space.nth(np.arange(min(space.capacity, len(values) + count)))
    unused = unused.cast(values.type)
    unused = unused.filter(pc.invert(pc.is_in(unused, value_set=values)))
    places = pa.array(np.arange(count) % max(len(unused), 1))
    return unused.take(places) if len(unused) else pa.nulls(count, values.type)


def surviving_ancestors(index: RowIndex, alive: Mask) -> RowIndex:
    """Return for each row the nearest ancestor that is kept, after rows of the table were dropped.

    It is negative where there is none, and `DANGLING` where dropped rows form a cycle.

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
    """Choose a valid parent for every row and fill in the key's columns.

    The parent agrees with the row on the columns that earlier keys have filled; where it does not,
    another parent that agrees is drawn. Where none exists, the reference becomes NULL if it may,
    else the row is dropped.
    """
    work.referred[key.name] = referred
    count = len(next(iter(referred.values())))
    shared = [name for name in key.columns if name in work.fixed and key.when is None]
    codes = [_joint(work.columns[name], referred[name]) for name in shared]
    groups = combine(codes, work.rows + count)
    row_groups, parent_groups = groups[: work.rows], groups[work.rows :]
    # Rows with a NULL among the columns that earlier keys have filled refer to nothing.
    null = np.zeros(work.rows, np.bool_)
    for name in shared:
        null |= ~known(work.columns[name])
    # Nothing can refer to a row whose referenced columns are not all filled in.
    empty: Mask = np.logical_or.reduce([~known(values) for values in referred.values()])
    parent_groups = np.where(empty, _NOBODY, parent_groups)
    work.targets[key.name] = np.flatnonzero(~empty)
    drawn = work.parents.get(key.name)
    drawn = np.full(work.rows, NONE, np.int64) if drawn is None else drawn
    index = np.where(drawn >= count, DANGLING, drawn)
    index[null] = NONE
    free = _free(work, key, shared)
    null |= index == BOTTOM
    if key.when is not None:
        null |= ~rows_of_type(work, key)
    wrong = (index == DANGLING) | ((index < 0) & (~null & (not free)))
    if shared or empty.any():
        referring = np.flatnonzero(index >= 0)
        wrong[referring] |= row_groups[referring] != parent_groups[index[referring]]
    if wrong.any():
        # The parent is gone, disagrees, or is missing and must not be.
        index[wrong] = draw_parents(index, parent_groups, row_groups[wrong], work.rng)
    if one_to_one(work.table, key) and count:
        index = without_repeats(index, row_groups, parent_groups, work.rng)
    if not free:
        work.alive &= (index >= 0) | null
    work.parents[key.name] = index
    _fill(work, key, [name for name in key.columns if key.when or name not in work.fixed])
    work.fixed |= set(key.columns)


def _joint(child: pa.Array, parent: pa.Array) -> RowIndex:
    """One integer for every distinct value of two columns, the child's rows first."""
    if child.type != parent.type:
        child, parent = child.cast(pa.string()), parent.cast(pa.string())
    return factorize(pa.concat_arrays([child, parent]))


def _fill(work: TableRows, key: ForeignKey, columns: Sequence[str]) -> None:
    """Fill in some of a key's columns; any valid value where no parent has one for NOT NULL."""
    take_key(work, key, columns)
    for name in columns:
        values = work.columns[name]
        if work.table.column(name).not_null and values.null_count:
            space = work.space(name)
            if space is None:
                work.alive &= known(values)
            else:
                work.columns[name] = space.nth(np.arange(work.rows) % space.capacity)


def _free(work: TableRows, key: ForeignKey, shared: Sequence[str]) -> list[str]:
    """Columns that can be NULL without touching another key."""
    if key.match == "f" and shared:
        return []
    return [name for name in nullable_columns(work.table, key) if name not in shared]


def refill_self_reference(work: TableRows, key: ForeignKey) -> None:
    """Fill a self-reference's columns again, after a repair of the keys that they refer to."""
    work.referred[key.name] = work.own_keys(key)
    _fill(work, key, [name for name in key.columns if not _filled_by_others(work, key, name)])


def break_cycles(work: TableRows, key: ForeignKey) -> None:
    """End every cycle of a self-reference at one row, so that no row is its own ancestor.

    Where the reference is NOT NULL, that row refers to itself, as roots then do; except where a row
    has at most one child, or a CHECK forbids it (`separate_from_self`).
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
    return name in work.table.pinned_columns or work.in_other_keys(key, name)


def redirect_dangling(work: TableRows, key: ForeignKey) -> None:
    """Point references to dropped rows of the same table to the ancestors of the dropped rows.

    Where there is no ancestor, or uniqueness might break, the reference becomes NULL or points to
    its own row.
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
        result = np.where((result < 0) & (result != BOTTOM), rows, result)
    work.parents[key.name] = result
    refill_self_reference(work, key)
