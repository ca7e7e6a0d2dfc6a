"""Histograms over public grid points, of attributes whose domain is not settled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privbench.errors import SchemaError
from privbench.privacy.data import NEG_INF, POS_INF, Grid, PrivateDatabase
from privbench.privacy.queries.claims import claim
from privbench.privacy.queries.counting import add
from privbench.privacy.queries.public import PublicArray
from privbench.privacy.query import GRID, Integers, RawQuery, Sensitivity
from privbench.privacy.spec import DatabaseSpec

_BLOCK = 2**18


@dataclass(frozen=True, slots=True)
class GridHistogram(RawQuery):
    """Weight of an attribute's finite values between public grid points.

    Statistic: for points t₁ < … < tₖ the weight of the rows with a value below t₁, in [t₁, t₂), …,
    and from tₖ on: k + 1 cells. NULL, NaN and ±∞ are in no cell.

    Sensitivity: every row adds its weight to at most one cell that it alone determines, so the
    claim is that of a histogram (`claims`): C in L1, L2 and L∞ under add/remove.
    Bounds by private quantiles, the usual way, need a rank far from the ends where noise is large;
    a noisy histogram finds the ends themselves at the same price.

    Attributes:
        attribute: An attribute that is still a `Grid`.
        points: Ascending public grid points, shape (k,).
    """

    points: PublicArray
    kind = "grid histogram"
    unit = GRID

    def __post_init__(self) -> None:
        points = self.points.values
        if points.ndim != 1 or points.size == 0 or bool((np.diff(points) <= 0).any()):
            raise SchemaError("grid points ascend.", table=self.source, column=self.attribute)
        if int(points[0]) <= NEG_INF:
            raise SchemaError("grid points lie above the sentinels.", column=self.attribute)

    @property
    def shape(self) -> tuple[int, ...]:
        """One cell more than there are points."""
        return (self.points.values.size + 1,)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return claim(spec, self.source)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        """Weights of the cells, in grid units."""
        held = data._raw(self.source, self.attribute)
        if not isinstance(held, Grid):
            raise SchemaError(
                "its domain is settled already.", table=self.source, column=self.attribute
            )
        points, weights = self.points.values, data._units.weights(self.source)
        cells = np.zeros(points.size + 1, dtype=np.int64)
        for start in range(0, len(held), _BLOCK):
            block = slice(start, start + _BLOCK)
            values = held._values[block]
            finite = (values > NEG_INF) & (values < POS_INF)
            index = np.searchsorted(points, values[finite], side="right")
            add(cells, index, weights[block][finite])
        return cells
