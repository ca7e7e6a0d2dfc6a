"""Which parent row each child row refers to, found on whole columns, for keys of any type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from psycopg import sql

from privbench.schema import Column, ForeignKey, Schema, TableName

#: The child's key holds a NULL: it refers to nothing.
NULL = -1
#: No parent row has the key: the reference dangles (only where the constraint is NOT VALID).
DANGLING = -2

Rows = NDArray[np.int64]

_INTEGERS = frozenset({"int2", "int4", "int8", "oid"})
_FLOATS = frozenset({"float4", "float8"})
_TEXTS = frozenset({"text", "varchar", "bpchar", "name", "char"})
_TIMES = frozenset({"date", "timestamp", "timestamptz"})


def match(child: Sequence[pa.Array], parent: Sequence[pa.Array]) -> NDArray[np.signedinteger[Any]]:
    """The parent row index of every child row.

    Args:
        child: The child's key columns, in the foreign key's order, of equal length.
        parent: The parent's key columns in the same order. Where several parent rows are equal,
            the first counts.

    Returns:
        One index per child row, int32 for keys of one integer column where that is wide enough,
        else int64; `NULL` where any key column of the child is NULL
        (MATCH SIMPLE), `DANGLING` where no parent row has the key. A parent row with a NULL in its
        key is never referred to.

    >>> match([pa.array([30, None, 10, 7])], [pa.array([10, 20, 30])]).tolist()
    [2, -1, 0, -2]
    """
    if len(child) != len(parent) or not child:
        raise ValueError("child and parent need the same columns, at least one")
    if len(child) == 1 and all(pa.types.is_integer(key[0].type) for key in (child, parent)):
        return _match_integers(child[0], parent[0])
    pairs = [
        _coded(_plain(ours), _plain(theirs)) for ours, theirs in zip(child, parent, strict=True)
    ]
    ours, theirs = pairs[0]
    for more_ours, more_theirs in pairs[1:]:
        ours, theirs = _combined(ours, theirs, more_ours, more_theirs)
    rows = _finder(theirs.values, theirs.valid)(ours.values)
    rows[~ours.valid] = NULL
    return rows


def _match_integers(
    child: pa.Array | pa.ChunkedArray, parent: pa.Array | pa.ChunkedArray
) -> NDArray[np.signedinteger[Any]]:
    """`match` for one integer column, chunk by chunk: nothing else is as long as the child."""
    theirs = _integers(_plain(parent))
    find = _finder(theirs.values, theirs.valid)
    kind = np.dtype(np.int32 if len(parent) < 2**31 else np.int64)
    rows: NDArray[np.signedinteger[Any]] = np.empty(len(child), kind)
    first = 0
    for chunk in child.chunks if isinstance(child, pa.ChunkedArray) else [child]:
        ours = _integers(_plain(chunk))
        rows[first : first + len(chunk)] = np.where(ours.valid, find(ours.values), NULL)
        first += len(chunk)
    return rows


def key_expressions(
    schema: Schema, key: ForeignKey
) -> tuple[list[sql.Composable], list[sql.Composable]]:
    """What to select from child and parent so that `match` finds what PostgreSQL finds equal.

    Decimals lose their trailing zeros, fixed-length texts their padding; integers of different
    width become one type; intervals, and texts under a collation of users' own, become hashes that
    follow the comparison; what Arrow has no type for becomes text.

    Returns:
        The child's expressions and the parent's, in the key's order.

    Raises:
        SchemaError: The key's tables or columns are not in the schema.
    """
    child, parent = schema.table(key.table), schema.table(key.ref_table)
    ours, theirs = [], []
    for name, ref_name in zip(key.columns, key.ref_columns, strict=True):
        left, right = child.column(name), parent.column(ref_name)
        ours.append(_expression(left, right, right))
        theirs.append(_expression(right, left, right))
    return ours, theirs


class _Codes:
    """One key column as integers, equal where the keys are equal."""

    __slots__ = ("valid", "values")

    def __init__(self, values: Rows, valid: NDArray[np.bool_]) -> None:
        self.values = values
        self.valid = valid


def _plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def _coded(child: pa.Array, parent: pa.Array) -> tuple[_Codes, _Codes]:
    """Both columns as integers of one coding."""
    if pa.types.is_integer(child.type) and pa.types.is_integer(parent.type):
        return _integers(child), _integers(parent)
    if child.type != parent.type:
        child = child.cast(parent.type)
    if pa.types.is_floating(child.type):
        # Adding zero makes -0.0 into 0.0, which PostgreSQL holds equal.
        child, parent = pc.add(child, 0.0), pc.add(parent, 0.0)
    distinct = pc.unique(parent.drop_null())
    return _indices(child, distinct), _indices(parent, distinct)


def _integers(array: pa.Array) -> _Codes:
    filled = array.fill_null(0) if array.null_count else array
    values = filled.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return _Codes(values, _validity(array))


def _indices(array: pa.Array, distinct: pa.Array) -> _Codes:
    # A key that no parent has gets -1, which no parent's code is.
    found = pc.index_in(array, value_set=distinct).fill_null(-1)
    return _Codes(found.to_numpy(zero_copy_only=False).astype(np.int64), _validity(array))


def _validity(array: pa.Array) -> NDArray[np.bool_]:
    if not array.null_count:
        return np.ones(len(array), dtype=bool)
    valid: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _combined(a: _Codes, b: _Codes, more_a: _Codes, more_b: _Codes) -> tuple[_Codes, _Codes]:
    """The codings of child ``a`` and parent ``b`` with one more column each, compressed."""
    high_a, high_b, _ = _dense(a.values, b.values)
    low_a, low_b, size = _dense(more_a.values, more_b.values)
    # Dense codes are below the parent's length plus two, so their product stays below 2**63.
    valid_a, valid_b = a.valid & more_a.valid, b.valid & more_b.valid
    both_a, both_b = high_a * size + low_a, high_b * size + low_b
    # Either part missing means that no parent has the pair.
    both_a[(high_a < 0) | (low_a < 0)] = -1
    return _Codes(both_a, valid_a), _Codes(both_b, valid_b)


def _dense(child: Rows, parent: Rows) -> tuple[Rows, Rows, int]:
    """Codes as ranks among the parent's distinct codes; -1 where the parent has none."""
    distinct, ranks = np.unique(parent, return_inverse=True)
    places = _finder(distinct, np.ones(len(distinct), dtype=bool))(child)
    return np.where(places < 0, -1, places), ranks.astype(np.int64), max(len(distinct), 1)


