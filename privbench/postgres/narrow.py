"""What foreign keys of a narrower type say of the columns that they refer to.

A key of type ``integer`` may refer to a ``bigint``: a value past the narrower type could never be
referred to, and a synthetic row that does could not be loaded. So the narrower type counts as a
CHECK of the referenced column. It is part of the schema (PRIVACY P3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from privbench.schema import Check, ColumnType, ForeignKey, Table, TableName

#: Name of the CHECK; no constraint of that name is in the catalog.
NAME = "type of a reference"

_BYTES = {"int2": 2, "int4": 4, "int8": 8}
_TEXTS = ("text", "varchar")


def narrowed(tables: Sequence[Table]) -> list[Table]:
    """The tables, with a CHECK for every column that narrower foreign keys refer to."""
    by_name = {table.name: table for table in tables}
    found: dict[TableName, dict[Check, None]] = {}
    for table in tables:
        for key in table.foreign_keys:
            for check in _checks(table, key, by_name[key.ref_table]):
                found.setdefault(key.ref_table, {})[check] = None
    return [replace(table, checks=(*table.checks, *found.get(table.name, ()))) for table in tables]


def _checks(table: Table, key: ForeignKey, parent: Table) -> Iterator[Check]:
    for ours, theirs in zip(key.columns, key.ref_columns, strict=True):
        name = '"' + theirs.replace('"', '""') + '"'
        text = _expression(name, table.column(ours).type, parent.column(theirs).type)
        if text is not None:
            yield Check(NAME, text, (theirs,))


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
