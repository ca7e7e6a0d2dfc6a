"""The model of a whole database, and sampling from it: owners first, references last."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

import numpy as np

from privbench.arrays import Ints, Rng
from privbench.domain import Codes
from privbench.errors import ModelError
from privbench.learning.draw import CHUNK_ROWS
from privbench.learning.graphical import herding
from privbench.learning.graphical.associations import arranged
from privbench.learning.graphical.columns import (
    HIDDEN,
    INSIDE,
    NULL_SCOPE,
    degree_name,
    scope_name,
)
from privbench.learning.graphical.references import ReferenceLaw
from privbench.learning.graphical.sets import SetLaw
from privbench.learning.graphical.sizes import MANY
from privbench.learning.graphical.table_model import TableModel
from privbench.learning.synthetic import NULL, Parts, SyntheticTable
from privbench.privacy import KeySpec
from privbench.privacy.units import BOTTOM, index_type
from privbench.rng import generator

#: Most rows of a synthetic database, so that eight numbers of each row fit into memory.
MOST_ROWS = min(2**36, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 64)
#: Type of row numbers: int32 if all are below 2³¹, which takes half the memory of int64.
_INDEX = index_type(MOST_ROWS)
#: Largest factor by which numbers of children that are drawn by weights are scaled down; beyond it
#: some owners lose theirs.
CALIBRATED = 1.5
#: Steps in which numbers of children are scaled to a sum, before the rest is dealt out.
_STEPS = 8


@dataclass(frozen=True, slots=True)
class TableLaw:
    """The released distribution of one table: its size, its columns and its keys."""

    rows: float  # rows with an owner; of a root table all rows
    free: float  # rows of an owned table without an owner
    columns: Mapping[str, int]  # cells of its own columns by name, in their order
    keys: tuple[KeySpec, ...]
    model: TableModel
    lost: float = 0.0  # of the rows without an owner, those whose key is not NULL
    # Whether rows come after their owners, and how keys follow dates, as was released (`times`).
    follows: bool = False
    serial: int = 0
    sets: Mapping[str, SetLaw] = field(default_factory=dict)

    @property
    def own(self) -> KeySpec | None:
        """The foreign key by which other rows own the table's rows (OWN key), or None."""
        return next((key for key in self.keys if key.role == "own"), None)


