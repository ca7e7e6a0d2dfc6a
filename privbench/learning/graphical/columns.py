"""The columns of a table's model, and the groups of cells in which their marginals are measured.

A table's own columns are its attributes; for every OWN key into it a degree, which is a row's
number of children; and for every other key of the table a scope, which says to which public row a
row refers, or whether it refers to none, to another unit or to its own unit. The context of an
owned table is the list of all columns of all its ancestors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Literal

import numpy as np

from privbench.arrays import Floats, Ints, Mask
from privbench.domain import Codes, Domain
from privbench.learning.graphical.sizes import MANY, ONE, CountBuckets
from privbench.learning.portable import normal_quantile
from privbench.privacy import DatabaseSpec, KeySpec
from privbench.privacy.queries import (
    Axis,
    Children,
    Joined,
    Owner,
    PublicArray,
    PublicTarget,
    Refers,
)
from privbench.privacy.queries import Column as ColumnAxis

#: Groups of a column's cells at each level of detail, coarse to fine. Half costs 1 % of Q-error on
#: the development databases, double 4 %. (3, 8, 24): 2-way divergence of coded Adult 1 % larger.
LEVELS = (4, 12, 24)
#: Level (a place in `LEVELS`) at which columns of targets of references are grouped. 0: stats5 2.89
#: for 2.79; 2: the same within scatter.
DETAIL = 1
#: Least mass, in masses of an average group, of a cell that is a group of its own; and the same for
#: special cells, which are next to no other cell. Half or double: not measured.
HEAVY, SPECIAL = 0.7, 0.1
#: First character of the names of columns that are not attributes.
HIDDEN = "\x1f"
#: Codes of the scope of a private reference.
NULL_SCOPE, OUTSIDE, INSIDE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class ModelColumn:
    """One column of a table's model, as the catalog and released domains describe it."""

    name: str  # within the table's model
    axis: Axis  # how its cells are read from private rows
    domain: Domain  # its cells
    kind: Literal["attribute", "degree", "scope", "order"] = "attribute"
    # Foreign key of a degree (number of children) or scope (whether and where a reference leads).
    key: KeySpec | None = None
    ruled: tuple[int, ...] = ()  # structural zeros: cells that the schema rules out
    alike: Ints | None = None  # cells of one number are grouped together first

    @property
    def varied(self) -> bool:
        """Whether the column has several cells that queries can distinguish."""
        return self.kind == "attribute" and self.domain.size > 1 and not self.domain.filler

    @property
    def buckets(self) -> CountBuckets:
        """The buckets of a degree."""
        return ONE if self.key is not None and self.key.unique else MANY


def degree_name(key: KeySpec) -> str:
    """Return the name of the column that counts a row's children by an owning (OWN) key."""
    return f"{HIDDEN}#{key.table}.{key.name}"


def scope_name(key: str) -> str:
    """Return the name of the column that says where a row's reference by a key leads to."""
    return f"{HIDDEN}>{key}"


def shown(name: str) -> str:
    """Return a column's name as it is written in the labels of ledger events."""
    return name.replace(HIDDEN, "")


def children(spec: DatabaseSpec, table: str) -> list[KeySpec]:
    """Return the owning (OWN) keys into a table, in the order of the tables that have them."""
    owns = (item.own for item in spec.tables.values())
    return [key for key in owns if key is not None and key.parent == table]


def may_stay_inside(spec: DatabaseSpec, key: KeySpec) -> bool:
    """Return whether a reference can lead from a row of a unit to a row of the same unit."""
    return key.role == "ref" and spec.top(key.table) == spec.top(key.parent)


def columns_of(spec: DatabaseSpec, table: str, public_kinds: dict[str, Ints]) -> list[ModelColumn]:
    """Return a table's own columns: attributes, then degrees, then scopes (see the module)."""
    own = spec.tables[table]
    columns = [
        ModelColumn(name, ColumnAxis.of(spec, table, name), domain)
        for name, domain in own.attributes.items()
    ]
    for key in children(spec, table):
        buckets = ONE if key.unique else MANY
        axis = Children(key, buckets.lower)
        domain = Domain(buckets.size, ordered=True)
        columns.append(ModelColumn(degree_name(key), axis, domain, "degree", key))
    for key in own.keys:
        if key.role == "own":
            continue
        columns.append(_scope(spec, key, public_kinds))
    return columns


