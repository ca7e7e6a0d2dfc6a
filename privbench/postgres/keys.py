"""Find the parent row of every child row, for whole columns at once and keys of any type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from psycopg import sql

from privbench.postgres.statement import Part, build
from privbench.schema import Column, ForeignKey, Schema, TableName

#: The child's key holds a NULL: it refers to nothing.
NULL = -1
#: No parent row has the key: the reference dangles (only where the constraint is NOT VALID).
DANGLING = -2

_INTEGERS = frozenset({"int2", "int4", "int8", "oid"})
_FLOATS = frozenset({"float4", "float8"})
_TEXTS = frozenset({"text", "varchar", "bpchar", "name", "char"})
_TIMES = frozenset({"date", "timestamp", "timestamptz"})


def match(
    child: Sequence[pa.Array | pa.ChunkedArray], parent: Sequence[pa.Array | pa.ChunkedArray]
) -> NDArray[np.int32]:
    """The parent row index of every child row.

    Both keys are columns in the foreign key's order. The result has one index per child row; `NULL`
    where any key column of the child is NULL (MATCH SIMPLE), `DANGLING` where no parent row has the
    key. Of equal parent rows the first counts; one with a NULL in its key is never referred to.

    >>> match([pa.array([30, None, 10, 7])], [pa.array([10, 20, 30])]).tolist()
    [2, -1, 0, -2]
    """
    pairs = [_alike(one, other) for one, other in zip(child, parent, strict=True)]
    ours, theirs = pairs[0]
    for more_ours, more_theirs in pairs[1:]:
        # Codes are below the number of distinct keys, so their products stay below 2**63.
        high_ours, high_theirs, _ = _codes(ours, theirs)
        low_ours, low_theirs, size = _codes(more_ours, more_theirs)
        ours = pc.add(pc.multiply(high_ours, size), low_ours)
        theirs = pc.add(pc.multiply(high_theirs, size), low_theirs)
    rows = pc.index_in(ours, value_set=theirs, skip_nulls=True)
    # Rows are converted piece by piece: several copies of a large table would take much memory.
    pieces = [piece.fill_null(DANGLING).to_numpy() for piece in rows.chunks]
    found = np.concatenate([np.empty(0, np.int32), *pieces])
    for column, _ in pairs:
        if column.null_count:
            found[column.is_null().to_numpy()] = NULL
    return found


def key_expressions(
    schema: Schema, key: ForeignKey
) -> tuple[list[sql.Composable], list[sql.Composable]]:
    """Expressions of child and parent whose values are equal where PostgreSQL finds the keys equal.

    Decimals lose their trailing zeros, fixed-length texts their padding; integers of different
    widths get one type; intervals, and texts under a user-defined collation, become hashes that
    agree with PostgreSQL's comparison; types that Arrow lacks become text.
    """
    child, parent = schema.table(key.table), schema.table(key.ref_table)
    ours, theirs = [], []
    for name, ref_name in zip(key.columns, key.ref_columns, strict=True):
        left, right = child.column(name), parent.column(ref_name)
        ours.append(_expression(left, right, right))
        theirs.append(_expression(right, left, right))
    return ours, theirs


def _alike(
    child: pa.Array | pa.ChunkedArray, parent: pa.Array | pa.ChunkedArray
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Both columns, converted to one type in which equal values have equal bytes."""
    child, parent = (
        pa.chunked_array([item]) if isinstance(item, pa.Array) else item for item in (child, parent)
    )
    if pa.types.is_floating(parent.type):
        # Adding zero makes -0.0 into 0.0, which PostgreSQL holds equal.
        return pc.add(child.cast(parent.type), 0.0), pc.add(parent, 0.0)
    integers = pa.types.is_integer(child.type) and pa.types.is_integer(parent.type)
    if integers and child.type != parent.type:
        return child.cast(pa.int64()), parent.cast(pa.int64())
    return child.cast(parent.type), parent


def _codes(
    child: pa.ChunkedArray, parent: pa.ChunkedArray
) -> tuple[pa.ChunkedArray, pa.ChunkedArray, int]:
    """Both columns as positions in the parent's distinct values, or NULL; and their number."""
    distinct = pc.unique(parent.drop_null())
    coded = (pc.index_in(column, value_set=distinct).cast(pa.int64()) for column in (child, parent))
    return *coded, len(distinct)


def _expression(column: Column, other: Column, parent: Column) -> sql.Composable:
    name = column.name
    bases = {column.type.base, other.type.base}
    if bases <= {"int2", "int4"}:
        return build("{}::integer", name)
    if bases <= _INTEGERS:
        return build("{}::bigint", name)
    if bases <= _INTEGERS | {"numeric"}:
        return build("pg_catalog.trim_scale({}::numeric)::pg_catalog.text", name)
    if bases <= _INTEGERS | _FLOATS | {"numeric"}:
        return build("{}::double precision", name)
    if bases <= _TEXTS | {"citext"}:
        return _text(column, parent, bases)
    if len(bases) > 1 and bases <= _TIMES:
        return build("{}::pg_catalog.timestamptz::pg_catalog.text", name)
    if bases == {"interval"}:
        # Comparisons count a month as 30 days, the length of an interval as 1/12 of a year.
        return _hashes("pg_catalog.interval_hash_extended({}, {})::pg_catalog.text", name)
    return build(column.type.text_form, name)


def _text(column: Column, parent: Column, bases: set[str]) -> sql.Composable:
    if "citext" in bases:
        return build("pg_catalog.lower({}::pg_catalog.text)", column.name)
    text = build("{}::pg_catalog.text", column.name)
    if parent.collation is None or parent.collation.startswith("pg_catalog."):
        return text
    # A user-defined collation may treat different texts as equal; these hashes agree with it.
    collated = build("{} COLLATE {}", text, TableName.parse(parent.collation))
    return _hashes("pg_catalog.hashtextextended({}, {})::pg_catalog.text", collated)


def _hashes(function: LiteralString, value: Part) -> sql.Composable:
    """A hash of 128 bits that is equal for values that PostgreSQL treats as equal."""
    both = [build(function, value, seed) for seed in (0, 1)]
    return sql.SQL(" || ' ' || ").join(both)
