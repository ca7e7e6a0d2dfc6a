"""Ranges of dates that noise has hidden: those of dates nearby. Post-processing, free of charge.

Dates of one row, and of one database, mostly lie near each other: a discharge near its admission, a
last change near the last of other changes. That is a better guess than the years 2000 to 2030.

Years that no event has are marks: 9999-12-31 says "until now", 0001-01-01 that nothing is known. A
mark that most rows share is all that stands out of the noise, and tells nothing of where the other
rows lie. So it is not lent, and its own column takes the range of dates nearby beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from privbench.encoding import Released
from privbench.encoding.bounds import Bounds, parts
from privbench.encoding.column_names import DATES, date_orders
from privbench.encoding.scale import scale_of
from privbench.roles.names import snake
from privbench.schema import Table

Found = Mapping[tuple[str, str], Released]
Ends = tuple[int, int]
#: Dates that have nothing to do with when others are.
_APART = re.compile(
    r"(?:^|_)(?:birth\w*|born|dob|death|died|deceased|dod|founded|found(?:ing|ation)|expir\w*)(?:_|$)"
)
#: Dates before and after these are marks.
_TIMES = ("1800-01-01", "2100-01-01")
#: Most cells of a range that was lent beside a mark, which hold the few rows that did not stand
#: out, and of the mark itself, which is one value or two.
_CELLS, _MARK = 32, 4
#: Beside a mark, ends of the cells beyond a range that was lent, in parts of its width: what ends
#: comes later than what begins.
_BEYOND = (4, 1)


def lend_ranges(
    tables: Iterable[Table], released: Found, limits: Mapping[tuple[str, str], Ends]
) -> dict[tuple[str, str], Released]:
    """Fill in ranges of dates that noise has hidden by the ranges of other date columns.

    Args:
        tables: The private tables.
        released: What was released, by table and attribute.
        limits: Least and greatest value that CHECKs, config and type allow, by table and attribute.
            A range that lies beyond them is not used.

    Returns:
        All that was released, with these changes. A hidden range becomes that of the column that
        comes before or after it by its name, else the hull of the ranges of its table, else of all
        tables. It stays marked as hidden. The range of a mark gets the cells of that range as well.
    """
    found = dict(released)
    tables = list(tables)
    for base in DATES:
        given = {table.key: _given(table, base, released) for table in tables}
        everywhere = [item for some in given.values() for item in some]
        for table in tables:
            here = _together(given[table.key])
            taking = _taking(table, base, released)
            pairs = list(date_orders(table)) if taking else []
            for name in taking:
                near = [item for item in here if any({name, item[0]} == {*pair} for pair in pairs)]
                place = table.key, name
                old = found[place]
                assert isinstance(old, Bounds)
                lent = _hull(near or here or _together(everywhere), limits.get(place))
                if lent is not None and old.seen:
                    found[place] = _beside(old, lent)
                elif lent is not None:
                    found[place] = replace(old, lo=lent[0], hi=lent[1])
    return found


def _hull(some: list[tuple[str, Bounds]], limits: Ends | None) -> Ends | None:
    """The hull of some ranges, as far as it is allowed; None for nothing."""
    if not some:
        return None
    low, high = min(item.lo for _, item in some), max(item.hi for _, item in some)
    if limits is not None:
        low, high = max(low, limits[0]), min(high, limits[1])
    return (low, high) if low < high else None


def _beside(mark: Bounds, lent: Ends) -> Bounds:
    """A mark's range and the one that was lent, and what lies between them in few cells."""
    low, high = lent
    beyond = {high + (high - low) // part for part in _BEYOND}
    edges = {*parts(low, high, min(mark.cells or _CELLS, _CELLS)), high, *beyond}
    edges |= {*parts(mark.lo, mark.hi, _MARK), mark.hi}
    ends = min(low, mark.lo), max(high, mark.hi)
    inner = tuple(sorted(edge for edge in edges if ends[0] < edge < ends[1]))
    return Bounds(*ends, mark.cells, inner)


def _columns(table: Table, base: str, released: Found) -> Iterator[tuple[str, Bounds, Ends]]:
    """Name, range, and first and last time that is no mark, of every column of a type."""
    for item in table.columns:
        bounds, scale = released.get((table.key, item.name)), scale_of(item.type)
        if item.type.base == base and isinstance(bounds, Bounds) and scale is not None:
            yield item.name, bounds, (scale.parse(_TIMES[0]), scale.parse(_TIMES[1]))


def _is_mark(bounds: Bounds, times: Ends) -> bool:
    """Whether nothing was seen but a mark."""
    return bounds.seen and (bounds.hi <= times[0] or bounds.lo >= times[1])


def _given(table: Table, base: str, released: Found) -> list[tuple[str, Bounds]]:
    """Released ranges of columns, without marks (dates that stand for "never" and the like).

    Ranges that hold no mark are returned alone, if there are any. Others are cut to plausible
    times, and may still be much too wide.
    """
    seen = [item for item in _columns(table, base, released) if item[1].seen]
    plain = [(n, b) for n, b, times in seen if times[0] <= b.lo and b.hi <= times[1]]
    rest = [
        (n, replace(b, lo=max(b.lo, times[0]), hi=min(b.hi, times[1])))
        for n, b, times in seen
        if not _is_mark(b, times)
    ]
    return plain or rest


def _taking(table: Table, base: str, released: Found) -> list[str]:
    """Columns of which nothing was seen, or a mark alone."""
    found = _columns(table, base, released)
    names = [name for name, bounds, times in found if not bounds.seen or _is_mark(bounds, times)]
    return [name for name in names if not _APART.search(snake(name))]


def _together(seen: list[tuple[str, Bounds]]) -> list[tuple[str, Bounds]]:
    return [item for item in seen if not _APART.search(snake(item[0]))]
