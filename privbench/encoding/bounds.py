"""The range of a column on its grid: public bounds, likely bounds, and the release of bounds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Self

import numpy as np

from privbench.arrays import Ints
from privbench.config import ColumnConfig
from privbench.encoding.scale import Scale, WrittenDates
from privbench.errors import ConfigError
from privbench.rules.named import suggested_range
from privbench.schema import Column, Rule

#: Numbers of rows, as multiples of the noise scale: with fewer rows than the first, a range is
#: measured in few cells only; with as many as the second or more, in all cells. Dates that lie
#: within months show them in all cells from the third on: few cells are five years wide.
_FEW_ROWS, _MANY_ROWS, _FEW_DATES = 40.0, 100.0, 20.0
#: Where the parts of a cell would hold at most so many grid steps, it is cut into single steps.
_FEW_STEPS = 4


@dataclass(frozen=True, slots=True)
class Bounds:
    """The released bounds of one attribute on its integer grid: ``lo <= x < hi``."""

    lo: int
    hi: int
    # Number of equal cells between the bounds that is useful at this level of noise; None means the
    # greatest number allowed.
    cells: int | None = None
    # Ascending edges of cells between the bounds, where more is known than the bounds alone.
    inner: tuple[int, ...] = ()
    released: bool = True  # whether the bounds were measured; else they are the default
    step: int | None = None  # the step of dates that are written as numbers (`Scale.calendars`)


@dataclass(frozen=True)
class BoundsNeed:
    """A range to release by noisy counts before an attribute can be measured."""

    attribute: str
    candidates: Ints  # public ascending grid points, int64, shape (k,)
    default: Bounds  # the range to take where the signal is below the noise
    # Whether the default is a poor guess, so that much is lost where no range is released.
    poor_default: bool = True
    # Whether the default follows from the column's name: counts beyond the default must then be
    # clear of noise.
    named: bool = False
    coarser: tuple[Ints, ...] = ()  # sets like `candidates`, each with fewer points
    # Ends of a range beyond which counts must be clear of noise, whatever the name.
    plausible: tuple[int, int] | None = None
    # Dates that numbers may be written as, by their step. Years, and what lies between them, are
    # cells of the histogram, so that it shows whether values are dates, at no further cost.
    calendars: Mapping[int, WrittenDates] = field(default_factory=dict)

    def questions(self, scales: float) -> tuple[Self, ...]:
        """Return the releases that replace this one, since tables with few rows need fewer cells.

        For dates these are two releases that share the budget: one with few cells, which finds rows
        that are spread over many cells, and one with all cells, which finds rows that lie close
        together. For other types it is one.
        """
        if not self.coarser or (scales >= _MANY_ROWS and not self.poor_default):
            return (self,)
        few = self.coarser[-1 if scales < _FEW_ROWS else 0]
        wide = replace(self, candidates=few, coarser=())
        return (wide, self) if self.poor_default and scales >= _FEW_DATES else (wide,)

    @property
    def likely_cells(self) -> tuple[int, int] | None:
        """Return the first and the last likely cell; None where no range is known to be likely.

        They are the cells of the range that the column's name suggests, else of the plausible
        range. A count in a cell beyond them must be clear of noise to extend the bounds.
        """
        inside = (self.default.lo, self.default.hi) if self.named else self.plausible
        if inside is None:
            return None
        low = int(np.searchsorted(self.candidates, inside[0], side="right"))
        return low, max(int(np.searchsorted(self.candidates, inside[1])), low)

    def between(self, first: int, last: int, pieces: Ints, cells: int) -> Bounds:
        """Return the bounds around the cells ``first`` to ``last``, both included.

        Cell i lies between candidates i − 1 and i and is cut into ``pieces[i]`` parts; 0 says that
        it is merged with the cell before it. For ``cells`` see `Bounds`.
        """
        most = len(self.candidates) - 1
        first, last = min(max(first - 1, 0), most), min(last, most)
        ends = self.candidates[first : last + 1].tolist()
        cuts = pieces[first + 1 : last + 1].tolist()
        inner = {
            edge
            for low, high, count in zip(ends, ends[1:], cuts, strict=False)
            for edge in parts(low, high, count)
        }
        low, high = ends[0], max(ends[-1], ends[0] + 1)
        return Bounds(low, high, cells, tuple(sorted(inner - {low})))


def parts(low: int, high: int, count: int) -> list[int]:
    """Return the starts of ``count`` equal parts of ``[low, high)``; all points if it is short."""
    width = high - low
    count = width if width <= _FEW_STEPS * count else count
    return [low + width * part // count for part in range(count)]


def literal(value: str | int | float | bool) -> str:
    """Return a value of the config as the text of a PostgreSQL literal."""
    return str(value).lower() if isinstance(value, bool) else str(value)


#: A public range of fewer grid steps than this, or one that `bins` cuts, gives a column's cells at
#: no cost in budget; any other public range only limits the range that is released.
CLOSE = 512


@dataclass(frozen=True, slots=True)
class Range:
    """The publicly known range of a column on its grid; both ends are inclusive."""

    lo: int  # least grid point
    hi: int  # greatest grid point
    # Whether nothing need be released: both ends are known and leave few values, or the config says
    # into how many cells they are cut.
    settled: bool
    specials: tuple[str, ...]  # special cells that remain possible
    declared: bool = False  # whether both ends are known, one of them from the config


def public_range(
    table: str, column: Column, scale: Scale, config: ColumnConfig, limits: Sequence[Rule]
) -> Range:
    """Return a column's range as its CHECK constraints, the config and the type state it.

    Raises:
        ConfigError: The config's bounds are not literals of the type, or leave no value.
    """
    lo, hi = scale.limits
    low_known = high_known = False
    for item in limits:
        low = _end(scale, item.low, item.strict, 1)
        high = _end(scale, item.high, item.strict, -1)
        if low is not None:
            lo, low_known = max(lo, low), True
        if high is not None:
            hi, high_known = min(hi, high), True
    gone = ({"-inf"} if low_known else set()) | ({"nan", "inf"} if high_known else set())
    specials = tuple(name for name in scale.specials if name not in gone)
    if config.min is not None:
        lo, low_known = max(lo, _config_end(table, column, scale, config.min)), True
    if config.max is not None:
        hi, high_known = min(hi, _config_end(table, column, scale, config.max)), True
    if lo > hi:
        raise ConfigError(
            "the range holds no value.",
            table=table,
            column=column.name,
            remedy="Check min, max and the CHECK constraints.",
        )
    whole = low_known and high_known
    # A wide range is only a limit: most rows lie in a small part of it (`discount` in 0 to 1).
    settled = not scale.open_range or (whole and (config.bins is not None or hi - lo < CLOSE))
    declared = whole and (config.min is not None or config.max is not None)
    if settled or declared:
        specials = tuple(name for name in specials if name == "nan")
    return Range(lo, hi, settled, specials, declared)


def _end(scale: Scale, text: str | None, open_: bool, inward: int) -> int | None:
    """The outermost point that a CHECK's bound allows; None if it is no literal of the type."""
    if text is None:
        return None
    try:
        # An open lower bound is rounded down and one step is added; a closed one is rounded up.
        # For upper bounds it is the other way round.
        point = scale.parse(text, up=open_ == (inward < 0))
    except ValueError:
        return None
    return point + inward if open_ else point


