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
from privbench.encoding.semantic import snake
from privbench.encoding.sequels import DATES, sequels
from privbench.schema import Table

Found = Mapping[tuple[str, str], Released]
#: Dates that have nothing to do with when others are.
_APART = re.compile(r"birth|born|dob|death|died|deceased|dod|founded|expir")


def lend_ranges(tables: Iterable[Table], released: Found) -> dict[tuple[str, str], Released]:
    """What was released, with the ranges of dates that were not seen taken from others.

    Args:
        tables: The private tables.
        released: What was released, by table and attribute.

    Returns:
        The same; a hidden range is that of the column that comes before or after it by its name,
        else the hull of those of its table, else of all tables. Hidden ones stay marked as such.
    """
    found = dict(released)
    tables = list(tables)
    for base in DATES:
        everywhere = [item for table in tables for item in _seen(table, base, released)]
        for table in tables:
            here = _seen(table, base, released)
            for name in _hidden(table, base, released):
                beside = {pair for pair in sequels(table) if name in pair}
                if _APART.search(snake(name)):
                    continue
                near = [item for item in _together(here) if any(item[0] in p for p in beside)]
                some = near or _together(here) or _together(everywhere)
                if some:
                    low = min(bounds.lo for _, bounds in some)
                    high = max(bounds.hi for _, bounds in some)
                    old = found[table.key, name]
                    assert isinstance(old, Bounds)
                    found[table.key, name] = replace(old, lo=low, hi=high)
    return found


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
