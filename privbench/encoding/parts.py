"""Columns that are read as several attributes, each by a reader of its own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from psycopg import sql

from privbench.config import ColumnConfig
from privbench.encoding.base import ColumnReader, Need, attribute
from privbench.encoding.bounds import public_range
from privbench.encoding.ordered import OrderedReader
from privbench.encoding.scale import scale_of
from privbench.privacy.data import Attribute
from privbench.schema import Column, ColumnType


@dataclass(frozen=True)
class PartsReader(ColumnReader):
    """Reads every part from an expression over the column."""

    @property
    @abstractmethod
    def parts(self) -> tuple[ColumnReader, ...]:
        """The readers; each selects one expression."""

    @abstractmethod
    def expressions(self, identifier: sql.Composable) -> Sequence[sql.Composable]:
        """What each part reads."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """Those of all parts."""
        return tuple(name for part in self.parts for name in part.attributes)

    @property
    def needs(self) -> tuple[Need, ...]:
        """Those of all parts."""
        return tuple(need for part in self.parts for need in part.needs)

    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        """One expression a part."""
        found = zip(self.parts, self.expressions(identifier), strict=True)
        return [
            (text, self.alias(f"p{place}"))
            for place, (part, expression) in enumerate(found)
            for text, _ in part.select(expression)
        ]

    def read(self, batch: Mapping[str, pa.Array]) -> dict[str, Any]:
        """What the parts make of theirs."""
        found: dict[str, Any] = {}
        for place, part in enumerate(self.parts):
            found |= part.read({part.alias(): batch[self.alias(f"p{place}")]})
        return found

    def collect(self, pieces: Sequence[Mapping[str, Any]]) -> dict[str, Attribute]:
        """The attributes of all parts."""
        return {name: item for part in self.parts for name, item in part.collect(pieces).items()}


def ordered_part(
    table: str, column: Column, part: str, type_: ColumnType, *, not_null: bool = False
) -> OrderedReader:
    """The reader of a part of a column that has a type with a grid.

    Args:
        table: The table.
        column: The column.
        part: Name of the part.
        type_: Its type.
        not_null: Whether no row is without it.
    """
    named = Column(attribute(column.name, part), column.position, type_, not_null=not_null)
    scale = scale_of(type_)
    assert scale is not None
    return OrderedReader(table, named, scale, public_range(table, named, scale, ColumnConfig(), ()))
