"""Rows that join along a tree of foreign keys.

A query whose predicates hold for the rows of one such tuple has an answer of at least one.
"""

from __future__ import annotations

import numpy as np

from privbench.schema import Table
from privbench.workload.generators.joins import Edge, JoinTree
from privbench.workload.generators.rows import RowSource
from privbench.workload.generators.values import Row

#: One row of each table of a tree.
Anchor = list[Row]

_SEEDS = 2**31


def anchored(tree: JoinTree, rows: RowSource, rng: np.random.Generator) -> Anchor | None:
    """Rows that join, one of each of the tree's tables; None where the draw met a dead end.

    A random row of the first table, then along each edge a random one of the rows that fit.
    """
    starts = rows.starts(tree.tables[0])
    if not starts:
        return None
    anchor = [starts[int(rng.integers(len(starts)))]]
    for place, edge in enumerate(tree.edges, 1):
        row = _follow(tree.tables[place], edge, anchor, rows, rng)
        if row is None:
            return None
        anchor.append(row)
    return anchor


def _follow(
    table: Table, edge: Edge, anchor: Anchor, rows: RowSource, rng: np.random.Generator
) -> Row | None:
    """A row of `table`, the edge's new end, that joins the row at its old end."""
    pairs = list(zip(edge.key.columns, edge.key.ref_columns, strict=True))
    upwards = edge.child < len(anchor)
    row = anchor[edge.child if upwards else edge.parent]
    asked: dict[str, str] = {}
    for ours, target in pairs:
        value = row[ours if upwards else target]
        if value is None:
            return None
        asked[target if upwards else ours] = value
    return rows.match(table, asked, int(rng.integers(_SEEDS)))
