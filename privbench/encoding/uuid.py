"""uuid: never modelled; random version-4 values."""

from __future__ import annotations

from privbench.encoding.base import ColumnReader
from privbench.encoding.fallback import FillReader
from privbench.schema import Column


def uuid_reader(table: str, column: Column) -> ColumnReader:
    """Random values; only the rate of NULL is read."""
    why = "a uuid carries nothing to model"
    return FillReader(table, column, "uuid", True, "random version-4 uuid, NULL rate only", why)
