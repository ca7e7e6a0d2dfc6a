"""References that the catalog does not declare, guessed from names; reported, never applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from privbench.roles.facts import TableFacts
from privbench.roles.names import words
from privbench.schema import Column

_TOO_COMMON = frozenset({"id", "name", "code"})


@dataclass(frozen=True)
class ImpliedKey:
    """A column that looks like a foreign key and is none."""

    table: str
    column: str
    parent: str  # the table that it seems to point to
    reason: str  # why it seems so


def find(tables: Mapping[str, TableFacts]) -> tuple[ImpliedKey, ...]:
    """Undeclared references: the same column name is a key elsewhere, or names a table."""
    siblings = _siblings(tables)
    targets = _targets(tables)
    return tuple(
        found
        for facts in tables.values()
        for column in facts.table.columns
        if (found := _implied(facts, column, siblings, targets)) is not None
    )


def _siblings(tables: Mapping[str, TableFacts]) -> dict[str, set[str]]:
    """Where single-column keys of each column name point to."""
    found: dict[str, set[str]] = {}
    for facts in tables.values():
        for key in facts.keys:
            if len(key.key.columns) == 1:
                found.setdefault(key.key.columns[0].lower(), set()).add(key.parent)
    return found


def _targets(tables: Mapping[str, TableFacts]) -> dict[tuple[str, ...], tuple[str, Column]]:
    """Tables with a primary key of one column, by the words of ``<table>_id``."""
    found: dict[tuple[str, ...], tuple[str, Column]] = {}
    for name, facts in tables.items():
        if facts.key_column:
            found.setdefault((*words(facts.table.name.name), "id"), (name, facts.key_column))
    return found


def _implied(
    facts: TableFacts,
    column: Column,
    siblings: Mapping[str, set[str]],
    targets: Mapping[tuple[str, ...], tuple[str, Column]],
) -> ImpliedKey | None:
    is_key = column == facts.key_column or column.name in facts.table.key_columns
    if is_key or column.name.lower() in _TOO_COMMON:
        return None
    same = siblings.get(column.name.lower(), set())
    if len(same) == 1 and facts.name not in same:
        reason = "a column of this name is a foreign key elsewhere"
        return ImpliedKey(facts.name, column.name, next(iter(same)), reason)
    target = targets.get(words(column.name))
    if target is None or target[0] == facts.name:
        return None
    if target[1].type.category != column.type.category:
        return None
    return ImpliedKey(facts.name, column.name, target[0], "called after the table, of a like type")
