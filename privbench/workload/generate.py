"""Make a workload for a database: counting queries in the manner of JOB-light and MSCN.

Each query takes a connected set of tables along foreign keys and conjunctive predicates on their
columns. Most count rows; some group, some sort and cut off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from privbench.errors import UsageError
from privbench.rng import generator
from privbench.schema import Schema
from privbench.workload.joins import JoinTree, draw
from privbench.workload.literals import Literals, SampledLiterals, Values, column_of, pick
from privbench.workload.query import Query, Workload

_KINDS = ("count", "group", "top")
_SHARES = (0.7, 0.15, 0.15)
_TRIES = 20


def generate(
    connection: psycopg.Connection[Any],
    schema: Schema,
    queries: int = 100,
    max_joins: int = 3,
    max_predicates: int = 4,
    seed: int = 0,
) -> Workload:
    """Generate a workload with literals from the source's rows: CONFIDENTIAL.

    Every query gives at least one row on the source (a count of at least 1), and no two are alike.
    The same seed on the same data gives the same workload.

    Args:
        connection: To the source; only read.
        schema: The source's schema.
        queries: How many; fewer where the data does not yield as many different ones.
        max_joins: Most foreign keys followed by a query.
        max_predicates: Most predicates of a query; it has at least one where a column allows.
        seed: Of the draws.

    Returns:
        The workload, its queries named g1, g2, ….

    Raises:
        UsageError: The schema has no table, or no query with an answer was found.
    """
    literals = SampledLiterals(connection, seed)
    texts = _Writer(connection, schema, literals, max_joins, max_predicates, seed).write(queries)
    return Workload("generated", tuple(Query(f"g{i}", text) for i, text in enumerate(texts, 1)))


class _Writer:
    """Draws queries until there are enough."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        schema: Schema,
        literals: Literals,
        max_joins: int,
        max_predicates: int,
        seed: int,
    ) -> None:
        if not schema.tables:
            raise UsageError("the schema has no table to query.")
        self._connection = connection
        self._schema = schema
        self._literals = literals
        self._max_joins = max_joins
        self._max_predicates = max_predicates
        self._rng = generator(seed, "workload")

    def write(self, queries: int) -> list[str]:
        texts: dict[str, None] = {}
        for _ in range(_TRIES * queries):
            if len(texts) == queries:
                break
            text = self._one()
            if text is not None:
                texts[text] = None
        if queries and not texts:
            raise UsageError("no query with an answer was found: are the tables empty?")
        return list(texts)

    def _one(self) -> str | None:
        tree = draw(self._schema, int(self._rng.integers(self._max_joins + 1)), self._rng)
        tail = tree.tail(self._predicates(tree))
        query = self._head(tree, tail)
        if not self._literals.holds(sql.SQL("SELECT 1 {}").format(tail)):
            return None
        return f"{query.as_string(self._connection)};"

    def _columns(self, tree: JoinTree) -> list[tuple[str, Values]]:
        return [
            (name, values)
            for table, name in zip(tree.tables, tree.aliases, strict=True)
            for values in self._literals.values(table)
        ]

    def _predicates(self, tree: JoinTree) -> list[sql.Composable]:
        columns = self._columns(tree)
        if not columns or self._max_predicates < 1:
            return []
        wanted = min(len(columns), 1 + int(self._rng.integers(self._max_predicates)))
        chosen = self._rng.choice(len(columns), wanted, replace=False)
        return [_predicate(*columns[int(i)], self._rng) for i in chosen]

    def _head(self, tree: JoinTree, tail: sql.Composable) -> sql.Composable:
        kind = _KINDS[int(self._rng.choice(len(_KINDS), p=_SHARES))]
        columns = self._columns(tree)
        groups = [column_of(name, v) for name, v in columns if v.few]
        orders = [column_of(name, v) for name, v in columns if v.ordered]
        if kind == "group" and groups:
            by = groups[int(self._rng.integers(len(groups)))]
            return sql.SQL("SELECT {by}, COUNT(*) {tail} GROUP BY {by}").format(by=by, tail=tail)
        if kind == "top" and orders:
            by = orders[int(self._rng.integers(len(orders)))]
            limit = sql.Literal(int(self._rng.choice((10, 100, 1000))))
            return sql.SQL("SELECT {by} {tail} ORDER BY {by} DESC LIMIT {limit}").format(
                by=by, tail=tail, limit=limit
            )
        return sql.SQL("SELECT COUNT(*) {}").format(tail)


def _predicate(name: str, values: Values, rng: np.random.Generator) -> sql.Composable:
    column = column_of(name, values)
    text = pick(values, rng)
    if text is None:
        word = "IS NULL" if rng.random() < 0.5 else "IS NOT NULL"
        return sql.SQL("{} {}").format(column, sql.SQL(word))
    operators = ["="] * values.few + ["<=", ">=", "between"] * values.ordered
    operator = operators[int(rng.integers(len(operators)))]
    if operator != "between":
        return sql.SQL("{} {} {}").format(column, sql.SQL(operator), values.literal(text))
    low, high = sorted((text, pick(values, rng) or text), key=values.place)
    return sql.SQL("{} BETWEEN {} AND {}").format(column, values.literal(low), values.literal(high))
