"""The scales of dates (days), timestamps and times (microseconds) and intervals (seconds)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from privbench.arrays import Floats, Ints, Mask, Rng
from privbench.encoding.mixtures import MixedScale
from privbench.encoding.scale import (
    LINEAR,
    Lattice,
    Multiples,
    Scale,
    int64_points,
    integer_array,
    log_grid,
    marked,
    register_scale,
)
from privbench.privacy.recoding import NEG_INF, POS_INF
from privbench.schema import ColumnType

#: Dates beyond these are taken for noise unless they stand out clearly.
_PLAUSIBLE = ("1900-01-01", "2050-01-01")
_DAY = 86_400_000_000
#: 0001-01-01 and 9999-12-31 in days since 1970.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896


#: Most characters of a literal that is read; no date or interval that PostgreSQL prints is as long.
_LONGEST = 100


def _readable_literal(text: str) -> str:
    """The literal; a ValueError if it is too long to be read."""
    if len(text) > _LONGEST:
        raise ValueError("not a literal of a date or a time")
    return text


def days(text: str) -> int:
    """Return the days from 1970-01-01 to an ISO date."""
    return _since_1970(text.strip()[:10], "D")


def microseconds(text: str) -> int:
    """Return the microseconds from 1970-01-01 to an ISO timestamp, less its time zone's offset.

    >>> microseconds("1970-01-01 00:00:01"), microseconds("1970-01-01 02:00:00+02")
    (1000000, 0)
    """
    text, offset = _readable_literal(text.strip()).replace(" ", "T", 1).removesuffix("Z"), 0
    sign = max(text.rfind("+"), text.rfind("-"))
    if "T" in text[: max(sign, 0)]:
        hours, _, minutes = text[sign + 1 :].partition(":")
        offset = int(f"{text[sign]}1") * (int(hours or 0) * 60 + int(minutes or 0)) * 60_000_000
        text = text[:sign]
    return _since_1970(text, "us") - offset


#: What a date begins with. It is checked first, since numpy takes 20200101 for a year and accepts
#: words such as "today".
_ISO_DATE = re.compile(r"\d{4,}-\d\d-\d\d")


def _since_1970(text: str, unit: Literal["D", "us"]) -> int:
    if not _ISO_DATE.match(text):
        raise ValueError("not a date")
    return int(np.datetime64(text, unit).astype(np.int64))


@dataclass(frozen=True, slots=True)
class _Months:
    """The first days of every so many months since 1970."""

    months: int
    per_day: int  # grid points per day

    @property
    def size(self) -> float:
        """The mean distance of neighbouring first days, in grid points."""
        return self.months * self.per_day * 365.2425 / 12

    def count(self, points: Any) -> Any:
        """For each point, the number of the first such day at or after it."""
        days = -(-np.asarray(points, dtype=np.int64) // self.per_day)
        months = days.astype("M8[D]").astype("M8[M]")
        later = months.astype("M8[D]").astype(np.int64) < days
        return -(-(months.astype(np.int64) + later) // self.months)

    def at(self, numbers: Any) -> Any:
        """The grid points of the first days with these numbers."""
        days = (np.asarray(numbers, dtype=np.int64) * self.months).astype("M8[M]").astype("M8[D]")
        return days.astype(np.int64) * self.per_day


#: The least weight of an hour or a weekday, of which the mean is 1: a cell that holds no others is
#: drawn from evenly. Any small number does.
_RARE = 1e-6


@dataclass(frozen=True, slots=True)
class _Weekly(Multiples):
    """Multiples of a step, of which some hours or days of a week have more than others."""

    # Weights of equal parts of a week, from Monday on, above 0 and with the mean 1; each part has
    # equally many multiples.
    law: tuple[float, ...] = (1.0,) * 7
    day: int = 1  # grid points per day

    def mass(self, lows: Ints, highs: Ints) -> Floats:
        (first, begun), (last, ended) = self._places(lows), self._places(highs)
        return np.asarray((last - first) * float(len(self.law)) + ended - begun) * self._each

    def draw(self, lows: Ints, highs: Ints, rng: Rng) -> Ints:
        """By the inverse of the distribution: first a part of a week, then a multiple in it."""
        week, begun = self._places(lows)
        sums, law = self._sums, np.array(self.law)
        drawn = begun + rng.random(len(lows)) * self.mass(lows, highs) / self._each
        more = np.floor(drawn / len(law)).astype(np.int64)
        drawn -= more * len(law)
        part = np.minimum(np.searchsorted(sums, drawn, side="right") - 1, len(law) - 1)
        inside = np.floor((drawn - sums[part]) / law[part] * self._each)
        inside = np.clip(inside, 0, self._each - 1).astype(np.int64)
        number = ((week + more) * len(law) + part) * self._each + inside + self._monday
        first, end = self.count(lows), self.count(highs)
        return np.asarray(self.at(np.clip(number, first, np.maximum(end - 1, first))), np.int64)

    @property
    def _each(self) -> int:
        """Multiples in each part of a week."""
        return 7 * self.day // (self.size * len(self.law))

    @property
    def _monday(self) -> int:
        """The number of the first Monday since 1970."""
        return 4 * self.day // self.size

    @property
    def _sums(self) -> Floats:
        return np.append(0.0, np.cumsum(self.law))

    def _places(self, points: Ints) -> tuple[Ints, Floats]:
        """The week of the first multiple not below each point; weights of the week before it."""
        week, number = np.divmod(self.count(points) - self._monday, len(self.law) * self._each)
        part, inside = np.divmod(number, self._each)
        return week, self._sums[part] + np.array(self.law)[part] * inside / self._each


@dataclass(frozen=True)
class TimedScale(MixedScale):
    """The grid that dates, timestamps and times of day share: days, or microseconds."""

    base: str  # ``date``, ``timestamp``, ``timestamptz``, ``time`` or ``timetz``
    precision: int = 6  # digits of the second that the type keeps, 0 to 6

    @property
    def zoned(self) -> bool:
        """Whether the type has a time zone."""
        return self.base.endswith("tz")

    @property
    def per_day(self) -> int:
        """The number of integers of the scale per day."""
        return 1 if self.base == "date" else _DAY

    @property
    def step(self) -> int:
        return 1 if self.base == "date" else int(10 ** (6 - self.precision))

    @property
    def steps(self) -> tuple[Lattice, ...]:
        within = tuple(Multiples(seconds * 1_000_000) for seconds in _CLOCK_STEPS)
        return within if self.step == 1_000_000 else (*within, Multiples(self.step))

    @property
    def _usual(self) -> int:
        """The place of whole seconds: the finest step, but for that of the type's own precision."""
        return len(self.steps) - 1 - (self.per_day > 1 and self.step < 1_000_000)

    @property
    def chances(self) -> tuple[tuple[float, ...], ...]:
        return _chances(replace(self, multiple=None, law=()))

    def steps_of(self, points: Ints) -> Ints:
        result = points.copy()
        left = np.flatnonzero((points > NEG_INF) & (points < POS_INF))
        last = len(self.steps) - 1
        result[left] = last
        for place in reversed(range(last)):
            step, rest = self.steps[place], points[left]
            on = left[step.at(step.count(rest)) == rest]
            result[on] = place
            left = left if step == _mondays(self.per_day) else on
        return result


