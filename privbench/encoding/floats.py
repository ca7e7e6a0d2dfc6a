"""The scale of real, double precision and unconstrained numeric, in the order of the floats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa
from psycopg import sql

from privbench.arrays import Floats, Ints, Mask, Rng
from privbench.encoding.base import MORE, MOST, ZERO
from privbench.encoding.bounds import parts
from privbench.encoding.numbers import IntegerScale, NumericScale
from privbench.encoding.scale import LINEAR, Scale, marked, register_scale
from privbench.privacy.recoding import NAN, NEG_INF, NULL, POS_INF
from privbench.schema import ColumnType

_FLIP = np.int64(2**63 - 1)
#: Powers of ten, which processors compute with different last digits.
_TENS = np.array([float(f"1e{power}") for power in range(-300, 301)])


def image(values: Floats) -> Ints:
    """Return an int64 for every finite float, so that integers and floats have the same order."""
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ _FLIP, bits)


def value(points: Ints) -> Floats:
    """Return the floats that `image` maps to these integers."""
    points = np.asarray(points, dtype=np.int64)
    return np.where(points < 0, points ^ _FLIP, points).view(np.float64)


def single(values: Floats, lows: Floats, highs: Floats) -> Floats:
    """Return the values as 32-bit floats, moved to the next float if rounding leaves the cell."""
    near = values.astype(np.float32)
    inward = np.where(near >= highs, -np.inf, np.inf).astype(np.float32)
    outside = (near >= highs) | (near < lows)
    return np.where(outside, np.nextafter(near, inward), near).astype(np.float64)


def rounded_to(values: Floats, widths: Floats) -> Floats:
    """Return values rounded to the greatest power of ten that is at most 1/1000 of each width."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        digits = 304 - np.searchsorted(_TENS, widths, side="right")
        up, down = _TENS[np.clip(digits, 0, 300) + 300], _TENS[np.clip(-digits, 0, 300) + 300]
        rounded: Floats = np.rint(values * up / down) / up * down
    return rounded


#: Steps further from zero than `_REACH` are not distinct doubles; numbers further from zero than
#: `_HUGE` are clipped.
_REACH, _HUGE = 2**53, 1e38


