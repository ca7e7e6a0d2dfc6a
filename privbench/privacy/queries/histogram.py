"""Weighted histograms of one table, alone or several in one event."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import Axis, AxisLike, Whole, axis
from privbench.privacy.queries.claims import weighted
from privbench.privacy.queries.counting import cells, histogram
from privbench.privacy.queries.regions import Region, overlap
from privbench.privacy.query import GRID, Integers, Query, Sensitivity, TableQuery
from privbench.privacy.spec import DatabaseSpec

#: Steps of the relative precision of the parts of a `JointHistogram`.
STEPS = 64
#: Cells times multipliers are cut off here.
_MOST = 2**62


@dataclass(frozen=True, slots=True)
class Histogram(TableQuery):
    """Weighted joint histogram over public axes of one table, in a region or in all of it.

    Statistic: for every cell of the product of the axes, the sum of the weights (`Units.weights`)
    of the region's rows in it, in grid units.

    Sensitivity: `claims.weighted` with one cell per row. A row's cell and its membership in the
    region follow from its own unit alone (`axes`, `regions`), and weights are fixed before any
    split: so when one unit goes, only its own rows' weights leave. Add/remove: GRID in L1,
    L2 and L∞, τ·GRID under truncation.

    Attributes:
        source: The table.
        axes: The axes; `Histogram.of` makes them from names.
        region: The region, or None.
    """

    axes: tuple[Axis, ...]
    region: Region | None = None
    kind = "histogram"
    unit = GRID

    def __post_init__(self) -> None:
        cells(self.shape)
        if self.region is not None and self.region.table != self.source:
            raise SchemaError("the region belongs to another table.", table=self.source)

    @classmethod
    def of(
        cls,
        spec: DatabaseSpec,
        table: str,
        axes: Sequence[AxisLike],
        region: Region | None = None,
    ) -> Histogram:
        """A histogram over attributes (names, names with bins) or other axes of a table.

        Without axes it is the region's weighted number of rows, shape (1,).
        """
        found = tuple(axis(spec, table, given) for given in axes)
        return cls(table, found or (Whole(),), region)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(axis.label for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return tuple(axis.size for axis in self.axes)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return weighted(spec, self.source)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        return histogram(data, self.source, self.axes, self.region)


@dataclass(frozen=True, slots=True)
class JointHistogram(Query):
    """Several histograms of one table, over regions or not, measured in one event.

    Statistic: the cells of all parts one after the other, those of part i times a public integer
    multiplier mᵢ. Multipliers are the relative costs on a grid of `STEPS`; with equal costs all
    are 1. `split` takes a result apart and undoes them.

    Sensitivity: a row of weight w adds mᵢ·w to exactly one cell of every part whose region holds
    it, and to none of the others. By `regions.overlap` the sum of mᵢ over the parts that one row
    can fall in is at most M₁, the sum of mᵢ² at most M₂, both computed from the public paths alone.
    So row by row its vector has L1 norm ≤ w·M₁, L2 norm ≤ w·√M₂, L∞ norm ≤ w·max mᵢ, and a unit's
    rows, whichever parts they fall in, have weights that sum to at most C: `claims.weighted` with
    m₁ = M₁, m₂ = √M₂. Parts over disjoint regions share one budget although one unit's rows may
    fall in many of them; that is why they are one joint query and not parallel events.

    Attributes:
        parts: Histograms of one table with their relative costs: the share of the event's loss
            that goes to a part, against the others that hold the same row.
    """

    parts: tuple[tuple[Histogram, float], ...]
    unit: int = field(init=False, default=GRID)
    kind = "joint histogram"

    def __post_init__(self) -> None:
        if len({part.source for part, _ in self.parts}) != 1:
            raise SchemaError("a joint histogram has parts, all of one table.")
        if any(not 0 < cost < math.inf for _, cost in self.parts):
            raise SchemaError("costs are positive.", table=self.table)
        cells((sum(math.prod(part.shape) for part, _ in self.parts),))
        object.__setattr__(self, "unit", GRID * max(self.multipliers))

    @classmethod
    def over(
        cls,
        spec: DatabaseSpec,
        table: str,
        axes: Sequence[AxisLike],
        regions: Sequence[Region],
    ) -> JointHistogram:
        """The same histogram in each of several regions, at equal cost."""
        return cls(tuple((Histogram.of(spec, table, axes, region), 1.0) for region in regions))

    @property
    def multipliers(self) -> tuple[int, ...]:
        """mᵢ of every part."""
        most = max(cost for _, cost in self.parts)
        steps = [max(1, round(STEPS * cost / most)) for _, cost in self.parts]
        common = reduce(math.gcd, steps)
        return tuple(step // common for step in steps)

    @property
    def table(self) -> str:
        return self.parts[0][0].source

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part, _ in self.parts for name in part.columns))

    @property
    def shape(self) -> tuple[int, ...]:
        """One axis: the cells of all parts."""
        return (sum(math.prod(part.shape) for part, _ in self.parts),)

    def _most(self, power: int) -> float:
        amounts = zip(self.parts, self.multipliers, strict=True)
        return overlap((part.region, float(m**power)) for (part, _), m in amounts)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        most = max(self.multipliers)
        return weighted(spec, self.table, m1=self._most(1), m2=math.sqrt(self._most(2)), most=most)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        """The statistic, in grid units times multipliers."""
        found = zip(self.parts, self.multipliers, strict=True)
        # A product that wraps around has no sensitivity; a cell cut off before it keeps its own.
        cells = ((np.minimum(part.evaluate(data), _MOST // m), m) for (part, _), m in found)
        return np.concatenate([part.ravel() * m for part, m in cells])

    def split(self, measured: ArrayLike) -> list[NDArray[np.float64]]:
        """Estimated counts of every part, of its shape, from a result of `Session.measure`."""
        values = np.asarray(measured, dtype=np.float64)
        ends = np.cumsum([math.prod(part.shape) for part, _ in self.parts])
        pieces = np.split(values, ends[:-1])
        most = max(self.multipliers)
        shapes = (part.shape for part, _ in self.parts)
        return [
            piece.reshape(shape) * (most / m)
            for piece, shape, m in zip(pieces, shapes, self.multipliers, strict=True)
        ]
