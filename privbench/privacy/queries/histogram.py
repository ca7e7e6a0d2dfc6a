"""Weighted histograms of one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import Axis, AxisLike, Whole, axis
from privbench.privacy.queries.claims import Moved, RowQuery
from privbench.privacy.queries.counting import Marginals, cells, marginals
from privbench.privacy.queries.regions import Region
from privbench.privacy.query import GRID, Integers
from privbench.privacy.spec import DatabaseSpec


@dataclass(frozen=True, slots=True)
class Histogram(RowQuery):
    """Weighted joint histogram over public axes of one table, in a region or in all of it.

    Statistic: for every cell of the product of the axes, the sum of the weights (`Units.weights`)
    of the region's rows in it, in grid units.

    Sensitivity (`claims`): a row adds its weight to one cell. Its cell and whether it is in the
    region follow from its own unit alone (`axes`, `regions`), and weights are fixed before any
    split: so when a unit goes, only its own rows' weights leave. Add/remove: GRID in L1, L2 and
    L∞, τ·GRID under truncation.

    Attributes:
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
    ) -> Self:
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

    def moved(self) -> list[Moved]:
        return [(self.region, 1.0, 1.0)]

    def evaluate(self, data: PrivateDatabase) -> Integers:
        whole = tuple(range(len(self.axes)))
        (found,) = marginals(data, Marginals(self.source, self.axes, (whole,), self.region))
        return found
