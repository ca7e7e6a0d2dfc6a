"""smallint, integer, bigint: the grid is the integer itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from psycopg import sql

from privbench.encoding.scale import (
    GREATEST,
    LEAST,
    Mask,
    Points,
    Scale,
    ceiling_number,
    floor_number,
    int64_points,
    integer_array,
    log_grid,
    marked,
    octave_grids,
    register_scale,
)

_TYPES = {"int2": (16, pa.int16()), "int4": (32, pa.int32()), "int8": (64, pa.int64())}


@dataclass(frozen=True)
class IntegerScale(Scale):
    """Integers of 16, 32 or 64 bits.

    Attributes:
        base: ``int2``, ``int4`` or ``int8``.

    >>> IntegerScale("int2").limits
    (-32768, 32767)
    """

    octaves: ClassVar[bool] = True

    base: str

    @property
    def whole(self) -> bool:
        """All of them."""
        return True

    @property
    def limits(self) -> tuple[int, int]:
        """The type's range; bigint without the few points that are sentinels."""
        bits = _TYPES[self.base][0]
        return max(-(2 ** (bits - 1)), LEAST), min(2 ** (bits - 1) - 1, GREATEST)

    @property
    def usual(self) -> tuple[str, str]:
        """Of smallint, which mostly holds codes, a few values."""
        return ("0", "10") if self.base == "int2" else ("0", "100")

    def select(self, identifier: sql.Composable) -> sql.Composable:
        """The column as int8."""
        return sql.SQL("{}::bigint").format(identifier)

    def read(self, array: pa.Array) -> Points:
        """The integers."""
        return int64_points(array)

    def parse(self, text: str) -> int:
        """An integer, also written ``3.0``; a fraction is rounded down.

        Raises:
            ValueError: Not a number.
        """
        return floor_number(text, 0, self.limits)

    def parse_up(self, text: str) -> int:
        """The least integer that is not below the literal."""
        return ceiling_number(text, 0, self.limits)

    def build(self, points: Points, marks: Mapping[str, Mask]) -> pa.Array:
        """An Arrow integer array of the type's own width."""
        return integer_array(points, marked(marks, "null", len(points)), _TYPES[self.base][1])

    def unbuild(self, array: pa.Array) -> Points:
        """The integers."""
        return int64_points(array)

    def candidates(self) -> Points:
        """Every integer near zero, then four points an octave."""
        return log_grid(*self.limits)

    def coarser(self) -> tuple[Points, ...]:
        """Two points an octave, and one."""
        return octave_grids(*self.limits)


register_scale(lambda type_: IntegerScale(type_.base), "int2", "int4", "int8")
