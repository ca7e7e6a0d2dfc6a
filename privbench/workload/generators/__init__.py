"""Generated workloads, one file and one line in `KINDS` each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from privbench.schema import Schema
from privbench.workload.generators import counting, mixed, mscn
from privbench.workload.generators.database import DatabaseAnswers, DatabaseRows
from privbench.workload.generators.plan import Plan
from privbench.workload.generators.rows import Answers, RowSource
from privbench.workload.query import Workload

Generator = Callable[[RowSource, Answers, Schema, Plan], Workload]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of workload.

    Attributes:
        make: Makes one.
        plan: What it is like unless something else is asked for.
    """

    make: Generator
    plan: Plan


KINDS: dict[str, Kind] = {
    "mscn": Kind(mscn.mscn, Plan(operators=mscn.OPERATORS)),
    "joins": Kind(counting.counting, Plan(operators=counting.OPERATORS, most=10**8)),
    "mixed": Kind(mixed.mixed, Plan(100, predicates=(1, 4), operators=mixed.OPERATORS)),
}


def make(
    kind: str,
    rows: RowSource,
    answers: Answers,
    schema: Schema,
    plan: Plan | None = None,
) -> Workload:
    """Make a workload.

    Args:
        kind: One of `KINDS`.
        rows: Where its literals come from.
        answers: Who says which queries have an answer.
        schema: The tables and their foreign keys.
        plan: What it is to be like; the kind's own where not given.

    Returns:
        The workload, its queries named g1, g2, …, no two alike. The same input and seed give the
        same workload.

    Raises:
        UsageError: The plan or the schema allows no query, or none with an answer was found.
    """
    plan = plan or KINDS[kind].plan
    plan.check(schema)
    return KINDS[kind].make(rows, answers, schema, plan)


def generate_mscn(
    connection: psycopg.Connection[Any],
    schema: Schema,
    queries: int = 400,
    max_joins: int = 3,
    max_predicates: int = 6,
    seed: int = 0,
    *,
    most: int | None = None,
    timeout: float = 20.0,
) -> Workload:
    """Counting queries in the manner of MSCN with literals from the source's rows: CONFIDENTIAL.

    Args:
        connection: To the source; only read.
        schema: The source's schema.
        queries: How many; fewer where the data does not yield as many different ones.
        max_joins: Most foreign keys followed by a query.
        max_predicates: Most predicates of a query; it has at least one.
        seed: Of the draws.
        most: Queries with larger answers are left out.
        timeout: Seconds; queries that take longer on the source are left out.

    Returns:
        The workload, each query with its answer, at least 1.

    Raises:
        UsageError: The schema has no table, or no query with an answer was found.
    """
    plan = Plan(queries, (0, max_joins), (1, max_predicates), mscn.OPERATORS, most=most, seed=seed)
    return _from(connection, "mscn", schema, plan, timeout)


def generate_counting(
    connection: psycopg.Connection[Any],
    schema: Schema,
    queries: int = 400,
    max_joins: int = 3,
    max_predicates: int = 6,
    seed: int = 0,
    *,
    most: int | None = 10**8,
    timeout: float = 20.0,
) -> Workload:
    """Counting queries around rows of the source that join: CONFIDENTIAL.

    Predicates are =, <=, >= and BETWEEN, at most one a column and at least one a query. Arguments,
    result and errors are those of `generate_mscn`.
    """
    plan = Plan(
        queries, (0, max_joins), (1, max_predicates), counting.OPERATORS, most=most, seed=seed
    )
    return _from(connection, "joins", schema, plan, timeout)


def generate(
    connection: psycopg.Connection[Any],
    schema: Schema,
    queries: int = 100,
    max_joins: int = 3,
    max_predicates: int = 4,
    seed: int = 0,
) -> Workload:
    """Counts, groups and sorted heads with literals from the source's rows: CONFIDENTIAL.

    Every query gives at least one row on the source (a count of at least 1); answers are not
    stated. Arguments and errors are those of `generate_mscn`.
    """
    plan = Plan(
        queries,
        (0, max_joins),
        (min(1, max_predicates), max_predicates),
        mixed.OPERATORS,
        seed=seed,
    )
    return _from(connection, "mixed", schema, plan)


def _from(
    connection: psycopg.Connection[Any],
    kind: str,
    schema: Schema,
    plan: Plan,
    timeout: float = 20.0,
) -> Workload:
    rows = DatabaseRows(connection, plan.seed)
    return make(kind, rows, DatabaseAnswers(connection, timeout), schema, plan)
