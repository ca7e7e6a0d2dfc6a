"""Joins to count, in the manner of MSCN.

After Kipf et al., "Learned Cardinalities: Estimating Correlated Joins with Deep Learning" (CIDR
2019), section 3.3 and the workloads published with it: as many queries of each number of joins; a
random connected set of tables, each at most once; of every table a uniformly drawn number of its
non-key columns; of every column an operator and the value of a random row of that table, drawn
independently of all others. Empty answers are skipped and no two queries are alike. Unlike there,
joins follow any foreign key of the schema, and a query has at least as many and at most as many
predicates as the plan says (in the published training queries: 1 to 6). Equality is asked of whole
numbers, days and columns of few values, ranges of whatever has an order.
"""

from __future__ import annotations

from privbench.rng import generator
from privbench.schema import Schema
from privbench.workload.generators.draft import Draft, Predicate
from privbench.workload.generators.joins import JoinTree, draw
from privbench.workload.generators.plan import Plan, collect
from privbench.workload.generators.rows import Answers, RowSource
from privbench.workload.generators.values import Values
from privbench.workload.query import Workload

OPERATORS = ("=", "<", ">")


def mscn(rows: RowSource, answers: Answers, schema: Schema, plan: Plan) -> Workload:
    """Counting queries over joins with independently drawn predicates."""
    writer = _Writer(rows, schema, plan)
    return collect("mscn", plan, writer.draw, answers, count=True)


class _Writer:
    """Draws queries."""

    def __init__(self, rows: RowSource, schema: Schema, plan: Plan) -> None:
        self._rows = rows
        self._schema = schema
        self._plan = plan
        self._rng = generator(plan.seed, "mscn workload")

    def draw(self, joins: int) -> Draft | None:
        """A query, or None where the schema has no such tree or the tree too few columns."""
        tree = draw(self._schema, joins, self._rng)
        if len(tree.edges) < joins:
            return None
        predicates = self._predicates(tree)
        low, high = self._plan.predicates
        if len(predicates) < low:
            return None
        if len(predicates) > high:
            kept = sorted(self._rng.choice(len(predicates), high, replace=False))
            predicates = [predicates[int(i)] for i in kept]
        return Draft(tree, tuple(predicates))

    def _predicates(self, tree: JoinTree) -> list[Predicate]:
        found = []
        for place, table in enumerate(tree.tables):
            columns = [
                (values, operators)
                for values in self._rows.values(table)
                if (operators := self._operators(values))
            ]
            wanted = int(self._rng.integers(len(columns) + 1))
            for i in self._rng.choice(len(columns), wanted, replace=False) if wanted else ():
                found.append(self._predicate(place, *columns[int(i)]))
        return found

    def _operators(self, values: Values) -> list[str]:
        """What may be asked of a column: equality only of values that may come again."""
        return [
            operator
            for operator in self._plan.operators
            if ((values.few or values.whole) if operator == "=" else values.ordered)
        ]

    def _predicate(self, place: int, values: Values, operators: list[str]) -> Predicate:
        known = [text for text in values.texts if text is not None]
        wanted = operators[int(self._rng.integers(len(operators)))]
        drawn = self._rng.choice(len(known), 2 if wanted == "between" else 1)
        texts = sorted((known[int(i)] for i in drawn), key=values.place)
        return Predicate(place, values, wanted, tuple(texts))
