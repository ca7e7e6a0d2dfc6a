"""Putting tables together: owners first, then what they own, then references.

The number of rows of a root table is its noisy total; that of an owned table follows from the
number of children that is drawn with every owner, or from the fan-out law of its OWN key where rows
do not tell. Rows that could never satisfy a key (a
NOT NULL key into an empty table, a NOT NULL unique key with more rows than targets) are left out,
with all that they own. References are attached when all rows exist, so cycles and self-references
need no special case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import inf

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Codes
from privbench.errors import ModelError
from privbench.learning.attach import MAX_ROWS, Places, attach, own_edges
from privbench.learning.fanlaw import Ints
from privbench.learning.keys import HIDDEN, KeyModel, fan_variable, link_variable
from privbench.learning.synthetic import SyntheticDatabase, SyntheticTable
from privbench.rng import generator
from privbench.threads import spread

#: Draws the rows of one table: (table, rows, owners of the rows or None) → codes.
RowSource = Callable[[str, int, Ints | None], Mapping[str, Codes]]


@dataclass(frozen=True, slots=True)
class TableModel:
    """Released size and keys of one table.

    Attributes:
        rows: Noisy number of rows; read for tables without an OWN key alone.
        keys: Its foreign keys by name.
    """

    rows: float
    keys: dict[str, KeyModel] = field(default_factory=dict)

    @property
    def own(self) -> KeyModel | None:
        """The OWN key, or None."""
        return next((key for key in self.keys.values() if key.role == "own"), None)


def assemble(
    tables: Mapping[str, TableModel],
    public_rows: Mapping[str, int],
    draw: RowSource,
    scale: float,
    seed: int | None,
) -> SyntheticDatabase:
    """Draw a whole database.

    Args:
        tables: Released sizes and keys by table.
        public_rows: Exact row counts of the public tables.
        draw: Draws one table's attributes; called by several threads, after all owners of its rows.
        scale: Factor on the number of units, above 0.
        seed: Public seed, or None.

    Raises:
        ModelError: The scale is not above 0, the OWN keys are cyclic, or a key points to an unknown
            table.
    """
    if not 0 < scale < inf:
        raise ModelError("the scale must be above 0 and finite.")
    owners: dict[str, Ints | None] = {}
    codes: dict[str, Mapping[str, Codes]] = {}
    sizes: dict[str, int] = {}
    levels = ownership_levels(tables)
    for level in levels:
        for name in level:
            owners[name] = edges = _rows_of(tables, name, sizes, codes, scale, seed)
            sizes[name] = _root_rows(tables[name], scale) if edges is None else len(edges)
        _check_room(sum(sizes.values()))
        drawn = spread(lambda name: draw(name, sizes[name], owners[name]), level)
        codes |= dict(zip(level, drawn, strict=True))
    _prune(tables, public_rows, owners, sizes, codes)
    units = identities(tables, list(chain.from_iterable(levels)), owners, sizes)
    out = {}
    for name, model in tables.items():
        out[name] = SyntheticTable(sizes[name], _shown(codes[name]), {})
        for key in model.keys.values():
            edges = owners[name] if key.role == "own" else None
            if edges is None:
                targets = _targets(key, sizes, public_rows)
                draws = generator(seed, "attach", name, key.name)
                links = codes[name].get(link_variable(key.name))
                places = Places(
                    units[name], units.get(key.parent), links, codes.get(key.parent, {})
                )
                edges = attach(key, sizes[name], targets, draws, places)
            out[name].parents[key.name] = edges
    return SyntheticDatabase(out)


def _shown(codes: Mapping[str, Codes]) -> Mapping[str, Codes]:
    """Codes without hidden variables; where there are none, as they are, drawn or not."""
    if not any(name.startswith(HIDDEN) for name in codes):
        return codes
    return {name: held for name, held in codes.items() if not name.startswith(HIDDEN)}


def expected_units(tables: Mapping[str, TableModel]) -> dict[str, float]:
    """Units that have rows in every table, at most; reads released numbers alone."""
    rows, units = dict[str, float](), dict[str, float]()
    for name in chain.from_iterable(ownership_levels(tables)):
        own, rows[name] = tables[name].own, tables[name].rows
        units[name] = rows[name]
        if own is not None and own.law is not None:
            having = rows[own.parent] * float(own.law.mass[own.law.ends > 0].sum())
            alone = own.null if own.nullable else 0.0
            rows[name] = rows[own.parent] * own.law.mean() + alone
            units[name] = min(units[own.parent], having) + alone
    return units


def identities(
    tables: Mapping[str, TableModel],
    order: Sequence[str],
    owners: Mapping[str, Ints | None],
    sizes: Mapping[str, int],
) -> dict[str, Ints]:
    """Unit of every row, the same numbers in all tables; by table, shape (rows,)."""
    units: dict[str, Ints] = {}
    start = 0
    for name in order:
        edges, own = owners[name], tables[name].own
        units[name] = np.arange(start, start + sizes[name])
        start += sizes[name]
        if edges is not None and own is not None and sizes[own.parent]:
            above = units[own.parent][np.maximum(edges, 0)]
            units[name] = np.where(edges >= 0, above, units[name])
    return units


def ownership_levels(tables: Mapping[str, TableModel]) -> list[list[str]]:
    """Tables by level: root tables, what these own, what that owns, and so on.

    Raises:
        ModelError: A cycle, or an owner that is not a table of the model.
    """
    levels: list[list[str]] = []
    done: set[str] = set()
    while len(done) < len(tables):
        left = {name: model.own for name, model in tables.items() if name not in done}
        ready = [name for name, own in left.items() if own is None or own.parent in done]
        if not ready:
            raise ModelError("the OWN keys in the model are cyclic.")
        levels.append(ready)
        done |= set(ready)
    return levels


def _root_rows(model: TableModel, scale: float) -> int:
    rows = round(max(model.rows, 0.0) * scale)
    _check_room(rows)
    return rows


def _check_room(rows: int) -> None:
    """Refuse more rows than this machine has room for.

    Raises:
        ModelError: There are more.
    """
    if rows > MAX_ROWS:
        raise ModelError(
            f"the model asks for more than {MAX_ROWS:,} rows, for which this machine has no room.",
            remedy="Use a smaller --scale.",
        )


def _rows_of(
    tables: Mapping[str, TableModel],
    name: str,
    sizes: Mapping[str, int],
    codes: Mapping[str, Mapping[str, Codes]],
    scale: float,
    seed: int | None,
) -> Ints | None:
    own = tables[name].own
    if own is None:
        return None
    if own.unique and not own.nullable and _needed(tables[own.parent], name):
        # One-to-one both ways by the schema alone: no owner is without its row.
        return np.arange(sizes[own.parent])
    buckets = codes[own.parent].get(fan_variable(name, own.name))
    return own_edges(own, sizes[own.parent], scale, generator(seed, "own", name), buckets)


def _needed(model: TableModel, name: str) -> bool:
    """Whether every row of a table needs a row of another one for itself."""
    return any(key.must_fit and key.parent == name for key in model.keys.values())


def _targets(key: KeyModel, sizes: Mapping[str, int], public_rows: Mapping[str, int]) -> int:
    known = public_rows if key.role == "public" else sizes
    if key.parent not in known:
        raise ModelError(f"key {key.name!r} points to a table that is not in the model.")
    return known[key.parent]


def _room(model: TableModel, sizes: Mapping[str, int], public_rows: Mapping[str, int]) -> int:
    """Most rows that the table's NOT NULL references can serve."""
    room = MAX_ROWS
    for key in model.keys.values():
        if key.role == "own" or key.nullable:
            continue
        targets = _targets(key, sizes, public_rows)
        if key.must_fit or targets == 0:
            room = min(room, targets)
    return room