def _weights(shares: Floats) -> tuple[float, ...]:
    """Weights with the mean 1, all above 0, of shares that may be negative."""
    weights = np.maximum(shares, 0.0)
    weights = weights / weights.mean() if weights.any() else np.ones(len(weights))
    weights = np.maximum(weights, _RARE)
    return tuple((weights / weights.mean()).tolist())


def _mondays(per_day: int) -> Multiples:
    return Multiples(7 * per_day, 4 * per_day)


def _calendar(per_day: int) -> tuple[Lattice, ...]:
    """First days of years and of months, Mondays, and days."""
    return _Months(12, per_day), _Months(1, per_day), _mondays(per_day), Multiples(per_day)


#: Seconds of the steps of a clock: hour, half, quarter, five minutes, minute and second.
_CLOCK_STEPS = (3600, 1800, 900, 300, 60, 1)
#: Two periods of days in which the points of steps are counted: 28 years, in which the calendar
#: repeats; and, for steps within the day, one that begins no week, month or year.
_CYCLE, _PLAIN = ("2000-01-01", "2028-01-01"), ("2000-01-04", "2000-01-05")


@lru_cache(maxsize=32)
def _chances(scale: TimedScale) -> tuple[tuple[float, ...], ...]:
    """The value of `Scale.chances`, counted over public points."""
    result = list[tuple[float, ...]]()
    for place, step in enumerate(scale.steps):
        counts = np.zeros(len(scale.steps))
        within_day = isinstance(step, Multiples) and step.size < scale.per_day
        if within_day and step == Multiples(scale.step) != Multiples(1_000_000):
            seconds = scale.step / 1_000_000
            counts += seconds * np.array(result[-1])
            counts[place] = 1 - seconds
        else:
            ends = [days(text) * scale.per_day for text in (_PLAIN if within_day else _CYCLE)]
            first, end = step.count(np.array(ends)).tolist()
            coarsest = scale.steps_of(step.at(np.arange(first, end)))
            counts += np.bincount(coarsest, minlength=len(counts))
        result.append(tuple((counts / counts.sum()).tolist()))
    return tuple(result)


