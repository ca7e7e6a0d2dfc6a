"""Keys whose type differs from their target's.

Target values are drawn so that both types hold them. An ``integer`` may refer to a ``numeric``, a
``date`` to a ``timestamp``. No row could refer to a key of 1.5 or noon, so synthetic keys are 1 and
midnight. Where a target has several references, or is a reference itself, the narrowest type of all
of them is used. It follows from the schema alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from privbench.encoding.datetimes import MomentScale
from privbench.encoding.numbers import IntegerScale, NumericScale
from privbench.encoding.scale import scale_of
from privbench.encoding.surrogate_text import TEXT_BASES
from privbench.schema import ColumnType, Table

#: Types of which a key may refer to those that follow, the narrowest first.
_CHAINS = (
    ("int2", "int4", "int8", "numeric", "float4", "float8"),
    ("date", "timestamp", "timestamptz"),
)


def with_key_types(tables: Sequence[Table]) -> list[Table]:
    """Return the tables with each referenced column in the narrowest type that refers to it."""
    types = {(table.key, column.name): column.type for table in tables for column in table.columns}
    pairs = [
        ((table.key, ours), (str(key.ref_table), theirs))
        for table in tables
        for key in table.foreign_keys
        for ours, theirs in zip(key.columns, key.ref_columns, strict=True)
    ]
    for table in tables:
        for array in table.arrays:
            element = table.key, f"{array.columns[0]}[]"
            types.setdefault(element, table.column(array.columns[0]).type.parts[0])
            pairs.append((element, (str(array.ref_table), array.ref_columns[0])))
    pairs = [pair for pair in pairs if pair[1] in types]
    # As often as there are keys, for chains of references.
    for _ in pairs:
        before = dict(types)
        for ours, theirs in pairs:
            types[theirs] = _narrower(types[ours], types[theirs])
        if types == before:
            break
    return [
        replace(
            table,
            columns=tuple(replace(c, type=types[table.key, c.name]) for c in table.columns),
        )
        for table in tables
    ]


def _narrower(child: ColumnType, parent: ColumnType) -> ColumnType:
    """The type of values that both types hold: the parent's, unless the child's is narrower.

    >>> date, time = ColumnType("date", "date"), ColumnType("timestamp", "timestamp")
    >>> _narrower(date, time).sql, _narrower(time, date).sql
    ('date', 'date')
    """
    for chain in _CHAINS:
        if child.base in chain and parent.base in chain:
            return min(parent, child, key=lambda item: (chain.index(item.base), _scale(item)))
    if child.base in TEXT_BASES and parent.base in TEXT_BASES:
        tops = [item.length for item in (child, parent) if item.length is not None]
        checks = tuple(dict.fromkeys((*parent.domain_checks, *child.domain_checks)))
        return replace(parent, length=min(tops, default=None), domain_checks=checks)
    return parent


def _scale(type_: ColumnType) -> int:
    return 2**15 if type_.scale is None else type_.scale


def in_key_type(array: pa.Array, drawn: ColumnType, narrow: ColumnType) -> pa.Array:
    """Return values drawn for one type in the narrower type of `with_key_types`, rounded down.

    >>> whole, double = ColumnType("integer", "int4"), ColumnType("double precision", "float8")
    >>> in_key_type(pa.array([1.5, None]), double, whole).to_pylist()
    [1, None]
    """
    scale, drawn_scale = scale_of(narrow), scale_of(drawn)
    if drawn == narrow:
        return array
    if isinstance(scale, MomentScale) and isinstance(drawn_scale, MomentScale):
        # Infinities become the nearest time that is none.
        inside = np.clip(drawn_scale.points_of(array), *drawn_scale.limits)
        points = inside // (drawn_scale.per_day // scale.per_day)
    elif isinstance(scale, (IntegerScale, NumericScale)):
        digits = scale.digits if isinstance(scale, NumericScale) else 0
        values = np.asarray(array.cast(pa.float64()).fill_null(0.0))
        # The nearest double of the greatest point may lie above it.
        numbers = np.clip(np.floor(np.nan_to_num(values) * 10.0**digits), -(2.0**62), 2.0**62)
        points = numbers.astype(np.int64)
    else:
        return array
    null = np.asarray(array.is_null(), np.bool_)
    return scale.build(np.clip(points, *scale.limits), {"null": null})