def _prune(
    tables: Mapping[str, TableModel],
    public_rows: Mapping[str, int],
    owners: dict[str, Ints | None],
    sizes: dict[str, int],
    codes: dict[str, Mapping[str, Codes]],
) -> None:
    """Leave out rows that could never satisfy a key; every round removes at least one row."""
    while True:
        tight = [n for n, m in tables.items() if sizes[n] > _room(m, sizes, public_rows)]
        if not tight:
            return
        for name in tight:
            room = _room(tables[name], sizes, public_rows)
            if sizes[name] > room:
                keep = _spared(tables, name, room, owners, sizes[name])
                _drop(tables, name, keep, owners, sizes, codes)


def _spared(
    tables: Mapping[str, TableModel],
    name: str,
    room: int,
    owners: Mapping[str, Ints | None],
    rows: int,
) -> NDArray[np.bool_]:
    """Which rows of a table stay where there is not room for all: as even as may be.

    Rows that own what the table must refer to come first. With them its targets would go, and the
    two tables would shrink by turns to a few rows.
    """
    first = np.zeros(rows, bool)
    for child, model in tables.items():
        edges = owners.get(child)
        if edges is not None and model.own is not None and model.own.parent == name:
            first[edges[edges >= 0]] |= _needed(tables[name], child)
    order = np.argsort(~first, kind="stable")
    most = min(room, int(first.sum()))
    keep = np.zeros(rows, bool)
    for part, count in ((order[: first.sum()], most), (order[first.sum() :], room - most)):
        keep[part[np.linspace(0, len(part), count, endpoint=False).astype(np.int64)]] = True
    return keep


def _drop(
    tables: Mapping[str, TableModel],
    name: str,
    keep: NDArray[np.bool_],
    owners: dict[str, Ints | None],
    sizes: dict[str, int],
    codes: dict[str, Mapping[str, Codes]],
) -> None:
    """Remove rows and, downwards, all that they own."""
    place = np.cumsum(keep) - 1
    edges = owners[name]
    if edges is not None:
        owners[name] = edges[keep]
    sizes[name] = int(keep.sum())
    codes[name] = {item: held[keep] for item, held in codes[name].items()}
    for child, model in tables.items():
        own = model.own
        below = owners.get(child)
        if own is None or own.parent != name or below is None:
            continue
        held = np.maximum(below, 0)
        stays = (below < 0) | keep[held] if len(keep) else below < 0
        owners[child] = np.where(below >= 0, place[held], below) if len(keep) else below
        _drop(tables, child, np.asarray(stays, bool), owners, sizes, codes)
