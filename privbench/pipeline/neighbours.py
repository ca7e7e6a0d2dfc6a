"""Ranges of dates that noise has hidden: those of dates nearby. Post-processing, free of charge.

Dates of one row, and of one database, mostly lie near each other: a discharge near its admission, a
last change near the last of other changes. That is a better guess than the years 2000 to 2030.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from privbench.encoding import Released
from privbench.encoding.base import Bounds
from privbench.encoding.sequels import DATES, sequels
from privbench.roles.names import snake
from privbench.schema import Table

Found = Mapping[tuple[str, str], Released]
#: Dates that have nothing to do with when others are.
_APART = re.compile(
    r"(?:^|_)(?:birth\w*|born|dob|death|died|deceased|dod|founded|found(?:ing|ation)|expir\w*)(?:_|$)"
)


def lend_ranges(
    tables: Iterable[Table], released: Found, limits: Mapping[tuple[str, str], tuple[int, int]]
) -> dict[tuple[str, str], Released]:
    """What was released, with the ranges of dates that were not seen taken from others.

    Args:
        tables: The private tables.
        released: What was released, by table and attribute.
        limits: Least and greatest value that CHECKs, config and type allow; likewise. A range that
            lies beyond them is not lent.

    Returns:
        The same; a hidden range is that of the column that comes before or after it by its name,
        else the hull of those of its table, else of all tables. Hidden ones stay marked as such.
    """
    found = dict(released)
    tables = list(tables)
    for base in DATES:
        everywhere = [item for table in tables for item in _seen(table, base, released)]
        for table in tables:
            here = _together(_seen(table, base, released))
            hidden = [n for n in _hidden(table, base, released) if not _APART.search(snake(n))]
            pairs = list(sequels(table)) if hidden else []
            for name in hidden:
                beside = [pair for pair in pairs if name in pair]
                near = [item for item in here if any(item[0] in pair for pair in beside)]
                place = table.key, name
                old = found[place]
                assert isinstance(old, Bounds)
                some = near or here or _together(everywhere)
                found[place] = _lent(old, [bounds for _, bounds in some], limits.get(place))
    return found


def _lent(old: Bounds, some: list[Bounds], limits: tuple[int, int] | None) -> Bounds:
    """The hull of some ranges, as far as it is allowed."""
    if not some:
        return old
    low, high = min(item.lo for item in some), max(item.hi for item in some)
    if limits is not None:
        low, high = max(low, limits[0]), min(high, limits[1])
    return replace(old, lo=low, hi=high) if low < high else old


def _columns(table: Table, base: str, released: Found, *, seen: bool) -> list[tuple[str, Bounds]]:
    columns = [item.name for item in table.columns if item.type.base == base]
    bounds = [(name, released.get((table.key, name))) for name in columns]
    return [(name, b) for name, b in bounds if isinstance(b, Bounds) and b.seen == seen]


def _seen(table: Table, base: str, released: Found) -> list[tuple[str, Bounds]]:
    return _columns(table, base, released, seen=True)


def _hidden(table: Table, base: str, released: Found) -> list[str]:
    return [name for name, _ in _columns(table, base, released, seen=False)]


def _together(seen: list[tuple[str, Bounds]]) -> list[tuple[str, Bounds]]:
    return [item for item in seen if not _APART.search(snake(item[0]))]
