"""Repair of position numbers within a parent, of overlapping periods, and of versions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privbench.arrays import Mask
from privbench.encoding.keys.columns import range_points, range_scale, range_texts
from privbench.encoding.keys.references import TableRows, finite, known
from privbench.encoding.uniqueness import laid_out, ranks, replace_rows, starts
from privbench.privacy.units import RowIndex
from privbench.rules.facts import exclusions, orders, sharing_keys, singles
from privbench.rules.named import creation_date, said
from privbench.rules.parse import ColumnCondition
from privbench.schema import ForeignKey

#: Every group has a row of a kind if there are at least so many such rows a group.
_EACH = 0.9


def put_in_sequence(work: TableRows) -> None:
    """Separate overlapping periods, join consecutive versions, and number the rows of each parent.

    Constraints in the catalog say which periods must not overlap. Periods count as versions, each
    of which ends where the next begins, by name or if a UNIQUE set numbers them. Without a
    constraint, names and the catalog (numbers, one current row) must agree.
    """
    finished = set[tuple[str, ...]]()
    keys = [key for key in work.table.foreign_keys if key.name in work.referred]
    for key in keys:
        _number_rows(work, key)
    for same, names, closed, where in exclusions(work.table):
        counted = any(_numbers(work, key) for key in keys if {*key.columns} == {*same})
        seamless = said("versions", names[0]) or counted
        _put_apart(work, names, same, closed, where, seamless=seamless)
        finished.add(names)
    for key in keys:
        for pair in (order.columns for order in orders(work.table)):
            agree = _numbers(work, key) or _current(work, key)
            if said("versions", pair[0]) and agree and pair not in finished:
                day = work.table.column(pair[0]).type.base == "date"
                _put_apart(work, pair, key.columns, day, (), seamless=True)
                finished.add(pair)


def _dates(work: TableRows) -> list[str]:
    """Columns that say when rows begin: as versions, or when they are there since."""
    begins = [order.columns[0] for order in orders(work.table)]
    begins += [names[0] for _, names, *_ in exclusions(work.table)]
    every = [*(name for name in begins if said("versions", name)), creation_date(work.table)]
    return [name for name in every if name in work.columns]


def _numbers(work: TableRows, key: ForeignKey) -> list[str]:
    """Columns that a UNIQUE set has beside a key, and that have positions by their names."""
    mine = set(key.columns)
    rest = [{*item.columns} - mine for item in work.table.unique_sets if mine < {*item.columns}]
    return [one for one, *more in rest if not more and said("positions", one)]


def _current(work: TableRows, key: ForeignKey) -> list[str]:
    """What makes a row the only current one of its parent: a truth value by name, or no end."""
    alone = (some for columns, some in singles(work.table) if {*columns} == {*key.columns})
    marked = (some[0] for some in alone if len(some) == 1 and some[0][2])
    return [name for name, value, _ in marked if value is None or said("current", name)]


def _number_rows(work: TableRows, key: ForeignKey) -> None:
    """Number the rows of a parent in the order of their dates, and let its last one be current."""
    numbers = [name for name in _numbers(work, key) if name in work.columns]
    dates, groups = _dates(work), work.parents[key.name]
    for by in [*dates, *numbers][:1]:
        rows = np.flatnonzero((groups >= 0) & finite(work.columns[by]) & work.alive)
        points = work.points(by)[rows]
        for name in numbers:
            old, space = work.points(name), work.space(name)
            start = int(2 * (old == 0).sum() <= (old == 1).sum())
            if space is not None and not space.values:
                work.move(space, rows, ranks(groups[rows], points) + start)
        rows = rows[np.lexsort((points, groups[rows]))]
        for name in _current(work, key) if dates and len(rows) else ():
            if name in work.columns and work.table.column(name).type.base == "bool":
                before = _meets(work, [(name, "true", True)])
                current, places = before.copy(), np.arange(work.rows)
                current[rows] = _last(work, current[rows], starts(groups[rows]))
                # What a rule says beside the flag goes with it.
                new, lost = rows[(current > before)[rows]], rows[(before > current)[rows]]
                both = min(len(new), len(lost))
                places[new[:both]], places[lost[:both]] = lost[:both], new[:both]
                ruled = (r.columns for r in work.table.rules if r.kind == "combination")
                beside = {*chain(*(some for some in ruled if name in some))}
                for one in beside & work.columns.keys() - work.table.key_columns:
                    work.columns[one] = work.columns[one].take(pa.array(places))
                work.columns[name] = pa.array(current)


def _meets(work: TableRows, conditions: Sequence[ColumnCondition]) -> Mask:
    """Rows that meet a condition, as far as it is known."""
    result = np.ones(work.rows, np.bool_)
    for name, value, same in conditions:
        array = work.columns.get(name)
        if array is not None:
            alike = pc.is_null(array) if value is None else pc.equal(array.cast(pa.string()), value)
            result &= np.asarray(pc.fill_null(alike, False), np.bool_) == same
    return result


def _last(work: TableRows, some: Mask, first: Mask) -> Mask:
    """The last rows of as many groups as there are some rows: first of those that have one."""
    group = np.cumsum(first) - 1
    has = np.bincount(group, some) > 0
    spare = work.rng.permutation(np.flatnonzero(~has))
    every = some.sum() >= _EACH * len(has)
    has[spare[: None if every else some.sum() - has.sum()]] = True
    result: Mask = np.roll(first, -1) & has[group]
    return result


def share_singles(work: TableRows) -> None:
    """Exchange parents so that each has at most one row that a partial UNIQUE index covers.

    Nothing changes if such rows outnumber the parents, or are nearly as many.
    """
    for columns, conditions in singles(work.table):
        keys = sharing_keys(work.table, columns)
        names = [key.name for key in keys if key.name in work.parents]
        if not names:
            continue
        index, flags = work.parents[names[0]].copy(), _meets(work, conditions)
        rows = work.rng.permutation(np.flatnonzero(index >= 0))
        # Of each parent, a row that meets the condition comes first.
        rows = rows[np.lexsort((~flags[rows], index[rows]))]
        first = starts(index[rows])
        more, less = (rows[(first == one) & (flags[rows] != one)] for one in (False, True))
        more, less = work.rng.permutation(more), work.rng.permutation(less)
        both = min(len(more), len(less))
        index[more[:both]], index[less[:both]] = index[less[:both]], index[more[:both]]
        work.parents[names[0]] = index
        places, every = np.arange(work.rows), flags.sum() >= _EACH * first.sum()
        for rest, lent in ((more[both:], ~flags), (less[both:] if every else rows[:0], flags)):
            if len(rest) and lent.any():
                places[rest] = work.rng.choice(np.flatnonzero(lent), len(rest))
        for name in {name for name, *_ in conditions} & work.columns.keys():
            work.columns[name] = work.columns[name].take(pa.array(places))


def _put_apart(
    work: TableRows,
    names: Sequence[str],
    same: Sequence[str],
    closed: int,
    where: Sequence[ColumnCondition],
    *,
    seamless: bool,
) -> None:
    """Let periods of equal rows keep apart, or each end where the next one begins.

    Only the last may be without an end, in as many groups as there are such. One that begins too
    early moves behind the one before it, or where there is no room before the end, all are shorter.
    """
    low, high = work.table.column(names[0]), work.table.column(names[-1])
    scale, one, other = range_scale(low.type), work.space(low.name), work.space(high.name)
    if not work.columns.keys() >= {*names, *same} or work.table.key_columns & {*names}:
        return
    if not (one and other and (scale or one.scale)) or one.scale != other.scale or one.values:
        return
    if scale is not None:
        begin, end, there, open_ = range_points(scale, work.columns[low.name])
    else:
        there, open_ = finite(work.columns[low.name]), ~finite(work.columns[high.name])
        begin, end = work.points(low.name), work.points(high.name) + closed
    there &= _meets(work, where) & work.alive
    for name in same:
        there &= known(work.columns[name])
    group = work.group(same)
    rows = np.lexsort((begin, group))
    rows = rows[there[rows]]
    if not len(rows):
        return
    begin, end, open_, group = begin[rows], end[rows], open_[rows], group[rows]
    first = starts(group)
    group = np.cumsum(first) - 1
    if scale is None and not open_.any():
        # Without NULL, an open end is a date that many versions share, as the last of a type.
        shared = end == end.max()
        open_ = shared & (shared.sum() > first.sum() / 4 + 1)
    length, unit = np.maximum(end - begin, 1), max(int(np.gcd.reduce(begin - begin[0])), 1)
    length[open_] = unit if open_.all() else work.rng.choice(length[~open_], open_.sum())
    least, most = int(begin.min()), int((begin + length).max())
    # Usual lengths are kept.
    usual = np.unique(length[~open_], return_counts=True)[1].max(initial=0) > len(rows) / 5
    if seamless and not usual:
        begin = laid_out(begin, np.full_like(begin, unit), group, least, most + unit)
        length = np.where(np.roll(first, -1), length, np.roll(begin, -1) - begin)
    else:
        begin = begin[first][group] if seamless else begin
        total = np.add.reduceat(length, np.flatnonzero(first))[group]
        part = np.minimum((most - least) / total, 1)
        length = np.maximum((length * part).astype(np.int64), 1)
        begin = laid_out(begin, length, group, least, most)
    ends, last = begin + length, _last(work, open_, first)
    if scale is not None:
        periods = range_texts(scale, begin, ends, last)
        work.columns[low.name] = replace_rows(work.columns[low.name], rows, periods)
        return
    old = work.columns[high.name].take(pa.array(np.repeat(rows[open_][:1], last.sum())))
    work.move(one, rows, begin)
    work.move(other, rows, ends - closed)
    work.columns[high.name] = replace_rows(work.columns[high.name], rows[last], old)


def numbers_in_time(work: TableRows, column: str, others: Sequence[str]) -> RowIndex:
    """Number the rows of each group from 0: positions by date, others in the order of rows."""
    dates, groups = _dates(work) if said("positions", column) else [], work.group(others)
    return ranks(groups, *map(work.points, dates[:1]))


def numbers_by_date(work: TableRows) -> RowIndex:
    """Number all kept rows from 0 in the order of their dates, as keys follow dates.

    Rows without a date come first.
    """
    points = work.points(creation_date(work.table))[work.alive]
    number = ranks(np.zeros_like(points), points)
    return number if work.serial > 0 else len(points) - 1 - number
