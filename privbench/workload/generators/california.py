"""Range queries over the columns of one numeric table, as asked of California housing.

PrivBench (PVLDB 18(2), 2024) measures this data set with 400 queries that it does not publish.
Assumed here: counts under one range a column, on a uniform number of random numeric columns, each
range between values of random rows and around a random row, so that no answer is zero whatever the
number of predicates.
"""

from __future__ import annotations

from privbench.errors import UsageError
from privbench.rng import generator
from privbench.schema import Schema
from privbench.workload.generators.draft import Values
from privbench.workload.generators.plan import Plan, around_one, collect
from privbench.workload.generators.rows import Answers, RowSource
from privbench.workload.query import Workload

OPERATORS = ("<=", ">=", "between")


def california(rows: RowSource, answers: Answers, schema: Schema, plan: Plan) -> Workload:
    """Counting queries under ranges of numbers on single tables."""
    rng = generator(plan.seed, "california workload")
    operators = list(plan.operators)
    tables = [table for table in schema if any(map(_ranged, rows.values(table)))]
    if not tables:
        raise UsageError("no table has a numeric column with values that is no key.")

    def allowed(values: Values, _text: str) -> list[str]:
        return operators if _ranged(values) else []

    return collect(
        "california", plan, lambda _: around_one(tables, rows, plan, rng, allowed), answers
    )


def _ranged(values: Values) -> bool:
    return values.ordered and values.column.type.category == "N"
