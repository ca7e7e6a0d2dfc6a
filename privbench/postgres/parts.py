"""Catalog rows into the parts of a `Table`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from privbench.schema import Check, Column, ForeignKey, Index, TableName, Unique

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parts:
    """What tables are made of, by the table's OID."""

    columns: dict[int, list[Column]]
    foreign_keys: dict[int, list[ForeignKey]]
    checks: dict[int, list[Check]]
    indexes: dict[int, list[Any]]
    labels: dict[int, list[tuple[str, str]]]


def grouped(rows: Iterable[Any], make: Callable[[Any], T]) -> dict[int, list[T]]:
    """What ``make`` makes of the rows, by their relation."""
    found: dict[int, list[T]] = defaultdict(list)
    for row in rows:
        found[row.relation].append(make(row))
    return found


def check(row: Any) -> Check:
    """A CHECK constraint."""
    return Check(name=row.name, expression=row.expression, columns=tuple(row.columns))


def foreign_key(row: Any, source: TableName, target: TableName) -> ForeignKey:
    """A foreign key between two tables, partitions already folded into their roots."""
    return ForeignKey(
        name=row.name,
        table=source,
        columns=tuple(row.columns),
        ref_table=target,
        ref_columns=tuple(row.target_columns),
        on_delete=row.on_delete,
        on_update=row.on_update,
        match=row.match,
        deferrable=row.deferrable,
        validated=row.validated,
    )


def index(row: Any) -> Index:
    """An index."""
    return Index(
        name=row.name,
        definition=row.definition,
        unique=row.is_unique,
        columns=tuple(row.columns),
        predicate=row.predicate,
        has_expressions=row.has_expressions,
    )


def is_plain_unique(row: Any) -> bool:
    """Whether an index makes a set of plain columns unique in the whole table.

    A temporal key (WITHOUT OVERLAPS) is an exclusion: equal columns may recur in other periods.
    """
    whole = row.valid and row.predicate is None and not row.has_expressions
    return bool(row.is_unique and whole and not row.exclusion)


def unique(row: Any) -> Unique:
    """The unique column set of such an index."""
    return Unique(
        name=row.name,
        columns=tuple(row.columns),
        primary=row.is_primary,
        nulls_not_distinct=row.nulls_not_distinct,
    )


def collation(row: Any) -> str | None:
    """A column's collation where it is not its type's own, as ``schema.name``."""
    if row.collation is None:
        return None
    return str(TableName(row.collation_schema, row.collation))
