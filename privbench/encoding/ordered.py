"""Columns on a grid: integers, numbers, dates and times, with public or released bounds."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from psycopg import sql

from privbench.config import ColumnConfig
from privbench.encoding.base import (
    Bounds,
    BoundsNeed,
    CategoriesNeed,
    Codec,
    ColumnReader,
    Need,
    Released,
    attribute,
    concatenate,
    literal,
)
from privbench.encoding.checks import Limits
from privbench.encoding.lattice import USUAL, Decimals, DecimalsNeed
from privbench.encoding.ordered_codec import OrderedCodec
from privbench.encoding.scale import LINEAR, Points, Scale
from privbench.encoding.usual import is_firm, usual_range
from privbench.errors import ConfigError
from privbench.privacy.data import Attribute, Cells, EdgesRecoding, Grid
from privbench.schema import Column

#: Public ranges of at most this many grid steps get one cell per step: five digits, days, most ids.
MAX_STEPS = 2**18

#: Candidates of bounds in two octaves.
_OCTAVES = 8
#: A usual range is cut at whole numbers where they make more edges than this.
_WHOLES = 16
#: Ranges that nobody saw of at most so many values are left half as often (a smallint's).
_NARROW = 16
#: A default that is a number.
_NUMBER = re.compile(r"'?(-?\d+(?:\.\d+)?)'?(?:::[a-z ]+(?:\([\d, ]+\))?)?\Z")
#: A default that marks a missing number.
_MARK = re.compile(r"(?:-\d|-?9{4,}(?:\.9*)?)\Z")


@dataclass(frozen=True, slots=True)
class Range:
    """Public knowledge of a column's range, on its grid, both ends inclusive.

    Attributes:
        lo: Least grid point.
        hi: Greatest grid point.
        settled: Whether both ends were declared, so that nothing need be released.
        specials: Special cells that remain possible.
    """

    lo: int
    hi: int
    settled: bool
    specials: tuple[str, ...]


def public_range(
    table: str, column: Column, scale: Scale, config: ColumnConfig, limits: Sequence[Limits]
) -> Range:
    """What CHECK constraints, the config and the type say of a column's range.

    Raises:
        ConfigError: The config's bounds are not literals of the type, or leave no value.
    """
    lo, hi = scale.limits
    low_known = high_known = False
    for item in limits:
        low, high = _low_end(scale, item), _high_end(scale, item)
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
    settled = (low_known and high_known) or not scale.open_range
    if settled:
        specials = tuple(name for name in specials if name == "nan")
    return Range(lo, hi, settled, specials)


def _low_end(scale: Scale, item: Limits) -> int | None:
    """A CHECK's lower bound; one that is not a literal of the type is no knowledge."""
    try:
        if item.low is None:
            return None
        return scale.parse(item.low) + 1 if item.low_open else scale.parse_up(item.low)
    except ValueError:
        return None


def _high_end(scale: Scale, item: Limits) -> int | None:
    """A CHECK's upper bound, likewise."""
    try:
        if item.high is None:
            return None
        return scale.parse_up(item.high) - 1 if item.high_open else scale.parse(item.high)
    except ValueError:
        return None


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


