"""Putting tables together: owners first, then what they own, then references.

Row counts come before rows: the number of rows of a root table is its noisy total, that of an
owned table follows from the fan-out law of its OWN key. Rows that could never satisfy a key (a
NOT NULL key into an empty table, a NOT NULL unique key with more rows than targets) are left out,
with all that they own. References are attached when all rows exist, so cycles and self-references
need no special case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Codes
from privbench.errors import ModelError
from privbench.learning.fanout import Ints
from privbench.learning.keys import KeyModel, attach, own_edges
from privbench.learning.synthetic import SyntheticDatabase, SyntheticTable
from privbench.rng import generator

#: Draws the rows of one table: (table, rows, owners of the rows or None) → codes.
RowSource = Callable[[str, int, Ints | None], dict[str, Codes]]
#: Most rows of one synthetic table.
MAX_ROWS = 2**36


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
        draw: Draws one table's attributes.
        scale: Factor on the number of units, above 0.
        seed: Public seed, or None.

    Raises:
        ModelError: The scale is not above 0, the OWN keys are cyclic, or a key points to an unknown
            table.
    """
    if not scale > 0:
        raise ModelError("the scale must be above 0.")
    owners: dict[str, Ints | None] = {}
    sizes: dict[str, int] = {}
    for name in ownership_order(tables):
        owners[name] = _rows_of(tables[name], name, sizes, scale, seed)
        edges = owners[name]
        sizes[name] = _root_rows(tables[name], scale) if edges is None else len(edges)
    _prune(tables, public_rows, owners, sizes)
    out = {}
    for name in tables:
        codes = draw(name, sizes[name], owners[name])
        out[name] = SyntheticTable(sizes[name], codes, {})
    for name, model in tables.items():
        for key in model.keys.values():
            edges = owners[name] if key.role == "own" else None
            if edges is None:
                targets = _targets(key, sizes, public_rows)
                draws = generator(seed, "attach", name, key.name)
                edges = attach(key, sizes[name], targets, draws)
            out[name].parents[key.name] = edges
    return SyntheticDatabase(out)


def ownership_order(tables: Mapping[str, TableModel]) -> list[str]:
    """Tables with every owner before what it owns.

    Raises:
        ModelError: A cycle, or an owner that is not a table of the model.
    """
    order: list[str] = []
    left = dict(tables)
    while left:
        ready = [n for n, m in left.items() if m.own is None or m.own.parent in order]
        if not ready:
            raise ModelError("the OWN keys in the model are cyclic.")
        order += ready
        left = {name: model for name, model in left.items() if name not in ready}
    return order


def _root_rows(model: TableModel, scale: float) -> int:
    rows = round(max(model.rows, 0.0) * scale)
    if rows > MAX_ROWS:
        raise ModelError(f"more than {MAX_ROWS} rows are asked of one table.")
    return rows


def _rows_of(
    model: TableModel, name: str, sizes: Mapping[str, int], scale: float, seed: int | None
) -> Ints | None:
    own = model.own
    if own is None:
        return None
    return own_edges(own, sizes[own.parent], scale, generator(seed, "own", name))


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
) -> None:
    """Leave out rows that could never satisfy a key; every round removes at least one row."""
    while True:
        tight = [n for n, m in tables.items() if sizes[n] > _room(m, sizes, public_rows)]
        if not tight:
            return
        for name in tight:
            room = _room(tables[name], sizes, public_rows)
            if sizes[name] > room:
                kept = np.linspace(0, sizes[name], room, endpoint=False).astype(np.int64)
                keep = np.zeros(sizes[name], bool)
                keep[kept] = True
                _drop(tables, name, keep, owners, sizes)


def _drop(
    tables: Mapping[str, TableModel],
    name: str,
    keep: NDArray[np.bool_],
    owners: dict[str, Ints | None],
    sizes: dict[str, int],
) -> None:
    """Remove rows and, downwards, all that they own."""
    place = np.cumsum(keep) - 1
    edges = owners[name]
    if edges is not None:
        owners[name] = edges[keep]
    sizes[name] = int(keep.sum())
    for child, model in tables.items():
        own = model.own
        below = owners.get(child)
        if own is None or own.parent != name or below is None:
            continue
        held = np.maximum(below, 0)
        stays = (below < 0) | keep[held] if len(keep) else below < 0
        owners[child] = np.where(below >= 0, place[held], below) if len(keep) else below
        _drop(tables, child, np.asarray(stays, bool), owners, sizes)