@dataclass
class Population:
    """The synthetic rows of all tables, which are made table by table, owners first."""

    keys: Mapping[str, Sequence[KeySpec]]
    scale: float  # factor on the number of units
    stream: Callable[..., Rng]  # a generator for each purpose
    # Per table, cells of its own columns by name, in their order; filled as rows are drawn.
    codes: dict[str, Mapping[str, Codes]] = field(default_factory=dict)
    # Per owned table, the row index of every row's owner; `NULL` or ⊥ for rows without one, the
    # last.
    owners: dict[str, Ints | None] = field(default_factory=dict)
    # Per table, rows of each owner, who are in this order.
    sizes: dict[str, Ints] = field(default_factory=dict)
    # Per table, the unit of every row; the same numbers in all tables.
    units: dict[str, Ints] = field(default_factory=dict)
    _next: int = 0

    def own(self, table: str) -> KeySpec | None:
        """Return the foreign key by which other rows own a table's rows (OWN key), or None."""
        return next((key for key in self.keys[table] if key.role == "own"), None)

    def rows(self, table: str) -> int:
        """Return the number of rows of a table that was started."""
        return len(self.units[table])

    def start(self, table: str, rows: float, free: float, lost: float = 0.0) -> None:
        """Sample the rows of a table, whose owner's rows must exist; see `TableLaw`.

        Raises:
            ModelError: There is no room for so many rows.
        """
        key, degrees = self.own(table), np.zeros(0, np.int64)
        if key is None:
            count, owners = round(max(rows, 0.0) * self.scale), None
        elif rows + free <= 0:
            count, owners = 0, np.zeros(0, _INDEX)
        else:
            degrees = self._degrees(key, rows)
            alone = round(free * self.scale) if key.nullable else 0
            _require_room(self._next + int(degrees.sum()) + alone)
            owner_rows = np.repeat(np.arange(len(degrees), dtype=_INDEX), degrees)
            owners = np.append(owner_rows, np.full(alone, NULL, _INDEX))
            owners[len(owner_rows) :][: round(lost * self.scale)] = BOTTOM
            count = len(owners)
        _require_room(self._next + count)
        units = np.arange(self._next, self._next + count, dtype=_INDEX)
        if owners is not None and key is not None and self.rows(key.parent):
            units = np.where(owners >= 0, self.units[key.parent][np.maximum(owners, 0)], units)
        self._next += count
        self.owners[table], self.units[table], self.sizes[table] = owners, units, degrees

    def _degrees(self, key: KeySpec, rows: float) -> Ints:
        """Number of children of every owner; their sum is the table's size, as it was released.

        Few owners of very many children would else make it a matter of luck.
        """
        name, owners = degree_name(key), self.rows(key.parent)
        degree_codes = self.codes[key.parent].get(name)
        codes = None if degree_codes is None else degree_codes.astype(np.int64)
        needed = any(
            other.unique and not other.nullable and other.parent == key.table
            for other in self.keys[key.parent]
        )
        if key.unique:
            every = needed and not key.nullable
            return np.ones(owners, np.int64) if every or codes is None else codes
        if codes is None:
            raise ModelError("an OWN key in the model has no degrees.", table=key.parent)
        numbers = self.stream("degrees", key.table)
        counts = np.bincount(codes, minlength=MANY.size)
        degrees = MANY.draw(codes, counts / max(int(counts.sum()), 1), numbers)
        have, want = int(degrees.sum()), round(rows * self.scale)
        # If owners are themselves owned, the law of their degrees is by weights, and its mean may
        # be far from the mean over all rows.
        far = self.own(key.parent) is not None and have > CALIBRATED * want
        if have and (far or np.count_nonzero(degrees) > want):
            degrees = _thinned(degrees, want / have, numbers)
        return _scaled(degrees, want, numbers)

    def context(
        self,
        table: str,
        width: Mapping[str, Sequence[int]],
        used: Collection[int] | None = None,
        some: slice = slice(None),
    ) -> dict[int, Codes]:
        """Return the cells of all columns of all ancestors of a table, by position.

        Positions follow those of the table's own columns. ``width`` has the number of cells of
        every table's own columns. Only the positions in ``used`` (None: all) and the rows ``some``
        are returned.
        """
        context: dict[int, Codes] = {}
        place = len(width[table])
        lifts: list[Ints] = []
        key, owners = self.own(table), self.owners[table]
        edges = None if owners is None else owners[some]
        while key is not None and edges is not None:
            lifts.append(edges)
            for column, cells in zip(
                self.codes[key.parent].values(), width[key.parent], strict=True
            ):
                if used is None or place in used:
                    context[place] = _lifted(column, lifts, cells)
                place += 1
            owners, key = self.owners[key.parent], self.own(key.parent)
            if owners is not None:
                above = np.maximum(edges, 0)
                owners = owners[above] if len(owners) else np.full(len(edges), NULL)
            edges = owners
        return context

    def in_unit(self, table: str) -> Ints:
        """Return for each row how many of the table's rows its unit has."""
        place = self.units[table] - self.units[table].min(initial=self._next)
        return np.asarray(np.bincount(place)[place], np.int64)


def _scaled(degrees: Ints, total: int, numbers: Rng) -> Ints:
    """Degrees times a factor that makes their sum the total; those above 0 stay above 0.

    What rounding leaves goes to random owners, one each. Where there is none above 0, or more than
    the total are, the sum stays another.
    """
    positive = np.flatnonzero(degrees)
    if not len(positive):
        return degrees
    first, luck, factor = degrees[positive], numbers.random(len(positive)), 1.0
    multiplied = first
    for _ in range(_STEPS):
        if (have := int(multiplied.sum())) == total:
            break
        factor *= total / have
        multiplied = np.maximum(np.floor(first * factor + luck).astype(np.int64), 1)
    while (rest := total - int(multiplied.sum())) and (rest > 0 or (multiplied > 1).any()):
        able = np.flatnonzero(multiplied > 1) if rest < 0 else np.arange(len(multiplied))
        multiplied[numbers.permutation(able)[: abs(rest)]] += 1 if rest > 0 else -1
    scaled = np.zeros(len(degrees), np.int64)
    scaled[positive] = multiplied
    return scaled


