"""Ranges of dates that noise has hidden: those of dates nearby. Post-processing, free of charge.

Dates of one row, and of one database, mostly lie near each other: a discharge near its admission, a
last change near the last of other changes. That is a better guess than the years 2000 to 2030.

Years that no event has are marks: 9999-12-31 says "until now", 0001-01-01 that nothing is known. A
mark that most rows share tells nothing of where other rows lie, and is not lent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from privbench.encoding import Released
from privbench.encoding.bounds import Bounds
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
        tables. It stays marked as hidden.
    """
    found = dict(released)
    tables = list(tables)
    for base in DATES:
        given = {table.key: _given(table, base, released) for table in tables}
        everywhere = [item for some in given.values() for item in some]
        for table in tables:
            hidden = [
                (name, bounds)
                for name, bounds, _ in _columns(table, base, released)
                if not bounds.seen
            ]
            pairs = list(date_orders(table)) if hidden else []
            here = given[table.key]
            for name, old in hidden:
                near = [item for item in here if any({name, item[0]} == {*pair} for pair in pairs)]
                lent = _hull(near or here or everywhere, limits.get((table.key, name)))
                if lent is not None:
                    found[table.key, name] = replace(old, lo=lent[0], hi=lent[1])
    return found


def _hull(some: list[tuple[str, Bounds]], limits: Ends | None) -> Ends | None:
    """The hull of some ranges, as far as it is allowed; None for nothing."""
    if not some:
        return None
    low, high = min(item.lo for _, item in some), max(item.hi for _, item in some)
    if limits is not None:
        low, high = max(low, limits[0]), min(high, limits[1])
    return (low, high) if low < high else None


def _columns(table: Table, base: str, released: Found) -> Iterator[tuple[str, Bounds, Ends]]:
    """Name, range, and first and last time that is no mark, of the columns of a type."""
    for item in table.columns:
        bounds, scale = released.get((table.key, item.name)), scale_of(item.type)
        if item.type.base != base or _APART.search(snake(item.name)):
            continue
        if isinstance(bounds, Bounds) and scale is not None:
            yield item.name, bounds, (scale.parse(_TIMES[0]), scale.parse(_TIMES[1]))


def _given(table: Table, base: str, released: Found) -> list[tuple[str, Bounds]]:
    """Released ranges of columns, without marks.

    Ranges that hold no mark are returned alone, if there are any. Others are cut to plausible
    times, and may still be much too wide.
    """
    seen = [item for item in _columns(table, base, released) if item[1].seen]
    plain = [(n, b) for n, b, times in seen if times[0] <= b.lo and b.hi <= times[1]]
    rest = [
        (n, replace(b, lo=max(b.lo, times[0]), hi=min(b.hi, times[1])))
        for n, b, times in seen
        if b.lo < times[1] and b.hi > times[0]
    ]
    return plain or rest
