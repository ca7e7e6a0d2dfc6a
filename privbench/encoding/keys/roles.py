"""Which columns are keys, how their values come about, and which UNIQUE sets are kept."""

from __future__ import annotations

import re
from typing import Literal

from privbench.encoding.keys.values import INTEGERS
from privbench.schema import Column, ColumnType, Index, Table, Unique

#: ``lower(column)`` or ``lower((column)::text)``, as pg_get_indexdef prints it.
_LOWER = re.compile(r"""\Alower\(\(?("(?:[^"]|"")+"|[a-z_][a-z0-9_$]*)\)?(?:::[a-z ]+)?\)\Z""")
#: A plain column as a key, and what parts keys.
_PLAIN = re.compile(r"""\A("(?:[^"]|"")+"|[a-z_][a-z0-9_$]*)\Z""")
_PARTS = re.compile(r""", (?=(?:[^"]*"[^"]*")*[^"]*\Z)""")
#: Kinds of indexes whose entries have to be small, and words of an index's definition.
_SMALL = re.compile(r" USING (?:btree|brin) ")
_WORDS = re.compile(r'"((?:[^"]|"")+)"|([A-Za-z_][A-Za-z0-9_$]*)')
#: Bytes that one entry holds, and types beside texts and arrays that can be larger.
_ROOM = 2400
_WIDE = frozenset({"bytea", "varbit", "jsonb", "tsvector"})
_KEYS = re.compile(r" USING \w+ \((.*?)\)(?: INCLUDE .*| NULLS NOT DISTINCT| WITH .*| WHERE .*)*\Z")


def kept_uniques(table: Table) -> tuple[Unique, ...]:
    """UNIQUE sets to keep: the table's own, and what indexes add to them.

    A partial index over plain columns, one of them no key, is kept as if it were whole.
    """
    added = []
    for index in table.indexes:
        if _plain_partial(table, index):
            added.append(Unique(index.name, index.columns))
    return table.unique_sets + tuple(added)


def folded_uniques(table: Table) -> tuple[Unique, ...]:
    """UNIQUE indexes on ``lower(column)``: unique whatever the case of the letters.

    Other columns may stand beside it: ``(tenant, lower(mail))``. Theirs does not count either.

    >>> from privbench.schema import Column, ColumnType, TableName
    >>> text = "CREATE UNIQUE INDEX i ON public.t USING btree (lower(mail))"
    >>> mail = Column("mail", 1, ColumnType("text", "text"))
    >>> index = Index("i", text, unique=True, has_expressions=True)
    >>> folded_uniques(Table(TableName("public", "t"), (mail,), indexes=(index,)))[0].columns
    ('mail',)
    """
    result = []
    known = {column.name for column in table.columns}
    for index in table.indexes:
        names = _lowered(index) if index.unique else ()
        if names and set(names) <= known:
            result.append(Unique(index.name, names))
    return tuple(result)


def unkept_indexes(table: Table) -> tuple[Index, ...]:
    """UNIQUE indexes that synthetic rows may break."""
    folded = {item.name for item in folded_uniques(table)}
    return tuple(
        index
        for index in table.indexes
        if index.unique
        and (index.has_expressions or index.predicate is not None)
        and index.name not in folded
        and not _plain_partial(table, index)
    )


