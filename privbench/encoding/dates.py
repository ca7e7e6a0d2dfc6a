"""date, timestamp, timestamptz: days, or microseconds, since 1970-01-01."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from privbench.encoding.scale import (
    LINEAR,
    Mask,
    Points,
    Scale,
    int64_points,
    integer_array,
    marked,
    register_scale,
)
from privbench.privacy.recoding import NEG_INF, POS_INF
from privbench.schema import ColumnType

#: Dates beyond these are next to nowhere, where none are seen.
_PLAUSIBLE = ("1900-01-01", "2050-01-01")
_DAY = 86_400_000_000
#: 0001-01-01 and 9999-12-31 in days since 1970.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896


def days(text: str) -> int:
    """Days since 1970-01-01 of an ISO date."""
    return int(np.datetime64(text.strip()[:10], "D").astype(np.int64))


def microseconds(text: str) -> int:
    """Microseconds since 1970-01-01 of an ISO timestamp; a zone's offset is subtracted.

    >>> microseconds("1970-01-01 00:00:01"), microseconds("1970-01-01 02:00:00+02")
    (1000000, 0)
    """
    text = text.strip().replace(" ", "T", 1)
    offset = 0
    body, sign, zone = _zone(text)
    if zone:
        hours, _, minutes = zone.partition(":")
        offset = sign * (int(hours) * 60 + int(minutes or 0)) * 60_000_000
    return int(np.datetime64(body, "us").astype(np.int64)) - offset


def _zone(text: str) -> tuple[str, int, str]:
    if text.endswith("Z"):
        return text[:-1], 1, ""
    for mark, sign in (("+", 1), ("-", -1)):
        head, result, tail = text.rpartition(mark)
        if result and "T" in head:
            return head, sign, tail
    return text, 1, ""


class _Calendar(Scale):
    """What dates and timestamps share: infinities, weekly candidates, text where infinite."""

    specials: ClassVar[tuple[str, ...]] = ("-inf", "inf")
    #: Grid steps per day.
    per_day: ClassVar[int]

    @property
    def hides_frequent_values(self) -> bool:
        """A cell holds many days, and would hide one that all rows share (that of a migration)."""
        return True

    @property
    def usual(self) -> tuple[str, str]:
        return ("2000-01-01", "2030-01-01")

    @property
    def plausible(self) -> tuple[int, int]:
        """The years 1900 to 2049; among thousands of other years some stand out by noise alone."""
        first, last = (self.parse(text) for text in _PLAUSIBLE)
        return first, last

    @property
    def limits(self) -> tuple[int, int]:
        return _FIRST_DAY * self.per_day, (_LAST_DAY + 1) * self.per_day - 1

    def tails(self, lo: int, hi: int, cells: int = LINEAR) -> tuple[list[int], list[int]]:
        """Not beyond `_PLAUSIBLE`, unless bounds are: noise would make births of 1764 and 2259."""
        below, above = super().tails(lo, hi, cells)
        first, last = self.plausible
        return [edge for edge in below if edge >= first], [edge for edge in above if edge <= last]

    def select(self, identifier: sql.Composable) -> sql.Composable:
        """The grid point as int8; years outside the range at its ends, infinities as sentinels."""
        lo, hi = self.limits
        return sql.SQL(
            "CASE WHEN {c} = '-infinity' THEN {neg} WHEN {c} = 'infinity' THEN {pos}"
            " WHEN {c} < '0001-01-01' THEN {lo} WHEN {c} >= '10000-01-01' THEN {hi}"
            " ELSE {point} END"
        ).format(
            c=identifier,
            neg=sql.SQL(f"({NEG_INF})::bigint"),
            pos=sql.SQL(f"({POS_INF})::bigint"),
            lo=sql.SQL(f"({lo})::bigint"),
            hi=sql.SQL(f"({hi})::bigint"),
            point=self._point(identifier),
        )

    @abstractmethod
    def _point(self, identifier: sql.Composable) -> sql.Composable:
        """The grid point of a finite value within the limits."""

    def read(self, array: pa.Array) -> Points:
        points = int64_points(array)
        raw = np.asarray(array.fill_null(0).to_numpy(zero_copy_only=False))
        points[raw == NEG_INF] = NEG_INF
        points[raw == POS_INF] = POS_INF
        return points

    def candidates(self) -> Points:
        """Four weeks in 1990 to 2040, quarters in 1900 to 2100, then decades and centuries."""
        lo, hi = self.limits
        day = np.concatenate(
            [
                np.arange(days("1900-01-01"), days("1990-01-01"), 91),
                np.arange(days("1990-01-01"), days("2040-01-01"), 28),
                np.arange(days("2040-01-01"), days("2100-01-01"), 91),
                np.arange(days("1500-01-01"), days("2500-01-01"), 3652),
                np.arange(_FIRST_DAY, _LAST_DAY, 36525),
            ]
        )
        points = np.unique(np.concatenate([day * self.per_day, [lo, hi]]))
        return points.astype(np.int64)

    def coarser(self) -> tuple[Points, ...]:
        """Five years in 1950 to 2050, decades in 1900 to 2100, then centuries."""
        lo, hi = self.limits
        years = [*range(1, 2500, 100), *range(1900, 2100, 10), *range(1950, 2050, 5), 3000, 5000]
        day = np.array([days(f"{year:04}-01-01") for year in years])
        points = np.unique(np.concatenate([day * self.per_day, [lo, hi]]))
        return (points.astype(np.int64),)

    def build(self, points: Points, marks: Mapping[str, Mask]) -> pa.Array:
        """Typed dates or timestamps; text where the column can hold infinities."""
        null = marked(marks, "null", len(points))
        typed = integer_array(points, null, self._storage).cast(self._arrow)
        if "inf" not in marks and "-inf" not in marks:
            return typed
        text = self._text(typed)
        for name, word in (("-inf", "-infinity"), ("inf", "infinity")):
            mask = marked(marks, name, len(points))
            if mask.any():
                text = pc.if_else(mask, word, text)
        return text

    def points_of(self, array: pa.Array) -> Points:
        if not pa.types.is_string(array.type):
            return int64_points(array.cast(self._storage).cast(pa.int64()))
        low, high = pc.equal(array, "-infinity"), pc.equal(array, "infinity")
        finite = pc.if_else(pc.or_(low, high), "2000-01-01", array)
        plain = pa.date32() if self.per_day == 1 else pa.timestamp("us")
        points = self.points_of(pc.replace_substring(finite, "+00", "").cast(plain))
        points[low.fill_null(False).to_numpy(zero_copy_only=False)] = NEG_INF
        points[high.fill_null(False).to_numpy(zero_copy_only=False)] = POS_INF
        return points

    @property
    def _storage(self) -> pa.DataType:
        return pa.int32() if self.per_day == 1 else pa.int64()

    @property
    @abstractmethod
    def _arrow(self) -> pa.DataType:
        """The Arrow type of values."""

    def _text(self, typed: pa.Array) -> pa.Array:
        return typed.cast(pa.string())


@dataclass(frozen=True)
class DateScale(_Calendar):
    """date, in days."""

    per_day: ClassVar[int] = 1

    def _point(self, identifier: sql.Composable) -> sql.Composable:
        return sql.SQL("({} - '1970-01-01'::pg_catalog.date)::bigint").format(identifier)

    def parse(self, text: str, *, up: bool = False) -> int:
        return days(text)

    @property
    def _arrow(self) -> pa.DataType:
        return pa.date32()


@dataclass(frozen=True)
class Clock(Scale):
    """What is counted in microseconds, and mostly lies on whole seconds.

    Attributes:
        zoned: Whether the type has a time zone.
        precision: Digits of the second that the type keeps, 0 to 6.
    """

    zoned: bool = False
    precision: int = 6

    @property
    def step(self) -> int:
        return int(10 ** (6 - self.precision))

    def draw(self, lows: Points, highs: Points, rng: np.random.Generator) -> Points:
        """Whole seconds where the cell holds one, else the type's own precision."""
        drawn = rng.integers(lows, highs, dtype=np.int64)
        for step in (self.step, 1_000_000):
            first, last = -(-lows // step), -(-highs // step)
            whole = rng.integers(first, np.maximum(last, first + 1), dtype=np.int64) * step
            drawn = np.where(last > first, whole, drawn)
        return drawn


@dataclass(frozen=True)
class TimestampScale(Clock, _Calendar):
    """timestamp and timestamptz, in microseconds (UTC)."""

    per_day: ClassVar[int] = _DAY

    def _point(self, identifier: sql.Composable) -> sql.Composable:
        return sql.SQL(
            "pg_catalog.round(pg_catalog.date_part('epoch', {}) * 1000000)::bigint"
        ).format(identifier)

    def parse(self, text: str, *, up: bool = False) -> int:
        return microseconds(text)

    def _text(self, typed: pa.Array) -> pa.Array:
        text = typed.cast(pa.timestamp("us")).cast(pa.string())
        return pc.binary_join_element_wise(text, "+00", "") if self.zoned else text

    @property
    def _arrow(self) -> pa.DataType:
        return pa.timestamp("us", "UTC" if self.zoned else None)


def precision_of(type_: ColumnType) -> int:
    """Digits of the second that a type keeps."""
    return 6 if type_.precision is None else type_.precision


register_scale(lambda _: DateScale(), "date")
register_scale(lambda type_: TimestampScale(False, precision_of(type_)), "timestamp")
register_scale(lambda type_: TimestampScale(True, precision_of(type_)), "timestamptz")