@dataclass(frozen=True)
class MomentScale(TimedScale):
    """The scale of date (in days), timestamp and timestamptz (in microseconds, UTC)."""

    # Released laws of the `cycles`, () for one that is hidden; () where all are.
    cycle_laws: tuple[tuple[float, ...], ...] = ()

    specials: ClassVar[tuple[str, ...]] = ("-inf", "inf")
    default_range: ClassVar[tuple[str, str]] = ("2000-01-01", "2030-01-01")

    @property
    def steps(self) -> tuple[Lattice, ...]:
        within = super().steps if self.per_day > 1 else ()
        return *_calendar(self.per_day), *within

    @property
    def cycles(self) -> dict[str, int]:
        """The cycles that values have: weekdays, and for timestamps also hours of the day."""
        return {"weekday": 7} if self.per_day == 1 else {"weekday": 7, "hour": 24}

    def cycle_of(self, name: str, points: Ints) -> Ints:
        result = points.copy()
        finite = (points > NEG_INF) & (points < POS_INF)
        day, within = np.divmod(points[finite], self.per_day)
        # 1970 began on a Thursday.
        result[finite] = (day + 3) % 7 if name == "weekday" else within // (self.per_day // 24)
        return result

    def with_cycles(self, laws: tuple[tuple[float, ...], ...]) -> Self:
        sizes = self.cycles.values()
        fits = not laws or len(laws) == len(sizes)
        for law, size in zip(laws, sizes, strict=False):
            right = len(law) == size and min(law) >= 0 and abs(sum(law) - 1) < 1e-6
            fits &= right or not law
        if not fits:
            raise ValueError("the shares of weekdays and of hours must have the sum 1")
        return replace(self, cycle_laws=laws if any(laws) else ())

    @property
    def chances(self) -> tuple[tuple[float, ...], ...]:
        return _chances(replace(self, multiple=None, law=(), cycle_laws=()))

    def _weight(self, step: Lattice, lows: Ints, highs: Ints) -> Floats:
        if isinstance(step, _Weekly):
            return step.mass(lows, highs)
        return super()._weight(step, lows, highs)

    def _draw(self, step: Lattice, lows: Ints, highs: Ints, rng: Rng) -> Ints:
        if isinstance(step, _Weekly):
            return step.draw(lows, highs, rng)
        return super()._draw(step, lows, highs, rng)

    def _lattices(self) -> tuple[Lattice, ...]:
        """The steps, of which days and finer ones follow the released weekdays and hours.

        Values on coarser steps have the weekdays and hours that these steps have. They are taken
        from the released laws, and what remains is the law of all other values.
        """
        if not self.cycle_laws:
            return self.steps
        days, shares = len(_calendar(1)) - 1, self._shares
        of_weekdays, of_hours = (*self.cycle_laws, ())[:2]
        weekdays, hours = np.array(of_weekdays or [1 / 7] * 7), np.array(of_hours or [1 / 24] * 24)
        if of_weekdays:
            weekdays -= sum(shares[: days - 1]) / 7
            weekdays[0] -= shares[days - 1]
        if of_hours:
            hours[0] -= sum(shares[: days + 1])
        by_day = _weights(weekdays)
        by_hour = tuple(np.outer(by_day, _weights(hours)).ravel().tolist())
        finer = [int(step.size) for step in self.steps[days + 1 :]]
        return (
            *self.steps[:days],
            _Weekly(self.per_day, law=by_day, day=self.per_day),
            *(_Weekly(size, law=by_hour, day=self.per_day) for size in finer),
        )

    @property
    def plausible(self) -> tuple[int, int]:
        """The years 1900 to 2049.

        Among the counts of thousands of other years, some would be large by noise alone.
        """
        first, last = (self.parse(text) for text in _PLAUSIBLE)
        return first, last

    @property
    def limits(self) -> tuple[int, int]:
        return _FIRST_DAY * self.per_day, (_LAST_DAY + 1) * self.per_day - 1

    def tails(self, lo: int, hi: int, cells: int = LINEAR) -> tuple[list[int], list[int]]:
        """Return edges of the cells outside released bounds, which end at `_PLAUSIBLE`.

        They go beyond it only where the bounds do. Without that end, noise alone would make births
        in 1764.
        """
        below, above = super().tails(lo, hi, cells)
        first, last = self.plausible
        return [edge for edge in below if edge >= first], [edge for edge in above if edge <= last]

    def select(self, identifier: sql.Composable) -> sql.Composable:
        """Return an SQL expression for a value's integer (grid point) as int8.

        Infinities have sentinels, and dates beyond the limits count as the limits.
        """
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

    def _point(self, identifier: sql.Composable) -> sql.Composable:
        """The grid point of a finite value within the limits."""
        if self.per_day > 1:
            return _epoch(identifier)
        return sql.SQL("({} - '1970-01-01'::pg_catalog.date)::bigint").format(identifier)

    def parse(self, text: str, *, up: bool = False) -> int:
        return days(text) if self.per_day == 1 else microseconds(text)

    def places(self, edges: Sequence[int]) -> tuple[int, ...] | None:
        """Return the cell edges in microseconds, so that distances of dates and times compare."""
        return tuple(int(edge) * _DAY for edge in edges) if self.per_day == 1 else None

    def read(self, array: pa.Array) -> Ints:
        return int64_points(array, (NEG_INF, POS_INF))

    def candidates(self) -> Ints:
        """Candidates for bounds: every 4 weeks from 1990 to 2040, and wider steps around.

        They are quarters from 1900 to 2100, and decades or centuries beyond.
        """
        runs = [
            ("1900-01-01", "1990-01-01", 91),
            ("1990-01-01", "2040-01-01", 28),
            ("2040-01-01", "2100-01-01", 91),
            ("1500-01-01", "2500-01-01", 3652),
        ]
        close = [np.arange(days(first), days(end), step) for first, end, step in runs]
        return self._on_days(np.concatenate([*close, np.arange(_FIRST_DAY, _LAST_DAY, 36525)]))

    def coarser(self) -> tuple[Ints, ...]:
        """Sparser candidates for bounds: every 5 years in 1950 to 2050, 10 or 100 years around.

        They are 10 years apart from 1900 to 2100, and 100 years beyond.
        """
        years = [*range(1, 2500, 100), *range(1900, 2100, 10), *range(1950, 2050, 5), 3000, 5000]
        return (self._on_days(np.array([days(f"{year:04}-01-01") for year in years])),)

    def _on_days(self, numbers: Ints) -> Ints:
        points = np.unique(np.concatenate([numbers * self.per_day, self.limits]))
        return points.astype(np.int64)

    def build(self, points: Ints, marks: Mapping[str, Mask]) -> pa.Array:
        """Return typed dates or timestamps, or texts where the column can hold infinities."""
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

    def points_of(self, array: pa.Array) -> Ints:
        if not pa.types.is_string(array.type):
            return int64_points(array.cast(self._storage).cast(pa.int64()))
        low, high = pc.equal(array, "-infinity"), pc.equal(array, "infinity")
        finite = pc.if_else(pc.or_(low, high), "2000-01-01", array)
        plain = pa.date32() if self.per_day == 1 else pa.timestamp("us")
        points = self.points_of(pc.replace_substring(finite, "+00", "").cast(plain))
        points[np.asarray(low.fill_null(False))] = NEG_INF
        points[np.asarray(high.fill_null(False))] = POS_INF
        return points

    @property
    def _storage(self) -> pa.DataType:
        return pa.int32() if self.per_day == 1 else pa.int64()

    @property
    def _arrow(self) -> pa.DataType:
        """The Arrow type of values."""
        if self.per_day == 1:
            return pa.date32()
        return pa.timestamp("us", "UTC" if self.zoned else None)

    def _text(self, typed: pa.Array) -> pa.Array:
        if self.per_day == 1:
            return typed.cast(pa.string())
        text = typed.cast(pa.timestamp("us")).cast(pa.string())
        return pc.binary_join_element_wise(text, "+00", "") if self.zoned else text