def columns_above(
    spec: DatabaseSpec, table: str, columns: Mapping[str, list[ModelColumn]]
) -> list[tuple[ModelColumn, list[KeySpec]]]:
    """Return the columns of all ancestors, nearest first, with the OWN keys that lead to each."""
    above, path = [], list[KeySpec]()
    key = spec.tables[table].own
    while key is not None:
        path = [*path, key]
        above += [(column, path) for column in columns[key.parent]]
        key = spec.tables[key.parent].own
    return above


def public_owner(spec: DatabaseSpec, table: str, columns: list[ModelColumn]) -> ModelColumn | None:
    """Return the scope with the most public rows, if the table has no OWN key, or None."""
    scopes = [one for one in columns if isinstance(one.axis, PublicTarget)]
    most = max(scopes, key=lambda one: one.domain.size, default=None)
    return None if spec.tables[table].own or not most or (most.key and most.key.unique) else most


def varies(spec: DatabaseSpec, table: str) -> bool:
    """Return whether an attribute of a table has more than one code."""
    return any(domain.size > 1 for domain in spec.tables[table].attributes.values())


def _scope(spec: DatabaseSpec, key: KeySpec, public_kinds: dict[str, Ints]) -> ModelColumn:
    alike = None
    if key.role == "public":
        rows = public_kinds.get(key.parent, np.zeros(0, np.int64))
        alike = np.append(rows, rows.max(initial=-1) + 1)
        axis: Axis = PublicTarget(key, len(alike) - 1)
        null = axis.size - 1
    else:
        axis, null = Refers(key, own=may_stay_inside(spec, key)), NULL_SCOPE
    ruled = () if key.nullable or axis.size == 1 else (null,)
    name = scope_name(key.name)
    return ModelColumn(name, axis, Domain(axis.size), "scope", key, ruled, alike)


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A column with its released shares and its groups of cells."""

    name: str  # for events
    axis: Axis  # how its cells are read from the rows of the table that is modelled
    shares: Floats  # share of every cell, shape (cells,); sums to 1
    levels: tuple[Ints, ...]  # group of every cell at each of `LEVELS`, shape (cells,) each; nested
    modelled: bool = True  # whether it takes part in pairs
    ordered: int = 0  # number of leading cells that follow an order; 0 without one

    @classmethod
    def of(
        cls, column: ModelColumn, shares: Floats, floor: float, path: Sequence[KeySpec] = ()
    ) -> Variable:
        """Return the variable of an own column, or of an ancestor's column at the end of ``path``.

        The last cell of an ancestor's column means that there is no such ancestor.
        """
        axis, domain, means = column.axis, column.domain, None
        for key in reversed(path):
            axis = Owner(key, axis)
        if column.kind == "degree":
            means = np.append(column.buckets.means(shares[: domain.size]), np.zeros(len(path)))
        name = f"{path[-1].parent}.{column.name}" if path else column.name
        levels = group(shares, domain, floor, means, alike=column.alike)
        ordered = domain.values if domain.ordered else 0
        return cls(name, axis, shares, levels, not domain.filler, ordered)

    def groups(self, level: int) -> int:
        """Return the number of groups at a level."""
        return int(self.levels[level].max()) + 1

    def ordered_groups(self, level: int) -> int:
        """Return the number of leading groups of a level that follow an order."""
        return int(self.levels[level][self.ordered - 1]) + 1 if self.ordered else 0

    def scores(self, level: int) -> Floats:
        """Return the normal score of the middle of each group of a level.

        0 for unordered groups.
        """
        mass, ordered = self.mass(level), self.ordered_groups(level)
        middle = np.cumsum(mass[:ordered]) - mass[:ordered] / 2
        share = np.clip(middle / max(float(mass[:ordered].sum()), 1e-12), 1e-6, 1 - 1e-6)
        return np.append(normal_quantile(share), np.zeros(len(mass) - ordered))

    def grouped(self, level: int) -> Axis:
        """Return the axis of a query whose cells are the groups of a level."""
        groups = self.levels[level]
        if self.groups(level) == len(groups):
            return self.axis
        if isinstance(self.axis, ColumnAxis):
            return ColumnAxis(self.axis.attribute, self.groups(level), PublicArray(groups))
        return Joined((self.axis,), PublicArray(groups))

    def coarser(self, fine: int, level: int) -> Ints:
        """Return for every group of the level ``fine`` its group at the coarser ``level``."""
        coarse = np.zeros(self.groups(fine), np.int64)
        coarse[self.levels[fine]] = self.levels[level]
        return coarse

    def mass(self, level: int) -> Floats:
        """Return the share of every group of a level."""
        masses = np.bincount(self.levels[level], self.shares, minlength=self.groups(level))
        return np.asarray(masses, np.float64)


def group(
    shares: Floats,
    domain: Domain,
    floor: float,
    means: Floats | None = None,
    levels: Sequence[int] = LEVELS,
    alike: Ints | None = None,
) -> tuple[Ints, ...]:
    """Return nested partitions of a column's cells, one for each number of groups in ``levels``.

    Ordered cells are grouped by equal steps of (F + log-tail(F))/2 with F the distribution
    function, so that the upper tail has groups of its own down to a mass of ``floor``, a few
    standard deviations of a pair's noise. Unordered cells are grouped by mass, the rarest together;
    cells with the same number in ``alike`` are grouped with each other only. Heavy, special and
    NULL cells are groups of their own. If ``means`` has the mean count of every bucket of a degree,
    the mass of a bucket is half its share of rows and half its share of children.
    """
    mass = shares / max(float(shares.sum()), 1e-12)
    if means is not None and float(mass @ means) > 0:
        mass = (mass + mass * means / float(mass @ means)) / 2
    partitions: list[Ints] = []
    groups = np.arange(len(mass))
    special = np.arange(len(mass)) >= domain.values
    for most in sorted(levels, reverse=True):
        count = int(groups.max()) + 1
        if count > most:
            masses = np.bincount(groups, mass, minlength=count).astype(np.float64)
            apart = np.bincount(groups, special, minlength=count) > 0
            kinds = np.zeros(count, np.int64)
            if alike is not None:
                kinds[groups] = np.pad(alike, (0, len(mass) - len(alike)))
            merged = (
                _merge_ordered(masses, apart, most, floor)
                if domain.ordered
                else _merge_rare(masses, most, kinds)
            )
            groups = merged[groups]
        partitions.insert(0, groups)
    return tuple(partitions)


def _merge_rare(masses: Floats, most: int, kinds: Ints) -> Ints:
    """Keep the heaviest groups, in their order, and merge all others of one kind.

    >>> _merge_rare(np.array([0.1, 0.4, 0.1, 0.1, 0.3]), 3, np.array([0, 0, 0, 1, 1])).tolist()
    [1, 0, 1, 2, 2]
    """
    rank = np.argsort(np.argsort(-np.bincount(kinds, masses), kind="stable"))
    kinds = np.minimum(rank[kinds], most - 1)
    single = most - 1 - int(kinds.max())
    merged = single + kinds
    heavy = np.sort(np.argsort(-masses, kind="stable")[:single])
    merged[heavy] = np.arange(len(heavy))
    return np.unique(merged, return_inverse=True)[1]


def _merge_ordered(masses: Floats, apart: Mask, most: int, floor: float) -> Ints:
    """Merge neighbouring cells until a group covers 1/most of the coordinate (see `group`)."""
    lowest = log(min(max(floor, 1e-6), 0.5))
    below = np.append(0.0, np.cumsum(masses))
    tail = np.log(np.maximum(1.0 - below, 0.0) * (1.0 - exp(lowest)) + exp(lowest)) / lowest
    # Half of the coordinate is the tail's. Without it, hubs lose attributes; with a quarter: no
    # difference on coded Adult.
    length = np.diff((below + tail) / 2)
    merged = np.zeros(len(masses), np.int64)
    number, used = -1, 1.0
    for place in range(len(masses)):
        alone = masses[place] > (SPECIAL if apart[place] else HEAVY) / most
        turns = place and bool(apart[place]) != bool(apart[place - 1])
        if used >= 1.0 / most or alone or turns:
            number, used = number + 1, 0.0
        merged[place] = number
        used += 2.0 if alone else float(length[place])
    return merged


def shares_of(codes: Codes, weights: Floats, cells: int) -> Floats:
    """Return the shares of a column's cells among weighted synthetic rows."""
    counts = np.bincount(codes, weights, minlength=cells)
    return np.asarray(counts / max(float(counts.sum()), 1e-9))


def needed(spec: DatabaseSpec, present: Iterable[str]) -> set[str]:
    """Return the tables in ``present``, and all tables that their rows must refer to."""
    tables, new = set[str](), set(present)
    while new:
        tables |= new
        keys = [key for name in new for key in spec.tables[name].keys if key.role != "public"]
        new = {key.parent for key in keys if key.role == "own" or not key.nullable} - tables
    return tables
