"""Counts, groups and sorted heads over joins.

Each query takes a connected set of tables along foreign keys and conjunctive predicates on their
columns. Most count rows; some group, some sort and cut off.
"""

from __future__ import annotations

import numpy as np
from psycopg import sql

from privbench.rng import generator
from privbench.schema import Schema
from privbench.workload.generators.draft import Draft, Predicate
from privbench.workload.generators.joins import JoinTree, draw
from privbench.workload.generators.plan import Plan, collect
from privbench.workload.generators.rows import Answers, RowSource
from privbench.workload.generators.values import Values
from privbench.workload.query import Workload

OPERATORS = ("=", "<=", ">=", "between")
_KINDS = ("count", "group", "top")
_SHARES = (0.7, 0.15, 0.15)


def mixed(rows: RowSource, answers: Answers, schema: Schema, plan: Plan) -> Workload:
    """Queries of all three kinds with literals of random rows, each table drawn by itself."""
    writer = _Writer(rows, schema, plan)
    return collect("generated", plan, writer.draw, answers, count=False)


class _Writer:
    """Draws queries."""

    def __init__(self, rows: RowSource, schema: Schema, plan: Plan) -> None:
        self._rows = rows
        self._schema = schema
        self._plan = plan
        self._rng = generator(plan.seed, "workload")

    def draw(self, _joins: int) -> Draft | None:
        """A query with a random number of joins: small ones, which seldom fail, are the more."""
        low, high = self._plan.joins
        tree = draw(self._schema, low + int(self._rng.integers(high - low + 1)), self._rng)
        columns = [
            (place, values)
            for place, table in enumerate(tree.tables)
            for values in self._rows.values(table)
        ]
        predicates = self._predicates(columns)
        if predicates is None:
            return None
        return self._headed(tree, columns, predicates)

    def _predicates(self, columns: list[tuple[int, Values]]) -> tuple[Predicate, ...] | None:
        low, high = self._plan.predicates
        if not columns or high < 1:
            return ()
        if len(columns) < low:
            return None
        wanted = min(len(columns), low + int(self._rng.integers(high - low + 1)))
        chosen = self._rng.choice(len(columns), wanted, replace=False)
        return tuple(self._predicate(*columns[int(i)]) for i in chosen)

    def _headed(
        self, tree: JoinTree, columns: list[tuple[int, Values]], predicates: tuple[Predicate, ...]
    ) -> Draft:
        kind = _KINDS[int(self._rng.choice(len(_KINDS), p=_SHARES))]
        groups = [_column(tree, place, v) for place, v in columns if v.few]
        orders = [_column(tree, place, v) for place, v in columns if v.ordered]
        if kind == "group" and groups:
            by = groups[int(self._rng.integers(len(groups)))]
            head = sql.SQL("{}, COUNT(*)").format(by)
            return Draft(tree, predicates, head, sql.SQL(" GROUP BY {}").format(by))
        if kind == "top" and orders:
            by = orders[int(self._rng.integers(len(orders)))]
            limit = sql.Literal(int(self._rng.choice((10, 100, 1000))))
            foot = sql.SQL(" ORDER BY {} DESC LIMIT {}").format(by, limit)
            return Draft(tree, predicates, by, foot)
        return Draft(tree, predicates)

    def _predicate(self, place: int, values: Values) -> Predicate:
        text = values.pick(self._rng)
        if text is None:
            return _null(place, values, self._rng)
        operators = [
            operator
            for operator in OPERATORS
            if operator in self._plan.operators
            and (values.few if operator == "=" else values.ordered)
        ]
        if not operators:
            return _null(place, values, self._rng)
        operator = operators[int(self._rng.integers(len(operators)))]
        if operator != "between":
            return Predicate(place, values, operator, (text,))
        low, high = sorted((text, values.pick(self._rng) or text), key=values.place)
        return Predicate(place, values, operator, (low, high))


def _null(place: int, values: Values, rng: np.random.Generator) -> Predicate:
    return Predicate(place, values, "is null" if rng.random() < 0.5 else "is not null")


def _column(tree: JoinTree, place: int, values: Values) -> sql.Composable:
    return sql.Identifier(tree.aliases[place], values.column.name)
