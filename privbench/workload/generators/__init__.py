"""Generated workloads, one file and one line in `KINDS` each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from privbench.errors import UsageError
from privbench.schema import Schema
from privbench.workload.generators import california, counting, mixed, mscn, sam
from privbench.workload.generators.database import DatabaseAnswers, DatabaseRows
from privbench.workload.generators.draft import OPERATORS
from privbench.workload.generators.memory import Columns, MemoryAnswers, MemoryRows, MemoryTables
from privbench.workload.generators.plan import Plan
from privbench.workload.generators.rows import Answers, RowSource
from privbench.workload.query import Workload

Generator = Callable[[RowSource, Answers, Schema, Plan], Workload]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of workload."""

    make: Generator  # makes one
    plan: Plan  # what it is like unless something else is asked for; without joins it has never any
    # What its predicates may ask; those of the plan if none are given.
    operators: tuple[str, ...] = ()


KINDS: dict[str, Kind] = {
    "mscn": Kind(mscn.mscn, Plan(operators=mscn.OPERATORS), OPERATORS),
    "joins": Kind(counting.counting, Plan(operators=counting.OPERATORS, most=10**8)),
    "sam": Kind(sam.sam, Plan(1000, (0, 0), (1, 5), sam.OPERATORS)),
    "california": Kind(california.california, Plan(400, (0, 0), operators=california.OPERATORS)),
    "mixed": Kind(mixed.mixed, Plan(100, predicates=(1, 4), operators=mixed.OPERATORS)),
}


def make(kind: str, rows: RowSource, answers: Answers, schema: Schema, plan: Plan) -> Workload:
    """Make different queries g1, g2, …; the same input and seed give the same ones.

    Raises:
        UsageError: The plan or the schema allows no query, or none with an answer was found.
    """
    found = KINDS[kind]
    plan.check(schema)
    if plan.joins[1] and not found.plan.joins[1]:
        raise UsageError(f"queries of kind {kind} join nothing.", remedy="Ask for 0 joins.")
    asked = found.operators or found.plan.operators
    unknown = next((operator for operator in plan.operators if operator not in asked), None)
    if unknown is not None:
        raise UsageError(
            f"queries of kind {kind} do not ask {unknown}.",
            remedy=f"Operators: {', '.join(asked)}.",
        )
    return found.make(rows, answers, schema, plan)


def generate_from_source(
    connection: psycopg.Connection[Any],
    kind: str,
    schema: Schema,
    plan: Plan | None = None,
    timeout: float = 20.0,
) -> Workload:
    """A workload with literals and answers from the source's rows: CONFIDENTIAL.

    Answers are stated of all kinds but ``mixed``. Queries that take longer than so many seconds on
    the source are left out.

    Raises:
        UsageError: As `make`.
    """
    plan = plan or KINDS[kind].plan
    rows = DatabaseRows(connection, plan.seed)
    made = make(kind, rows, DatabaseAnswers(connection, timeout), schema, plan)
    return replace(made, confidential=True)


def generate_from_tables(
    tables: Mapping[str, Columns],
    kind: str,
    schema: Schema,
    plan: Plan | None = None,
    *,
    clone: psycopg.Connection[Any] | None = None,
    timeout: float = 20.0,
) -> Workload:
    """A workload with literals from synthetic rows, by ``schema.table``: as publishable as they.

    The answers of a synthetic ``clone`` are stated and must not be empty; queries that take longer
    than so many seconds there are left out. Without a clone, answers are those of the tables and
    are not stated.

    Raises:
        UsageError: As `make`.
    """
    plan = plan or KINDS[kind].plan
    memory = MemoryTables(tables)
    answers = MemoryAnswers(memory) if clone is None else DatabaseAnswers(clone, timeout)
    return make(kind, MemoryRows(memory, plan.seed), answers, schema, plan)
