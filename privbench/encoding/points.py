"""point: two coordinates, each on the grid of double precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from privbench.domain import Domain
from privbench.encoding.base import AnyCodes, Codec, ColumnReader, Released
from privbench.encoding.ordered import OrderedCodec, OrderedReader
from privbench.encoding.parts import PartsReader, ordered_part
from privbench.encoding.strings import joined
from privbench.encoding.workbench import known
from privbench.privacy.data import Recoding
from privbench.schema import Column, ColumnType

_REAL = ColumnType("double precision", "float8", category="N")


@dataclass(frozen=True)
class PointReader(PartsReader):
    """Reads both coordinates."""

    @cached_property
    def parts(self) -> tuple[OrderedReader, OrderedReader]:
        """Readers of the coordinates."""
        x, y = (
            ordered_part(self.table, self.column, name, _REAL, not_null=not self.nullable)
            for name in "xy"
        )
        return x, y

    def expressions(self, identifier: sql.Composable) -> Sequence[sql.Composable]:
        """Both coordinates."""
        return [sql.SQL("({})[{}]").format(identifier, sql.Literal(i)) for i in range(2)]

    def finish(self, released: Mapping[str, Released]) -> Codec:
        """The codec of both."""
        x, y = (part.finish(released) for part in self.parts)
        assert isinstance(x, OrderedCodec)
        assert isinstance(y, OrderedCodec)
        return PointCodec(self.name, self.column.type, self.nullable, x, y)

    def describe(self) -> tuple[str, str]:
        """Released bounds."""
        return "point by its coordinates, bounds released", "no range is declared"


@dataclass(frozen=True)
class PointCodec(Codec):
    """Points from two coordinates; the first says whether there is one.

    Attributes:
        x: Codec of the first coordinate.
        y: Codec of the second.
    """

    kind: ClassVar[str] = "point"

    x: OrderedCodec
    y: OrderedCodec

    @property
    def domains(self) -> dict[str, Domain]:
        """The domains of both."""
        return {**self.x.domains, **self.y.domains}

    @property
    def recodings(self) -> dict[str, Recoding]:
        """The edges of both."""
        return {**self.x.recodings, **self.y.recodings}

    def decode(
        self, codes: Mapping[str, AnyCodes], rng: np.random.Generator, rows: int | None = None
    ) -> pa.Array:
        """Literals; a second coordinate that noise has parted from its first is another row's."""
        x, y = (part.decode(codes, rng).cast(pa.string()) for part in (self.x, self.y))
        there = np.flatnonzero(known(y))
        lost = np.flatnonzero(~known(y))
        places = np.arange(len(y))
        if len(there):
            places[lost] = rng.choice(there, len(lost))
        return joined("(", x, ",", pc.fill_null(y.take(pa.array(places)), "0"), ")")

    def to_json(self) -> dict[str, Any]:
        """Both codecs."""
        return {**self.header(), "x": self.x.to_json(), "y": self.y.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The codec that `to_json` wrote."""
        return cls(
            **cls.head_from_json(data),
            x=OrderedCodec.from_json(data["x"]),
            y=OrderedCodec.from_json(data["y"]),
        )


def point_reader(table: str, column: Column) -> ColumnReader | None:
    """The reader of a point; None for other types."""
    plain = column.type.kind == "b" and column.type.base == "point"
    return PointReader(table, column) if plain and column.type.domain is None else None
