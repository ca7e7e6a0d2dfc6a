"""Scales: the public order-preserving maps between a type's values and integers (a grid).

There is one subclass per type family, in the family's file. A scale knows nothing of rows: limits,
candidates and edges follow from the type alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
from psycopg import sql

from privbench.arrays import Floats, Ints, Mask, Rng
from privbench.privacy.recoding import NEG_INF, NULL, POS_INF
from privbench.schema import ColumnType

#: Least and greatest grid point that is not a sentinel.
LEAST, GREATEST = NEG_INF + 1, POS_INF - 1
_WIDE = Context(prec=400)
#: Decimal exponents above this lie beyond every grid.
_BEYOND = 40

#: Ranges of at most this many grid steps, public or released, get one cell per step.
UNIT_STEPS = 256
#: Ranges of at most this many grid steps get one cell per step even where, because of noise, only
#: few cells are useful.
LEAST_UNITS = 32
#: The number of equal cells in a wider range.
LINEAR = 128
#: Numbers of growing cells: `TAILS` beyond a released bound; `LONG_TAILS` above the range on a
#: scale with octaves, where they reach as far as 150,000 times a twelfth of the range's width.
TAILS, LONG_TAILS = 6, 32


class Scale(ABC):
    """The scale of one column type: an int64 (grid point) for each value, in the same order."""

    # Special cells that the type can hold besides NULL: ``nan``, ``-inf``, ``inf``.
    specials: ClassVar[tuple[str, ...]] = ()
    # Whether cells grow with the distance from the lower bound and from zero, grid point 0.
    octaves: ClassVar[bool] = False
    open_range: ClassVar[bool] = True  # whether the type's range is too wide to be used as it is
    fractions: ClassVar[bool] = False  # whether values may have any number of decimals

    @property
    def whole(self) -> bool:
        """Whether all values are whole numbers."""
        return False

    @property
    def step_choices(self) -> range | None:
        """The steps that a release distinguishes, the coarsest first; None if no step is released.

        Steps of numbers are numbers of decimals. The last step stands for all other values.
        """
        return None

    @property
    def chances(self) -> tuple[tuple[float, ...], ...]:
        """For every step, the share of its multiples that are multiples of each coarser step."""
        return ()

    @property
    def multiples(self) -> tuple[int, ...]:
        """The sizes of the steps, if a step need not be a multiple of the finer steps; else ()."""
        return ()

    @property
    def cycles(self) -> dict[str, int]:
        """The recurring parts of a value, such as its weekday, each with its number of values."""
        return {}

    @property
    def default_range(self) -> tuple[str, str]:
        """The ends, as literals, of the range to use where nothing is known of the column."""
        return ("0", "100")

    @property
    def plausible(self) -> tuple[int, int] | None:
        """The least and greatest grid point that values are likely to have.

        None without a limit.
        """
        return None

    @property
    def step(self) -> int:
        """The distance between neighbouring values of the type, in grid points."""
        return 1

    @property
    def lattice(self) -> Lattice | None:
        """The multiples of the released step, at which cells begin; None if no step is released."""
        return None

    @property
    def spacing(self) -> int:
        """The distance between neighbouring values, given the released step if there is one."""
        lattice = self.lattice
        if isinstance(lattice, Multiples) and lattice.first == 0:
            return lattice.size
        return self.step

    @property
    @abstractmethod
    def limits(self) -> tuple[int, int]:
        """The least and the greatest integer (grid point) of the type, inclusive."""

    @abstractmethod
    def select(self, identifier: sql.Composable) -> sql.Composable:
        """Return the SQL expression (int8 or float8) from which `read` computes grid points."""

    def read(self, array: pa.Array) -> Ints:
        """Return the integers (grid points and sentinels) of a selected batch, shape (rows,)."""
        return int64_points(array)

    @abstractmethod
    def parse(self, text: str, *, up: bool = False) -> int:
        """Return the integer of a literal, rounded down, or up with ``up``.

        Raises a ValueError if the text is no literal of the type.
        """

    @abstractmethod
    def build(self, points: Ints, marks: Mapping[str, Mask]) -> pa.Array:
        """Return the values with these integers, which lie within the limits.

        ``marks`` are masks of the rows that are ``null``, ``nan``, ``-inf`` or ``inf``.
        """

    @abstractmethod
    def points_of(self, array: pa.Array) -> Ints:
        """Return the integers (grid points and sentinels) of an array that `build` made."""

    @abstractmethod
    def candidates(self) -> Ints:
        """Ascending public grid points, at most about 2,000, from which bounds are chosen."""

    @property
    def calendars(self) -> Mapping[int, WrittenDates]:
        """The formats of dates that are written as integers, by the step that chooses each."""
        return {}

    def moments(self) -> Ints:
        """Further candidates for bounds, for numbers that may be written dates or times."""
        return np.empty(0, np.int64)

    def coarser(self) -> tuple[Ints, ...]:
        """Sets of ever fewer `candidates`, for columns with few rows."""
        if not self.octaves:
            return ()
        return tuple(log_grid(*self.limits, per_octave=step, near=step) for step in (2, 1))

    def draw(self, lows: Ints, highs: Ints, rng: Rng) -> Ints:
        """Draw a grid point in every cell ``[low, high)``, uniform over multiples of the step."""
        return rng.integers(lows, highs, dtype=np.int64)

    def mass(self, low: Ints, high: Ints, lows: Ints, highs: Ints) -> Floats:
        """Return for each cell ``[lows, highs)`` its share of values in ``[low, high)``."""
        return counted(np.full(len(lows), self.step), low, high, lows, highs)

    def edges(
        self,
        lo: int,
        hi: int,
        *,
        bins: int | None = None,
        cells: int = LINEAR,
        inner: Sequence[int] = (),
    ) -> list[int]:
        """Return cell edges over ``[lo, hi)``, both ends included.

        Args:
            lo: The range's first point.
            hi: The point after its last one.
            bins: Number of equal cells, where the config says so.
            cells: Number of equal cells that is useful at this level of noise, at most `LINEAR`;
                with fewer, growing cells are wider by the same factor.
            inner: Edges to take instead of equal cells, where a release shows how rows are spread.
        """
        if self.lattice is None:
            return self._edges(lo, hi, bins, cells, inner)
        low, high = self._counted(lo), self._counted(hi)
        inner = sorted({self._counted(edge) for edge in inner})
        return self._points(self._edges(low, max(high, low + 1), bins, cells, inner))

    def _edges(
        self, lo: int, hi: int, bins: int | None, cells: int, inner: Sequence[int]
    ) -> list[int]:
        """See `edges`; all points have the same distance."""
        coarser = LINEAR // cells
        most = LEAST_UNITS if inner else max(UNIT_STEPS // coarser, LEAST_UNITS)
        if bins is None and hi - lo <= most:
            return list(range(lo, hi + 1))
        if bins is None and inner:
            return sorted({lo, hi, *(edge for edge in inner if lo < edge < hi)})
        edges = set(self.linear(lo, hi, bins or cells))
        if bins is None and self.octaves:
            grown = [edge for edge in self.octave_edges(lo, hi) if lo < edge < hi]
            edges |= set(grown[:: min(coarser, 4)])
        return sorted(edges)

    def with_step(self, step: int | None, law: tuple[float, ...] = ()) -> Scale:
        """Return the grid for multiples of one of the `step_choices`, or of several by shares."""
        raise ValueError("values of this type have no step to release")

    def steps_of(self, points: Ints) -> Ints:
        """Return the coarsest step of which each value is a multiple, `ZERO` for 0.

        Sentinels stay.
        """
        raise ValueError("values of this type have no step to release")

    def cycle_of(self, name: str, points: Ints) -> Ints:
        """Return the position, from 0, of every value in one of the `cycles`; sentinels stay."""
        raise ValueError("values of this type have no cycles")

    def with_cycles(self, laws: tuple[tuple[float, ...], ...]) -> Scale:
        """Return the grid with released shares of the `cycles`, by which values are drawn.

        () for none.
        """
        raise ValueError("values of this type have no cycles")

    def has_value(self, lo: int, hi: int) -> bool:
        """Return whether a value except zero may lie in ``[lo, hi)``, given the released step."""
        return self.lattice is None or self.first_aligned(lo) < hi

    def aligned(self, lo: int, hi: int) -> tuple[int, int]:
        """Return the range ``[lo, hi)`` widened to points at which cells may begin."""
        first = self.first_aligned(lo)
        if first > lo:
            (first,) = self._points([self._counted(lo) - 1])
        return first, self.first_aligned(hi)

    def first_aligned(self, lo: int) -> int:
        """Return the first point, from ``lo`` on, at which a cell may begin."""
        return lo if self.lattice is None else self._points([self._counted(lo)])[0]

    def with_own_cells(self, edges: Sequence[int]) -> list[int]:
        """Return the cell edges, ascending, with single cells for points that must have one."""
        return list(edges)

    def holds_one_value(self, low: int, high: int) -> bool:
        """Return whether a cell ``[low, high)`` contains a single value of the column."""
        if self.lattice is None:
            return high - low == self.step
        return self._counted(high) - self._counted(low) == 1

    def places(self, edges: Sequence[int]) -> tuple[int, ...] | None:
        """Return integers whose differences are nearly proportional to those of the edges' values.

        None means that the edges themselves are such integers.
        """
        return None

    def linear(self, lo: int, hi: int, cells: int) -> list[int]:
        """Return the edges of about `cells` equal cells over ``[lo, hi)``."""
        width = hi - lo
        return [lo + width * i // cells for i in range(cells + 1)]

    def octave_edges(self, lo: int, hi: int) -> list[int]:
        """Return cell edges at growing distances above the lower bound, and on both sides of 0."""
        steps = [*range(17), *(round(2 ** (k / 2)) for k in range(8, 127))]
        result = [lo + step for step in steps]
        if lo < 0 < hi:
            result += [sign * step for sign in (-1, 1) for step in steps]
        return result

    def tails(self, lo: int, hi: int, cells: int = LINEAR) -> tuple[list[int], list[int]]:
        """Return the edges of growing cells below and above released bounds.

        Fewer if cells are few. Each cell is twice as wide as the one before it. On scales with
        octaves the factor is √2, and more cells lie above the range, since a few large values make
        up most of a sum.
        """
        if self.lattice is None:
            return self._tails(lo, hi, cells)
        below, above = self._tails(self._counted(lo), self._counted(hi), cells)
        return self._points(below), self._points(above)

    def _tails(self, lo: int, hi: int, cells: int) -> tuple[list[int], list[int]]:
        """See `tails`; all points have the same distance."""
        each = 1 if cells == LINEAR else 2
        below = _growing(max((hi - lo) // 8, 1), 2.0, TAILS, each)
        above = below
        if self.octaves:
            above = _growing(max((hi - lo) // 12, 1), 2**0.5, LONG_TAILS, each)
            below = above if lo < 0 else below
        return [lo - step for step in reversed(below)], [hi + step for step in above]

    def _counted(self, point: int) -> int:
        """The number of the first multiple that is not below a point."""
        assert self.lattice is not None
        return int(self.lattice.count(point))

    def _points(self, counted: Sequence[int]) -> list[int]:
        assert self.lattice is not None
        return [int(self.lattice.at(number)) for number in counted]


@dataclass(frozen=True, slots=True)
class Multiples:
    """The points at multiples of `size` from the point `first`: days, hours, Mondays."""

    size: int
    first: int = 0

    def count(self, points: Any) -> Any:
        """Return the number of the first multiple that is not below each point."""
        return -(-(points - self.first) // self.size)

    def at(self, numbers: Any) -> Any:
        """Return the multiples with these numbers."""
        return numbers * self.size + self.first


class Lattice(Protocol):
    """Numbered points in ascending order; its functions take an integer or an array."""

    @property
    def size(self) -> float:
        """The mean distance between neighbouring points."""

    def count(self, points: Any) -> Any:
        """Return the number of the lattice's first point that is not below each given point."""

    def at(self, numbers: Any) -> Any:
        """Return the lattice's points with these numbers."""


