"""Connected sets of tables along a schema's foreign keys, and their FROM and WHERE clauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from psycopg import sql

from privbench.schema import ForeignKey, Schema, Table

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Edge:
    """One foreign key followed by a query.

    Attributes:
        key: The foreign key.
        child: Place, in the tree's tables, of the one that holds the key.
        parent: Place of the one that it refers to.
    """

    key: ForeignKey
    child: int
    parent: int


@dataclass(frozen=True, slots=True)
class JoinTree:
    """Tables joined by foreign keys.

    Attributes:
        tables: In the order in which they were reached.
        edges: One less than tables: the key that reached ``tables[i + 1]``, from an earlier one.
    """

    tables: tuple[Table, ...]
    edges: tuple[Edge, ...]

    @property
    def aliases(self) -> tuple[str, ...]:
        """A name for each table: its first letter, numbered where letters clash."""
        names: list[str] = []
        for table in self.tables:
            letter = next((c for c in table.name.name.lower() if c.isalpha()), "t")
            number = sum(name.startswith(letter) for name in names)
            names.append(f"{letter}{number + 1}" if number else letter)
        return tuple(names)

    def tail(self, predicates: Sequence[sql.Composable]) -> sql.Composable:
        """FROM and WHERE: the tables under their aliases, their joins and the predicates."""
        aliases = self.aliases
        tables = sql.SQL(", ").join(
            sql.SQL("{} AS {}").format(
                sql.Identifier(table.name.schema, table.name.name), sql.Identifier(alias)
            )
            for table, alias in zip(self.tables, aliases, strict=True)
        )
        joins = [
            sql.SQL("{} = {}").format(
                sql.Identifier(aliases[edge.child], column),
                sql.Identifier(aliases[edge.parent], target),
            )
            for edge in self.edges
            for column, target in zip(edge.key.columns, edge.key.ref_columns, strict=True)
        ]
        conditions = [*joins, *predicates]
        if not conditions:
            return sql.SQL("FROM {}").format(tables)
        return sql.SQL("FROM {} WHERE {}").format(tables, sql.SQL(" AND ").join(conditions))


def draw(
    schema: Schema, joins: int, rng: np.random.Generator, *, repeats: bool = False
) -> JoinTree:
    """Draw a connected set of tables.

    Starts at a random table and takes a random foreign key from what it has to what it has not.

    Args:
        schema: With at least one table.
        joins: Keys to follow; fewer where the schema offers no more.
        rng: Draws.
        repeats: Each key is followed at most once, and always to a further table, be it one that
            is there already: a post with its owner and its editor has users twice, and
            self-references are followed too. Otherwise each table occurs once.

    Returns:
        The tree.
    """
    graph = [
        key
        for table in schema
        for key in table.foreign_keys
        if key.ref_table in schema and (repeats or not key.is_self)
    ]
    ends = {name for key in graph for name in (key.table, key.ref_table)}
    starts = [table for table in schema if joins == 0 or table.name in ends]
    tables = [_choose(starts or list(schema), rng)]
    edges: list[Edge] = []
    while len(edges) < joins:
        steps = _steps(graph, tables, edges, repeats)
        if not steps:
            break
        step = _choose(steps, rng)
        new = step.key.table if step.child == len(tables) else step.key.ref_table
        edges.append(step)
        tables.append(schema.table(new))
    return JoinTree(tuple(tables), tuple(edges))


def _steps(
    graph: list[ForeignKey], tables: list[Table], edges: list[Edge], repeats: bool
) -> list[Edge]:
    """Edges from a table that is there, in either direction, to one more table."""
    held, used = {table.name for table in tables}, {edge.key for edge in edges}
    new = len(tables)
    found = []
    for key in graph:
        if key in used if repeats else {key.table, key.ref_table} <= held:
            continue
        for place, table in enumerate(tables):
            if table.name == key.table:
                found.append(Edge(key, place, new))
            if table.name == key.ref_table:
                found.append(Edge(key, new, place))
    return found


def _choose(items: list[_T], rng: np.random.Generator) -> _T:
    return items[int(rng.integers(len(items)))]
