"""CHECKs that are no constraints of the catalog, but follow from the rest of the schema.

A row for which no partition exists cannot be in the table, so the bounds of the root's partitions
give a range or a list for a key column. And a key of type ``integer`` may refer to a ``bigint``: a
value outside the narrower type could never be referred to, and a synthetic row that refers to it
could not be loaded. Both facts are part of the schema (PRIVACY P3, P4).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from privbench.rules.facts import BOUNDS, REFERENCE
from privbench.schema import Check, ColumnType, ForeignKey, Table, TableName, literal, quoted

_DATUM = re.compile(r"'((?:[^']|'')*)'|([^\s,()']+)")
_RANGE = re.compile(r"FOR VALUES FROM \((?P<low>.*)\) TO \((?P<high>.*)\)\Z", re.DOTALL)
_LIST = re.compile(r"FOR VALUES IN \((?P<values>.*)\)\Z", re.DOTALL)
_ISO = re.compile(r"\d{4}-\d\d-\d\d[^a-zA-Z]*\Z")
_OPEN = ("MINVALUE", "MAXVALUE")
_BYTES = {"int2": 2, "int4": 4, "int8": 8}
_TEXTS = ("text", "varchar")


def bounds_check(row: Any) -> Check | None:
    """Return the CHECK that follows from a row of `catalog.PARTITION_BOUNDS`, or None."""
    if row.column is None or any(text == "DEFAULT" for text in row.bounds):
        return None
    name = quoted(row.column)
    if row.strategy == "l":
        expression = _list_condition(name, row.bounds)
    else:
        expression = _ranged(name, row.bounds, single=row.columns == 1)
    return Check(BOUNDS, expression, (row.column,)) if expression else None


def _list_condition(name: str, bounds: Iterable[str]) -> str | None:
    values: list[str] = []
    for text in bounds:
        match = _LIST.match(text)
        if match is None:
            return None
        values += [value for value in _data(match["values"]) if value is not None]
    listed = ", ".join(literal(value) for value in dict.fromkeys(values))
    return f"({name} IN ({listed}))" if values else None


def _ranged(name: str, bounds: Iterable[str], *, single: bool) -> str | None:
    """A condition on the first column of the partition key that holds in all range partitions."""
    lows, highs = [], []
    for text in bounds:
        match = _RANGE.match(text)
        if match is None:
            return None
        lows.append(next(iter(_data(match["low"])), None))
        highs.append(next(iter(_data(match["high"])), None))
    low, high = _extreme(lows, -1), _extreme(highs, 1)
    parts = [] if low is None else [f"({name} >= {literal(low)})"]
    # Where the key has more columns, a row may equal the first one's upper bound.
    parts += [] if high is None else [f"({name} {'<' if single else '<='} {literal(high)})"]
    return " AND ".join(parts) or None


def _data(text: str) -> list[str | None]:
    """The values of a bound; NULL is None."""
    values: list[str | None] = []
    for inside, plain in _DATUM.findall(text):
        values.append(None if plain == "NULL" else plain or inside.replace("''", "'"))
    return values


def _extreme(values: Sequence[str | None], sign: int) -> str | None:
    """The least (−1) or greatest (1) of some bounds; None if one is open or their order unknown."""
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


def narrowed(tables: Sequence[Table]) -> list[Table]:
    """Return the tables, with a CHECK for each column that a key of narrower type refers to."""
    by_name = {table.name: table for table in tables}
    checks: dict[TableName, dict[Check, None]] = {}
    for table in tables:
        for key in table.foreign_keys:
            for check in _checks(table, key, by_name[key.ref_table]):
                checks.setdefault(key.ref_table, {})[check] = None
    return [replace(table, checks=(*table.checks, *checks.get(table.name, ()))) for table in tables]


def _checks(table: Table, key: ForeignKey, parent: Table) -> Iterator[Check]:
    for child, target in zip(key.columns, key.ref_columns, strict=True):
        text = _expression(quoted(target), table.column(child).type, parent.column(target).type)
        if text is not None:
            yield Check(REFERENCE, text, (target,))


def _expression(name: str, child: ColumnType, parent: ColumnType) -> str | None:
    """The condition on the parent's column, or None where every value fits.

    >>> _expression('"a"', ColumnType("integer", "int4"), ColumnType("bigint", "int8"))
    '(("a" >= -2147483648) AND ("a" <= 2147483647))'
    """
    if child.base in _BYTES and _BYTES.get(parent.base, 0) > _BYTES[child.base]:
        top = 2 ** (8 * _BYTES[child.base] - 1)
        return f"(({name} >= {-top}) AND ({name} <= {top - 1}))"
    texts = child.base in _TEXTS and parent.base in _TEXTS
    if texts and child.length is not None and (parent.length or child.length + 1) > child.length:
        return f"(char_length({name}) <= {child.length})"
    return None