def index_room(table: Table, name: str) -> int | None:
    """Bytes of a column that its UNIQUE sets and indexes can hold; None without any.

    PostgreSQL refuses an entry of a btree, or a summary of a BRIN index, of more than about 2,700
    bytes: of columns, of those that are only included, and of expressions over columns.
    """
    sets = [set(item.columns) for item in table.unique_sets]
    sets += [_indexed(table, index) for index in table.indexes if _SMALL.search(index.definition)]
    wide = {item.name for item in table.columns if _is_wide(item.type)}
    return min((_ROOM // max(len(wide & item), 1) for item in sets if name in item), default=None)


def _is_wide(type_: ColumnType) -> bool:
    return type_.base in _WIDE or (type_.category in "SA" and type_.base != "char")


def _indexed(table: Table, index: Index) -> set[str]:
    """Columns that an index holds, or that its expressions speak of."""
    text = index.definition.partition(" USING ")[2].partition(" WHERE ")[0]
    words = {(quoted or plain).replace('""', '"') for quoted, plain in _WORDS.findall(text)}
    return {column.name for column in table.columns if column.name in words}


def _plain_partial(table: Table, index: Index) -> bool:
    plain = index.unique and index.predicate is not None and not index.has_expressions
    return plain and bool(index.columns) and not set(index.columns) <= table.key_columns


def _lowered(index: Index) -> tuple[str, ...]:
    """Columns of an index on ``lower(column)``, alone or beside plain columns; else none."""
    keys = _KEYS.search(index.definition)
    if keys is None:
        return ()
    parts = _PARTS.split(keys.group(1))
    lowered = [_LOWER.match(part) for part in parts]
    result = [match or _PLAIN.match(part) for part, match in zip(parts, lowered, strict=True)]
    if not any(lowered) or None in result:
        return ()
    names = [match.group(1) for match in result if match is not None]
    return tuple(name[1:-1].replace('""', '"') if name.startswith('"') else name for name in names)


#: Names of keys that are years, days, places: a filter on them has to find something.
_NATURAL = re.compile(
    r"(?:^|_)(?:year|yr|season|decade|century|month|week|day|date|hour|zip|zip_?code|postal|"
    r"post_?code|plz|port|level|grade|size|age)$"
)
#: Types of measurements, which are never mere numbers of rows.
_MEASURED = ("date", "timestamp", "timestamptz", "time", "timetz", "float4", "float8")
Role = Literal["reference", "minted", "generated", "modelled"]


def role_of(table: Table, column: Column) -> Role:
    """How a column's values come about.

    References take the parent's key. Minted columns (surrogate keys) are single-column primary
    keys, numbers of a sequence and UUIDs in UNIQUE sets, and the integer that numbers the rows
    of one parent.
    Everything else is modelled: UNIQUE columns (they are repaired), key columns that refer to
    themselves alone, and numbers that mean something, such as years.
    """
    if column.generated:
        return "generated"
    if column.name in table.key_columns - table.pinned_columns:
        return "reference"
    sets = [item for item in table.unique_sets if column.name in item.columns]
    primary = table.primary_key is not None and table.primary_key.columns == (column.name,)
    if primary and is_natural(column):
        return "modelled"
    if primary or column.identity or (sets and column.type.base == "uuid"):
        return "minted"
    if sets and is_counted(column):
        return "minted"
    return "minted" if is_discriminator(table, column) else "modelled"


def is_natural(column: Column) -> bool:
    """Whether a key's numbers mean something: times do, others by their name if nothing makes them.

    >>> from privbench.schema import ColumnType
    >>> whole = ColumnType("integer", "int4")
    >>> is_natural(Column("season_year", 1, whole)), is_natural(Column("id", 1, whole))
    (True, False)
    """
    if column.type.base in _MEASURED:
        return True
    made = column.identity or column.sequence is not None or column.default is not None
    named = _NATURAL.search(column.name.lower()) is not None
    return named and not made and column.type.base in (*INTEGERS, "numeric", "date")


def is_counted(column: Column) -> bool:
    """Whether a sequence numbers all rows of the table.

    >>> from privbench.schema import ColumnType
    >>> whole = ColumnType("integer", "int4")
    >>> is_counted(Column("id", 1, whole, default="nextval('t_id_seq'::regclass)"))
    True
    """
    made = column.identity or column.sequence is not None
    return bool(made) or "nextval(" in (column.default or "")


def is_discriminator(table: Table, column: Column) -> bool:
    """Whether an integer of the primary key only numbers the rows of one parent."""
    key = table.primary_key
    if key is None or column.name not in key.columns or len(key.columns) < 2:
        return False
    others = set(key.columns) - {column.name}
    return column.type.base in INTEGERS and others <= table.key_columns


def modelled(table: Table) -> tuple[str, ...]:
    """Columns that need a reader, in their order."""
    return tuple(item.name for item in table.columns if role_of(table, item) == "modelled")
