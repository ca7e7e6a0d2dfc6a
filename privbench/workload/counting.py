"""Make a workload of joins to count, around rows that join, with the answers stated.

For measuring Q-error over many tables: where the literals of a query come from rows that join, its
answer is at least one however many tables and predicates it has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from privbench.errors import UsageError
from privbench.rng import generator
from privbench.schema import Schema
from privbench.workload.anchors import Anchor, Anchors
from privbench.workload.joins import JoinTree, draw
from privbench.workload.literals import SampledLiterals, Values, column_of, pick
from privbench.workload.query import Query, Workload

_TRIES = 20


def generate_counting(
    connection: psycopg.Connection[Any],
    schema: Schema,
    queries: int = 400,
    max_joins: int = 3,
    max_predicates: int = 6,
    seed: int = 0,
    *,
    most: int = 10**8,
    timeout: float = 20.0,
) -> Workload:
    """Generate counting queries over joins with literals from the source's rows: CONFIDENTIAL.

    Tables are joined along foreign keys, each key at most once; a table that two of the keys reach
    occurs twice. Predicates are =, <=, >= and BETWEEN, at most one a column, and hold for one
    tuple of rows that join, drawn at random. There are as many queries of one table as of two, of
    three, …, where the schema and the data yield them. No two queries are alike, and the same
    seed on the same data gives the same workload.

    Args:
        connection: To the source; only read.
        schema: The source's schema.
        queries: How many; fewer where the data does not yield as many different ones.
        max_joins: Most foreign keys followed by a query.
        max_predicates: Most predicates of a query; at least one.
        seed: Of the draws.
        most: Queries with larger answers are left out.
        timeout: Seconds; queries that take longer on the source are left out.

    Returns:
        The workload, its queries named g1, g2, …, each with its answer, at least 1.

    Raises:
        UsageError: The schema has no table, or no query with an answer was found.
    """
    if not schema.tables:
        raise UsageError("the schema has no table to query.")
    writer = _Writer(connection, schema, seed, max_predicates)
    found: dict[str, int] = {}
    # Sizes by turns: what larger trees lose to dead ends and time-outs is tried again.
    for turn in range(2 * queries):
        if len(found) == queries:
            break
        for _ in range(_TRIES):
            query = writer.draw(turn % (max_joins + 1))
            if query is None or (text := query.as_string(connection)) in found:
                continue
            count = _count(connection, query, timeout)
            if count is not None and 0 < count <= most:
                found[text] = count
                break
    if queries and not found:
        raise UsageError("no query with an answer was found: are the tables empty?")
    made = [Query(f"g{i}", f"{text};", n) for i, (text, n) in enumerate(found.items(), 1)]
    return Workload("counting", tuple(made))


class _Writer:
    """Draws queries around tuples that join."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        schema: Schema,
        seed: int,
        max_predicates: int,
    ) -> None:
        self._schema = schema
        self._anchors = Anchors(connection, seed)
        self._literals = SampledLiterals(connection, seed)
        self._max_predicates = max_predicates
        self._rng = generator(seed, "counting workload")

    def draw(self, joins: int) -> sql.Composed | None:
        """A query, or None where no tuple was found or its columns allow no predicate."""
        tree = draw(self._schema, joins, self._rng, repeats=True)
        # Rows without children are frequent: a tree that only some of them have is tried again.
        tries = (self._anchors.draw(tree, self._rng) for _ in range(_TRIES))
        anchor = next((found for found in tries if found is not None), None)
        if anchor is None:
            return None
        predicates = self._predicates(tree, anchor)
        if not predicates:
            return None
        return sql.SQL("SELECT COUNT(*) {}").format(tree.tail(predicates))

    def _predicates(self, tree: JoinTree, anchor: Anchor) -> list[sql.Composable]:
        usable = [
            (alias, values, text, operators)
            for table, alias, row in zip(tree.tables, tree.aliases, anchor, strict=True)
            for values in self._literals.values(table)
            if (text := values.short(row[values.column.name])) is not None
            and (operators := _operators(values, text))
        ]
        if not usable:
            return []
        wanted = min(len(usable), 1 + int(self._rng.integers(self._max_predicates)))
        chosen = self._rng.choice(len(usable), wanted, replace=False)
        return [_predicate(*usable[int(i)], self._rng) for i in chosen]


def _operators(values: Values, text: str) -> list[str]:
    """What may be asked of a column so that the value `text` passes.

    An equality asks for a value that other rows have too: joins lead to the rows with the most
    children, whose values are often theirs alone, and such a query asks for a single row.
    """
    common = values.few and values.texts.count(text) > 1
    return ["="] * common + ["<=", ">=", "between"] * values.ordered


def _predicate(
    alias: str, values: Values, text: str, operators: list[str], rng: np.random.Generator
) -> sql.Composable:
    """A condition on a column that holds for the value `text`.

    Bounds are values of random rows, as in MSCN, or `text` where they would exclude it.
    """
    column = column_of(alias, values)
    operator = operators[int(rng.integers(len(operators)))]
    if operator == "=":
        return sql.SQL("{} = {}").format(column, values.literal(text))
    drawn = [text, *(pick(values, rng) or text for _ in range(1 + (operator == "between")))]
    low, high = (values.literal(pole(drawn, key=values.place)) for pole in (min, max))
    if operator == "between":
        return sql.SQL("{} BETWEEN {} AND {}").format(column, low, high)
    return sql.SQL("{} {} {}").format(column, sql.SQL(operator), low if operator == ">=" else high)


def _count(connection: psycopg.Connection[Any], query: sql.Composed, timeout: float) -> int | None:
    """The answer, or None where it takes too long."""
    row = None
    try:
        # Rolled back, so that the time-out ends with the query.
        with connection.transaction(force_rollback=True):
            limit = str(max(1, round(1000 * timeout)))
            connection.execute("SELECT set_config('statement_timeout', %s, true)", [limit])
            row = connection.execute(query).fetchone()
    except psycopg.errors.QueryCanceled:
        return None
    return int(row[0]) if row else None
