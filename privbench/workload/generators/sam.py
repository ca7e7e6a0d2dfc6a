"""Conjunctions over one table, as SAM asks them of census.

After the query files of "SAM: Database Generation from Query Workloads with Supervised
Autoregressive Models" (SIGMOD 2022), whose 1,000 census test queries have 1 to 5 predicates, =, <=
and >= on columns with 10 values or more (strings ordered by code points) and = on the others, all
of them true for some row. Here the number of predicates is uniform and the row is a random one of
a random table; equality asks only for values that other rows share.
"""

from __future__ import annotations

from privbench.rng import generator
from privbench.schema import Schema, Table
from privbench.workload.generators.draft import Draft, Predicate
from privbench.workload.generators.joins import JoinTree
from privbench.workload.generators.plan import Plan, collect
from privbench.workload.generators.rows import Answers, RowSource
from privbench.workload.generators.values import Row, Values
from privbench.workload.query import Workload

OPERATORS = ("=", "<=", ">=")
# From so many distinct values on, a column is asked for ranges.
_RANGED = 10


def sam(rows: RowSource, answers: Answers, schema: Schema, plan: Plan) -> Workload:
    """Counting queries on single tables whose predicates hold for one row."""
    writer = _Writer(rows, schema, plan)
    return collect("sam", plan, writer.draw, answers, count=True)


class _Writer:
    """Draws queries around rows."""

    def __init__(self, rows: RowSource, schema: Schema, plan: Plan) -> None:
        self._rows = rows
        self._plan = plan
        self._rng = generator(plan.seed, "sam workload")
        self._tables = [table for table in schema if rows.values(table)] or list(schema)

    def draw(self, _joins: int) -> Draft | None:
        """A query, or None where the row's columns allow too few predicates."""
        table = self._tables[int(self._rng.integers(len(self._tables)))]
        rows = self._rows.starts(table)
        if not rows:
            return None
        predicates = self._predicates(table, rows[int(self._rng.integers(len(rows)))])
        return None if predicates is None else Draft(JoinTree((table,), ()), predicates)

    def _predicates(self, table: Table, row: Row) -> tuple[Predicate, ...] | None:
        usable = [
            (values, text, operators)
            for values in self._rows.values(table)
            if (text := values.short(row[values.column.name])) is not None
            and (operators := self._operators(values, text))
        ]
        low, high = self._plan.predicates
        wanted = low + int(self._rng.integers(high - low + 1))
        if len(usable) < low:
            return None
        chosen = self._rng.choice(len(usable), min(wanted, len(usable)), replace=False)
        return tuple(self._predicate(*usable[int(i)]) for i in chosen)

    def _operators(self, values: Values, text: str) -> list[str]:
        common = values.texts.count(text) > 1
        ranged = (values.ordered or values.is_text) and len(set(values.texts)) >= _RANGED
        return [
            operator
            for operator in self._plan.operators
            if operator != "between" and (common if operator == "=" else ranged)
        ]

    def _predicate(self, values: Values, text: str, operators: list[str]) -> Predicate:
        operator = operators[int(self._rng.integers(len(operators)))]
        return Predicate(0, values, operator, (text,))
