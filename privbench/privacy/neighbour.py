"""Neighbouring databases, for the stability harness and the audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.errors import SchemaError
from privbench.privacy.data import BOTTOM, PrivateDatabase, PrivateTable
from privbench.privacy.units import Index

#: A unit, by its root: table and row index.
Unit = tuple[str, int]


def remove_unit(database: PrivateDatabase, root_table: str, row: int) -> PrivateDatabase:
    """The neighbour without one unit, by the table and the row of its root.

    All rows of the unit go, at every depth. Edges into them from rows that stay become ⊥. The other
    units keep their random ranks: the two databases are coupled on the rows they share.
    """
    units = database._units
    number = units.number(root_table, row)
    if not 0 <= row < database._rows(root_table):
        raise SchemaError("there is no such row.", table=root_table)
    if int(units.identity(root_table)[row]) != number:
        raise SchemaError("the row is owned: it is not the root of a unit.", table=root_table)
    keep = {name: units.identity(name) != number for name in database._tables}
    tables = {name: _restrict(database, name, keep) for name in database._tables}
    ranks = {name: units.ranks(name)[keep[name]] for name in database._tables}
    smaller = PrivateDatabase(database.spec, tables, ranks)
    smaller.counter = database.counter
    smaller._recodings = list(database.recodings)
    return smaller


def _restrict(
    database: PrivateDatabase, name: str, keep: dict[str, NDArray[np.bool_]]
) -> PrivateTable:
    table, stays = database._tables[name], keep[name]
    parents = {}
    for key in database.spec.tables[name].keys:
        edges = table._parents[key.name][stays]
        parents[key.name] = edges if key.role == "public" else _redirect(edges, keep[key.parent])
    attributes = {
        label: attribute._restrict(stays) for label, attribute in table._attributes.items()
    }
    return PrivateTable(int(stays.sum()), attributes, parents)


def _redirect(edges: Index, stays: NDArray[np.bool_]) -> Index:
    """Row indices after the rows that go; ⊥ where the target goes."""
    if not stays.size:
        return edges
    moved = np.where(stays, np.cumsum(stays) - 1, BOTTOM)
    return np.where(edges >= 0, moved[np.maximum(edges, 0)], edges).astype(edges.dtype)


def all_units(database: PrivateDatabase) -> Iterator[Unit]:
    """Every unit, by table and row of its root."""
    for name in database.spec.order():
        for row in _root_rows(database, name):
            yield name, int(row)


def _root_rows(database: PrivateDatabase, name: str) -> NDArray[np.intp]:
    rows = database._rows(name)
    if not rows:
        return np.zeros(0, dtype=np.intp)
    start = database._units.number(name, 0)
    return np.flatnonzero(database._units.identity(name) == np.arange(start, start + rows))


def telling_units(database: PrivateDatabase, most: int = 3) -> list[Unit]:
    """Units of every kind that is likely to break a claim, each once, at most so many of each kind.

    For every root table: the units with most rows, overall and in each table; with most edges into
    them and out of them by each key; and the first and last ones, which are ordinary.
    """
    found: dict[Unit, None] = {}
    for name in database.spec.tables:
        roots = _root_rows(database, name)
        if not roots.size:
            continue
        numbers = roots + database._units.number(name, 0)
        for score in _scores(database):
            best = roots[np.argsort(-score[numbers], kind="stable")[:most]]
            found |= dict.fromkeys((name, int(row)) for row in best)
        found |= dict.fromkeys((name, int(row)) for row in (*roots[:1], *roots[-1:]))
    return list(found)


def worst_hub(database: PrivateDatabase) -> Unit | None:
    """The unit into which most references of other units lead, or None without any."""
    units = database._units
    size = sum(database._rows(name) for name in database.spec.tables)
    counts = np.zeros(size, dtype=np.int64)
    for key in (key for table in database.spec.tables.values() for key in table.keys):
        if key.role != "ref":
            continue
        edges = database._parents(key)
        leads = np.flatnonzero(edges >= 0)
        target = units.identity(key.parent)[edges[leads]]
        other = target != units.identity(key.table)[leads]
        counts += np.bincount(target[other], minlength=size)
    if not counts.any():
        return None
    number = int(counts.argmax())
    starts = ((name, number - units.number(name, 0)) for name in database.spec.tables)
    return next((name, row) for name, row in starts if 0 <= row < database._rows(name))


def _scores(database: PrivateDatabase) -> Iterator[NDArray[np.integer[Any]]]:
    """Per unit number: rows in all tables and in each, then edges out and in by each key."""
    units = database._units
    size = sum(database._rows(name) for name in database.spec.tables)
    counts = [np.bincount(units.identity(name), minlength=size) for name in database.spec.tables]
    yield np.sum(counts, axis=0)
    yield from counts
    for table in database.spec.tables.values():
        for key in table.keys:
            edges = database._parents(key)
            leads = edges >= 0
            yield np.bincount(units.identity(table.name)[leads], minlength=size)
            if key.role != "public" and database._rows(key.parent):
                targets = units.identity(key.parent)[edges[leads]]
                yield np.bincount(targets, minlength=size)