def _config_end(table: str, column: Column, scale: Scale, value: Any) -> int:
    try:
        return scale.parse(literal(value))
    except ValueError:
        raise ConfigError(
            f"{literal(value)!r} is not a value of type {column.type.sql}.",
            table=table,
            column=column.name,
            remedy="Correct min or max.",
        ) from None


#: Where the bounds of a CHECK lie beyond these, they only forbid absurd values and do not show
#: where rows lie.
_NEAR = ("-10000", "10000")
#: The number of candidates for bounds in two octaves.
_OCTAVES = 8
#: A DEFAULT that is a number.
_NUMBER = re.compile(r"'?(-?\d+(?:\.\d+)?)'?(?:::[a-z ]+(?:\([\d, ]+\))?)?\Z")
#: A number that, as a DEFAULT, stands for a missing value, such as -1 or 9999.
_MARK = re.compile(r"(?:-\d|-?9{4,}(?:\.9*)?)\Z")


def default_range(
    scale: Scale, known: Range, title: str, default: str | None, of_type: tuple[str, str]
) -> tuple[int, int, bool]:
    """Return the range ``low <= x < high`` to use where none is released, and whether it is named.

    It is named if the config declares it or the column's name suggests it. Otherwise it follows
    from the public bounds, the DEFAULT, and the default range of the type.
    """
    lo, hi = known.lo, known.hi
    if known.declared:
        return lo, hi + 1, True
    number = _default_number(scale, known, default)
    point = None if number is None else scale.parse(str(number))
    suggestion = suggested_range(title, whole=scale.whole) if scale.octaves else None
    if suggestion is not None:
        low, high = scale.parse(suggestion[0]), scale.parse(suggestion[1]) + 1
        if point is not None:
            low, high = min(low, point), max(high, point + 1)
        low, high = max(low, lo), min(high, hi + 1)
        # Where a CHECK leaves a single value, the suggestion by name does not apply.
        if low + 1 < high:
            return low, high, True
    if scale.octaves and lo > scale.limits[0]:
        # The bounds of a CHECK are taken if they are small enough for rows to reach them.
        nearest, farthest = (scale.parse(text) for text in _NEAR)
        if nearest <= lo and hi <= farthest:
            return lo, hi + 1, False
    low, high = (scale.parse(text) for text in of_type)
    if number is not None and point is not None and not low <= point <= high:
        # The number is doubled, not its grid point: the grid point of a float is the image of its
        # bits.
        twice = scale.parse(str(2 * number))
        low, high = min(0, twice), max(0, twice)
    if max(low, lo) < min(high, hi):
        return max(low, lo), min(high, hi), False
    return *_octaves_inside(scale.candidates(), lo, hi, below=low < lo), False


def _default_number(scale: Scale, known: Range, default: str | None) -> Decimal | None:
    """A column's DEFAULT, if it is a number that rows are likely to have, and no missing value."""
    result = _NUMBER.match(default or "") if scale.octaves else None
    if result is None or _MARK.match(result[1]):
        return None
    return Decimal(result[1]) if known.lo < scale.parse(result[1]) < known.hi else None


def _octaves_inside(points: Ints, lo: int, hi: int, *, below: bool) -> tuple[int, int]:
    """A range of two octaves at a public end: at the lower one if ``below``, else at the upper."""
    if below:
        end = min(int(np.searchsorted(points, lo, side="right")) + _OCTAVES, len(points) - 1)
        return lo, min(int(points[end]), hi)
    start = max(int(np.searchsorted(points, hi)) - _OCTAVES - 1, 0)
    return max(int(points[start]), lo), hi
