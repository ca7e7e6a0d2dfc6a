"""UNIQUE indexes that are no plain column sets: which can be kept, and which cannot."""

from __future__ import annotations

import re

from privbench.schema import Index, Table, Unique

#: ``lower(column)`` or ``lower((column)::text)``, as pg_get_indexdef prints it.
_LOWER = re.compile(r"""\Alower\(\(?("(?:[^"]|"")+"|[a-z_][a-z0-9_$]*)\)?(?:::[a-z ]+)?\)\Z""")
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

    >>> from privbench.schema import Column, ColumnType, TableName
    >>> text = "CREATE UNIQUE INDEX i ON public.t USING btree (lower(mail))"
    >>> mail = Column("mail", 1, ColumnType("text", "text"))
    >>> index = Index("i", text, unique=True, has_expressions=True)
    >>> folded_uniques(Table(TableName("public", "t"), (mail,), indexes=(index,)))[0].columns
    ('mail',)
    """
    found = []
    for index in table.indexes:
        name = _lowered(index) if index.unique else None
        if name is not None and any(column.name == name for column in table.columns):
            found.append(Unique(index.name, (name,)))
    return tuple(found)


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


def _plain_partial(table: Table, index: Index) -> bool:
    plain = index.unique and index.predicate is not None and not index.has_expressions
    return plain and bool(index.columns) and not set(index.columns) <= table.key_columns


def _lowered(index: Index) -> str | None:
    keys = _KEYS.search(index.definition)
    found = _LOWER.match(keys.group(1)) if keys else None
    if found is None:
        return None
    name = found.group(1)
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
