"""boolean: two public cells."""

from __future__ import annotations

from privbench.encoding.base import ColumnReader
from privbench.encoding.categories import ListReader
from privbench.schema import Column


def boolean_reader(table: str, column: Column) -> ColumnReader:
    """Exact public cells, false before true."""
    return ListReader(table, column, ("false", "true"), True, False, "boolean")
