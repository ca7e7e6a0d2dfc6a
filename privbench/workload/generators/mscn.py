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
from privbench.workload.generators.draft import Draft, Predicate, Values, draw, pick
from privbench.workload.generators.plan import Plan, collect, fitting
from privbench.workload.generators.rows import Answers, RowSource
from privbench.workload.query import Workload

OPERATORS = ("=", "<", ">")


def mscn(rows: RowSource, answers: Answers, schema: Schema, plan: Plan) -> Workload:
    """Counting queries over joins with independently drawn predicates."""
    rng = generator(plan.seed, "mscn workload")

    def predicate(place: int, values: Values, operators: list[str]) -> Predicate:
        known = [text for text in values.texts if text is not None]
        operator = pick(operators, rng)
        chosen = rng.choice(len(known), 2 if operator == "between" else 1)
        texts = sorted((known[int(i)] for i in chosen), key=values.place)
        return Predicate(place, values, operator, tuple(texts))

    def drawn(joins: int) -> Draft | None:
        tree = draw(schema, joins, rng)
        if len(tree.edges) < joins:
            return None
        found: list[Predicate] = []
        for place, table in enumerate(tree.tables):
            # Equality is asked only of values that may come again.
            fits = [
                (v, fitting(plan.operators, equal=v.few or v.whole, ranged=v.ordered))
                for v in rows.values(table)
            ]
            columns = [(values, operators) for values, operators in fits if operators]
            wanted = int(rng.integers(len(columns) + 1))
            chosen = rng.choice(len(columns), wanted, replace=False) if wanted else ()
            found += [predicate(place, *columns[int(i)]) for i in chosen]
        low, high = plan.predicates
        if len(found) < low:
            return None
        if len(found) > high:
            found = [found[int(i)] for i in sorted(rng.choice(len(found), high, replace=False))]
        return Draft(tree, tuple(found))

    return collect("mscn", plan, drawn, answers)