@dataclass(frozen=True, slots=True)
class WrittenDates:
    """The integers that are dates as 20240229 or months as 202402.

    Before and after them, all integers.

    >>> dates = WrittenDates(8)
    >>> dates.at(dates.count(np.array([0, 20240229, 20240230, 20241301]))).tolist()
    [0, 20240229, 20240301, 20250101]
    """

    digits: int  # 8 with the day, 6 without

    @property
    def size(self) -> float:
        """The mean distance between neighbouring dates."""
        dates = _written(self.digits)
        return float((dates[-1] - dates[0]) / len(dates))

    def count(self, points: Any) -> Any:
        """Return the number of the first date that is not below each given integer."""
        dates = _written(self.digits)
        beyond = np.minimum(points - dates[0], 0) + np.maximum(points - dates[-1] - 1, 0)
        return np.searchsorted(dates, points) + beyond

    def at(self, numbers: Any) -> Any:
        """Return the dates with these numbers."""
        dates = _written(self.digits)
        inside = np.clip(numbers, 0, len(dates) - 1)
        return dates[inside] + (numbers - inside)

    def years(self) -> Ints:
        """The first integer of each year from 1900 to 2049, and of what follows its last date."""
        ends = [101, 1232] if self.digits == 8 else [1, 13]
        years = np.arange(1900, 2050)[:, None] * 10 ** (self.digits - 4)
        return np.asarray(years + ends, np.int64).reshape(-1)

    def holds(self, lows: Ints, highs: Ints) -> Mask:
        """Return whether each cell ``[low, high)`` lies within such a year and contains a date."""
        first, end, *_, last = self.years()
        close = (lows >= first) & (highs <= last) & (highs - lows <= end - first)
        return np.asarray(close & (self.count(highs) > self.count(lows)))