def _thinned(degrees: Ints, share: float, numbers: Rng) -> Ints:
    """Keep a share of the degrees and set the others to 0.

    A systematic sample of the sorted degrees is kept, so that about the same share of every size is
    kept and the sum is near its expectation.
    """
    order = numbers.permutation(len(degrees))
    order = order[np.argsort(degrees[order], kind="stable")]
    steps = np.floor(np.arange(len(degrees) + 1) * share + numbers.random())
    chosen = np.zeros(len(degrees), np.bool_)
    chosen[order] = np.diff(steps) > 0
    return np.where(chosen, degrees, 0)


def _lifted(codes: Codes, lifts: Sequence[Ints], cells: int) -> Codes:
    """The cell of an ancestor's attribute for every row; ``cells`` or more without the ancestor.

    ``lifts`` are row indices of every row's owner, of that owner's owner, and so on up to the
    ancestor, negative if there is none. A value of ``cells`` + k means that step k of this path,
    counted down from the ancestor, is missing.
    """
    kind = np.min_scalar_type(cells + len(lifts))
    lifted = codes[np.maximum(lifts[-1], 0)] if len(codes) else np.zeros(len(lifts[-1]), kind)
    for missing, edges in enumerate(reversed(lifts), cells):
        lifted = np.where(edges >= 0, lifted, np.array(missing, kind)).astype(kind)
    return lifted


def _require_room(rows: int) -> None:
    if rows > MOST_ROWS:
        raise ModelError(
            f"the clone has more than {MOST_ROWS:,} rows, for which this machine has no room.",
            remedy="Use a smaller --scale.",
        )


def populate(
    laws: Mapping[str, TableLaw], scale: float, stream: Callable[..., Rng], *, clone: bool = False
) -> Population:
    """Sample the rows of all tables, before references are drawn; see `sample`.

    For a ``clone``, rows of single tables are herded (`herding`), and rows on which no other rows
    depend are drawn only when they are needed.
    """
    people = Population({name: law.keys for name, law in laws.items()}, scale, stream)
    width = {name: tuple(law.columns.values()) for name, law in laws.items()}
    keys = [key for law in laws.values() for key in law.keys]
    parents = {key.parent for key in keys}
    owners = {key.parent for key in keys if key.role == "own"}
    for name, law in laws.items():
        people.start(name, law.rows, law.free, law.lost)
        rows = people.rows(name)
        sets = law.sets if rows <= 16 * CHUNK_ROWS and (law.own or scale == 1.0) else {}
        alone = name not in parents and all(key.role == "own" for key in law.keys)
        single = law.own is None and name not in owners and not sets
        if clone and single and herding.is_affordable(law.model, rows):
            cells, numbers = width[name], stream("rows", name)
            drawn = herding.sample(law.model, cells, rows, numbers)
            people.codes[name] = {column: drawn[at] for at, column in enumerate(law.columns)}
        elif clone and alone and rows > CHUNK_ROWS and not sets:
            people.codes[name] = Parts(law.columns, rows, _drawing(people, name, law, width, {}))
        else:
            people.codes[name] = _drawing(people, name, law, width, sets)(slice(0, rows))
    return people


