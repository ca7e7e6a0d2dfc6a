"""Range queries over the columns of one numeric table, as asked of California housing.

PrivBench (PVLDB 18(2), 2024) measures this data set with 400 queries that it does not publish.
Assumed here: counts under one range a column, on a uniform number of random numeric columns, each
range between values of random rows and around a random row, so that no answer is zero whatever the
number of predicates.
"""

from __future__ import annotations

from privbench.errors import UsageError
from privbench.rng import generator
from privbench.schema import Schema, Table
from privbench.workload.generators.counting import holding
from privbench.workload.generators.draft import Draft
from privbench.workload.generators.joins import JoinTree
from privbench.workload.generators.plan import Plan, collect
from privbench.workload.generators.rows import Answers, RowSource
from privbench.workload.generators.values import Values
from privbench.workload.query import Workload

OPERATORS = ("<=", ">=", "between")


def california(rows: RowSource, answers: Answers, schema: Schema, plan: Plan) -> Workload:
    """Counting queries under ranges of numbers on single tables.

    Raises:
        UsageError: No table has a numeric column that is no key.
    """
    writer = _Writer(rows, schema, plan)
    return collect("california", plan, writer.draw, answers, count=True)


class _Writer:
    """Draws queries around rows."""

    def __init__(self, rows: RowSource, schema: Schema, plan: Plan) -> None:
        self._rows = rows
        self._plan = plan
        self._rng = generator(plan.seed, "california workload")
        self._tables = [table for table in schema if self._columns(table)]
        if not self._tables:
            raise UsageError("no table has a numeric column with values that is no key.")

    def draw(self, _joins: int) -> Draft | None:
        """A query, or None where the row's columns allow too few predicates."""
        table = self._tables[int(self._rng.integers(len(self._tables)))]
        starts = self._rows.starts(table)
        row = starts[int(self._rng.integers(len(starts)))]
        usable = [
            (values, text)
            for values in self._columns(table)
            if (text := values.short(row[values.column.name])) is not None
        ]
        low, high = self._plan.predicates
        wanted = low + int(self._rng.integers(high - low + 1))
        if len(usable) < low:
            return None
        operators = list(self._plan.operators)
        chosen = self._rng.choice(len(usable), min(wanted, len(usable)), replace=False)
        predicates = tuple(holding(0, *usable[int(i)], operators, self._rng) for i in chosen)
        return Draft(JoinTree((table,), ()), predicates)

    def _columns(self, table: Table) -> list[Values]:
        return [
            values
            for values in self._rows.values(table)
            if values.ordered and values.column.type.category == "N"
        ]
