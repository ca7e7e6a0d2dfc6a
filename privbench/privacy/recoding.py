"""Public maps from raw values to the cells of a domain.

A recoding is total: every value has a cell, even if the domain does not list it, so that no
measurement can fail on a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike, NDArray

from privbench.arrays import AnyInts, Ints, Mask
from privbench.domain import Codes, Domain

#: Sentinels in the values of a `Grid`, which have cells of their own. They sort NULL, NaN, −∞ … +∞.
NULL = -(2**63)
NAN = NULL + 1
NEG_INF = NULL + 2
POS_INF = 2**63 - 1

#: Types of points, the narrowest first. The three least numbers of each and its greatest are the
#: sentinels.
_TYPES = (np.int8, np.int16, np.int32, np.int64)

#: Names of the special cells that an `EdgesRecoding` may have.
BELOW, ABOVE, IS_NAN, IS_NEG_INF, IS_POS_INF = "below", "above", "nan", "-inf", "inf"
#: Name of the special cell of a `LabelsRecoding`.
OTHER = "other"

_BLOCK = 2**18


def points_as(points: AnyInts, kind: DTypeLike) -> AnyInts:
    """Return points and sentinels in another type of signed integers, which holds the points."""
    old, new = np.iinfo(points.dtype), np.iinfo(kind)
    if old.dtype == new.dtype:
        return points
    result = points.astype(new.dtype)
    if points.size and (points.min() < old.min + 3 or points.max() == old.max):
        for place in range(3):
            result[points == old.min + place] = new.min + place
        result[points == old.max] = new.max
    return result


def finite(points: AnyInts) -> Mask:
    """Return a mask of the finite points: those that are none of the sentinels NULL, NaN and ±∞."""
    limits = np.iinfo(points.dtype)
    return np.asarray((points > limits.min + 2) & (points < limits.max), np.bool_)


def extent(points: AnyInts) -> tuple[int, int]:
    """Return the least and the greatest point; the first is greater where there is none."""
    limits = np.iinfo(points.dtype)
    low, high = int(points.min(initial=limits.max)), int(points.max(initial=limits.min))
    if low > limits.min + 2 and high < limits.max:
        return low, high
    there = finite(points)
    low = points.min(initial=limits.max, where=there)
    return int(low), int(points.max(initial=limits.min, where=there))


def narrow(points: AnyInts) -> AnyInts:
    """Return points and sentinels in the narrowest type of signed integers that holds them.

    >>> narrow(np.array([300, NULL, POS_INF]))
    array([   300, -32768,  32767], dtype=int16)
    """
    low, high = extent(points)
    fitting = (t for t in _TYPES if np.iinfo(t).min + 2 < low and high < np.iinfo(t).max)
    return points_as(points, next(fitting, np.int64))


def edge_counter(edges: Ints, points: AnyInts) -> Callable[[AnyInts], AnyInts]:
    """Return a function that gives, for each of some points, the number of edges at or below it.

    The function is for parts of ``points``; for sentinels its result is arbitrary. If the points
    span fewer integers than there are points, it looks the number up in a table of these integers,
    which takes a twentieth of the time of a binary search among a hundred edges, less among more.

    Args:
        edges: Edges in ascending order.
        points: All points that the function will be called with, and sentinels.
    """
    first, end = int(edges[0]), int(edges[-1])
    if end - first == edges.size - 1:
        return lambda some: np.clip(some.astype(np.int64), first - 1, end) - (first - 1)
    low, high = extent(points)
    if not 0 < high - low < points.size:
        return lambda some: np.searchsorted(edges, some, side="right")
    starts = np.clip(edges, low, high + 1) - low
    numbers = np.arange(edges.size + 1, dtype=np.min_scalar_type(-edges.size - 1))
    table = np.repeat(numbers, np.diff(starts, prepend=0, append=high - low + 1))
    return lambda some: table[np.clip(some, low, high).astype(np.intp) - low]


@dataclass(frozen=True, slots=True)
class EdgesRecoding:
    """A map from grid points to the cells ``[e_i, e_{i+1})`` between public edges.

    Values below the first edge go to the special cell ``below`` if there is one, else to the first
    cell; values from the last edge on go to ``above`` if there is one, else to the last cell. −∞
    and +∞ go to ``-inf`` and ``inf`` if these exist, else where values below and above go. NaN goes
    to ``nan`` if it exists, else where NULL goes. NULL in a column that is not nullable goes to the
    first cell.

    >>> EdgesRecoding((0, 10, 20), ("above",), nullable=True).apply(np.array([3, 10, -4, 20, NULL]))
    array([0, 1, 0, 2, 3], dtype=uint8)
    """

    edges: tuple[int, ...]  # ascending grid points, at least two
    specials: tuple[str, ...] = ()  # any of ``below above nan -inf inf``, in order
    nullable: bool = False  # whether the domain has a NULL cell
    # The cells that the bounds were released for, see `Domain`; None means all.
    core: tuple[int, int] | None = None
    # Integers whose distances are in proportion to those of the edges in value, given if distances
    # of grid points are not. They serve denoising alone, so recodings are compared without them.
    places: tuple[int, ...] | None = field(default=None, compare=False, repr=False)
    since: str = ""  # attribute of the row whose point is subtracted first, if any

    def __post_init__(self) -> None:
        edges = [int(edge) for edge in self.edges]
        if len(edges) < 2 or any(a >= b for a, b in pairwise(edges)):
            raise ValueError("edges must be at least two ascending integers")
        if edges[0] <= NEG_INF or edges[-1] > POS_INF:
            raise ValueError("edges must lie between the sentinels")
        if not set(self.specials) <= {BELOW, ABOVE, IS_NAN, IS_NEG_INF, IS_POS_INF}:
            raise ValueError("unknown special cell")
        object.__setattr__(self, "edges", tuple(edges))

    @property
    def domain(self) -> Domain:
        """The domain that `apply` maps into."""
        edges = None if self.core is None else self.places or self.edges
        cells = len(self.edges) - 1
        return Domain(cells, True, self.specials, self.nullable, self.core, edges)

    def _code(self, *names: str, default: int) -> int:
        for name in names:
            if name in self.specials:
                return self.domain.special_code(name)
        return default

    def apply(self, values: AnyInts, base: AnyInts | None = None) -> Codes:
        """Return the code of every point and sentinel of a `Grid`, in the domain's narrowest type.

        With ``base``, distances from its points are coded; where it has no point, the code is
        NULL's.
        """
        edges = np.array(self.edges, dtype=np.int64)
        # Distances are other points, so that a table of these would not hold them.
        count = edge_counter(edges, values if base is None else values[:0].astype(np.int64))
        last = edges.size - 2
        ends = self._code(BELOW, default=0), self._code(ABOVE, default=last)
        cells = np.array([ends[0], *range(last + 1), ends[1]], dtype=self.domain.dtype)
        codes: Codes = np.empty(values.size, dtype=self.domain.dtype)
        for start in range(0, values.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            points = values[block]
            if base is not None:
                points, known = (points_as(some[block], np.int64) for some in (values, base))
                distances = np.where(finite(known), points - known, NULL)
                points = np.where(finite(points), distances, points)
            codes[block] = cells[count(points)]
            self._mark(codes[block], points)
        return codes

    def _mark(self, codes: Codes, points: AnyInts) -> None:
        """Set the codes of sentinels."""
        limits = np.iinfo(points.dtype)
        if points.min() > limits.min + 2 and points.max() < limits.max:
            return
        null = self.domain.null_code or 0
        codes[points == limits.min + 2] = self._code(IS_NEG_INF, BELOW, default=0)
        codes[points == limits.max] = self._code(IS_POS_INF, ABOVE, default=len(self.edges) - 2)
        codes[points == limits.min + 1] = self._code(IS_NAN, default=null)
        codes[points == limits.min] = null


@dataclass(frozen=True, slots=True)
class LabelsRecoding:
    """A map from texts to cells, one for each public label.

    Text that is not listed goes to the cell ``other`` if there is one, else to that of NULL, else
    to the first cell. NULL in a column that is not nullable goes to ``other`` if there is one, else
    to the first cell.
    """

    since = ""
    values: tuple[str, ...]  # the public labels, distinct, in the domain's order
    other: bool = True  # whether there is a cell for all other text
    nullable: bool = False  # whether the domain has a NULL cell

    def __post_init__(self) -> None:
        if len(set(self.values)) != len(self.values):
            raise ValueError("labels must be distinct")
        self.domain  # noqa: B018  (refuses a domain without cells)

    @property
    def domain(self) -> Domain:
        """The domain that `apply` maps into."""
        return Domain(len(self.values), False, (OTHER,) if self.other else (), self.nullable)

    def apply(self, codes: NDArray[np.signedinteger[Any]], labels: pa.Array) -> Codes:
        """Return the code of every row, in the narrowest type of `domain`.

        ``codes`` has the position of each row's text in ``labels``, the private dictionary, −1 for
        NULL.
        """
        domain = self.domain
        null = domain.null_code
        other = domain.special_code(OTHER) if self.other else None
        positions = pc.index_in(labels, value_set=pa.array(self.values, type=labels.type))
        missing = next((code for code in (other, null) if code is not None), 0)
        table = np.empty(len(labels) + 1, dtype=domain.dtype)
        table[:-1] = positions.fill_null(missing).to_numpy(zero_copy_only=False)
        table[-1] = next((code for code in (null, other) if code is not None), 0)
        return np.asarray(table[codes])


Recoding = EdgesRecoding | LabelsRecoding
