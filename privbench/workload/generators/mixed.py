"""Counts, groups and sorted heads over joins.

Each query takes a connected set of tables along foreign keys and conjunctive predicates on their
columns. Most count rows; some group, some sort and cut off.
"""

from __future__ import annotations

import numpy as np
from psycopg import sql

from privbench.rng import generator
from privbench.schema import Schema
from privbench.workload.generators.draft import Draft, JoinTree, Predicate, Values, draw, pick
from privbench.workload.generators.plan import Plan, collect, fitting, some
from privbench.workload.generators.rows import Answers, RowSource
from privbench.workload.query import Workload

OPERATORS = ("=", "<=", ">=", "between")
_KINDS, _SHARES = ("count", "group", "top"), (0.7, 0.15, 0.15)
_LIMITS = (10, 100, 1000)

#: A column with the place of its table.
_Column = tuple[int, Values]


def mixed(rows: RowSource, answers: Answers, schema: Schema, plan: Plan) -> Workload:
    """Queries of all three kinds with literals of random rows, each table drawn by itself.

    The number of joins is drawn too: small ones, which seldom fail, are the more.
    """
    rng = generator(plan.seed, "workload")

    def drawn(_joins: int) -> Draft | None:
        least, most = plan.joins
        tree = draw(schema, least + int(rng.integers(most - least + 1)), rng)
        columns = [
            (i, values) for i, table in enumerate(tree.tables) for values in rows.values(table)
        ]
        chosen = some(columns, plan, rng) if columns and plan.predicates[1] else []
        if chosen is None:
            return None
        predicates = tuple(_predicate(*column, plan, rng) for column in chosen)
        return _headed(tree, columns, predicates, rng)

    return collect("generated", plan, drawn, answers, count=False)


def _predicate(place: int, values: Values, plan: Plan, rng: np.random.Generator) -> Predicate:
    text = pick(values.texts, rng)
    operators = fitting(plan.operators, equal=values.few, ranged=values.ordered)
    if text is None or not operators:
        return Predicate(place, values, "is null" if rng.random() < 0.5 else "is not null")
    operator = pick(operators, rng)
    if operator != "between":
        return Predicate(place, values, operator, (text,))
    low, high = sorted((text, pick(values.texts, rng) or text), key=values.place)
    return Predicate(place, values, operator, (low, high))


def _headed(
    tree: JoinTree,
    columns: list[_Column],
    predicates: tuple[Predicate, ...],
    rng: np.random.Generator,
) -> Draft:
    """The query with what it asks of its rows; a count where no column can be grouped or sorted."""
    kind = _KINDS[int(rng.choice(len(_KINDS), p=_SHARES))]
    groups = [column for column in columns if column[1].few]
    orders = [column for column in columns if column[1].ordered]
    if kind == "group" and groups:
        by = _name(tree, *pick(groups, rng))
        head = sql.SQL("{}, COUNT(*)").format(by)
        return Draft(tree, predicates, head, sql.SQL(" GROUP BY {}").format(by))
    if kind == "top" and orders:
        by = _name(tree, *pick(orders, rng))
        limit = sql.Literal(int(rng.choice(_LIMITS)))
        return Draft(tree, predicates, by, sql.SQL(" ORDER BY {} DESC LIMIT {}").format(by, limit))
    return Draft(tree, predicates)


def _name(tree: JoinTree, place: int, values: Values) -> sql.Composable:
    return sql.Identifier(tree.aliases[place], values.column.name)
