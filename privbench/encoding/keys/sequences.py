"""Positions of the rows of one parent, and versions that neither overlap nor leave gaps."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privbench.encoding.keys.references import TableRows, finite
from privbench.encoding.uniqueness import Indices, Mask, ranks
from privbench.rules.facts import orders
from privbench.rules.named import creation_date, said

#: Rounds in which versions that begin together are moved apart.
_ROUNDS = 20


def put_in_sequence(work: TableRows) -> None:
    """Number rows of one parent, and let each version of it end where the next begins.

    Names say which column beside a key in a UNIQUE set has positions, and when versions begin: rows
    of which a partial UNIQUE index allows each parent a current one, or that are so numbered.
    """
    table, held = work.table, set(work.columns)
    for key in (key for key in table.foreign_keys if key.name in work.referred):
        mine, index = set(key.columns), work.parents[key.name]
        rest = [{*item.columns} - mine for item in table.unique_sets if mine < {*item.columns}]
        numbers = [one for one, *more in rest if not more and said("positions", one)]
        places = [one for one in numbers if one in held]
        current = [i.predicate for i in table.indexes if i.predicate and mine == {*i.columns}]
        spans = [order.columns for order in orders(table) if current or numbers]
        spans = [pair for pair in spans if held.issuperset(pair) and said("versions", pair[0])]
        for by in [*(low for low, _ in spans), *places][:1]:
            rows = np.flatnonzero((index >= 0) & finite(work.columns[by]) & work.alive)
            points = work.points(by)[rows]
            rows = rows[np.lexsort((points, index[rows]))]
            first = np.diff(index[rows], prepend=-1) != 0
            for low, high in spans[:1]:
                last = _end_at_next(work, low, high, rows, first)
                flags = (c.name for c in table.columns if c.type.base == "bool")
                work.columns |= {name: pa.array(last) for name in flags if name in current}
            for name in places:
                old = work.points(name)
                start = int(2 * (old == 0).sum() <= (old == 1).sum())
                _move_to(work, name, rows, ranks(index[rows]) + start)


def _move_to(work: TableRows, name: str, rows: Indices, points: Indices) -> None:
    """Give some rows the values at these grid points."""
    space, moved, every = work.space(name), np.zeros(work.rows, np.bool_), work.points(name)
    if space is not None and not space.values:
        moved[rows], every[rows] = True, points
        work.move(space, moved, every)


def _end_at_next(work: TableRows, low: str, high: str, rows: Indices, first: Mask) -> Mask:
    """Let sorted rows end where the next one begins, days on the day before; give the last ones."""
    unit = getattr(work.space(low), "unit", 1)
    begin, day = work.points(low)[rows], work.table.column(low).type.base == "date"
    for _ in range(_ROUNDS):
        begin[1:] = np.where(first[1:], begin[1:], np.maximum(begin[1:], begin[:-1] + unit))
    _move_to(work, low, rows, begin)
    last = np.zeros(work.rows, np.bool_)
    last[rows] = ends = np.roll(first, -1)
    old = work.points(high)[rows]
    # Without NULL, an open end is a date that many versions share, as the last that a type has.
    kinds, counts = np.unique(old, return_counts=True)
    shared = counts[-1:].sum() > ends.sum() / 4
    open_ = kinds[-1] if shared else np.maximum(old, begin)
    _move_to(work, high, rows, np.where(ends, open_, np.roll(begin, -1) - day))
    if not work.table.column(high).not_null:
        work.columns[high] = pc.if_else(pa.array(last), None, work.columns[high])
    return last


def numbers_in_time(work: TableRows, column: str, others: Sequence[str]) -> Indices:
    """A number from 0 for every row of a group, as names say: by when it begins, or is there since.

    Without such a date, and of columns that are no positions, by the order of rows.
    """
    begins = [order.columns[0] for order in orders(work.table)]
    dates = [*(name for name in begins if said("versions", name)), creation_date(work.table)]
    date = next((name for name in dates if name in work.columns and work.space(name)), None)
    groups = work.group(others)
    if date is None or not said("positions", column):
        return ranks(groups)
    return ranks(groups, work.points(date))


def numbers_by_date(work: TableRows) -> Indices:
    """A number from 0 for every row that is kept, as keys follow dates (`TableRows.serial`).

    Rows without a date are the earliest.
    """
    points = work.points(creation_date(work.table))[work.alive]
    number = ranks(np.zeros_like(points), points)
    return number if work.serial > 0 else len(points) - 1 - number