def _epoch(identifier: sql.Composable) -> sql.Composable:
    """Microseconds of a time, since midnight or since 1970."""
    text = "pg_catalog.round(pg_catalog.date_part('epoch', {}) * 1000000)::bigint"
    return sql.SQL(text).format(identifier)


#: Seconds of each unit of an interval.
_UNITS = {
    "second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "day": 86400, "week": 604800,
    "mon": 2592000, "month": 2592000, "year": 31104000,
}  # fmt: skip
#: Fields of interval types that keep no hours.
_COARSE = ("year", "month", "year to month", "day")
#: Seconds by which a year is longer than 12 months of 30 days, as which PostgreSQL compares it.
_YEAR_MORE = 453_600
_PIECE = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([a-z]+)")
_CLOCK = re.compile(r"([+-]?)(\d+):(\d\d)(?::(\d\d(?:\.\d+)?))?")


def clock_seconds(text: str) -> float:
    """Return the seconds of a time written as ``HH:MM[:SS]``.

    >>> clock_seconds("-01:30:00")
    -5400.0
    """
    result = _CLOCK.search(_readable_literal(text))
    if result is None:
        raise ValueError("not a time")
    sign, hours, minutes, seconds = result.groups()
    size = int(hours) * 3600 + int(minutes) * 60 + float(seconds or 0)
    return -size if sign == "-" else size


