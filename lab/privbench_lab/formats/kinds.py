"""Kinds of generated workloads over one table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privbench.errors import UsageError
from privbench.rng import generator
from privbench.schema import Schema, Table
from privbench.workload.generators.draft import ColumnSample, JoinTree, QueryDraft, RowTexts, pick
from privbench.workload.generators.kinds import Plan, WorkloadKind, around, collect
from privbench.workload.generators.rows import RowSource
from privbench.workload.query import Workload

# From this many distinct values on, predicates on a column are ranges, as in SAM's files.
_RANGED = 10


def sam(rows: RowSource, answers: RowSource, schema: Schema, plan: Plan) -> Workload:
    """Conjunctions over one table, as SAM's queries on census.

    After the query files of "SAM: Database Generation from Query Workloads with Supervised
    Autoregressive Models" (SIGMOD 2022), whose 1,000 census test queries have 1 to 5 predicates, =,
    <= and >= on columns with 10 values or more (strings ordered by code points) and = on the
    others, all of them true for some row. Here the number of predicates is uniform and the row is a
    random one of a random table; equality takes only values that other rows share.
    """
    rng = generator(plan.seed, "sam workload")
    tables = [table for table in schema if rows.values(table)] or list(schema)

    def operators(values: ColumnSample, text: str) -> list[str]:
        ranged = (values.ordered or values.is_text) and len(set(values.texts)) >= _RANGED
        equal = values.texts.count(text) > 1
        return [one for one in plan.operators if (equal if one == "=" else ranged)]

    def drawn(_joins: int) -> QueryDraft | None:
        return around(a_row(tables, rows, rng), rows, plan, rng, operators, exact=True)

    return collect("sam", plan, drawn, answers)


def california(rows: RowSource, answers: RowSource, schema: Schema, plan: Plan) -> Workload:
    """Ranges over the numeric columns of one table, as for California housing.

    PrivBench (PVLDB 18(2), 2024) measures this data set with 400 queries that it does not publish.
    Assumed here: counts under one range a column, on a uniform number of random numeric columns,
    each range between values of random rows and around a random row, so that no answer is zero
    whatever the number of predicates.
    """
    rng = generator(plan.seed, "california workload")

    def ranged(values: ColumnSample) -> bool:
        return values.ordered and values.column.type.category == "N"

    tables = [table for table in schema if any(map(ranged, rows.values(table)))]
    if not tables:
        raise UsageError("no table has a numeric column with values that is no key.")

    def operators(values: ColumnSample, _text: str) -> list[str]:
        return list(plan.operators) if ranged(values) else []

    def drawn(_joins: int) -> QueryDraft | None:
        return around(a_row(tables, rows, rng), rows, plan, rng, operators)

    return collect("california", plan, drawn, answers)


def a_row(
    tables: Sequence[Table], rows: RowSource, rng: np.random.Generator
) -> tuple[JoinTree, list[RowTexts]] | None:
    """A random table, without joins, with one of its rows; None if it has no rows."""
    table = pick(tables, rng)
    starts = rows.starts(table)
    return (JoinTree((table,)), [pick(starts, rng)]) if starts else None


KINDS: dict[str, WorkloadKind] = {
    "sam": WorkloadKind(sam, Plan(1000, (0, 0), (1, 5), ("=", "<=", ">="))),
    "california": WorkloadKind(california, Plan(400, (0, 0), operators=("<=", ">=", "between"))),
}
