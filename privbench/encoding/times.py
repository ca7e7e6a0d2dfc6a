"""time, timetz and interval, in microseconds and in seconds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from privbench.encoding.dates import Clock, precision_of
from privbench.encoding.scale import (
    Mask,
    Points,
    Scale,
    Spacing,
    int64_points,
    integer_array,
    log_grid,
    marked,
    register_scale,
)
from privbench.schema import ColumnType

_DAY = 86_400_000_000
_UNITS = {
    "second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "day": 86400, "week": 604800,
    "mon": 2592000, "month": 2592000, "year": 31104000,
}  # fmt: skip
#: Fields of types that keep no hours.
_COARSE = ("year", "month", "year to month", "day")
#: Seconds by which the length of a year passes that of the 12 months it is compared as.
_YEAR_MORE = 453_600
_PIECE = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([a-z]+)")
_CLOCK = re.compile(r"([+-]?)(\d+):(\d\d)(?::(\d\d(?:\.\d+)?))?")


def clock_seconds(text: str) -> float:
    """Seconds of ``HH:MM[:SS]``."""
    result = _CLOCK.search(text)
    if result is None:
        raise ValueError("not a time")
    sign, hours, minutes, seconds = result.groups()
    size = int(hours) * 3600 + int(minutes) * 60 + float(seconds or 0)
    return -size if sign == "-" else size


def interval_seconds(text: str) -> int:
    """Whole seconds of an interval literal, months of 30 days as PostgreSQL compares them.

    >>> interval_seconds("1 day 01:00:00"), interval_seconds("2 hours"), interval_seconds("90")
    (90000, 7200, 90)
    >>> interval_seconds("1 year") == interval_seconds("360 days")
    True
    """
    if re.fullmatch(r"\s*[+-]?\d+(\.\d+)?\s*", text):
        return int(np.floor(float(text)))
    total, known = 0.0, False
    for number, unit in _PIECE.findall(text.lower()):
        size = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
        if size is None:
            raise ValueError("unknown unit of time")
        total, known = total + float(number) * size, True
    if ":" in text:
        total, known = total + clock_seconds(text), True
    if not known:
        raise ValueError("not an interval")
    return int(np.floor(total))


@dataclass(frozen=True)
class TimeScale(Clock):
    """Time of day in microseconds; the range is public, 00:00 to 24:00.

    Of a time with a zone the local time is what is kept, at UTC.
    """

    open_range: ClassVar[bool] = False

    @property
    def limits(self) -> tuple[int, int]:
        return 0, _DAY - 1

    def select(self, identifier: sql.Composable) -> sql.Composable:
        clock = sql.SQL("{}::time").format(identifier)
        return sql.SQL(
            "pg_catalog.round(pg_catalog.date_part('epoch', {}) * 1000000)::bigint"
        ).format(clock)

    def parse(self, text: str, *, up: bool = False) -> int:
        return min(max(round(clock_seconds(text) * 1_000_000), 0), _DAY - 1)

    def edges(self, lo: int, hi: int, spacing: Spacing) -> list[int]:
        """Quarters of an hour, unless the range is narrower or the config says otherwise."""
        quarter = _DAY // 96
        if spacing.bins is None and hi - lo > 8 * quarter:
            return sorted({lo, hi, *range(-(-lo // quarter) * quarter, hi, quarter)})
        return super().edges(lo, hi, spacing)

    def build(self, points: Points, marks: Mapping[str, Mask]) -> pa.Array:
        null = marked(marks, "null", len(points))
        typed = integer_array(points, null, pa.int64()).cast(pa.time64("us"))
        if not self.zoned:
            return typed
        return pc.binary_join_element_wise(typed.cast(pa.string()), "+00", "")

    def points_of(self, array: pa.Array) -> Points:
        if pa.types.is_string(array.type):
            clock = pc.replace_substring(array, "+00", "")
            moment = pc.binary_join_element_wise("1970-01-01", clock, " ")
            array = moment.cast(pa.timestamp("us"))
        return int64_points(array.cast(pa.int64()))

    def candidates(self) -> Points:
        """Every quarter of an hour (never needed: the range is public)."""
        return np.append(np.arange(0, _DAY, _DAY // 96), _DAY - 1).astype(np.int64)


@dataclass(frozen=True)
class IntervalScale(Scale):
    """interval, in whole seconds; months count 30 days and years 12 months, as in comparisons.

    Attributes:
        unit: What values are written in, for types that keep no seconds.
    """

    octaves: ClassVar[bool] = True

    unit: str = "second"

    @property
    def hides_frequent_values(self) -> bool:
        """Durations are mostly a few round ones, such as three hours or thirty days."""
        return True

    @property
    def limits(self) -> tuple[int, int]:
        """About ± 10,000 years."""
        return -315_576_000_000, 315_576_000_000

    def select(self, identifier: sql.Composable) -> sql.Composable:
        """Seconds as int8, those beyond the limits at the limits."""
        lo, hi = self.limits
        # Of infinite intervals the length is all there is.
        seconds = sql.SQL(
            "pg_catalog.date_part('epoch', {c})"
            " - CASE WHEN pg_catalog.abs(pg_catalog.date_part('year', {c})) < 1e12"
            " THEN {more} * pg_catalog.date_part('year', {c}) ELSE 0 END"
        ).format(c=identifier, more=sql.SQL(str(_YEAR_MORE)))
        # least and greatest pass over NULL.
        return sql.SQL(
            "CASE WHEN {c} IS NOT NULL THEN"
            " pg_catalog.floor(least(greatest({s}, {lo}), {hi}))::bigint END"
        ).format(
            c=identifier,
            s=seconds,
            lo=sql.SQL(f"({lo})::double precision"),
            hi=sql.SQL(f"({hi})::double precision"),
        )

    def parse(self, text: str, *, up: bool = False) -> int:
        lo, hi = self.limits
        return min(max(interval_seconds(text), lo), hi)

    def build(self, points: Points, marks: Mapping[str, Mask]) -> pa.Array:
        null = marked(marks, "null", len(points))
        whole = points // _UNITS[self.unit]
        text = integer_array(whole, null, pa.int64()).cast(pa.string())
        return pc.binary_join_element_wise(text, self.unit + "s", " ")

    def points_of(self, array: pa.Array) -> Points:
        number = pc.replace_substring(array, f" {self.unit}s", "").cast(pa.int64())
        return int64_points(pc.multiply(number, _UNITS[self.unit]))

    def candidates(self) -> Points:
        """Four points an octave from one second up, and whole days."""
        lo, hi = self.limits
        whole = [sign * 86400 * i for sign in (-1, 1) for i in range(1, 367)]
        return np.unique(np.concatenate([log_grid(lo, hi), whole])).astype(np.int64)


def _unit_of(type_: ColumnType) -> str:
    """The smallest unit of a type's fields: ``interval day`` keeps no seconds."""
    fields = type_.sql.removeprefix("interval ") if type_.domain is None else ""
    return fields.split()[-1] if fields in _COARSE else "second"


register_scale(lambda type_: TimeScale(False, precision_of(type_)), "time")
register_scale(lambda type_: TimeScale(True, precision_of(type_)), "timetz")
register_scale(lambda type_: IntervalScale(_unit_of(type_)), "interval")
