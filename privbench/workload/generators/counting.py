"""Joins to count, around rows that join.

For measuring Q-error over many tables: where the literals of a query come from rows that join, its
answer is at least one however many tables and predicates it has.
"""

from __future__ import annotations

import numpy as np

from privbench.rng import generator
from privbench.schema import Schema
from privbench.workload.generators.anchors import Anchor, anchored
from privbench.workload.generators.draft import Draft, Predicate
from privbench.workload.generators.joins import JoinTree, draw
from privbench.workload.generators.plan import TRIES, Plan, collect
from privbench.workload.generators.rows import Answers, RowSource
from privbench.workload.generators.values import Values
from privbench.workload.query import Workload

OPERATORS = ("=", "<=", ">=", "between")


def counting(rows: RowSource, answers: Answers, schema: Schema, plan: Plan) -> Workload:
    """Counting queries over joins whose predicates hold for one tuple of rows that join.

    Tables are joined along foreign keys, each key at most once; a table that two of the keys reach
    occurs twice. There is at most one predicate a column. There are as many queries of each number
    of joins, where the schema and the data yield them.
    """
    writer = _Writer(rows, schema, plan)
    return collect("counting", plan, writer.draw, answers, count=True)


class _Writer:
    """Draws queries around tuples that join."""

    def __init__(self, rows: RowSource, schema: Schema, plan: Plan) -> None:
        self._rows = rows
        self._schema = schema
        self._plan = plan
        self._rng = generator(plan.seed, "counting workload")

    def draw(self, joins: int) -> Draft | None:
        """A query, or None where no tuple was found or its columns allow too few predicates."""
        tree = draw(self._schema, joins, self._rng, repeats=True)
        # Rows without children are frequent: a tree that only some of them have is tried again.
        tries = (anchored(tree, self._rows, self._rng) for _ in range(TRIES))
        anchor = next((found for found in tries if found is not None), None)
        if anchor is None:
            return None
        predicates = self._predicates(tree, anchor)
        return None if predicates is None else Draft(tree, predicates)

    def _predicates(self, tree: JoinTree, anchor: Anchor) -> tuple[Predicate, ...] | None:
        usable = [
            (place, values, text, operators)
            for place, (table, row) in enumerate(zip(tree.tables, anchor, strict=True))
            for values in self._rows.values(table)
            if (text := values.short(row[values.column.name])) is not None
            and (operators := self._operators(values, text))
        ]
        low, high = self._plan.predicates
        if len(usable) < low or not usable:
            return () if low == 0 else None
        wanted = min(len(usable), low + int(self._rng.integers(high - low + 1)))
        chosen = self._rng.choice(len(usable), wanted, replace=False)
        return tuple(holding(*usable[int(i)], self._rng) for i in chosen)

    def _operators(self, values: Values, text: str) -> list[str]:
        """What may be asked of a column so that the value `text` passes.

        An equality asks for a value that other rows have too: joins lead to the rows with the most
        children, whose values are often theirs alone, and such a query asks for a single row.
        """
        common = values.few and values.texts.count(text) > 1
        allowed = {"=": common}
        return [
            operator
            for operator in OPERATORS
            if operator in self._plan.operators and allowed.get(operator, values.ordered)
        ]


def holding(
    place: int, values: Values, text: str, operators: list[str], rng: np.random.Generator
) -> Predicate:
    """A condition on a column that holds for the value `text`.

    Bounds are values of random rows, as in MSCN, or `text` where they would exclude it.
    """
    operator = operators[int(rng.integers(len(operators)))]
    if operator == "=":
        return Predicate(place, values, operator, (text,))
    drawn = [text, *(values.pick(rng) or text for _ in range(1 + (operator == "between")))]
    low, high = (pole(drawn, key=values.place) for pole in (min, max))
    if operator == "between":
        return Predicate(place, values, operator, (low, high))
    return Predicate(place, values, operator, (low if operator == ">=" else high,))
