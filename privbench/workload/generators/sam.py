"""Conjunctions over one table, as SAM asks them of census.

After the query files of "SAM: Database Generation from Query Workloads with Supervised
Autoregressive Models" (SIGMOD 2022), whose 1,000 census test queries have 1 to 5 predicates, =, <=
and >= on columns with 10 values or more (strings ordered by code points) and = on the others, all
of them true for some row. Here the number of predicates is uniform and the row is a random one of
a random table; equality asks only for values that other rows share.
"""

from __future__ import annotations

from privbench.rng import generator
from privbench.schema import Schema
from privbench.workload.generators.draft import Values
from privbench.workload.generators.plan import Plan, around_one, at_value, collect, fitting
from privbench.workload.generators.rows import Answers, RowSource
from privbench.workload.query import Workload

OPERATORS = ("=", "<=", ">=")
# From so many distinct values on, a column is asked for ranges: as in SAM's files.
_RANGED = 10


def sam(rows: RowSource, answers: Answers, schema: Schema, plan: Plan) -> Workload:
    """Counting queries on single tables whose predicates hold for one row."""
    rng = generator(plan.seed, "sam workload")
    tables = [table for table in schema if rows.values(table)] or list(schema)

    def operators(values: Values, text: str) -> list[str]:
        ranged = (values.ordered or values.is_text) and len(set(values.texts)) >= _RANGED
        return fitting(plan.operators, equal=values.texts.count(text) > 1, ranged=ranged)

    return collect(
        "sam", plan, lambda _: around_one(tables, rows, plan, rng, operators, at_value), answers
    )
