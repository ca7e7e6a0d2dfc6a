"""Bounds of partitions as what they are to rows: a CHECK on the partition key.

A row that no partition takes cannot be in the table, so the bounds of the root's partitions say
which range or list a key column keeps to. They are part of the schema (PRIVACY P3, P4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from privbench.schema import Check

#: Name of the CHECK that stands for the bounds; no constraint of that name is in the catalog.
NAME = "partition bounds"

_DATUM = re.compile(r"'((?:[^']|'')*)'|([^\s,()']+)")
_RANGE = re.compile(r"FOR VALUES FROM \((?P<low>.*)\) TO \((?P<high>.*)\)\Z", re.DOTALL)
_LIST = re.compile(r"FOR VALUES IN \((?P<values>.*)\)\Z", re.DOTALL)
_ISO = re.compile(r"\d{4}-\d\d-\d\d[^a-zA-Z]*\Z")
_OPEN = ("MINVALUE", "MAXVALUE")


def bounds_check(row: Any) -> Check | None:
    """The CHECK that the bounds of a table's own partitions amount to, or None.

    Args:
        row: An answer to `catalog.PARTITION_BOUNDS`.
    """
    if row.column is None or any(text == "DEFAULT" for text in row.bounds):
        return None
    name = '"' + row.column.replace('"', '""') + '"'
    if row.strategy == "l":
        expression = _listed(name, row.bounds)
    else:
        expression = _ranged(name, row.bounds, single=row.columns == 1)
    return Check(NAME, expression, (row.column,)) if expression else None


def _listed(name: str, bounds: Iterable[str]) -> str | None:
    values: list[str] = []
    for text in bounds:
        found = _LIST.match(text)
        if found is None:
            return None
        values += [value for value in _data(found["values"]) if value is not None]
    listed = ", ".join(_literal(value) for value in dict.fromkeys(values))
    return f"({name} IN ({listed}))" if values else None


def _ranged(name: str, bounds: Iterable[str], *, single: bool) -> str | None:
    """Least and greatest bound; of several columns the first, whose upper bound may be taken."""
    lows, highs = [], []
    for text in bounds:
        found = _RANGE.match(text)
        if found is None:
            return None
        lows.append(next(iter(_data(found["low"])), None))
        highs.append(next(iter(_data(found["high"])), None))
    low, high = _extreme(lows, -1), _extreme(highs, 1)
    parts = [] if low is None else [f"({name} >= {_literal(low)})"]
    parts += [] if high is None else [f"({name} {'<' if single else '<='} {_literal(high)})"]
    return " AND ".join(parts) or None


def _data(text: str) -> list[str | None]:
    """The values of a bound; NULL is None."""
    found: list[str | None] = []
    for quoted, plain in _DATUM.findall(text):
        found.append(None if plain == "NULL" else plain or quoted.replace("''", "'"))
    return found


def _extreme(values: Sequence[str | None], sign: int) -> str | None:
    """The least (−1) or greatest (1) value; None where one is open or they do not compare."""
    known = [value for value in values if value is not None and value not in _OPEN]
    if len(known) < len(values) or not known:
        return None
    try:
        return max(known, key=lambda value: sign * Decimal(value))
    except InvalidOperation:
        pass
    if not all(_ISO.match(value) for value in known):
        return known[0] if len(set(known)) == 1 else None
    return max(known) if sign > 0 else min(known)


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