@dataclass(frozen=True, slots=True)
class DecimalGrid:
    """The floats nearest to the multiples of ``10**-decimals``.

    The multiples are called *steps*.
    """

    decimals: int  # 0 to `MOST`
    single: bool = False  # whether the floats have 32 bits

    def __post_init__(self) -> None:
        if not 0 <= self.decimals <= MOST:
            raise ValueError(f"decimals must be 0 to {MOST}")

    def numbers(self, steps: Ints) -> Floats:
        """Return the float of every step, which is the double nearest to the quotient."""
        result: Floats = np.asarray(steps, dtype=np.float64) / 10.0**self.decimals
        return result.astype(np.float32).astype(np.float64) if self.single else result

    def first(self, numbers: Floats) -> Ints:
        """Return for each number the least step whose float is at least that number.

        See `within`.
        """
        near = np.clip(numbers, -_HUGE, _HUGE)
        if self.single:
            # Far from zero many steps share a float; the first of them lies halfway between the
            # float below and this one.
            upper = near.astype(np.float32)
            upper = np.where(upper < near, np.nextafter(upper, np.float32(np.inf)), upper)
            lower = np.nextafter(upper, np.float32(-np.inf))
            near = (upper.astype(np.float64) + lower.astype(np.float64)) / 2
        scaled = np.clip(near * 10.0**self.decimals, -_REACH, _REACH)
        steps = np.rint(scaled).astype(np.int64)
        for _ in range(2):
            steps += self.numbers(steps) < numbers
            steps -= self.numbers(steps - 1) >= numbers
        return steps

    def within(self, numbers: Floats) -> Mask:
        """Return whether neighbouring steps are different doubles at each of these numbers."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.abs(numbers) * 10.0**self.decimals < _REACH)


def decimals_of(numbers: Floats, *, single: bool = False) -> Ints:
    """Return the fewest decimals that state each number.

    `ZERO` for 0, `MORE` if six do not suffice.

    >>> decimals_of(np.array([0.0, 3.0, 9.99, 0.1 + 0.2, 1e300])).tolist()
    [-9, 0, 2, 7, 0]
    """
    result = np.full(len(numbers), MORE, dtype=np.int64)
    left = np.arange(len(numbers))
    for count in range(MOST + 1):
        rest = numbers[left]
        decimal_grid = DecimalGrid(count, single)
        near = np.rint(np.clip(rest * 10.0**count, -_REACH, _REACH)).astype(np.int64)
        fits = decimal_grid.within(rest) & (decimal_grid.numbers(near) == rest)
        if count == 0:
            # Doubles so large that they do not distinguish steps are whole numbers.
            fits |= np.rint(rest) == rest
        result[left[fits]] = count
        left = left[~fits]
    result[numbers == 0.0] = ZERO
    return result


#: Makes the cells of a decimal grid, whose steps are integers.
_STEPS = IntegerScale("int8")
#: The largest step of a decimal grid, to which steps of far tails are clipped; and the largest
#: value, in units, of an integer that `places` gives.
_FAR, _UNITS = 2**60, 2.0**60


@dataclass(frozen=True)
class FloatScale(Scale):
    """The scale of floats: an integer for each float, in the same order.

    Where 0 lies inside the cells, it has a cell of its own, since most columns hold exact zeros. If
    a number of decimals is released, cells begin at numbers with so many decimals, and values are
    drawn among the floats nearest to such numbers; the grid stays the same.
    """

    specials: ClassVar[tuple[str, ...]] = ("nan", "-inf", "inf")
    octaves: ClassVar[bool] = True
    fractions: ClassVar[bool] = True
    step_choices: ClassVar[range] = range(MORE + 1)

    # ``float4``, ``float8`` or ``numeric``. The last is unconstrained: it is read as a float and
    # written as a decimal number, and infinities count as the largest numbers.
    base: str
    decimals: int | None = None  # released number of decimals of the column's values, or None

    @property
    def decimal_grid(self) -> DecimalGrid | None:
        """The grid of numbers with the released number of decimals; None if none is released."""
        return None if self.decimals is None else DecimalGrid(self.decimals, self.base == "float4")

    def with_step(self, step: int | None, law: tuple[float, ...] = ()) -> FloatScale:
        if law:
            raise ValueError("shares of decimals are not kept")
        scale = replace(self, decimals=step)
        scale.decimal_grid  # noqa: B018  (refuses other numbers)
        return scale

    def steps_of(self, points: Ints) -> Ints:
        result = points.copy()
        real = (points > NEG_INF) & (points < POS_INF)
        result[real] = decimals_of(value(points[real]), single=self.base == "float4")
        return result

    @property
    def top(self) -> float:
        """The largest value that a column of the type can hold."""
        return {"float4": 3e38, "float8": 1e300, "numeric": 1e300}[self.base]

    @property
    def limits(self) -> tuple[int, int]:
        lo, hi = image(np.array([-self.top, self.top])).tolist()
        return lo, hi

    def select(self, identifier: sql.Composable) -> sql.Composable:
        """Return the column as float8 in SQL.

        A numeric beyond the range of float8 becomes an infinity.
        """
        if self.base != "numeric":
            return sql.SQL("{}::double precision").format(identifier)
        return sql.SQL(
            "CASE WHEN {c} = 'NaN' THEN 'NaN'::double precision"
            " WHEN {c} > 1e300 THEN 'Infinity'::double precision"
            " WHEN {c} < -1e300 THEN '-Infinity'::double precision"
            " WHEN pg_catalog.abs({c}) < 1e-300 THEN 0::double precision"
            " ELSE {c}::double precision END"
        ).format(c=identifier)

    def read(self, array: pa.Array) -> Ints:
        floats = np.asarray(array.cast(pa.float64()).fill_null(0.0))
        nan = np.isnan(floats)
        points = np.clip(image(np.where(nan, 0.0, floats)), *self.limits)
        points[nan], points[floats == np.inf], points[floats == -np.inf] = NAN, POS_INF, NEG_INF
        points[np.asarray(array.is_null())] = NULL
        return points

    def parse(self, text: str, *, up: bool = False) -> int:
        number = float(text)
        if not np.isfinite(number):
            raise ValueError("not a finite number")
        lo, hi = self.limits
        return min(max(int(image(np.array([number]))[0]), lo), hi)

    def build(self, points: Ints, marks: Mapping[str, Mask]) -> pa.Array:
        """Return an array of float32 or float64; for unconstrained numeric, float64."""
        numbers = value(points)
        for name, special in (("nan", np.nan), ("-inf", -np.inf), ("inf", np.inf)):
            if name in marks:
                numbers[marks[name]] = special
        if self.base == "numeric":
            numbers = np.where(np.isinf(numbers), np.sign(numbers) * self.top, numbers)
        null = marked(marks, "null", len(points))
        if self.base == "float4":
            return pa.array(numbers.astype(np.float32), mask=null)
        return pa.array(numbers, mask=null)

    def points_of(self, array: pa.Array) -> Ints:
        return self.read(array)

    def candidates(self) -> Ints:
        """Candidates for bounds: zero, and two per octave from ±2^-40 to the largest number."""
        top = min(int(np.log2(self.top)), 120)
        sizes = np.unique(np.concatenate([2.0 ** (np.arange(-80, 2 * top + 1) / 2), np.arange(33)]))
        numbers = np.unique(np.concatenate([-sizes, [-self.top, self.top], sizes]))
        return np.unique(image(numbers))

    def coarser(self) -> tuple[Ints, ...]:
        """Sparser candidates for bounds: one per octave, from ±2^-20 on."""
        top = min(int(np.log2(self.top)), 120)
        sizes = 2.0 ** np.arange(-20, top + 1)
        numbers = np.concatenate([-sizes, [-self.top, 0.0, self.top], sizes])
        return (np.unique(image(numbers)),)

    def draw(self, lows: Ints, highs: Ints, rng: Rng) -> Ints:
        """Draw a number uniformly from the decimal numbers in each cell, or from all its floats.

        All floats are used where no number of decimals was released.
        """
        if self.decimal_grid is None:
            return self._anywhere(lows, highs, rng)
        first, count = self._steps(lows, highs)
        steps = first + rng.integers(0, np.maximum(count, 1))
        points = image(self.decimal_grid.numbers(steps))
        rest = (count == 0) | (points < lows) | (points >= highs)
        points[rest] = self._anywhere(lows[rest], highs[rest], rng)
        return points

    def mass(self, low: Ints, high: Ints, lows: Ints, highs: Ints) -> Floats:
        widths: Floats = value(high) - value(low)
        if self.decimal_grid is None:
            return widths
        whole, inside = self._steps(lows, highs)[1], self._steps(low, high)[1]
        return np.where(whole > 0, inside, widths)

    def _steps(self, lows: Ints, highs: Ints) -> tuple[Ints, Ints]:
        """The first step in each cell, and how many; 0 where doubles do not distinguish steps."""
        assert self.decimal_grid is not None
        a, b = value(lows), value(highs)
        first, end = self.decimal_grid.first(a), self.decimal_grid.first(b)
        near = self.decimal_grid.within(a) & self.decimal_grid.within(b)
        return first, np.where(near, np.maximum(end - first, 0), 0)

    def _anywhere(self, lows: Ints, highs: Ints, rng: Rng) -> Ints:
        """Draw uniformly in value within the cell, rounded to at most 1/1000 of its width."""
        a, b = value(lows), value(highs)
        share = rng.random(len(a))
        drawn = a * (1.0 - share) + b * share
        rounded = rounded_to(drawn, b - a)
        if self.base == "float4":
            drawn = single(drawn, a, b)
            rounded = single(rounded, a, b)
        inside = (rounded >= a) & (rounded < b)
        return np.clip(image(np.where(inside, rounded, drawn)), lows, highs - 1)

    def _edges(
        self, lo: int, hi: int, bins: int | None, cells: int, inner: Sequence[int]
    ) -> list[int]:
        ends = self._ends(lo, hi)
        if ends is None:
            return super()._edges(lo, hi, bins, cells, inner)
        steps = self._again(lo, hi, inner) if inner else ()
        return self._images(_STEPS.edges(*ends, bins=bins, cells=cells, inner=steps))

    def aligned(self, lo: int, hi: int) -> tuple[int, int]:
        if self.decimal_grid is None or not self._near(lo, hi):
            return lo, hi
        low, high = self.decimal_grid.first(value(np.array([lo, hi])))
        low -= self._images([low])[0] > lo
        low, high = self._images([low, high])
        return low, high

    def first_aligned(self, lo: int) -> int:
        if self.decimal_grid is None or not self._near(lo, lo):
            return lo
        return self._images(self.decimal_grid.first(value(np.array([lo]))).tolist())[0]

    def with_own_cells(self, edges: Sequence[int]) -> list[int]:
        """Return the edges with a cell for exact zero.

        On a decimal grid it ends at the next number.
        """
        end = self._after_zero
        zero = {0, min(end, edges[-1])} if edges[0] <= 0 < edges[-1] else set()
        return sorted({*edges, *zero})

    @property
    def _after_zero(self) -> int:
        """The end of zero's cell: the least positive float, or the decimal grid's next step."""
        if self.decimal_grid is not None:
            return self._images([1])[0]
        least = np.finfo(np.float32 if self.base == "float4" else np.float64).smallest_subnormal
        return int(image(np.array([least], dtype=np.float64))[0])

    def holds_one_value(self, low: int, high: int) -> bool:
        if self.decimal_grid is None:
            return low == 0 and high <= self._after_zero
        return int(self._steps(*np.array([[low], [high]]))[1][0]) == 1

    def places(self, edges: Sequence[int]) -> tuple[int, ...]:
        """Return integers proportional to the edges' values.

        They are decimal steps if doubles distinguish these, else multiples of the narrowest cell.
        """
        numbers = value(np.array(edges, dtype=np.int64))
        if self.decimal_grid is not None and self._near(edges[0], edges[-1]):
            result = self.decimal_grid.first(numbers).tolist()
        else:
            widths = np.diff(numbers)
            unit = widths[widths > np.abs(numbers).max() / _UNITS].min(initial=np.inf)
            result = [int(place) for place in np.rint(numbers / unit)]
        for at in range(1, len(result)):
            # The cell that holds only zero has no width in value; it gets the width 1.
            result[at] = max(result[at], result[at - 1] + 1)
        return tuple(result)

    def _near(self, lo: int, hi: int) -> bool:
        """Whether doubles distinguish the decimal grid's numbers between two points."""
        ends = value(np.array([lo, hi]))
        return self.decimal_grid is not None and bool(self.decimal_grid.within(ends).all())

    def _ends(self, lo: int, hi: int) -> tuple[int, int] | None:
        """A range's first step and one past its last; None if doubles do not distinguish them."""
        if self.decimal_grid is None or not self._near(lo, hi):
            return None
        low, high = self.decimal_grid.first(value(np.array([lo, hi]))).tolist()
        return low, max(high, low + 1)

    def _images(self, steps: Sequence[int]) -> list[int]:
        """Grid points of steps, which are clipped at ± `_FAR`."""
        assert self.decimal_grid is not None
        clipped = np.array([min(max(step, -_FAR), _FAR) for step in steps], dtype=np.int64)
        return [int(point) for point in image(self.decimal_grid.numbers(clipped))]

    def _again(self, lo: int, hi: int, inner: Sequence[int]) -> list[int]:
        """First steps of cells: as many between two candidates as ``inner`` has edges there."""
        assert self.decimal_grid is not None
        points = self.candidates()
        ends = np.concatenate([[lo], points[(points > lo) & (points < hi)], [hi]])
        cuts = np.diff(np.searchsorted(np.array(inner), ends))
        steps = self.decimal_grid.first(value(ends)).tolist()
        result: list[int] = []
        for (low, high), count in zip(pairwise(steps), cuts.tolist(), strict=True):
            result += parts(low, high, max(count, 1))
        return result

    def linear(self, lo: int, hi: int, cells: int) -> list[int]:
        """Return edges that are equally spaced in value, not in the order-preserving integers."""
        a, b = value(np.array([lo, hi])).tolist()
        shares = np.arange(cells + 1) / cells
        inner = image(a * (1.0 - shares) + b * shares).tolist()[1:-1]
        return [lo, *(point for point in inner if lo < point < hi), hi]

    def octave_edges(self, lo: int, hi: int) -> list[int]:
        """Return edges whose distance halves toward the lower bound, and toward a zero inside."""
        a, b = value(np.array([lo, hi])).tolist()
        shares = 2.0 ** (-np.arange(1, 41) / 2)
        result = a + (b / 2 - a / 2) * 2 * shares
        if a < 0 < b:
            result = np.concatenate([result, b * shares, a * shares, [0.0]])
        return [int(point) for point in image(result)]

    def tails(self, lo: int, hi: int, cells: int = LINEAR) -> tuple[list[int], list[int]]:
        """Return edges of the cells outside released bounds, which double in width.

        On a decimal grid they are multiples of its step.
        """
        ends = self._ends(lo, hi)
        if ends is not None:
            outer = _STEPS.tails(*ends, cells)
            return self._images(outer[0]), self._images(outer[1])
        a, b = value(np.array([lo, hi])).tolist()
        width = max((b / 8 - a / 8), 1e-290)
        each = 1 if cells == LINEAR else 2
        steps = width * (2.0 ** np.arange(each, 7, each) - 1)
        below, above = np.maximum(a - steps, -self.top), np.minimum(b + steps, self.top)
        return sorted(set(image(below).tolist())), sorted(set(image(above).tolist()))


def _numeric(type_: ColumnType) -> Scale:
    if type_.precision is None:
        return FloatScale("numeric")
    return NumericScale(type_.precision, type_.scale or 0)


register_scale(lambda type_: FloatScale(type_.base), "float4", "float8")
register_scale(_numeric, "numeric")
