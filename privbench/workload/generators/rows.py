"""What generators draw from, and who answers their queries.

Rows are a database's, or a model's synthetic ones. The first make a workload CONFIDENTIAL; the
second one that may be published, its literals being part of the release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from privbench.schema import Table
from privbench.workload.generators.draft import Draft
from privbench.workload.generators.values import Row, Values


class RowSource(Protocol):
    """Rows to take literals from."""

    def values(self, table: Table) -> list[Values]:
        """The usable columns of a table with their values in some of its rows."""
        ...

    def starts(self, table: Table) -> list[Row]:
        """Some rows of a table, in an order that the seed decides."""
        ...

    def match(self, table: Table, asked: Mapping[str, str], seed: int) -> Row | None:
        """A row of the table with these values, of several the one that the seed decides."""
        ...


class Answers(Protocol):
    """Whoever says what a query's answer is."""

    @property
    def stated(self) -> bool:
        """Whether its answers belong into the workload."""
        ...

    def count(self, draft: Draft) -> int | None:
        """How many rows the conditions leave; None where that takes too long."""
        ...

    def holds(self, draft: Draft) -> bool:
        """Whether the conditions leave a row."""
        ...
