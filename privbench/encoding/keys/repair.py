"""Repair of UNIQUE sets and of CHECKs between two columns of synthetic rows (post-processing)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privbench.encoding.keys.columns import ValueSpace
from privbench.encoding.keys.combinations import keep_combinations
from privbench.encoding.keys.references import (
    NONE,
    TableRows,
    draw_parents,
    finite,
    known,
    one_to_one,
    take_key,
    without_repeats,
)
from privbench.encoding.surrogate_text import TEXT_BASES
from privbench.encoding.uniqueness import move_apart, number_texts, replace_rows
from privbench.privacy.units import RowIndex
from privbench.roles.facts import opposites
from privbench.rules.facts import differences, orders
from privbench.rules.named import creation_date
from privbench.schema import ForeignKey, Rule, Table, Unique

#: Largest shares of rows out of order: where names suggest either order, and where one.
_EITHER, _AGAINST = 0.35, 0.65


@dataclass(frozen=True)
class _Pair:
    """Two columns on one grid, of which one may take the values of other rows."""

    # Values of the column that may be changed: the greater one, unless it belongs to a key or a
    # UNIQUE set, or is fixed.
    moves: ValueSpace
    greater: bool  # whether that is the greater one
    rows: RowIndex  # rows that have both values
    left: RowIndex  # grid points of the lesser column in these rows
    right: RowIndex  # grid points of the greater column in these rows


def _tied(work: TableRows) -> set[str]:
    """Columns of keys and UNIQUE sets."""
    tied = {column for item in work.table.unique_sets for column in item.columns}
    return tied | work.table.key_columns | work.fixed


def _pair(work: TableRows, low: str, high: str) -> _Pair | None:
    """Two columns as a pair to be put in order; None where no value may or need be moved."""
    one, other = work.space(low), work.space(high)
    if one is None or other is None or one.values or other.values:
        return None
    tied = _tied(work)
    if one.scale is None or one.scale != other.scale or {low, high} <= tied:
        return None
    rows = np.flatnonzero(finite(work.columns[low]) & finite(work.columns[high]) & work.alive)
    if not len(rows):
        return None
    left, right = one.to_points(work.columns[low]), other.to_points(work.columns[high])
    greater = high not in tied
    return _Pair(other if greater else one, greater, rows, left[rows], right[rows])


def _with_owners(work: TableRows) -> _Pair | None:
    """The dates since when owners and rows are there, to bring rows to their owners' or after."""
    name, dates = creation_date(work.table), work.owner_dates
    space = work.space(name) if name in work.columns and name not in _tied(work) else None
    if dates is None or space is None or space.values:
        return None
    index, (mine, step) = work.parents[work.own or ""], work.moments(name)
    above = np.where(index >= 0, dates[index], 0)
    rows = np.flatnonzero((mine != 0) & (above != 0) & work.alive)
    return _Pair(space, True, rows, above[rows] // step, mine[rows] // step)


def dependency_order(pairs: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return pairs of columns so ordered that no column changes after another was adjusted to it.

    >>> dependency_order([("ship", "arrive"), ("order", "ship")])
    [('order', 'ship'), ('ship', 'arrive')]
    """
    before: dict[str, set[str]] = {}
    for low, high in pairs:
        before.setdefault(low, set())
        if (high, low) not in pairs:
            before.setdefault(high, set()).add(low)
    try:
        turn = {name: place for place, name in enumerate(TopologicalSorter(before).static_order())}
    except CycleError:
        return list(pairs)
    return sorted(pairs, key=lambda pair: turn[pair[0]])


def _exchange(work: TableRows, pair: _Pair | None, *, strict: bool = False) -> None:
    """Bring two columns in order by exchanges between rows, else by other rows' distances."""
    if pair is None:
        return
    name, scale = pair.moves.column.name, pair.moves.scale
    step = scale.step if strict and scale is not None else 0
    # Distances from another date of the row are exchanged as such.
    codec = work.codecs.get(name)
    base = work.points(codec.since if codec else "")
    order = exchanged(pair.left - base[pair.rows], pair.right - step - base[pair.rows])
    places, rows = np.arange(work.rows), pair.rows
    if pair.greater:
        places[rows] = rows[order]
    else:
        places[rows[order]] = rows
    shift = base - base[places]
    work.columns[name] = work.columns[name].take(pa.array(places))
    if len(moved := np.flatnonzero(shift)):
        work.move(pair.moves, moved, (work.points(name) + shift)[moved])
    points = work.points(name)
    left, right = (pair.left, points[rows]) if pair.greater else (points[rows], pair.right)
    bad = left + step > right
    gaps = work.rng.choice(np.sort((right - left)[~bad]) if not bad.all() else [step], bad.sum())
    if pair.moves.maker is None:
        moved = left[bad] + gaps if pair.greater else right[bad] - gaps
        work.move(pair.moves, rows[bad], moved)


def exchanged(left: RowIndex, right: RowIndex) -> RowIndex:
    """Return a permutation with which ``left <= right[order]`` in as many rows as possible.

    Rows that are out of order are sorted together with helper rows, those of the greatest
    distances. The number of helpers is doubled until all rows are in order; if even all rows do not
    suffice, there are as many helpers as rows out of order.

    >>> exchanged(np.array([1, 5]), np.array([9, 2])).tolist()
    [1, 0]
    """
    order = np.arange(len(left))
    wrong = left > right
    bad = int(wrong.sum())
    # Differences of two grid points may pass int64; as floats they only rank.
    ranked = np.lexsort((right.astype(np.float64) - left, ~wrong))
    if not bad:
        return order

    def matched(helpers: int) -> tuple[RowIndex, RowIndex]:
        some = bad + helpers < len(left)
        group = np.concatenate([ranked[:bad], ranked[-helpers:]]) if some else ranked
        rows = group[np.argsort(left[group], kind="stable")]
        return rows, group[np.argsort(right[group], kind="stable")]

    helpers = bad
    fewest = rows, taken = matched(helpers)
    while (left[rows] > right[taken]).any():
        if bad + helpers >= len(left):
            rows, taken = fewest
            break
        helpers *= 2
        rows, taken = matched(helpers)
    order[rows] = taken
    return order


#: Rounds in which repeated combinations of parents are drawn again.
REDRAWS = 20
#: Most combinations of parents that are looked through for those that no row has.
MOST_COMBINATIONS = 2**22
#: Rows of each value from which on a column's own values are those that it may have.
_OFTEN = 16
#: Rounds over all UNIQUE sets (the repair of one may disturb another).
ROUNDS = 3


def repair_orders(work: TableRows) -> None:
    """Restore the order of two columns that a CHECK or their names state, if few rows break it."""
    keep_combinations(work)
    # The dates since when rows are there come to those of their owners, or after them.
    _exchange(work, _with_owners(work))
    for name, codec in work.codecs.items():
        if codec.since and (space := work.space(name)):
            rows = np.flatnonzero(finite(work.columns[name]) & finite(work.columns[codec.since]))
            work.move(space, rows, (work.points(name) + work.points(codec.since))[rows])
    for left, right in (*differences(work.table), *_opposites(work.table)):
        _separate(work, left, right)
    every = [o for o in orders(work.table) if {*o.columns} <= work.columns.keys()]
    either = {o.columns[::-1] for o in every if o.source == "name"}
    some = [o for o in every if o.broken <= _EITHER and _trusted(work, o, o.columns in either)]
    turn = dependency_order([order.columns for order in some])
    for order in sorted(some, key=lambda order: turn.index(order.columns)):
        low, high = order.columns
        if order.strict:
            _separate(work, low, high)
        _exchange(work, _pair(work, low, high), strict=order.strict)
        _swap(work, low, high)
        _repair_order(work, low, high, strict=order.strict)
        if order.broken and (pair := _pair(work, low, high)) is not None:
            wrong = work.rng.random(len(pair.rows)) < order.broken
            gaps = np.maximum(pair.right - pair.left, pair.moves.unit)
            points = pair.left - gaps if pair.greater else pair.right + gaps
            work.move(pair.moves, pair.rows[wrong], points[wrong])


def _trusted(work: TableRows, order: Rule, either: bool) -> bool:
    """Whether rows do not contradict an order of names."""
    pair = _pair(work, *order.columns) if order.source == "name" else None
    wrong = 0.0 if pair is None else float((pair.left > pair.right).mean())
    return wrong <= (_EITHER if either else _AGAINST)


def _opposites(table: Table) -> list[tuple[str, str]]:
    """Columns of references in opposite roles (home and away), by their names: they differ."""
    pairs = opposites([key for key in table.foreign_keys if len(key.columns) == 1])
    return [(one.columns[0], other.columns[0]) for one, other in pairs]


def _keys_of_one_parent(
    work: TableRows, left: str, right: str
) -> tuple[ForeignKey, ForeignKey] | None:
    """The two keys that fill two columns from the same column of one parent, or None."""
    keys = {key.columns[0]: key for key in work.table.foreign_keys if len(key.columns) == 1}
    one, other = keys.get(left), keys.get(right)
    if one is None or other is None or not {one.name, other.name} <= set(work.referred):
        return None
    same = (one.ref_table, one.ref_columns) == (other.ref_table, other.ref_columns)
    alone = not any(_shares(work, key) for key in (one, other))
    return (one, other) if same and alone else None


def _separate(work: TableRows, left: str, right: str) -> None:
    """Make two references differ in every row: exchange the second between rows, or draw it again.

    An exchange leaves every parent as many rows as it had.
    """
    pair = _keys_of_one_parent(work, left, right)
    if pair is None:
        return
    keys = sorted(pair, key=lambda key: key.name == work.own)
    index, other = (work.parents[key.name] for key in keys)
    referring = np.flatnonzero(index >= 0)
    changed = False
    for _ in range(REDRAWS):
        same = referring[index[referring] == other[referring]]
        partner = work.rng.permutation(referring)[: len(same)]
        fits = (index[partner] != other[same]) & (index[same] != other[partner])
        fits &= ~np.isin(partner, same)
        here, there = same[fits], partner[fits]
        index[here], index[there] = index[there], index[here]
        changed |= len(here) > 0
    same = referring[index[referring] == other[referring]]
    if _redraw_parents(work, keys[0], same) or changed:
        take_key(work, keys[0], keys[0].columns)


def _redraw_parents(work: TableRows, key: ForeignKey, rows: RowIndex) -> bool:
    """Give some rows, all of which have a parent, another one; whether there was any."""
    index, targets = work.parents[key.name], work.targets[key.name]
    if len(targets) < 2 or not len(rows):
        return False
    steps = work.rng.integers(1, len(targets), size=len(rows))
    index[rows] = targets[(np.searchsorted(targets, index[rows]) + steps) % len(targets)]
    return True


def separate_from_self(work: TableRows, key: ForeignKey) -> None:
    """Draw another parent for rows that refer to themselves, where a CHECK forbids that."""
    if not work.may_not_be_own_parent(key) or work.rows < 2:
        return
    index = work.parents[key.name]
    own = np.flatnonzero(index == np.arange(work.rows))
    if one_to_one(work.table, key):
        # Parents go round among these rows, so that none gets a second child.
        others = np.flatnonzero((index >= 0) & (index != np.arange(work.rows)))
        own = np.append(own, others[:1]) if len(own) == 1 else own
        index[own] = np.roll(index[own], 1)
    else:
        _redraw_parents(work, key, own)


def _swap(work: TableRows, low: str, high: str) -> None:
    """Swap two references to one parent that break a CHECK on their order."""
    pair = _keys_of_one_parent(work, low, high)
    left, right = work.columns[low], work.columns[high]
    if pair is None or not (pa.types.is_integer(left.type) and left.type == right.type):
        return
    one, other = pair
    wrong = pc.fill_null(pc.greater(left, right), False)
    work.columns[low] = pc.if_else(wrong, right, left)
    work.columns[high] = pc.if_else(wrong, left, right)
    rows = np.asarray(wrong, np.bool_)
    first, second = work.parents[one.name], work.parents[other.name]
    work.parents[one.name] = np.where(rows, second, first)
    work.parents[other.name] = np.where(rows, first, second)


def _repair_order(work: TableRows, lesser: str, greater: str, *, strict: bool) -> None:
    low, high = work.space(lesser), work.space(greater)
    if low is None or high is None or low.scale is None or high.scale is None:
        return
    if low.scale != high.scale or low.values or high.values:
        return
    left, right = work.columns[lesser], work.columns[greater]
    small, big = low.to_points(left), high.to_points(right)
    step = low.scale.step if strict else 0
    first = np.clip(np.minimum(small, big), low.lo, min(low.hi, high.hi - step))
    second = np.maximum(np.maximum(small, big), first + step)
    wrong = np.flatnonzero(finite(left) & finite(right) & (small + step > big))
    work.move(low, wrong, first[wrong])
    work.move(high, wrong, second[wrong])


def repair_uniques(work: TableRows, sets: Collection[Unique]) -> None:
    """Make the given UNIQUE sets unique; rows for which that fails are dropped."""
    for _ in range(ROUNDS):
        if not any([_repair(work, item) for item in sets]):
            return
    for item in sets:
        work.alive &= ~work.duplicates(item)


def _repair(work: TableRows, item: Unique) -> bool:
    """Repair one set; whether anything had to change."""
    if not work.duplicates(item).any():
        return False
    # Of the columns that may change, the roomiest does.
    names = [name for name in item.columns if name not in work.table.key_columns]
    spaces = [space for space in map(work.space, names) if space is not None]
    space = max(spaces, key=lambda space: space.capacity, default=None)
    if space is None:
        _redraw(work, item)
    elif space.scale is not None or space.values:
        _spread(work, item, space)
    else:
        _renumber(work, item, space)
    work.alive &= ~work.duplicates(item)
    return True


def _spread(work: TableRows, item: Unique, space: ValueSpace) -> None:
    """Move repeated values of one column to the nearest unused ones, of its own if these are few.

    So quarters of a meter that is read on their first days move to other quarters.
    """
    name = space.column.name
    counted = work.alive & finite(work.columns[name])
    if not item.nulls_not_distinct:
        for other in item.columns:
            counted &= known(work.columns[other])
    rows = np.flatnonzero(counted)
    others = [other for other in item.columns if other != name]
    groups = work.group(others, fold=work.folds(item))
    most = np.unique(groups[rows], return_counts=True)[1].max(initial=0)
    points = space.to_points(work.columns[name])[rows]
    own, ranks = np.unique(points, return_inverse=True)
    if most <= len(own) <= len(rows) // _OFTEN:
        moved, full = move_apart(ranks, groups[rows], 0, len(own) - 1)
        moved = own[np.where(full, ranks, moved)]
    else:
        step = _step(space, most)
        lo, hi = -(-space.lo // step), space.hi // step
        cells, full = move_apart(points // step, groups[rows], lo, hi)
        moved = np.where(cells == points // step, points, cells * step)
    work.alive[rows[full]] = False
    changed = (moved != points) & ~full
    work.move(space, rows[changed], moved[changed])


def _step(space: ValueSpace, most: int) -> int:
    """Least distance of distinct values: multiples stay multiples, where there are enough."""
    if space.values or space.scale is None:
        return 1
    step = max(space.unit, space.scale.step)
    enough = space.hi // step - -(-space.lo // step) + 1 >= most
    return step if enough else space.scale.step


def _renumber(work: TableRows, item: Unique, space: ValueSpace) -> None:
    """Append numbers to repeated texts; as a last resort replace them by surrogate keys."""
    name, top = space.column.name, space.column.type.length
    offset = 1
    for _ in range(4 if space.column.type.base in TEXT_BASES else 0):
        rows = np.flatnonzero(work.duplicates(item))
        if not len(rows):
            return
        text = work.columns[name].cast(pa.string())
        numbered = number_texts(text.fill_null(""), rows, offset + np.arange(len(rows)), top)
        work.columns[name] = replace_rows(text, rows, numbered.take(pa.array(rows)))
        offset = offset * 10 + len(rows)
    rows = np.flatnonzero(work.duplicates(item))
    index = space.capacity - 1 - np.arange(min(len(rows), space.capacity))
    new = space.nth(index)
    work.columns[name] = replace_rows(work.columns[name], rows[: len(index)], new)


def _redraw(work: TableRows, item: Unique) -> None:
    """Draw one parent again for repeated combinations of parents; the owner last."""
    keys = [key for key in work.table.foreign_keys if set(key.columns) & set(item.columns)]
    usable = [key for key in keys if key.name in work.referred and not _shares(work, key)]
    usable.sort(key=lambda key: key.name == work.own)
    for turn in range(REDRAWS if usable else 0):
        rows = np.flatnonzero(work.duplicates(item))
        if not len(rows):
            return
        key = usable[0 if turn < REDRAWS // 2 else turn // 2 % len(usable)]
        referred, targets = work.referred[key.name], work.targets[key.name]
        index = work.parents[key.name]
        if not len(targets):
            continue
        if turn % 2 == 0:
            groups = np.full(len(next(iter(referred.values()))), NONE)
            groups[targets] = 0
            index[rows] = draw_parents(index, groups, np.zeros(len(rows), np.int64), work.rng)
        elif turn < REDRAWS // 2 - 1 or not _take_unused(work, item, key):
            # Popular parents are those that are taken: any one will do.
            index[rows] = targets[work.rng.integers(len(targets), size=len(rows))]
        take_key(work, key, key.columns)


def _take_unused(work: TableRows, item: Unique, key: ForeignKey) -> bool:
    """Give rows with repeated combinations a parent whose combination is still unused.

    A random parent is hardly ever one where nearly all combinations are in use, as in a table that
    joins all rows of two others. Nothing is done if they are too many to list.
    """
    index, targets = work.parents[key.name], work.targets[key.name]
    rest = work.group([name for name in item.columns if name not in key.columns])
    some = np.isin(rest, rest[work.duplicates(item)]) & work.alive & (index >= 0)
    rows = np.flatnonzero(some)
    every, groups = np.unique(rest[rows], return_inverse=True)
    if len(every) * len(targets) > MOST_COMBINATIONS:
        return False
    pairs = groups * len(targets) + np.searchsorted(targets, index[rows])
    of_pairs = np.repeat(np.arange(len(every)), len(targets))
    pairs = without_repeats(pairs, groups, of_pairs, work.rng)
    free = pairs >= 0
    index[rows[free]] = targets[pairs[free] % len(targets)]
    return True


def _shares(work: TableRows, key: ForeignKey) -> bool:
    """Whether another key shares a column with this one, which limits the choice of parents."""
    return any(work.in_other_keys(key, name) for name in key.columns)
