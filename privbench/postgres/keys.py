"""Find the parent row of every child row, for whole columns at once and keys of any type.

Keys are equal where the foreign key's own operator says so (``pg_constraint.conpfeqop``), under the
collation of the column that is referred to: what PostgreSQL itself uses to check the constraint.

Several parent rows may have the key of one child row: the constraint's equality may be coarser than
that of the index that makes the parents unique, and UNIQUE may be violated (P33). Such a key refers
to no row, neither before nor after one of these parents goes (P9). Let D be the database, p one of
several parents of equal keys, and D′ what is left when p's unit is removed. In D every row with
that key has the edge `DANGLING`. In D′ these rows have lost a target, so that their edges are
marked ⊥, which is the same number. So p's removal moves no edge of any row that stays. If the key
is an OWN key, the rows are units of their own in D, hence none of them goes with p; and by P9 they
are units of their own in D′ as well, although another parent is left. No other edge depends on p:
a key that one parent alone has is matched by that parent, and an edge of a key that p alone has is
marked. So each edge of a row that stays is the same in D and D′, or leads into p's unit in D and is
⊥ in D′, which is what the stability harness does to matched rows.
"""

from collections.abc import Iterator, Sequence
from typing import LiteralString

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from psycopg import sql

from privbench.postgres.statement import StatementPart, build, source
from privbench.schema import Column, ColumnType, Equality, ForeignKey, Schema, TableName

#: The child's key holds a NULL: it refers to nothing.
NULL = -1
#: No parent row has the key, or several have it: the reference leads to no row.
DANGLING = -2
#: Most elements of an array of keys that are read.
MAX_ARRAY = 2**10

_NARROW = frozenset({"smallint", "integer"})
_INTEGERS = _NARROW | {"bigint", "oid"}
_TEXTS = frozenset({"text", "name", "bpchar"})
#: Types whose equal values are printed equally, and their names in SQL.
_PLAIN: dict[str, LiteralString] = {
    "boolean": "boolean",
    "bytea": "pg_catalog.bytea",
    '"char"': 'pg_catalog."char"',
    "inet": "pg_catalog.inet",
    "money": "pg_catalog.money",
    "pg_lsn": "pg_catalog.pg_lsn",
    "tsvector": "pg_catalog.tsvector",
    "uuid": "pg_catalog.uuid",
    '"bit"': 'pg_catalog."bit"',
    "bit varying": "bit varying",
    "time without time zone": "time without time zone",
    "time with time zone": "time with time zone",
}
#: Base types of which every value has a hash.
_HASHED = frozenset(
    {
        *("bool", "bpchar", "bytea", "char", "cidr", "date", "float4", "float8", "inet", "int2"),
        *("int4", "int8", "interval", "macaddr", "macaddr8", "name", "numeric", "oid"),
        *("pg_lsn", "text", "time", "timestamp", "timestamptz", "timetz", "uuid", "varchar"),
    }
)
#: What tells values of a type apart whose hashes are equal for a known reason: hashes leave out the
#: bounds of arrays and the brackets of documents. In the latter equal texts differ in zeros alone.
_SHAPES: dict[str, LiteralString] = {
    "anyarray": "pg_catalog.array_dims({})",
    "jsonb": "pg_catalog.translate({}::pg_catalog.text, '0123456789.', '')",
}
#: Types of moments, the widest last.
_MOMENTS: dict[str, LiteralString] = {
    "date": "pg_catalog.date",
    "timestamp without time zone": "timestamp without time zone",
    "timestamp with time zone": "timestamp with time zone",
}
#: The least and the largest decimal that floats of each kind hold as something else than 0 or ∞.
_DECIMALS: dict[str, tuple[LiteralString, LiteralString]] = {
    "real": ("7.0064923216240862e-46", "3.4028235677973366e38"),
    "double precision": ("2.4703282292062328e-324", "1.797693134862315807e308"),
}


