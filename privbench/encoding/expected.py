"""What a column on a grid is taken to hold before rows are seen: by its name, default and type."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np

from privbench.encoding.public_range import Range
from privbench.encoding.scale import Points, Scale
from privbench.encoding.usual import is_firm, usual_range

#: A CHECK's ends beyond these keep out what is absurd, and tell nothing of where rows lie.
_NEAR = ("-10000", "10000")
#: Candidates of bounds in two octaves.
_OCTAVES = 8
#: A default that is a number.
_NUMBER = re.compile(r"'?(-?\d+(?:\.\d+)?)'?(?:::[a-z ]+(?:\([\d, ]+\))?)?\Z")
#: A default that marks a missing number.
_MARK = re.compile(r"(?:-\d|-?9{4,}(?:\.9*)?)\Z")


@dataclass(frozen=True)
class Expected:
    """A column's usual range.

    Attributes:
        scale: The type's grid.
        range: What is publicly known of its range.
        title: The name it is told by.
        default: The column's default as the catalog prints it, or None.
        of_type: The usual range of the type.
    """

    scale: Scale
    range: Range
    title: str
    default: str | None
    of_type: tuple[int, int]

    @property
    def firm(self) -> bool:
        """Whether the range that the name tells has ends that no value of its kind passes."""
        return is_firm(self.title)

    def usual(self, points: Points) -> tuple[int, int]:
        """The usual range, as far as it lies within what is public.

        What the name tells first, then a CHECK's ends, if they are near; where nothing is left of
        the usual range, two octaves from the nearer public end on.

        Args:
            points: Candidates of the ends.
        """
        if self.named is not None:
            return self.named
        lo, hi = self.range.lo, self.range.hi
        if self._fenced:
            return lo, hi + 1
        low, high = self.by_default or self.of_type
        if max(low, lo) < min(high, hi):
            return max(low, lo), min(high, hi)
        if low < lo:
            end = min(int(np.searchsorted(points, lo, side="right")) + _OCTAVES, len(points) - 1)
            return lo, min(int(points[end]), hi)
        start = max(int(np.searchsorted(points, hi)) - _OCTAVES - 1, 0)
        return max(int(points[start]), lo), hi

    @property
    def _fenced(self) -> bool:
        """Whether a CHECK's ends are numbers that rows may well reach."""
        near = self.scale.octaves and self.range.lo > self.scale.limits[0]
        low, high = (self.scale.parse(text) for text in _NEAR) if near else (0, 0)
        return near and low <= self.range.lo and self.range.hi <= high

    @cached_property
    def named(self) -> tuple[int, int] | None:
        """What the name tells of the range, ``low <= x < high``; None if nothing of it is left."""
        told = usual_range(self.title, whole=self.scale.whole) if self.scale.octaves else None
        if told is None:
            return None
        low, high = self.scale.parse(told[0]), self.scale.parse(told[1]) + 1
        if self.number is not None:
            point = self.scale.parse(str(self.number))
            low, high = min(low, point), max(high, point + 1)
        low, high = max(low, self.range.lo), min(high, self.range.hi + 1)
        # A single value that a CHECK has left is no range that a name could have meant.
        return (low, high) if low + 1 < high else None

    @cached_property
    def number(self) -> Decimal | None:
        """The number that the schema gives where none is said: such rows are to be expected.

        A mark such as -1, 99999 or the type's own end says nothing of other rows.
        """
        found = _NUMBER.match(self.default or "") if self.scale.octaves else None
        if found is None or _MARK.match(found[1]):
            return None
        inside = self.range.lo < self.scale.parse(found[1]) < self.range.hi
        return Decimal(found[1]) if inside else None

    @cached_property
    def by_default(self) -> tuple[int, int] | None:
        """The range that the default tells: its order of magnitude, if the usual one lacks it."""
        if self.number is None:
            return None
        low, high = self.of_type
        if low <= self.scale.parse(str(self.number)) <= high:
            return None
        # The literal is doubled, not the grid point: that of a float is no number.
        twice = self.scale.parse(str(2 * self.number))
        return min(0, twice), max(0, twice)
