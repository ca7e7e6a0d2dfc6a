"""real, double precision and unconstrained numeric: an order-preserving image of the float."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg import sql

from privbench.encoding.scale import LINEAR, Mask, Points, Scale, marked, register_scale
from privbench.privacy.recoding import NAN, NEG_INF, NULL, POS_INF

_FLIP = np.int64(2**63 - 1)


def image(values: NDArray[np.float64]) -> Points:
    """An int64 for every finite float that keeps their order.

    >>> bool(np.all(np.diff(image(np.array([-2.5, -1e-300, -0.0, 3.0]))) > 0))
    True
    """
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ _FLIP, bits)


def value(points: Points) -> NDArray[np.float64]:
    """The floats of such images."""
    points = np.asarray(points, dtype=np.int64)
    return np.where(points < 0, points ^ _FLIP, points).view(np.float64)


@dataclass(frozen=True)
class FloatScale(Scale):
    """Floats by the order-preserving image of their bits.

    Attributes:
        base: ``float4``, ``float8`` or ``numeric`` (unconstrained: read as a float, written as a
            decimal number, infinities taken for the largest numbers).
    """

    specials: ClassVar[tuple[str, ...]] = ("nan", "-inf", "inf")
    octaves: ClassVar[bool] = True

    base: str

    @property
    def top(self) -> float:
        """The largest value that is kept."""
        return {"float4": 3e38, "float8": 1e300, "numeric": 1e300}[self.base]

    @property
    def limits(self) -> tuple[int, int]:
        """Images of the largest numbers."""
        lo, hi = image(np.array([-self.top, self.top])).tolist()
        return lo, hi

    def select(self, identifier: sql.Composable) -> sql.Composable:
        """The column as float8; a numeric that no float8 holds becomes an infinity."""
        if self.base != "numeric":
            return sql.SQL("{}::float8").format(identifier)
        return sql.SQL(
            "CASE WHEN {c} = 'NaN' THEN 'NaN'::float8"
            " WHEN {c} > 1e300 THEN 'Infinity'::float8 WHEN {c} < -1e300 THEN '-Infinity'::float8"
            " WHEN abs({c}) < 1e-300 THEN 0::float8 ELSE {c}::float8 END"
        ).format(c=identifier)

    def read(self, array: pa.Array) -> Points:
        """Images and sentinels."""
        floats = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        points = _points(np.asarray(floats), self.limits)
        points[array.is_null().to_numpy(zero_copy_only=False)] = NULL
        return points

    def parse(self, text: str) -> int:
        """The image of a number.

        Raises:
            ValueError: Not a finite number.
        """
        number = float(text)
        if not np.isfinite(number):
            raise ValueError("not a finite number")
        lo, hi = self.limits
        return min(max(int(image(np.array([number]))[0]), lo), hi)

    def build(self, points: Points, marks: Mapping[str, Mask]) -> pa.Array:
        """float32, or float64; an unconstrained numeric is written as float64 too."""
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

    def unbuild(self, array: pa.Array) -> Points:
        """Images of the floats."""
        return self.read(array)

    def candidates(self) -> Points:
        """Zero and two points an octave, 2^-40 to the largest number, on both sides."""
        top = min(int(np.log2(self.top)), 120)
        sizes = np.unique(np.concatenate([2.0 ** (np.arange(-80, 2 * top + 1) / 2), np.arange(33)]))
        numbers = np.unique(np.concatenate([-sizes, [-self.top, self.top], sizes]))
        return np.unique(image(numbers))

    def draw(self, lows: Points, highs: Points, rng: np.random.Generator) -> Points:
        """Uniform in value within the cell, rounded to 1/1000 or less of its width."""
        a, b = value(lows), value(highs)
        share = rng.random(len(a))
        drawn = a * (1.0 - share) + b * share
        rounded = _rounded(drawn, b - a)
        if self.base == "float4":
            drawn = _single(drawn, a, b)
            rounded = _single(rounded, a, b)
        inside = (rounded >= a) & (rounded < b)
        return np.clip(image(np.where(inside, rounded, drawn)), lows, highs - 1)

    def linear(self, lo: int, hi: int, cells: int) -> list[int]:
        """Edges equally spaced in value, not in image."""
        a, b = value(np.array([lo, hi])).tolist()
        shares = np.arange(cells + 1) / cells
        inner = image(a * (1.0 - shares) + b * shares).tolist()[1:-1]
        return [lo, *(point for point in inner if lo < point < hi), hi]

    def octave_edges(self, lo: int, hi: int) -> list[int]:
        """Edges that halve toward the lower bound and, inside the range, toward zero."""
        a, b = value(np.array([lo, hi])).tolist()
        shares = 2.0 ** (-np.arange(1, 41) / 2)
        found = a + (b / 2 - a / 2) * 2 * shares
        if a < 0 < b:
            found = np.concatenate([found, b * shares, a * shares, [0.0]])
        return [int(point) for point in image(found)]

    def tails(self, lo: int, hi: int, cells: int = LINEAR) -> tuple[list[int], list[int]]:
        """Doubling cells in value; fewer for few cells."""
        a, b = value(np.array([lo, hi])).tolist()
        width = max((b / 8 - a / 8), 1e-290)
        each = 1 if cells == LINEAR else 2
        steps = width * (2.0 ** np.arange(each, 7, each) - 1)
        below, above = np.maximum(a - steps, -self.top), np.minimum(b + steps, self.top)
        return sorted(set(image(below).tolist())), sorted(set(image(above).tolist()))


def _points(floats: NDArray[np.float64], limits: tuple[int, int]) -> Points:
    nan = np.isnan(floats)
    points = np.clip(image(np.where(nan, 0.0, floats)), *limits)
    points[nan] = NAN
    points[floats == np.inf] = POS_INF
    points[floats == -np.inf] = NEG_INF
    return points


def _single(
    values: NDArray[np.float64], lows: NDArray[np.float64], highs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The nearest 32-bit floats inside the cells, where there are any."""
    near = values.astype(np.float32)
    inward = np.where(near >= highs, -np.inf, np.inf).astype(np.float32)
    outside = (near >= highs) | (near < lows)
    return np.where(outside, np.nextafter(near, inward), near).astype(np.float64)


def _rounded(values: NDArray[np.float64], widths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values rounded to the power of ten that is at most 1/1000 of the width."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        digits = 3 - np.floor(np.log10(widths))
        up = 10.0 ** np.clip(digits, 0, 300)
        down = 10.0 ** np.clip(-digits, 0, 300)
        rounded: NDArray[np.float64] = np.rint(values * up / down) / up * down
    return rounded


register_scale(lambda type_: FloatScale(type_.base), "float4", "float8")