@dataclass(frozen=True)
class OrderedReader(ColumnReader):
    """Reads a column with a grid.

    Attributes:
        scale: The type's grid.
        range: What is publicly known of its range.
        bins: Number of equal cells of a wide public range, from the config.
        title: The column's name without its table's prefix.
        per_unit: How many distinct values one unit may propose, to be released where many units
            share one; 0 for none.
    """

    scale: Scale
    range: Range
    bins: int | None = None
    title: str = ""
    per_unit: int = 0

    @property
    def attributes(self) -> tuple[str, ...]:
        """The column, and its numbers of decimals, which are not modelled."""
        return (self.name, self._decimals) if self._counted else (self.name,)

    @property
    def _title(self) -> str:
        """What names are told by; parts of columns have none of their own."""
        return self.title or self.name

    @property
    def _decimals(self) -> str:
        return attribute(self.name, "decimals")

    @property
    def _counted(self) -> bool:
        """Whether decimals are released; not for public ranges, whose cells are made at once."""
        return self.scale.decimals_told is not None and not self.range.settled

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """Bounds and decimals, unless the range is public; made once: every stage of a fit asks."""
        if self.range.settled:
            return ()
        told = self.scale.decimals_told
        if told is None:
            return (self._bounds, *self._shared)
        usual = USUAL if self.scale.fractions else told[-1]
        return (self._bounds, DecimalsNeed(self._decimals, told, usual), *self._shared)

    @property
    def _shared(self) -> tuple[CategoriesNeed, ...]:
        """Values that many units share, where cells would not tell them: prices, constant times."""
        if not (self.per_unit and self.scale.crowded):
            return ()
        name = attribute(self.name, "values")
        return (CategoriesNeed(name, self.per_unit, own=True, grid=self.name),)

    @property
    def _bounds(self) -> BoundsNeed:
        points = self.scale.candidates()
        low, high = self._usual(points, self.range.lo, self.range.hi)
        usual, told = Bounds(low, high, seen=False), self._named is not None
        return BoundsNeed(
            self.name,
            self._within(points),
            usual,
            dear=not self.scale.octaves,
            told=told,
            coarser=tuple(self._within(few, *(self._named or ())) for few in self.scale.coarser()),
        )

    def _within(self, points: Points, *more: int) -> Points:
        """Points of the public range, with its ends and some more."""
        lo, hi = self.range.lo, self.range.hi
        return np.unique(np.concatenate([points[(points >= lo) & (points <= hi)], [lo, hi, *more]]))

    def _usual(self, points: Points, lo: int, hi: int) -> tuple[int, int]:
        """The usual range, as far as it lies within what is public.

        What the name tells first; where nothing is left of either, two octaves from the nearer
        public end on.
        """
        if self._named is not None:
            return self._named
        low, high = self._by_default or self._of_type
        if max(low, lo) < min(high, hi):
            return max(low, lo), min(high, hi)
        if low < lo:
            end = min(int(np.searchsorted(points, lo, side="right")) + _OCTAVES, len(points) - 1)
            return lo, min(int(points[end]), hi)
        start = max(int(np.searchsorted(points, hi)) - _OCTAVES - 1, 0)
        return max(int(points[start]), lo), hi

    @cached_property
    def _named(self) -> tuple[int, int] | None:
        """What the name tells of the range, ``low <= x < high``; None if nothing of it is left."""
        told = usual_range(self._title, whole=self.scale.whole) if self.scale.octaves else None
        if told is None:
            return None
        low, high = self.scale.parse(told[0]), self.scale.parse(told[1]) + 1
        if self._default is not None:
            point = self.scale.parse(str(self._default))
            low, high = min(low, point), max(high, point + 1)
        low, high = max(low, self.range.lo), min(high, self.range.hi + 1)
        # A single value that a CHECK has left is no range that a name could have meant.
        return (low, high) if low + 1 < high else None

    @cached_property
    def _default(self) -> Decimal | None:
        """The number that the schema gives where none is said: such rows are to be expected.

        A mark such as -1, 99999 or the type's own end says nothing of other rows.
        """
        found = _NUMBER.match(self.column.default or "") if self.scale.octaves else None
        if found is None or _MARK.match(found[1]):
            return None
        inside = self.range.lo < self.scale.parse(found[1]) < self.range.hi
        return Decimal(found[1]) if inside else None

    @property
    def _of_type(self) -> tuple[int, int]:
        """The usual range of the type."""
        low, high = (self.scale.parse(text) for text in self.scale.usual)
        return low, high

    @cached_property
    def _by_default(self) -> tuple[int, int] | None:
        """The range that the default tells: its order of magnitude, if the usual one lacks it."""
        if self._default is None:
            return None
        low, high = self._of_type
        if low <= self.scale.parse(str(self._default)) <= high:
            return None
        # The literal is doubled, not the grid point: that of a float is no number.
        twice = self.scale.parse(str(2 * self._default))
        return min(0, twice), max(0, twice)

    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        """One expression: the grid point."""
        return [(self.scale.select(identifier), self.alias())]

    def read(self, batch: Mapping[str, pa.Array]) -> dict[str, Any]:
        """Codes where the range is public, else grid points."""
        points = self.scale.read(batch[self.alias()])
        if self.range.settled:
            return {self.name: self._recoding.apply(points)}
        if self._counted:
            return {self.name: points, self._decimals: self.scale.count_decimals(points)}
        return {self.name: points}

    def collect(self, pieces: Sequence[Mapping[str, Any]]) -> dict[str, Attribute]:
        """Cells where the range is public, else grids."""
        if self.range.settled:
            domain = self._recoding.domain
            return {self.name: Cells(concatenate(pieces, self.name, domain.dtype), domain)}
        return {name: Grid(concatenate(pieces, name, np.int64)) for name in self.attributes}

    def finish(self, released: Mapping[str, Released]) -> Codec:
        """The codec of the public or released range."""
        decimals = None
        if self.range.settled:
            recoding = self._recoding
        else:
            bounds = released[self.name]
            assert isinstance(bounds, Bounds)
            decimals = self._lattice(bounds, released.get(self._decimals))
            (shared,) = self._shared or (None,)
            values = released.get(shared.attribute, ()) if shared else ()
            assert isinstance(values, tuple)
            recoding = self._released_recoding(bounds, decimals, tuple(map(int, values)))
        lo, hi = self.range.lo, self.range.hi
        return OrderedCodec(
            self.name,
            self.column.type,
            self.nullable,
            recoding,
            self.range.settled,
            (lo, hi),
            decimals,
        )

    def _lattice(self, bounds: Bounds, found: Released | None) -> int | None:
        """Decimals to draw values with; None for any number of the type.

        Where noise drowned the rows, two decimals if nothing is known of the range either.
        """
        told = self.scale.decimals_told
        if told is None or not isinstance(found, Decimals):
            return None
        if found.count is None:
            return USUAL if self.scale.fractions and not bounds.seen else None
        if found.count == told[-1]:
            return None
        # A range that holds no such number tells of others.
        scale = self.scale.with_decimals(found.count)
        return found.count if scale.holds(bounds.lo, bounds.hi) else None

    @property
    def _recoding(self) -> EdgesRecoding:
        """Of a public range."""
        lo, hi = self.range.lo, self.range.hi + 1
        if hi - lo <= MAX_STEPS:
            edges = list(range(lo, hi + 1))
        else:
            edges = self.scale.parted(self.scale.edges(lo, hi, bins=self.bins))
        return EdgesRecoding(tuple(edges), self.range.specials, self.nullable)

    def _released_recoding(
        self, bounds: Bounds, decimals: int | None, values: tuple[int, ...] = ()
    ) -> EdgesRecoding:
        """Cells within as released, growing cells beyond, then `below` and `above`.

        Values that many units share have cells of their own.
        """
        scale = beyond = cells_of = self.scale
        if decimals is not None:
            scale = beyond = cells_of = self.scale.with_decimals(decimals)
            if self.scale.fractions and not bounds.seen:
                # A usual range is cut at whole numbers, and says nothing of values far beyond.
                whole = self.scale.with_decimals(0)
                many = len(whole.edges(bounds.lo, bounds.hi, cells=bounds.cells or LINEAR))
                cells_of, beyond = (whole if many > _WHOLES else scale), self.scale
        first, end = cells_of.least(self.range.lo), self.range.hi + 1
        first = min(first, end - 1)
        lo = min(max(min(bounds.lo, bounds.hi), first), end - 1)
        hi = min(max(bounds.lo, bounds.hi, lo + 1), end)
        named = self._named is not None and self._named[0] <= lo and hi <= self._named[1]
        lo, hi = cells_of.snapped(lo, hi)
        lo, hi = max(lo, first), min(hi, end)
        cells = bounds.cells or LINEAR
        below, above = beyond.tails(lo, hi, cells)
        if named and self._named is not None:
            # Each more cell is one more that noise may fill. Names that lie mostly do so upwards;
            # but there is no thirteenth month unless rows are clear beyond the twelfth.
            below = [edge for edge in below if edge >= self._named[0]]
            if is_firm(self._title):
                above = [edge for edge in above if edge <= self._named[1]]
        inside = cells_of.edges(lo, hi, bins=self.bins, cells=cells, inner=bounds.inner)
        edges = {*below, *inside, *above, *_alone(scale, values)}
        if self.scale.octaves and min(edges) < 0 < max(edges):
            # Values beside zero are common; a cell on both of its sides would hold them all.
            edges.add(0)
        kept = scale.parted(sorted({min(max(edge, first), end) for edge in edges}))
        outer = ("below",) * (kept[0] > self.range.lo) + ("above",) * (kept[-1] < end)
        # What is not far beyond a range that nobody saw is rarer, not absent. Names are believed.
        known = self._named is not None or self._by_default is not None
        sure = bounds.seen or not above or known
        reach = hi if sure else above[(len(above) - 1) // (4 if hi - lo <= _NARROW else 2)]
        last = max(bisect_left(kept, min(reach, kept[-1])), 1)
        core = (bisect_left(kept, lo), last)
        return EdgesRecoding(
            tuple(kept), outer + self.range.specials, self.nullable, core, scale.places(kept)
        )

    def describe(self) -> tuple[str, str]:
        """Public range, or released bounds."""
        kind = f"{self.column.type.sql} on a public grid"
        if self.range.settled:
            return f"{kind}, public range", "declared in the config, a CHECK or by the type"
        how = f"{kind}, bounds {'and decimals ' if self._counted else ''}released"
        if self._shared:
            shared = "and, exactly and under δ, values that many units share"
            return f"{how}, {shared}", "no range is declared (PRIVACY P19, P20)"
        return how, "no range is declared (PRIVACY P20)"


def _alone(scale: Scale, values: tuple[int, ...]) -> set[int]:
    """Edges of a cell for every value, up to the next that the scale draws.

    A value that the scale does not draw, since next to none has as many decimals, gets none: beside
    its cell would lie one that holds no number.
    """
    drawn = [value for value in values if scale.least(value) == value]
    return {*drawn, *(scale.least(value + 1) for value in drawn)}
