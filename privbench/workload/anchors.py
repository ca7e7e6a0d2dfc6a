"""Rows of the source that join along a tree of foreign keys: CONFIDENTIAL.

A query whose predicates hold for the rows of one such tuple has an answer of at least one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from privbench.schema import Table
from privbench.workload.joins import Edge, JoinTree
from privbench.workload.literals import as_text

#: One row of each table of a tree, by column: as PostgreSQL prints it, None for NULL.
Anchor = list[dict[str, str | None]]

_START_ROWS = 2000
_SEEDS = 2**31


class Anchors:
    """Draws tuples of rows that join.

    Args:
        connection: To the source; only read.
        seed: Chooses, by a hash of the rows' content, the rows to start from.
    """

    def __init__(self, connection: psycopg.Connection[Any], seed: int) -> None:
        self._connection = connection
        self._seed = seed
        self._starts: dict[str, Anchor] = {}

    def draw(self, tree: JoinTree, rng: np.random.Generator) -> Anchor | None:
        """Rows that join, one of each of the tree's tables; None where the draw met a dead end.

        A random row of the first table, then along each edge a random one of the rows that fit.
        """
        rows = self._start(tree.tables[0])
        if not rows:
            return None
        anchor = [rows[int(rng.integers(len(rows)))]]
        for place, edge in enumerate(tree.edges, 1):
            row = self._follow(tree.tables[place], edge, anchor, rng)
            if row is None:
                return None
            anchor.append(row)
        return anchor

    def _start(self, table: Table) -> Anchor:
        if table.key not in self._starts:
            self._starts[table.key] = self._rows(table, sql.SQL("true"), self._seed, _START_ROWS)
        return self._starts[table.key]

    def _follow(
        self, table: Table, edge: Edge, anchor: Anchor, rng: np.random.Generator
    ) -> dict[str, str | None] | None:
        """A row of `table`, the edge's new end, that joins the row at its old end."""
        pairs = list(zip(edge.key.columns, edge.key.ref_columns, strict=True))
        upwards = edge.child < len(anchor)
        row = anchor[edge.child if upwards else edge.parent]
        asked = [(target, row[ours]) if upwards else (ours, row[target]) for ours, target in pairs]
        if any(value is None for _, value in asked):
            return None
        condition = sql.SQL(" AND ").join(
            sql.SQL("t.{} = {}").format(sql.Identifier(name), sql.Literal(value))
            for name, value in asked
        )
        found = self._rows(table, condition, int(rng.integers(_SEEDS)), 1)
        return found[0] if found else None

    def _rows(self, table: Table, condition: sql.Composable, seed: int, most: int) -> Anchor:
        """Rows in the order of a seeded hash: their physical order has no say."""
        names = [column.name for column in table.columns]
        if not names:
            return []
        query = sql.SQL(
            "SELECT {columns} FROM {table} AS t WHERE {condition}"
            " ORDER BY hashtextextended(to_json(t)::text, {seed}) LIMIT {most}"
        ).format(
            columns=sql.SQL(", ").join(as_text(column) for column in table.columns),
            table=sql.Identifier(table.name.schema, table.name.name),
            condition=condition,
            seed=sql.Literal(seed),
            most=sql.Literal(most),
        )
        found = self._connection.execute(query).fetchall()
        return [dict(zip(names, row, strict=True)) for row in found]
