"""How selective a query is at each node of a small circuit of a table: CONFIDENTIAL.

Rows of both databases are routed and counted where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from privbench.metrics.columns import from_table
from privbench.metrics.heattree import Node
from privbench.metrics.summary import Floats
from privbench.postgres.connect import SELECT, Connection
from privbench.postgres.failures import database_errors
from privbench.schema import Table

#: Beyond this many rows a random sample is counted.
MOST_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Predicate:
    """One condition of a query on one table."""

    columns: frozenset[str]  # the columns that it reads
    text: str  # for people
    condition: sql.Composable  # as SQL, with bare column names


@dataclass(frozen=True, slots=True)
class Heat:
    """Counts or probabilities at the nodes, of one database or of a model."""

    # Rows routed to each node, or in a model the probability of that, shape (nodes,).
    rows: NDArray[np.int64] | Floats
    # For each query, the share of them that satisfy its predicates in the node's scope; NaN
    # where no row is routed there.
    shares: list[Floats]


def count(
    connection: Connection,
    table: Table,
    nodes: Sequence[Node],
    queries: Sequence[Sequence[Predicate]],
    share: float = 1.0,
) -> Heat:
    """Route the rows of one side, or a share of them, and count them, in one scan of the table.

    Nodes are those of a circuit, and queries have their predicates on the table.
    """
    # Conditions are evaluated once a row, under names.
    selected: dict[str, sql.Composable] = {}

    def named(condition: sql.Composable) -> sql.Composable:
        text = condition.as_string(None)
        name = sql.Identifier(f"c{[*selected, text].index(text)}")
        selected[text] = sql.SQL("({}) IS TRUE AS {}").format(condition, name)
        return name

    wanted = [[named(condition) for condition in node.route] for node in nodes]
    groups = [wanted]
    for query in queries:
        met = [[p for p in query if p.columns <= set(node.columns)] for node in nodes]
        tests = [[named(p.condition) for p in inside] for inside in met]
        groups.append([[*route, *test] for route, test in zip(wanted, tests, strict=True)])
    with database_errors("counting rows for the heat map", table.key):
        row = connection.execute(_query(table, selected, groups, share)).fetchone()
    found = np.array(row, dtype=np.int64).reshape(len(groups), len(nodes))
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = [np.asarray(counts / found[0], dtype=np.float64) for counts in found[1:]]
    return Heat(found[0], shares)


def _query(
    table: Table,
    selected: Mapping[str, sql.Composable],
    groups: Sequence[Sequence[Sequence[sql.Composable]]],
    share: float,
) -> sql.Composed:
    counts = [
        sql.SQL("pg_catalog.count(*) FILTER (WHERE {})").format(sql.SQL(" AND ").join(tests))
        if tests
        else sql.SQL("pg_catalog.count(*)")
        for group in groups
        for tests in group
    ]
    sample = sql.SQL(" TABLESAMPLE BERNOULLI ({}) REPEATABLE (1)").format(sql.Literal(100 * share))
    # OFFSET 0 keeps the planner from evaluating a condition anew for every count.
    return SELECT + sql.SQL("{} FROM (SELECT {} FROM {}{} OFFSET 0) AS routed").format(
        sql.SQL(", ").join(counts),
        sql.SQL(", ").join(selected.values() or [sql.SQL("1")]),
        from_table(table),
        sample if share < 1 else sql.SQL(""),
    )
