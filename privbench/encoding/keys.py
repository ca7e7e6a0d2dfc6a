"""Which columns are keys, and the values that are minted for them after sampling."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from privbench.config import ColumnConfig
from privbench.encoding.base import CoverageLine
from privbench.encoding.checks import unread_checks
from privbench.encoding.indexes import unkept_indexes
from privbench.encoding.patterns import is_understood
from privbench.encoding.pools import INTEGERS
from privbench.encoding.registry import coverage, reader
from privbench.schema import Column, Table

#: Names of keys that are years, days, places: a filter on them has to find something.
_NATURAL = re.compile(
    r"(?:^|_)(?:year|yr|season|decade|century|month|week|day|date|hour|zip|zip_?code|postal|"
    r"post_?code|plz|port|level|grade|size|age)$"
)
#: Types of which nobody makes up numbers to tell rows apart.
_MEASURED = ("date", "timestamp", "timestamptz", "time", "timetz", "float4", "float8")
Role = Literal["reference", "minted", "generated", "modelled"]


def role_of(table: Table, column: Column) -> Role:
    """How a column's values come about.

    References take the parent's key. Minted columns are single-column primary keys, numbers of a
    sequence and UUIDs in UNIQUE sets, and the integer that tells apart the rows of one parent.
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


_LINES: dict[Role, tuple[str, str]] = {
    "reference": ("reference to a synthetic row", "foreign key"),
    "minted": ("minted key", "unique by construction, never read"),
    "generated": ("computed by PostgreSQL", "generated column"),
}


def table_coverage(
    table: Table, config: Mapping[str, ColumnConfig], delta: float
) -> list[CoverageLine]:
    """The coverage map of every column of a private table, and of CHECKs that are not understood.

    Raises:
        ConfigError: The config does not fit a column.
        SchemaError: No valid value can be made for a column.
    """
    lines = []
    for column in table.columns:
        role = role_of(table, column)
        if role == "modelled":
            plan = reader(column, table, config.get(column.name, ColumnConfig()), delta)
            lines.append(coverage(plan))
        else:
            lines.append(CoverageLine(table.key, column.name, *_LINES[role]))
    return lines + unkept(table)


def unkept(table: Table) -> list[CoverageLine]:
    """Rules that sampled rows may break until a load repairs them; one line each."""
    lines = []
    how = "not kept by construction: rows are repaired in the load"
    for check in unread_checks(table):
        if is_understood(check, table):
            continue
        where = ", ".join(check.columns)
        lines.append(CoverageLine(table.key, where, how, f"CHECK {check.name} is not understood"))
    for index in unkept_indexes(table):
        where = ", ".join(index.columns)
        lines.append(CoverageLine(table.key, where, how, f"UNIQUE index {index.name}"))
    if table.partition_key is not None:
        why = "rows that no partition takes are moved in the load"
        lines.append(CoverageLine(table.key, "", f"partitioned by {table.partition_key}", why))
    return lines