def interval_seconds(text: str) -> int:
    """Return the whole seconds of an interval literal; a month has 30 days, as PostgreSQL compares.

    >>> interval_seconds("1 day 01:00:00"), interval_seconds("2 hours"), interval_seconds("90")
    (90000, 7200, 90)
    >>> interval_seconds("1 year") == interval_seconds("360 days")
    True
    """
    if re.fullmatch(r"\s*[+-]?\d+(\.\d+)?\s*", _readable_literal(text)):
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
class TimeScale(TimedScale):
    """The scale of times of day, in microseconds; the range 00:00 to 24:00 is public.

    Of a time with a zone only the local time is kept; it is written with the zone UTC.
    """

    open_range: ClassVar[bool] = False

    @property
    def limits(self) -> tuple[int, int]:
        return 0, _DAY - 1

    def select(self, identifier: sql.Composable) -> sql.Composable:
        return _epoch(sql.SQL("{}::time").format(identifier))

    def parse(self, text: str, *, up: bool = False) -> int:
        return min(max(round(clock_seconds(text) * 1_000_000), 0), _DAY - 1)

    def _edges(
        self, lo: int, hi: int, bins: int | None, cells: int, inner: Sequence[int]
    ) -> list[int]:
        """Edges at quarters of an hour, unless the range is short or the config gives `bins`."""
        quarter = _DAY // 96
        if bins is None and hi - lo > 8 * quarter:
            return sorted({lo, hi, *range(-(-lo // quarter) * quarter, hi, quarter)})
        return super()._edges(lo, hi, bins, cells, inner)

    def build(self, points: Ints, marks: Mapping[str, Mask]) -> pa.Array:
        null = marked(marks, "null", len(points))
        typed = integer_array(points, null, pa.int64()).cast(pa.time64("us"))
        if not self.zoned:
            return typed
        return pc.binary_join_element_wise(typed.cast(pa.string()), "+00", "")

    def points_of(self, array: pa.Array) -> Ints:
        if pa.types.is_string(array.type):
            clock = pc.replace_substring(array, "+00", "")
            moment = pc.binary_join_element_wise("1970-01-01", clock, " ")
            array = moment.cast(pa.timestamp("us"))
        return int64_points(array.cast(pa.int64()))

    def candidates(self) -> Ints:
        """Candidates for bounds: every quarter of an hour.

        They are not used, as the range is public.
        """
        return np.append(np.arange(0, _DAY, _DAY // 96), _DAY - 1).astype(np.int64)


@dataclass(frozen=True)
class IntervalScale(Scale):
    """The scale of intervals, in whole seconds; months count 30 days and years 12 months."""

    octaves: ClassVar[bool] = True

    unit_name: str = "second"  # the unit in which values are written; larger for ``interval day``

    @property
    def limits(self) -> tuple[int, int]:
        """The least and greatest point, about ± 10,000 years."""
        return -315_576_000_000, 315_576_000_000

    def select(self, identifier: sql.Composable) -> sql.Composable:
        """Return an SQL expression for the seconds as int8.

        Intervals beyond the limits count as the limits.
        """
        lo, hi = self.limits
        # An infinite interval has only a length.
        seconds = sql.SQL(
            "pg_catalog.date_part('epoch', {c})"
            " - CASE WHEN pg_catalog.abs(pg_catalog.date_part('year', {c})) < 1e12"
            " THEN {more} * pg_catalog.date_part('year', {c}) ELSE 0 END"
        ).format(c=identifier, more=sql.SQL(str(_YEAR_MORE)))
        # The functions least and greatest ignore NULL.
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

    def build(self, points: Ints, marks: Mapping[str, Mask]) -> pa.Array:
        null = marked(marks, "null", len(points))
        whole = points // _UNITS[self.unit_name]
        text = integer_array(whole, null, pa.int64()).cast(pa.string())
        return pc.binary_join_element_wise(text, self.unit_name + "s", " ")

    def points_of(self, array: pa.Array) -> Ints:
        number = pc.replace_substring(array, f" {self.unit_name}s", "").cast(pa.int64())
        return int64_points(pc.multiply(number, _UNITS[self.unit_name]))

    def candidates(self) -> Ints:
        """Candidates for bounds: four per octave from one second up, and whole days."""
        lo, hi = self.limits
        whole = [sign * 86400 * i for sign in (-1, 1) for i in range(1, 367)]
        return np.unique(np.concatenate([log_grid(lo, hi), whole])).astype(np.int64)


def precision_of(type_: ColumnType) -> int:
    """Return how many decimals of a second the values of a type have."""
    return 6 if type_.precision is None else type_.precision


def _unit_of(type_: ColumnType) -> str:
    """The smallest unit of a type's fields: ``interval day`` keeps no seconds."""
    fields = type_.sql.removeprefix("interval ") if type_.domain is None else ""
    return fields.split()[-1] if fields in _COARSE else "second"


register_scale(
    lambda type_: MomentScale(type_.base, precision_of(type_)), "date", "timestamp", "timestamptz"
)
register_scale(lambda type_: TimeScale(type_.base, precision_of(type_)), "time", "timetz")
register_scale(lambda type_: IntervalScale(_unit_of(type_)), "interval")
