"""Schemas in a short notation, so that a test shows the whole schema it is about.

A table begins at the left: its name, then ``:`` and its columns, apart by ``;``, also on further
lines that are indented. ``name [type] [pk] [!] [unique] [-> parent [cascade | set null]]``; ``!``
is NOT NULL, a second ``pk`` makes the key composite. A name may hold its schema (``sales.orders``);
a comment after ``--`` takes the rest of its line. ``key (a, b) -> parent`` is a composite foreign
key.
"""

import re
from dataclasses import replace

import pytest

from privbench.schema import Column, ColumnType, ForeignKey, Schema, Table, TableName, Unique

_CATEGORY = {
    "int": ("int4", "N"),
    "smallint": ("int2", "N"),
    "numeric": ("numeric", "N"),
    "text": ("text", "S"),
    "date": ("date", "D"),
    "timestamp": ("timestamp", "D"),
    "bool": ("bool", "B"),
    "enum": ("mood", "E"),
    "uuid": ("uuid", "U"),
    "jsonb": ("jsonb", "U"),
}


def _type(word):
    if word.endswith("[]"):
        element = _type(word.removesuffix("[]"))
        return ColumnType(
            word, "_" + element.base, "b", "A", element=element.base, parts=(element,)
        )
    fixed = re.fullmatch(r"(char|varchar)(\d+)", word)
    if fixed:
        base = "bpchar" if fixed[1] == "char" else "varchar"
        return ColumnType(word, base, category="S", length=int(fixed[2]))
    base, category = _CATEGORY[word]
    return ColumnType(word, base, category=category)


def _name(text):
    schema, _, name = text.rpartition(".")
    return TableName(schema or "public", name)


def _target(text):
    parent, _, action = text.strip().partition(" ")
    return _name(parent), {"": "a", "cascade": "c", "set null": "n"}[action.strip()]


def _table(text):
    heading, *more = text.splitlines()
    heading, _, comment = heading.partition("--")
    heading, _, first = heading.partition(":")
    name = _name(heading.strip())
    columns = []
    keys = []
    primary = []
    uniques = []
    for line in ";".join([first, *more]).split(";"):
        if not line.strip():
            continue
        left, _, right = line.partition("->")
        composite = re.match(r"\s*key \((.*)\)", left)
        names = tuple(composite[1].split(", ")) if composite else (left.split()[0],)
        if right:
            parent, action = _target(right)
            keys.append(ForeignKey(f"fk{len(keys)}", name, names, parent, ("id",), action))
        if composite:
            continue
        words = left.split()[1:]
        kind = next((word for word in words if word not in ("pk", "!", "unique")), "int")
        not_null = "!" in words or "pk" in words
        columns.append(Column(names[0], len(columns) + 1, _type(kind), not_null=not_null))
        primary += names if "pk" in words else []
        uniques += [Unique(f"u{len(uniques)}", names)] if "unique" in words else []
    return Table(
        name,
        tuple(columns),
        Unique("pk", tuple(primary), primary=True) if primary else None,
        tuple(uniques),
        tuple(keys),
        comment=comment.strip() or None,
    )


@pytest.fixture(scope="session")
def read():
    """Read the notation."""

    def _read(text):
        blocks = re.split(r"\n(?=\S)", re.sub(r"\n\s*\n", "\n", text.strip()))
        tables = sorted((_table(block) for block in blocks), key=lambda table: table.name)
        known = {table.name: table for table in tables}
        return Schema(tuple(replace(table, foreign_keys=_point(table, known)) for table in tables))

    return _read


def _point(table, known):
    """Keys with the true names of the columns that they refer to."""
    return tuple(
        replace(key, ref_columns=known[key.ref_table].primary_key.columns)
        for key in table.foreign_keys
        if key.ref_table in known
    )