def match(
    child: Sequence[pa.Array | pa.ChunkedArray], parent: Sequence[pa.Array | pa.ChunkedArray]
) -> NDArray[np.int32]:
    """Return the parent row index of every child row.

    Both keys are columns in the foreign key's order, of the same types. The result has one index
    per child row; `NULL` where any key column of the child is NULL (MATCH SIMPLE), `DANGLING` where
    no parent row has the key, or several have it. A parent with a NULL in its key is never referred
    to.

    >>> match([pa.array([30, None, 10, 7])], [pa.array([10, 20, 30, 20])]).tolist()
    [2, -1, 0, -2]
    >>> match([pa.array([20])], [pa.array([10, 20, 30, 20])]).tolist()
    [-2]
    """
    pairs = [(_chunked(one), _chunked(other)) for one, other in zip(child, parent, strict=True)]
    children, parents = pairs[0]
    for more_ours, more_theirs in pairs[1:]:
        # Codes are below the number of distinct keys, so their products stay below 2**63.
        high_ours, high_theirs, _ = _codes(children, parents)
        low_ours, low_theirs, size = _codes(more_ours, more_theirs)
        children = pc.add(pc.multiply(high_ours, size), low_ours)
        parents = pc.add(pc.multiply(high_theirs, size), low_theirs)
    rows = _places(children, parents)
    if len(pc.unique(parents.drop_null())) < len(parents) - parents.null_count:
        first = _places(parents, parents)
        several = np.unique(first[(first >= 0) & (first != np.arange(first.size))])
        rows[np.isin(rows, several)] = DANGLING
    for column, _ in pairs:
        if column.null_count:
            rows[column.is_null().to_numpy()] = NULL
    return rows


def key_expressions(
    schema: Schema, key: ForeignKey
) -> tuple[list[sql.Composable], list[sql.Composable]]:
    """Return expressions of child and parent whose values are equal if PostgreSQL's keys are.

    They have one type, and no value of a column's type is an error. If a type's values have a form
    that is the same for equal values, that form is used, or else a hash of it. For other types the
    server compares the keys: the expression is then the position of the only parent row with that
    key.
    """
    child, parent = schema.table(key.table), schema.table(key.ref_table)
    children = list[sql.Composable]()
    parents = list[sql.Composable]()
    columns = zip(key.columns, key.ref_columns, key.equalities, strict=True)
    for name, ref_name, equality in columns:
        left = _expression(child.column(name), equality, equality.child)
        right = _expression(parent.column(ref_name), equality, equality.parent)
        if left is None or right is None:
            children, parents = (
                [_place_of(schema, key)],
                [sql.SQL("pg_catalog.concat(tableoid, ctid)")],
            )
            break
        children.append(left)
        parents.append(right)
    # By the row alone, whatever targets there are, it is NULL where it refers to nothing.
    if key.none:
        text = _text_of(child.column(key.columns[0]))
        none = [*map(sql.Literal, key.none)]
        children[0] = build("CASE WHEN NOT {} IN ({}) THEN {} END", text, none, children[0])
    if key.when is not None:
        column, value = key.when
        text = _text_of(child.column(column))
        children[0] = build("CASE WHEN {} = {} THEN {} END", text, sql.Literal(value), children[0])
    return children, parents


def element_expressions(
    schema: Schema, key: ForeignKey
) -> tuple[list[sql.Composable], list[sql.Composable]]:
    """Return expressions for an array of keys and for its parent: texts of all elements, and forms.

    In the text every element follows a colon, NULL elements are empty, elements are separated by
    commas, and no form contains a comma. At most `MAX_ARRAY` elements are read, by the row alone;
    an element of more than 64 KiB refers to nothing, so that no row has more text than a value of
    PostgreSQL may have.
    """
    array = schema.table(key.table).column(key.columns[0])
    parent = schema.table(key.ref_table).column(key.ref_columns[0])
    (equality,) = key.equalities
    element = Column("v", 1, array.type.parts[0], collation=array.collation)
    forms = (
        _expression(column, equality, own)
        for column, own in ((element, equality.child), (parent, equality.parent))
    )
    child_form, parent_form = (
        build(
            "':' || pg_catalog.replace(pg_catalog.replace({}::pg_catalog.text, '~', '~~'), "
            "',', '~c')",
            form,
        )
        for form in forms
        if form is not None
    )
    elements = build("(SELECT pg_catalog.unnest({}) LIMIT {})", array.name, sql.Literal(MAX_ARRAY))
    whole = (
        "(SELECT pg_catalog.string_agg(CASE WHEN pg_catalog.pg_column_size(v) > 65536 THEN '!' "
        "ELSE coalesce({}, '') END, ',') FROM {} AS e(v))"
    )
    return [build(whole, child_form, elements)], [parent_form]


