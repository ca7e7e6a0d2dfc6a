"""Connected sets of tables along a schema's foreign keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from privbench.schema import ForeignKey, Schema, Table, TableName

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class JoinTree:
    """Tables joined by foreign keys, each table once.

    Attributes:
        tables: In the order in which they were reached.
        keys: One less than tables: the key that reached ``tables[i + 1]``.
    """

    tables: tuple[Table, ...]
    keys: tuple[ForeignKey, ...]


def draw(schema: Schema, joins: int, rng: np.random.Generator) -> JoinTree:
    """Draw a connected set of tables.

    Starts at a random table and takes a random foreign key from what it has to what it has not;
    self-references are not followed.

    Args:
        schema: With at least one table.
        joins: Keys to follow; fewer where the schema offers no more.
        rng: Draws.

    Returns:
        The tree.
    """
    graph = [key for table in schema for key in table.foreign_keys if _inside(key, schema)]
    starts = [t for t in schema if joins == 0 or any(t.name in _ends(key) for key in graph)]
    tables = [_choose(starts or list(schema), rng)]
    keys: list[ForeignKey] = []
    while len(keys) < joins:
        held = {table.name for table in tables}
        edges = [key for key in graph if len(_ends(key) & held) == 1]
        if not edges:
            break
        keys.append(_choose(edges, rng))
        tables.append(schema.table((_ends(keys[-1]) - held).pop()))
    return JoinTree(tuple(tables), tuple(keys))


def _inside(key: ForeignKey, schema: Schema) -> bool:
    return not key.is_self and key.ref_table in schema


def _ends(key: ForeignKey) -> set[TableName]:
    return {key.table, key.ref_table}


def _choose(items: list[_T], rng: np.random.Generator) -> _T:
    return items[int(rng.integers(len(items)))]
