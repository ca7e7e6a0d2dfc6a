"""Encoders, which turn columns into coded attributes and back, and the keys of synthetic rows.

Its concepts are `ColumnReader` (turns a column's private values into codes), `Need` (what must be
released before the column has a domain), `Codec` (turns codes into values), `Scale` (the integers
that a type's values are read as) and `Domain` (the codes of an attribute).
"""

from privbench.encoding.base import (
    CategoriesNeed,
    Codec,
    ColumnReader,
    CoverageLine,
    Need,
    PartNeed,
    ReleasedDomain,
    Step,
)
from privbench.encoding.bounds import Bounds, BoundsNeed
from privbench.encoding.keys.columns import ColumnRole, calendar, role_of
from privbench.encoding.keys.generate import KeyedTable, generate_keys
from privbench.encoding.registry import (
    codec_from_json,
    reader,
    serial_reader,
    table_coverage,
    unkept,
)

__all__ = [
    "Bounds",
    "BoundsNeed",
    "CategoriesNeed",
    "Codec",
    "ColumnReader",
    "ColumnRole",
    "CoverageLine",
    "KeyedTable",
    "Need",
    "PartNeed",
    "ReleasedDomain",
    "Step",
    "calendar",
    "codec_from_json",
    "generate_keys",
    "reader",
    "role_of",
    "serial_reader",
    "table_coverage",
    "unkept",
]