@lru_cache
def _written(digits: int) -> Ints:
    """The dates or months of four centuries, ascending; they are few enough for a table."""
    unit = "D" if digits == 8 else "M"
    texts = np.datetime_as_string(np.arange("1800-01", "2200-01", dtype=f"datetime64[{unit}]"))
    return np.char.replace(texts, "-", "").astype(np.int64)


def _growing(width: int, factor: float, cells: int, each: int) -> list[int]:
    """Distances of the ends of cells whose widths grow by a factor; every ``each``-th end."""
    return [round(width * (factor**k - 1) / (factor - 1)) for k in range(each, cells + 1, each)]


@lru_cache(maxsize=256)
def log_grid(lo: int, hi: int, per_octave: int = 4, near: int = 64) -> Ints:
    """Return ascending points ``0, ±1 … ±near`` and ``±2^(k/per_octave)`` within ``[lo, hi]``."""
    first = max(near.bit_length() - 1, 0) * per_octave
    grown = [round(2 ** (k / per_octave)) for k in range(first, 63 * per_octave)]
    positive = {*range(near + 1), *grown}
    points = {sign * step for sign in (-1, 1) for step in positive}
    ascending = sorted({lo, hi, *(point for point in points if lo <= point <= hi)})
    result = np.array(ascending, dtype=np.int64)
    # Columns of one type share this array.
    result.flags.writeable = False
    return result


