"""Stability: neighbouring databases, and the changes of statistics between them against the claims.

The exact change of a statistic between two neighbours is compared with its registered sensitivity,
by the audit for a whole fit and by the tests for every query. All of it is computed from private
rows: CONFIDENTIAL.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Ints, Mask
from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase, PrivateTable
from privbench.privacy.query import Query
from privbench.privacy.spec import DatabaseSpec
from privbench.privacy.units import BOTTOM, RowIndex

#: A unit, by its root: table and row index.
Unit = tuple[str, int]


def remove_unit(database: PrivateDatabase, root_table: str, row: int) -> PrivateDatabase:
    """The neighbour without one unit, by the table and the row of its root.

    All rows of the unit go, at every depth. Edges into them from rows that stay become ⊥. A key
    that several rows have is an edge into none of them (`privbench.postgres.keys`), so that these
    edges are all that the removal marks. The other units keep their random ranks: the two databases
    are coupled on the rows they share.
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


def _restrict(database: PrivateDatabase, name: str, keep: dict[str, Mask]) -> PrivateTable:
    table, stays = database._tables[name], keep[name]
    parents = {}
    for key in database.spec.tables[name].keys:
        edges = table._parents[key.name][stays]
        parents[key.name] = edges if key.role == "public" else _redirect(edges, keep[key.parent])
    attributes = {
        label: attribute._restrict(stays) for label, attribute in table._attributes.items()
    }
    return PrivateTable(int(stays.sum()), attributes, parents)


def _redirect(edges: RowIndex, stays: Mask) -> RowIndex:
    """Row indices of targets after the removal of rows; ⊥ if the target itself is removed."""
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
    """Units that are likely to break a wrong claim: at most ``most`` of each kind, none twice.

    For every root table these are the units with most rows, overall and in each table; those with
    most edges into them and out of them by each key; and, as ordinary units, the first and last.
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
    """The unit into which most references of other units lead, or None if there are none."""
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
    """Counts for every unit, array by array: rows in all tables and in each, edges by each key."""
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


#: Relative slack of the L2 comparison, which is in floating point; L1, L∞ and L0 are exact.
SLACK = 1e-9

#: A statistic: its cells; for a list of labels, its public cells and the counts by label.
Statistic = Ints | tuple[Ints, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Change:
    """Exact change of a statistic between two neighbours: no claim, but CONFIDENTIAL."""

    l1: int
    l2: float
    linf: int
    l0: int


def change(first: Statistic, second: Statistic) -> Change:
    """How far a statistic moves between two neighbours: norms of the difference, l0 included."""
    (a, labels), (b, others) = _parts(first), _parts(second)
    names = sorted(labels.keys() | others.keys())
    left = [abs(labels.get(name, 0) - others.get(name, 0)) for name in names]
    size = np.append(np.abs(a - b).ravel(), np.array(left, np.int64))
    high, low = size >> 31, size & (2**31 - 1)
    l1 = (int(high.sum()) << 31) + int(low.sum())
    l2 = math.sqrt(float((size.astype(np.float64) ** 2).sum()))
    # L0 bounds the labels that may be in one map alone; public cells are in both.
    l0 = np.count_nonzero(left) if isinstance(first, tuple) else np.count_nonzero(size)
    return Change(l1, l2, int(size.max(initial=0)), int(l0))


def _parts(statistic: Statistic) -> tuple[Ints, dict[str, int]]:
    cells, labels = statistic if isinstance(statistic, tuple) else (statistic, {})
    return np.asarray(cells, np.int64), labels


def neighbour_pairs(
    database: PrivateDatabase, chosen: Sequence[Unit]
) -> Iterator[tuple[str, PrivateDatabase, PrivateDatabase]]:
    """Pairs of neighbours that differ by the chosen units, each with the root table of its units.

    Under add/remove a pair is the database with and without one chosen unit. Under replace each
    database of a pair lacks one of two chosen units of the same root table.
    """
    if database.spec.relation.neighbours == "add-remove":
        for table, row in chosen:
            yield table, database, remove_unit(database, table, row)
        return
    for table in dict.fromkeys(table for table, _ in chosen):
        rows = [row for name, row in chosen if name == table]
        without = [remove_unit(database, table, row) for row in rows]
        for at in range(len(without) if len(without) > 1 else 0):
            yield table, without[at - 1], without[at]


def judge(
    query: Query, spec: DatabaseSpec, root: str, before: Statistic, after: Statistic
) -> Iterator[tuple[str, float]]:
    """Every claim of a query and the ratio of the observed to the claimed change.

    The ratio is infinite for a wrong shape or an uncharged root table. ``spec`` is the spec under
    which the query was evaluated, ``root`` the root table of the unit by which the neighbours
    differ.
    """
    (first, labels), (second, others) = _parts(before), _parts(after)
    if not first.shape == second.shape == query.shape:
        yield "shape", math.inf
        return
    if labels == others and np.array_equal(first, second):
        return  # a statistic that does not move keeps every claim
    moved = change(before, after)
    if root not in query.roots(spec):
        yield "roots", math.inf
    claim = query.sensitivity(spec)
    for norm in ("l1", "l2", "linf", "l0"):
        if getattr(claim, norm) is not None:
            yield norm, _over(getattr(moved, norm), getattr(claim, norm))


def _over(observed: float, claimed: float) -> float:
    if observed <= claimed:
        return observed / claimed if claimed else 0.0
    # A ratio just above 1 may round to 1: keep it visibly above.
    return max(observed / claimed, 1 + 1e-8) if claimed else math.inf
