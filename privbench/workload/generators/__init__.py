"""Generated workloads, from rows of a database or of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import psycopg

from privbench.errors import UsageError
from privbench.schema import Schema
from privbench.workload.generators.kinds import KINDS, Plan
from privbench.workload.generators.rows import (
    Answers,
    Columns,
    DatabaseAnswers,
    DatabaseRows,
    MemoryAnswers,
    MemoryRows,
    RowSource,
)
from privbench.workload.query import Workload


def make(kind: str, rows: RowSource, answers: Answers, schema: Schema, plan: Plan) -> Workload:
    """Make different queries g1, g2, …; the same input and seed give the same ones.

    A UsageError says that plan and schema allow no query, or that none had an answer.
    """
    found = KINDS[kind]
    plan.check(schema)
    if plan.joins[1] and not found.plan.joins[1]:
        raise UsageError(f"queries of kind {kind} join nothing.", remedy="Ask for 0 joins.")
    allowed = found.operators or found.plan.operators
    unknown = sorted(set(plan.operators) - set(allowed))
    if unknown or not plan.operators:
        raise UsageError(
            f"queries of kind {kind} ask no operator {', '.join(unknown) or 'at all'}.",
            remedy=f"Operators: {', '.join(allowed)}.",
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
    the source are left out. Errors are those of `make`.
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
    are not stated. Errors are those of `make`.
    """
    plan = plan or KINDS[kind].plan
    rows = MemoryRows(tables, plan.seed)
    answers = MemoryAnswers(rows) if clone is None else DatabaseAnswers(clone, timeout)
    return make(kind, rows, answers, schema, plan)