def _drawing(
    people: Population,
    table: str,
    law: TableLaw,
    width: Mapping[str, Sequence[int]],
    sets: Mapping[str, SetLaw],
) -> Callable[[slice], dict[str, Codes]]:
    """A function that draws some rows of a started table, given its owners as they are now."""
    used = {place for factor in law.model.factors for place in factor.parents}
    now = replace(people, codes=dict(people.codes), owners=dict(people.owners), units={})
    owners, count = now.owners[table], len(now.sizes[table])
    places = {name: place for place, name in enumerate(law.columns)}
    totals = {
        places[name]: replace(one, presences=one.presences * (one.public or count))
        for name, one in sets.items()
    }

    def draw(some: slice) -> dict[str, Codes]:
        number = some.start // CHUNK_ROWS
        numbers = people.stream("rows", table, *([number] if number else []))
        context = now.context(table, width, used, some)
        owner_of_row = None if owners is None else owners[some]
        drawn = law.model.sample(context, some.stop - some.start, numbers, owner_of_row, totals)
        return {name: drawn[place] for place, name in enumerate(law.columns)}

    return draw


def sample(
    laws: Mapping[str, TableLaw],
    references: Mapping[tuple[str, str], ReferenceLaw],
    public_rows: Mapping[str, int],
    scale: float,
    seed: int | None,
) -> dict[str, SyntheticTable]:
    """Draw a synthetic database from released distributions, with ``scale`` times as many units.

    The tables stand in ``laws`` owners first, and references are given by table and key. The seed
    is public; None means fresh entropy.

    Raises:
        ModelError: The scale is not above 0 and finite, or there is no room for so many rows.
    """
    if not 0 < scale < inf:
        raise ModelError("the scale must be above 0 and finite.")

    people = populate(laws, scale, partial(generator, seed), clone=True)
    _prune(people, public_rows)
    tables = {}
    for name, law in laws.items():
        parents = {
            key.name: _edges(people, key, references.get((name, key.name)), public_rows)
            for key in law.keys
        }
        kinds = {
            column: np.dtype(np.min_scalar_type(cells - 1))
            for column, cells in law.columns.items()
            if not column.startswith(HIDDEN)
        }
        codes = _in_code_types(people.codes[name], kinds)
        tables[name] = SyntheticTable(people.rows(name), codes, parents, law.follows, law.serial)
    return tables


def _in_code_types(
    codes: Mapping[str, Codes], kinds: Mapping[str, np.dtype[Any]]
) -> Mapping[str, Codes]:
    """Codes of attributes, converted to their types now or, if drawn on demand, once drawn."""
    if isinstance(codes, Parts):
        return codes.through(kinds, lambda part: _in_code_types(part, kinds))
    return {name: codes[name].astype(kind) for name, kind in kinds.items()}


def _edges(
    people: Population,
    key: KeySpec,
    law: ReferenceLaw | None,
    public_rows: Mapping[str, int],
) -> Ints:
    """The parent's row index for each row, by one key, or `NULL`."""
    owners = people.owners[key.table]
    if key.role == "own" and owners is not None:
        return owners
    numbers = people.stream("attach", key.table, key.name)
    scope = people.codes[key.table][scope_name(key.name)].astype(np.int64)
    if key.role == "public":
        count = public_rows.get(key.parent, 0)
        edges = np.where(scope < count, scope, NULL)
    elif law is None:
        raise ModelError("a reference in the model has no law.", table=key.table)
    else:
        count, edges = people.rows(key.parent), _attached(people, law, key, scope, numbers)
    return _distinct(edges, count, numbers) if key.unique else edges


