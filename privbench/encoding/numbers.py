"""The scales of smallint, integer, bigint, numeric and money: grids of integers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from privbench.arrays import Floats, Ints, Mask, Rng
from privbench.encoding.base import ZERO
from privbench.encoding.mixtures import MixedScale
from privbench.encoding.scale import (
    GREATEST,
    LEAST,
    LINEAR,
    Multiples,
    Scale,
    WrittenDates,
    grid_number,
    int64_points,
    integer_array,
    log_grid,
    marked,
    register_scale,
)
from privbench.privacy.recoding import NAN, NEG_INF, NULL, POS_INF

_TYPES = {"int2": (16, pa.int16()), "int4": (32, pa.int32()), "int8": (64, pa.int64())}


#: Steps of integers that are told apart: round numbers and those of clocks, the coarsest first.
_ROUND = (1000, 100, 60, 50, 30, 25, 15, 10, 5, 2, 1)


@lru_cache(maxsize=1)
def _steps() -> Ints:
    """The place of the coarsest step of which a number is a multiple, by its remainder."""
    remainders = np.arange(np.lcm.reduce(_ROUND))
    return np.asarray(np.argmax([remainders % step == 0 for step in _ROUND], axis=0))


@lru_cache(maxsize=1)
def _chances() -> tuple[tuple[float, ...], ...]:
    """The value of `Scale.chances` for integers: the steps repeat after their common multiple."""
    every, result = _steps(), []
    for step in _ROUND:
        counts = np.bincount(every[::step], minlength=len(_ROUND))
        result.append(tuple((counts / counts.sum()).tolist()))
    return tuple(result)


@dataclass(frozen=True)
class IntegerScale(MixedScale):
    """The scale of integers of 16, 32 or 64 bits."""

    octaves: ClassVar[bool] = True
    whole: ClassVar[bool] = True

    base: str  # ``int2``, ``int4`` or ``int8``

    @property
    def limits(self) -> tuple[int, int]:
        """The range of the type; for bigint without the few integers that are sentinels."""
        bits = _TYPES[self.base][0]
        return max(-(2 ** (bits - 1)), LEAST), min(2 ** (bits - 1) - 1, GREATEST)

    @property
    def steps(self) -> tuple[Multiples, ...]:
        return tuple(map(Multiples, _ROUND))

    @property
    def step_choices(self) -> range | None:
        """The steps that a release distinguishes; None for smallint, which mostly holds codes."""
        return None if self.base == "int2" else super().step_choices

    @property
    def chances(self) -> tuple[tuple[float, ...], ...]:
        return _chances()

    @property
    def multiples(self) -> tuple[int, ...]:
        return _ROUND

    def steps_of(self, points: Ints) -> Ints:
        every = _steps()
        real = (points > NEG_INF) & (points < POS_INF)
        result = np.where(real, every[points % every.size], points)
        result[points == 0] = ZERO
        return result

    def has_value(self, lo: int, hi: int) -> bool:
        step = 1 if self.multiple is None else _ROUND[self.multiple]
        return (self.first_aligned(lo) or step) < hi

    @property
    def default_range(self) -> tuple[str, str]:
        """The range to use if nothing is known; narrow for smallint, which mostly holds codes."""
        return ("0", "10") if self.base == "int2" else ("0", "100")

    def select(self, identifier: sql.Composable) -> sql.Composable:
        return sql.SQL("{}::bigint").format(identifier)

    def parse(self, text: str, *, up: bool = False) -> int:
        return grid_number(text, 0, self.limits, up=up)

    def build(self, points: Ints, marks: Mapping[str, Mask]) -> pa.Array:
        return integer_array(points, marked(marks, "null", len(points)), _TYPES[self.base][1])

    def points_of(self, array: pa.Array) -> Ints:
        return int64_points(array)

    def candidates(self) -> Ints:
        """Candidates for bounds: every integer near zero, then four per octave."""
        return log_grid(*self.limits)

    @property
    def calendars(self) -> Mapping[int, WrittenDates]:
        return {} if self.base == "int2" else _WRITTEN

    def moments(self) -> Ints:
        """Candidates for bounds if integers are dates: ends of years, as dates or in seconds."""
        years = np.arange("2000", "2050", dtype="datetime64[Y]")
        seconds = years.astype("datetime64[s]").astype(np.int64)
        points = np.concatenate([dates.years() for dates in _WRITTEN.values()])
        points = np.unique(np.concatenate([points, seconds, 1000 * seconds]))
        return points[points <= self.limits[1]]

    def with_step(self, step: int | None, law: tuple[float, ...] = ()) -> MixedScale:
        dates = None if step is None or law else self.calendars.get(step)
        return super().with_step(step, law) if dates is None else CalendarScale(self.base, dates)


#: Spellings of dates, by negative numbers of digits, which are no places of `_ROUND`.
_WRITTEN = {-digits: WrittenDates(digits) for digits in (8, 6)}


@dataclass(frozen=True)
class CalendarScale(IntegerScale):
    """The scale of integers that are written dates: cells are spans of days or months."""

    octaves: ClassVar[bool] = False

    dates: WrittenDates

    def has_value(self, lo: int, hi: int) -> bool:
        return self.first_aligned(lo) < hi

    @property
    def lattice(self) -> WrittenDates:
        return self.dates

    def tails(self, lo: int, hi: int, cells: int = LINEAR) -> tuple[list[int], list[int]]:
        """Return edges of the cells outside released bounds, up to where dates are implausible."""
        below, above = super().tails(lo, hi, cells)
        first, *_, last = self.lattice.years().tolist()
        return [edge for edge in below if edge >= first], [edge for edge in above if edge <= last]

    def places(self, edges: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.lattice.count(np.array(edges)).tolist())

    def draw(self, lows: Ints, highs: Ints, rng: Rng) -> Ints:
        """Draw an integer from the dates in each cell, or from its integers if it has none."""
        first, end = self.lattice.count(lows), self.lattice.count(highs)
        dates = self.lattice.at(rng.integers(first, np.maximum(end, first + 1)))
        return np.asarray(np.where(end > first, dates, super().draw(lows, highs, rng)))

    def mass(self, low: Ints, high: Ints, lows: Ints, highs: Ints) -> Floats:
        count = self.lattice.count
        dates = count(high) - count(low)
        return np.where(count(highs) > count(lows), dates, high - low).astype(np.float64)


register_scale(lambda type_: IntegerScale(type_.base), "int2", "int4", "int8")


#: The number of decimal digits that always fit an int64.
_DIGITS = 18
#: Digits after the point that are kept even if the type's whole range then does not fit the grid.
_DECIMALS = 6
#: Multiples of 10, 100 and so on are distinguished up to this power of ten: thousands.
_TENS = 3
#: Removes the signs that PostgreSQL prints in values of type money.
_BARE = str.maketrans("", "", "$,")


@dataclass(frozen=True)
class NumericScale(Scale):
    """The scale of numeric(p, s): multiples of 10^-s, with at most 18 digits."""

    specials: ClassVar[tuple[str, ...]] = ("nan",)
    octaves: ClassVar[bool] = True

    precision: int  # declared number of digits
    scale: int  # declared digits after the point (may be negative, or larger than the precision)
    # Released number of decimals of the column's values, −2 for multiples of 100; None for the
    # decimals that the type declares.
    decimals: int | None = None

    @property
    def whole(self) -> bool:
        return self.scale <= 0

    @property
    def digits(self) -> int:
        """The number of decimals that the grid keeps."""
        return min(self.scale, max(_DIGITS - (self.precision - self.scale), _DECIMALS))

    @property
    def step_choices(self) -> range | None:
        """The numbers of decimals a release distinguishes, from −3 (thousands) on.

        None for whole numbers.
        """
        least = max(1 - (self.precision - self.scale), -_TENS)
        return range(least, self.digits + 1) if self.scale > 0 and least < self.digits else None

    def with_step(self, step: int | None, law: tuple[float, ...] = ()) -> Self:
        if step not in (self.step_choices or ()) or law:
            raise ValueError("values of this type have no such step")
        return replace(self, decimals=step)

    def steps_of(self, points: Ints) -> Ints:
        assert self.step_choices is not None
        return trailing_zeros(points, self.digits, self.step_choices)

    @property
    def step(self) -> int:
        """The number of grid points of which all values are multiples."""
        return 1 if self.decimals is None else int(10 ** (self.digits - self.decimals))

    @property
    def lattice(self) -> Multiples:
        return Multiples(self.step)

    def has_value(self, lo: int, hi: int) -> bool:
        return (self.first_aligned(lo) or self.step) < hi

    def draw(self, lows: Ints, highs: Ints, rng: Rng) -> Ints:
        """Draw a number from the multiples in each cell, or from its points if it has none."""
        if self.step == 1:
            return super().draw(lows, highs, rng)
        first, end = -(-lows // self.step), -(-highs // self.step)
        points = self.step * rng.integers(first, np.maximum(end, first + 1), dtype=np.int64)
        rest = end <= first
        points[rest] = super().draw(lows[rest], highs[rest], rng)
        return points

    @property
    def limits(self) -> tuple[int, int]:
        """The range of the type in grid points, at most 18 digits.

        Larger numbers count as the ends.
        """
        top = 10 ** min(self.precision - self.scale + self.digits, _DIGITS) - 1
        return -top, top

    def select(self, identifier: sql.Composable) -> sql.Composable:
        """Return an SQL expression for the unscaled integer as int8; NaN has a sentinel.

        Infinities count as the limits.
        """
        lo, hi = self.limits
        return sql.SQL(
            "CASE WHEN {c} IS NULL THEN NULL WHEN {c} = 'NaN' THEN {nan} ELSE"
            " pg_catalog.floor(least(greatest({c}, {lo}), {hi}) * {unit})::bigint END"
        ).format(
            c=identifier,
            nan=sql.SQL(f"({NAN})::bigint"),
            lo=sql.SQL(f"'{_decimal_literal(lo, self.digits)}'::numeric"),
            hi=sql.SQL(f"'{_decimal_literal(hi, self.digits)}'::numeric"),
            unit=sql.SQL(f"'{_decimal_literal(1, -self.digits)}'::numeric"),
        )

    def read(self, array: pa.Array) -> Ints:
        return int64_points(array, (NAN,))

    def parse(self, text: str, *, up: bool = False) -> int:
        return grid_number(text, self.digits, self.limits, up=up)

    def build(self, points: Ints, marks: Mapping[str, Mask]) -> pa.Array:
        """Return decimal128 values, or texts if the column holds NaN or the grid exceeds 1."""
        null = marked(marks, "null", len(points))
        if self.digits < 0:
            text = pa.array(points).cast(pa.string())
            text = pc.binary_join_element_wise(text, pa.scalar(f"e{-self.digits}"), "")
        else:
            decimals = _decimals(points, null, self.digits)
            if "nan" not in marks:
                return decimals
            text = decimals.cast(pa.string())
        text = pc.if_else(marked(marks, "nan", len(points)), "NaN", text)
        return pc.if_else(null, pa.scalar(None, pa.string()), text)

    def points_of(self, array: pa.Array) -> Ints:
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            nan = pc.equal(array, "NaN").fill_null(False)
            text = pc.if_else(nan, "0", array)
            if self.digits < 0:
                plain = pc.replace_substring(text, f"e{-self.digits}", "").cast(pa.int64())
                points = int64_points(plain)
            else:
                points = _unscaled(text.cast(pa.decimal128(38, self.digits)))
            points[np.asarray(nan)] = NAN
        else:
            points = _unscaled(array)
        points[np.asarray(array.is_null())] = NULL
        return points

    def candidates(self) -> Ints:
        """Candidates for bounds: hundreds of steps and whole units near 0, then four per octave."""
        lo, hi = self.limits
        unit = 10 ** max(self.digits, 0)
        points = {*log_grid(lo, hi).tolist()}
        points |= {sign * i * unit for sign in (-1, 1) for i in range(65) if i * unit <= hi}
        return np.array(sorted(points), dtype=np.int64)


@dataclass(frozen=True)
class MoneyScale(NumericScale):
    """The scale of money, in hundredths, with at most 18 digits.

    Sessions set ``lc_monetary`` to C.
    """

    specials: ClassVar[tuple[str, ...]] = ()

    def select(self, identifier: sql.Composable) -> sql.Composable:
        return super().select(sql.SQL("({}::numeric)").format(identifier))

    def parse(self, text: str, *, up: bool = False) -> int:
        return super().parse(text.translate(_BARE), up=up)


def trailing_zeros(points: Ints, digits: int, choices: range) -> Ints:
    """Return how many decimals integers in units of ``10**-digits`` have; −1 for multiples of ten.

    >>> trailing_zeros(np.array([2910, 29, 0, 5_000_000]), 2, range(-1, 3)).tolist()
    [1, 2, -9, -1]
    """
    result = points.copy()
    real = np.flatnonzero((points > NEG_INF) & (points < POS_INF))
    result[real] = digits
    left = real
    for count in reversed(choices[:-1]):
        left = left[points[left] % 10 ** (digits - count) == 0]
        result[left] = count
    result[points == 0] = ZERO
    return result


def _decimal_literal(value: int, step: int) -> str:
    return format(Decimal(value).scaleb(-step), "f")


def _decimals(points: Ints, null: Mask, step: int) -> pa.Array:
    """decimal128(38, step) from unscaled integers: the buffer is low word, sign word."""
    words = np.empty((len(points), 2), dtype="<i8")
    words[:, 0] = points
    words[:, 1] = points >> 63
    validity = pa.array(~null).buffers()[1] if null.any() else None
    return pa.Array.from_buffers(
        pa.decimal128(38, step), len(points), [validity, pa.py_buffer(words.tobytes())]
    )


def _unscaled(array: pa.Array) -> Ints:
    words = np.frombuffer(array.buffers()[1], dtype="<i8").reshape(-1, 2)
    low: Ints = words[array.offset : array.offset + len(array), 0]
    return low.copy()


register_scale(lambda type_: MoneyScale(_DIGITS, 2), "money")