def elements(arrays: pa.ChunkedArray) -> tuple[NDArray[np.int32], pa.ChunkedArray]:
    """Split texts of `element_expressions`; return each element's row and its form or NULL.

    Chunks stay apart, since together they may have more text than one Arrow array holds.

    >>> rows, forms = elements(pa.chunked_array([[":1,:2", None], [":3,"]]))
    >>> rows.tolist(), forms.to_pylist()
    ([0, 0, 2, 2], [':1', ':2', ':3', None])
    """
    rows, forms, start = [np.empty(0, np.int32)], [], 0
    for chunk in arrays.chunks:
        lists = pc.split_pattern(chunk, ",")
        flat = pc.list_flatten(lists)
        forms.append(pc.if_else(pc.equal(flat, ""), pa.scalar(None, flat.type), flat))
        rows.append(pc.list_parent_indices(lists).to_numpy().astype(np.int32) + np.int32(start))
        start += len(chunk)
    return np.concatenate(rows), pa.chunked_array(forms, arrays.type)


def _text_of(column: Column) -> sql.Composed:
    return build(column.type.text_form, column.name)


def _chunked(column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([column]) if isinstance(column, pa.Array) else column


def _places(rows: pa.ChunkedArray, among: pa.ChunkedArray) -> NDArray[np.int32]:
    """The first place of every row's value among others, `DANGLING` where there is none."""
    # Rows are converted piece by piece: several copies of a large table would take much memory.
    result, start = np.empty(len(rows), np.int32), 0
    for piece in _pieces(rows, among):
        result[start : start + piece.size] = piece
        start += piece.size
    return result


def _pieces(rows: pa.ChunkedArray, among: pa.ChunkedArray) -> Iterator[NDArray[np.int32]]:
    """The places of `_places`, piece by piece.

    Where there are at most eight integers for each of the others between the least and the largest,
    a table of all of them takes a seventh to a quarter of the time of a search.
    """
    if pa.types.is_integer(among.type) and among.null_count < len(among):
        least, most = pc.min_max(among).as_py().values()
        if most - least < 8 * len(among):
            there = np.flatnonzero(among.is_valid().to_numpy())
            # Of equal values the first one is written last.
            places = np.full(most - least + 2, DANGLING, np.int32)
            known = among.drop_null().to_numpy()[::-1]
            places[np.subtract(known, least, dtype=np.int64)] = there[::-1]
            for piece in rows.chunks:
                values = piece.fill_null(least).to_numpy()
                inside = (values >= least) & (values <= most) & piece.is_valid().to_numpy(False)
                yield places[np.where(inside, np.subtract(values, least, dtype=np.int64), -1)]
            return
    positions = pc.index_in(rows, value_set=among, skip_nulls=True)
    for piece in positions.chunks:
        yield piece.fill_null(DANGLING).to_numpy()


def _codes(
    child: pa.ChunkedArray, parent: pa.ChunkedArray
) -> tuple[pa.ChunkedArray, pa.ChunkedArray, int]:
    """Both columns as positions in the parent's distinct values, or NULL; and their number."""
    distinct = pc.unique(parent.drop_null())
    coded = (pc.index_in(column, value_set=distinct).cast(pa.int64()) for column in (child, parent))
    return *coded, len(distinct)


def _expression(column: Column, equality: Equality, own: str) -> sql.Composable | None:
    """A column in a form that is the same for equal values, or None if there is no such form.

    ``own`` is the operator's type on the column's side, to which the operator converts it. A user's
    type is converted to it alone: its cast to any other type may be a function of users.
    """
    types, name = {equality.parent, equality.child}, _operand(build("{}", column.name), own)
    if column.type.kind == "b":
        name = build("{}", column.name)
    if equality.source == "citext":
        # The comparison uses the database's collation, whatever that of the column is.
        return build('pg_catalog.lower({}::pg_catalog.text COLLATE pg_catalog."default")', name)
    if equality.source != "pg_catalog":
        return _hashed(column, equality, own)
    if types <= _INTEGERS:
        # A bigint that is no OID cannot be converted to one.
        signed = own != "oid" or column.type.base == "int8"
        number = build("{}::bigint" if signed else "{}::pg_catalog.oid::bigint", name)
        return build("{}::integer", name) if types <= _NARROW else number
    if types == {"numeric"}:
        return build("pg_catalog.trim_scale({}::numeric)::pg_catalog.text", name)
    if types <= _DECIMALS.keys():
        return _float(name, own, column.type.base)
    if types <= _TEXTS:
        return _text_form(name, equality, own)
    if types <= _MOMENTS.keys():
        return _moment(name, max(types, key=[*_MOMENTS].index), column.type.base)
    if types == {"anyenum"}:
        return build(column.type.text_form, column.name)
    if types <= {"macaddr", "macaddr8"}:
        # Not every long address can be converted to a short one.
        return build("{}::pg_catalog.macaddr8::pg_catalog.text", name)
    if own in _PLAIN:
        return build("{}::{}::pg_catalog.text", name, sql.SQL(_PLAIN[own]))
    return _hashed(column, equality, own)


def _float(name: sql.Composable, own: str, base: str) -> sql.Composable:
    """Adding zero makes -0.0 into 0.0; a decimal that is no float prints as no float does."""
    kind = sql.SQL("real" if own == "real" else "double precision")
    text = build("({}::{} + 0::double precision)::pg_catalog.text", name, kind)
    if base != "numeric":
        return text
    least, most = map(sql.SQL, _DECIMALS[own])
    return build(
        "CASE WHEN {} = 0 OR pg_catalog.abs({}) BETWEEN {} AND {} THEN {} "
        "ELSE {}::pg_catalog.text END",
        *(name, name, least, most, text, name),
    )


def _moment(name: sql.Composable, kind: str, base: str) -> sql.Composable:
    """Moments as the widest type prints them; a day after its last one as a day."""
    text = build("{}::{}::pg_catalog.text", name, sql.SQL(_MOMENTS[kind]))
    if base != "date" or kind == "date":
        return text
    return build(
        "CASE WHEN {} < pg_catalog.date '294277-01-01' THEN {} ELSE {}::pg_catalog.text END",
        *(name, text, name),
    )


def _text_form(name: sql.Composable, equality: Equality, own: str) -> sql.Composable:
    # What is compared with padding ignored loses its padding in the conversion to text.
    padded = build("{}::pg_catalog.bpchar" if own == "bpchar" else "{}", name)
    text = build("{}::pg_catalog.text", padded)
    if not equality.folds or equality.collation is None:
        return text
    # Different texts may be equal under the collation; these hashes agree with it.
    collated = build("{} COLLATE {}", text, equality.collation)
    return _hashes(TableName("pg_catalog", "hashtextextended"), collated)


def _hashed(column: Column, equality: Equality, own: str) -> sql.Composable | None:
    """A hash by the operator's own family, or None if some value may have none."""
    if equality.hash is None or not all(map(_has_hash, column.type.parts)):
        return None
    value = _operand(build("{}", column.name), own)
    if equality.collation is not None:
        value = build("{} COLLATE {}", value, equality.collation)
    hashes = _hashes(equality.hash, value)
    if own not in _SHAPES:
        return hashes
    return build("{} || coalesce({}, '')", hashes, build(_SHAPES[own], column.name))


def _has_hash(kind: ColumnType) -> bool:
    """Whether every value of a type within another surely has a hash that shows all of it."""
    return kind.base in _HASHED or kind.kind == "e"


def _hashes(function: TableName, value: StatementPart) -> sql.Composable:
    """A hash of 128 bits that is equal for values that PostgreSQL treats as equal."""
    # With arguments of exactly its types no function of users can take its place.
    both = [build("{}({}, {}::bigint)::pg_catalog.text", function, value, n) for n in (0, 1)]
    return sql.SQL(" || ' ' || ").join(both)


def _place_of(schema: Schema, key: ForeignKey) -> sql.Composable:
    """The place of the one parent row whose key equals the child's, as its operators say.

    It is NULL where the child's key has a NULL, and '' where there is no such parent or several.
    Every pair of rows is compared, so this is for types alone that have neither form nor hash.
    """
    child, parent = schema.table(key.table), schema.table(key.ref_table)
    child_columns = [build("{}.{}", child.name, name) for name in key.columns]
    parent_columns = [build("p.{}", name) for name in key.ref_columns]
    equal = []
    for mine, other, equality in zip(child_columns, parent_columns, key.equalities, strict=True):
        left, right = _operand(other, equality.parent), _operand(mine, equality.child)
        if equality.collation is not None:
            left = build("{} COLLATE {}", left, equality.collation)
        operator = sql.Identifier(equality.operator.schema), sql.SQL(equality.operator.name)
        equal.append(build("{} OPERATOR({}.{}) {}", left, *operator, right))
    return build(
        "CASE pg_catalog.num_nulls({}) WHEN 0 THEN coalesce((SELECT "
        "pg_catalog.min(pg_catalog.concat(p.tableoid, p.ctid)) FROM {} AS p WHERE {} "
        "HAVING pg_catalog.count(*) = 1), '') END",
        *(child_columns, source(parent), sql.SQL(" AND ").join(equal)),
    )


def _operand(value: sql.Composable, kind: str) -> sql.Composable:
    """A value in the type of an operand; a type that stands for many leaves it as it is."""
    if kind.startswith("any") or kind == "record":
        return value
    return build("{}::{}", value, sql.SQL(kind))
