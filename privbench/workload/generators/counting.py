"""Joins to count, around rows that join.

For measuring Q-error over many tables: where the literals of a query come from rows that join, its
answer is at least one however many tables and predicates it has.
"""

from __future__ import annotations

from privbench.rng import generator
from privbench.schema import Schema
from privbench.workload.generators.draft import Draft, Values, draw
from privbench.workload.generators.plan import TRIES, Plan, around, collect, fitting
from privbench.workload.generators.rows import Answers, RowSource, anchored
from privbench.workload.query import Workload

OPERATORS = ("=", "<=", ">=", "between")


def counting(rows: RowSource, answers: Answers, schema: Schema, plan: Plan) -> Workload:
    """Counting queries over joins whose predicates hold for one tuple of rows that join.

    Tables are joined along foreign keys, each key at most once; a table that two of the keys reach
    occurs twice. There is at most one predicate a column. There are as many queries of each number
    of joins, where the schema and the data yield them.

    An equality asks for a value that other rows have too: joins lead to the rows with the most
    children, whose values are often theirs alone, and such a query asks for a single row.
    """
    rng = generator(plan.seed, "counting workload")

    def operators(values: Values, text: str) -> list[str]:
        common = values.few and values.texts.count(text) > 1
        return fitting(plan.operators, equal=common, ranged=values.ordered)

    def drawn(joins: int) -> Draft | None:
        tree = draw(schema, joins, rng, repeats=True)
        # Rows without children are frequent: a tree that only some of them have is tried again.
        tries = (anchored(tree, rows, rng) for _ in range(TRIES))
        anchor = next((found for found in tries if found is not None), None)
        return None if anchor is None else around(tree, anchor, rows, plan, rng, operators)

    return collect("counting", plan, drawn, answers)