def int64_points(array: pa.Array, sentinels: Iterable[int] = ()) -> Ints:
    """Return the grid points of an int64 Arrow array; NULL becomes its sentinel.

    A value that equals a sentinel moves to the nearest point that is none, except for sentinels
    that the SQL expression writes on purpose (``sentinels``).
    """
    column = array.cast(pa.int64()) if array.type != pa.int64() else array
    values = np.asarray(column.fill_null(0), dtype=np.int64)
    points = np.clip(values, LEAST, GREATEST)
    for sentinel in sentinels:
        points[values == sentinel] = sentinel
    if column.null_count:
        points[np.asarray(column.is_null())] = NULL
    return points


def integer_array(points: Ints, null: Mask, type_: pa.DataType) -> pa.Array:
    """Return an Arrow array of an integer-like type with NULLs."""
    storage = pa.array(points, mask=null if null.any() else None)
    return storage if type_ == pa.int64() else storage.cast(type_)


def grid_number(text: str, step: int, limits: tuple[int, int], *, up: bool = False) -> int:
    """Return the integer of a decimal literal in units of 10^-step, within the limits."""
    try:
        scaled = Decimal(text.strip()).scaleb(step, _WIDE)
        if not scaled.is_finite():
            raise ValueError("not a finite number")
        if scaled and scaled.adjusted() > _BEYOND:
            return limits[scaled > 0]
        nearest = int(scaled.to_integral_value(ROUND_CEILING if up else ROUND_FLOOR))
    except ArithmeticError as error:
        raise ValueError("not a number") from error
    return min(max(nearest, limits[0]), limits[1])


def counted(steps: Ints, low: Ints, high: Ints, lows: Ints, highs: Ints) -> Floats:
    """Return the number of multiples of a step in ``[low, high)``.

    Where the cell ``[lows, highs)`` holds no multiple of the step, the step is 1.
    """
    steps = np.where(-(-highs // steps) > -(-lows // steps), steps, 1)
    return np.asarray(-(-high // steps) - -(-low // steps), dtype=np.float64)


def marked(marks: Mapping[str, Mask], name: str, count: int) -> Mask:
    """Return the mask with this name, or a mask that marks no row."""
    return marks[name] if name in marks else np.zeros(count, dtype=np.bool_)


_SCALES: dict[str, Callable[[ColumnType], Scale]] = {}


def register_scale(make: Callable[[ColumnType], Scale], *bases: str) -> None:
    """Register the scale of the given base types; called at the end of each family's file."""
    _SCALES.update(dict.fromkeys(bases, make))


def scale_of(type_: ColumnType) -> Scale | None:
    """Return the scale of a type, or None if its values are not ordered."""
    make = _SCALES.get(type_.base) if type_.kind == "b" else None
    return make(type_) if make else None