def _finder(parent: Rows, valid: NDArray[np.bool_]) -> Callable[[Rows], Rows]:
    """Finds the first valid parent row of each child value, or `DANGLING`."""
    rows = np.flatnonzero(valid)
    values = parent[rows]
    if not len(rows):
        return lambda child: np.full(len(child), DANGLING, dtype=np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low < 8 * len(rows) + 1024:
        return _by_table(values, rows, low, high)
    return _by_search(values, rows)


def _by_table(values: Rows, rows: Rows, low: int, high: int) -> Callable[[Rows], Rows]:
    # Written backwards, so that the first of equal rows stays. The last place is for misses.
    table = np.full(high - low + 2, DANGLING, dtype=np.int64)
    table[values[::-1] - low] = rows[::-1]

    def find(child: Rows) -> Rows:
        inside = (child >= low) & (child <= high)
        found: Rows = table[np.where(inside, child - low, high - low + 1)]
        return found

    return find


def _by_search(values: Rows, rows: Rows) -> Callable[[Rows], Rows]:
    order = np.argsort(values, kind="stable")
    ordered = values[order]

    def find(child: Rows) -> Rows:
        places = np.searchsorted(ordered, child, side="left")
        places[places == len(ordered)] = 0
        found: Rows = np.where(ordered[places] == child, rows[order[places]], DANGLING)
        return found

    return find


def _expression(column: Column, other: Column, parent: Column) -> sql.Composable:
    name = sql.Identifier(column.name)
    bases = {column.type.base, other.type.base}
    if bases <= {"int2", "int4"}:
        return sql.SQL("{}::integer").format(name)
    if bases <= _INTEGERS:
        return sql.SQL("{}::bigint").format(name)
    if bases <= _INTEGERS | {"numeric"}:
        return sql.SQL("pg_catalog.trim_scale({}::numeric)::pg_catalog.text").format(name)
    if bases <= _INTEGERS | _FLOATS | {"numeric"}:
        return sql.SQL("{}::double precision").format(name)
    if bases <= _TEXTS | {"citext"}:
        return _text(column, parent, bases)
    if len(bases) > 1 and bases <= _TIMES:
        return sql.SQL("{}::pg_catalog.timestamptz::pg_catalog.text").format(name)
    if bases == {"interval"}:
        # A month is 30 days where intervals are compared, and 1/12 year in their length.
        return _hashes(sql.SQL("pg_catalog.interval_hash_extended({}, {})::pg_catalog.text"), name)
    return sql.SQL(column.type.text_form).format(name)


def _text(column: Column, parent: Column, bases: set[str]) -> sql.Composable:
    name = sql.Identifier(column.name)
    if "citext" in bases:
        return sql.SQL("pg_catalog.lower({}::pg_catalog.text)").format(name)
    if parent.collation is None or parent.collation.startswith("pg_catalog."):
        return sql.SQL("{}::pg_catalog.text").format(name)
    # A collation of users' own may hold different texts equal; these hashes follow it.
    collation = TableName.parse(parent.collation)
    collated = sql.SQL("{}::pg_catalog.text COLLATE {}").format(
        name, sql.Identifier(collation.schema, collation.name)
    )
    return _hashes(sql.SQL("pg_catalog.hashtextextended({}, {})::pg_catalog.text"), collated)


def _hashes(function: sql.SQL, value: sql.Composable) -> sql.Composable:
    """128 bits that are equal where PostgreSQL holds the values equal."""
    both = [function.format(value, sql.Literal(seed)) for seed in (0, 1)]
    return sql.SQL(" || ' ' || ").join(both)
