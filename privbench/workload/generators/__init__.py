"""Generate workloads from rows of a database or of a model."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa

from privbench.errors import UsageError
from privbench.schema import Schema
from privbench.workload.generators.kinds import Plan, kinds
from privbench.workload.generators.rows import DatabaseRows, MemoryRows, RowSource
from privbench.workload.query import Workload


def make(kind: str, rows: RowSource, answers: RowSource, schema: Schema, plan: Plan) -> Workload:
    """Make distinct queries g1, g2, …; the same input and seed give the same queries.

    A UsageError is raised if plan and schema allow no query, or if no query had an answer.
    """
    chosen = kinds()[kind]
    plan.check(schema)
    if plan.joins[1] and not chosen.plan.joins[1]:
        raise UsageError(f"queries of kind {kind} join nothing.", remedy="Ask for 0 joins.")
    allowed = chosen.operators or chosen.plan.operators
    unknown = sorted(set(plan.operators) - set(allowed))
    if unknown or not plan.operators:
        raise UsageError(
            f"queries of kind {kind} ask no operator {', '.join(unknown) or 'at all'}.",
            remedy=f"Operators: {', '.join(allowed)}.",
        )
    return chosen.make(rows, answers, schema, plan)


def generate_from_source(
    connection: psycopg.Connection[Any],
    kind: str,
    schema: Schema,
    plan: Plan | None = None,
    timeout: float = 20.0,
) -> Workload:
    """Return a workload with literals and answers from the source's rows: CONFIDENTIAL.

    Workloads of all kinds except ``mixed`` state answers. Queries that take longer than `timeout`
    seconds on the source are left out. Errors are those of `make`.
    """
    plan = plan or kinds()[kind].plan
    rows = DatabaseRows(connection, plan.seed, timeout)
    return replace(make(kind, rows, rows, schema, plan), confidential=True)


def generate_from_tables(
    tables: Mapping[str, Mapping[str, pa.Array | pa.ChunkedArray]],
    kind: str,
    schema: Schema,
    plan: Plan | None = None,
    *,
    clone: psycopg.Connection[Any] | None = None,
    timeout: float = 20.0,
) -> Workload:
    """Return a workload with literals from synthetic rows; it may be published if the rows may.

    The keys of ``tables`` are ``schema.table``, then columns; columns that the server fills are
    missing. With a synthetic ``clone`` the workload states the answers on the clone, which must not
    be empty, and queries that take longer than ``timeout`` seconds there are left out. Without a
    clone, queries are answered on the tables, and the answers are not stated. Errors are those of
    `make`.
    """
    plan = plan or kinds()[kind].plan
    rows = MemoryRows(tables, plan.seed)
    answers = rows if clone is None else DatabaseRows(clone, plan.seed, timeout)
    return make(kind, rows, answers, schema, plan)