def _attached(
    people: Population, law: ReferenceLaw, key: KeySpec, scope: Ints, numbers: Rng
) -> Ints:
    """The target's row index for each row, as its scope allows, or `NULL`.

    Rows that refer into their own unit get its rows in turn. All others get targets in proportion
    to the targets' popularity, by systematic sampling, in the order that associations of their
    columns say, or at random.
    """
    rows, targets = people.units[key.table], people.units[key.parent]
    edges = np.full(len(rows), NULL, np.int64)
    if not len(targets):
        return edges
    inside = np.flatnonzero(scope == INSIDE)
    edges[inside] = _within(rows[inside], targets, numbers)
    referring = (scope != NULL_SCOPE) | (not key.nullable)
    rest = np.flatnonzero(referring & (edges == NULL))
    if len(rest):
        codes = people.codes[key.parent]
        popularity = law.popularity(codes, numbers.random(len(targets)))
        steps = np.cumsum(popularity if popularity.any() else np.ones(len(targets)))
        at = (np.arange(len(rest)) + numbers.random()) / len(rest) * steps[-1]
        positions = np.minimum(np.searchsorted(steps, at, side="right"), len(targets) - 1)
        if law.association is None:
            numbers.shuffle(positions)
        else:
            mine, theirs = law.association.columns
            ends = people.codes[key.table][mine][rest], codes[theirs][positions]
            positions = positions[arranged(law.association, *ends, numbers)]
        edges[rest] = positions
    return edges


def _within(units: Ints, targets: Ints, numbers: Rng) -> Ints:
    """A row of the same unit for each row, in turn, or `NULL` where there is none."""
    shuffled = numbers.permutation(len(targets))
    order = shuffled[np.argsort(targets[shuffled], kind="stable")]
    unit_targets = targets[order]
    first, last = (np.searchsorted(unit_targets, units, side=side) for side in ("left", "right"))
    rows = np.argsort(units, kind="stable")
    turn = np.empty(len(units), np.int64)
    turn[rows] = np.arange(len(units)) - np.searchsorted(units[rows], units[rows], side="left")
    there = last > first
    matched = order[np.minimum(first + turn % np.maximum(last - first, 1), len(order) - 1)]
    return np.where(there, matched, NULL)


def _distinct(edges: Ints, targets: int, numbers: Rng) -> Ints:
    """Edges in which no target occurs twice.

    Of the rows with the same target, a random one keeps it. The others take an unused target, or
    NULL where none is left.
    """
    order = numbers.permutation(len(edges))
    _, first = np.unique(edges[order], return_index=True)
    keeps = np.zeros(len(edges), bool)
    keeps[order[first]] = True
    distinct = np.where((keeps & (edges >= 0)) | (edges == BOTTOM), edges, NULL)
    lost = np.flatnonzero((edges >= 0) & ~keeps)
    unused = numbers.permutation(np.setdiff1d(np.arange(targets), distinct))
    count = min(len(lost), len(unused))
    distinct[lost[:count]] = unused[:count]
    return distinct


def _prune(people: Population, public_rows: Mapping[str, int]) -> None:
    """Leave out rows that could never have a target they must have, with all that they own."""
    while True:
        over = {table: _room(people, table, public_rows) for table in people.units}
        if all(people.rows(table) <= room for table, room in over.items()):
            return
        for table, room in over.items():
            rows = people.rows(table)
            if room < rows:
                keep = np.zeros(rows, bool)
                keep[np.linspace(0, rows, room, endpoint=False).astype(np.int64)] = True
                _drop(people, table, keep)


def _room(people: Population, table: str, public_rows: Mapping[str, int]) -> int:
    """Most rows that the table's NOT NULL references can serve."""
    room = MOST_ROWS
    for key in people.keys[table]:
        if key.role == "own" or key.nullable:
            continue
        public = key.role == "public"
        targets = public_rows.get(key.parent, 0) if public else people.rows(key.parent)
        if key.unique or not targets:
            room = min(room, targets)
    return room


def _drop(people: Population, table: str, keep: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
    place = np.cumsum(keep) - 1
    owners = people.owners[table]
    people.owners[table] = None if owners is None else owners[keep]
    people.units[table] = people.units[table][keep]
    people.codes[table] = {name: held[keep] for name, held in people.codes[table].items()}
    for child in list(people.units):
        key, edges = people.own(child), people.owners[child]
        if key is None or edges is None or key.parent != table:
            continue
        held = np.maximum(edges, 0)
        stays = (edges < 0) | (keep[held] if len(keep) else False)
        people.owners[child] = np.where(edges >= 0, place[held] if len(place) else NULL, edges)
        _drop(people, child, np.asarray(stays, bool))
