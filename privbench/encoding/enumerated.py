"""enum types: one public cell per label, in the type's order."""

from __future__ import annotations

from privbench.encoding.base import ColumnReader
from privbench.encoding.categories import ListReader
from privbench.schema import Column


def enum_reader(table: str, column: Column) -> ColumnReader:
    """Exact public cells in the order of the labels."""
    return ListReader(table, column, column.type.labels, True, False, "labels of the enum type")
