"""Sensitivities of statistics to which rows add one by one, and of several such statistics jointly.

Let a unit's rows in the table carry weights that sum to at most C (`units.contribution`), fixed
before any split. Suppose that removing a row of weight w, whichever other rows stay, moves the
statistic as follows: for each of some public regions that holds the row, it moves cells that belong
to that region alone, by at most w·a in L1, w²·b in squared L2 and w·m in L∞. Let A and B be the
largest sums of a and b over the regions that one row can lie in (`RowSubset.overlap`, by public
rules alone). Then the row moves the statistic by at most w·A in L1, w·√B in L2 and w·m in L∞.
Remove the rows of a unit one after the other: by the triangle inequality, removing the unit moves
the statistic by at most C·A in L1, C·√B in L2 and C·m in L∞. Rows of one unit may lie in several
regions, also in disjoint ones: that is why statistics over disjoint regions are one joint query and
not parallel events (P16).

Replacing a unit whose contribution is u by one whose contribution is v moves the statistic by
v − u. Both are bounded as above, so the bound doubles. If rows only add (each adds the same vector
without a negative entry, whichever other rows there are), entries of u and v lie in [0, C·m], so
that L∞ stays C·m; and L2 is √2·C·√B, because ‖v − u‖² = ‖u‖² + ‖v‖² − 2u·v and u·v ≥ 0.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from privbench.arrays import Floats, Ints
from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.counting import RowSubset, cells
from privbench.privacy.query import GRID, Query, Sensitivity, TableQuery
from privbench.privacy.spec import DatabaseSpec
from privbench.privacy.units import contribution

#: A region (None for all rows), then the bounds a and b of the module's docstring for it.
RegionBounds = tuple[RowSubset | None, float, float]


@dataclass(frozen=True, slots=True)
class RowQuery(TableQuery):
    """A statistic of one table whose sensitivity follows from the module's docstring."""

    adds: ClassVar[bool] = False  # whether rows only add; if not, the claim under replace is larger
    most: ClassVar[int] = 1  # m of the module's docstring

    @abstractmethod
    def moved(self) -> Iterable[RegionBounds]:
        """Return how far a row of weight 1 changes the statistic, by regions."""

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        """Return the sensitivity that the module's docstring proves."""
        return _claim_by_regions(spec, self, self.moved())


@dataclass(frozen=True, slots=True)
class Joint(Query):
    """Several statistics of one kind and table, concatenated to one vector.

    Sensitivity: no cell belongs to two parts, so the proof in the module's docstring holds for all
    regions of all parts together. The claim follows from the parts' own `RowQuery.moved`.
    """

    parts: tuple[RowQuery, ...]  # the statistics

    def __post_init__(self) -> None:
        if len({(part.table, part.kind) for part in self.parts}) != 1:
            raise SchemaError("a joint query must have parts, all of one kind and table.")
        cells(self.shape)

    @property
    def kind(self) -> str:  # type: ignore[override]
        return f"joint {self.parts[0].kind}"

    @property
    def unit(self) -> int:  # type: ignore[override]
        return self.parts[0].unit

    @property
    def table(self) -> str:
        return self.parts[0].table

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.columns))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the vector: one axis with the cells of all parts."""
        return (sum(math.prod(part.shape) for part in self.parts),)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        """Return the sensitivity that the module's docstring proves, over all parts."""
        moved = (bounds for part in self.parts for bounds in part.moved())
        return _claim_by_regions(spec, self.parts[0], moved)

    def evaluate(self, data: PrivateDatabase) -> Ints:
        return np.concatenate([part.evaluate(data).ravel() for part in self.parts])

    def split(self, measured: ArrayLike) -> list[Floats]:
        """Cut a result of `Session.measure` into an array for each part, of that part's shape."""
        ends = np.cumsum([math.prod(part.shape) for part in self.parts])
        pieces = np.split(np.asarray(measured, np.float64), ends[:-1])
        return [piece.reshape(part.shape) for piece, part in zip(pieces, self.parts, strict=True)]


def _claim_by_regions(
    spec: DatabaseSpec, query: RowQuery, moved: Iterable[RegionBounds]
) -> Sensitivity:
    """The claim of the module's docstring, from a and b of every region."""
    regions = list(moved)
    kinds = {type(region) for region, *_ in regions if region is not None}
    overlap = kinds.pop().overlap if len(kinds) == 1 else RowSubset.overlap
    l1 = overlap((region, part) for region, part, _ in regions)
    l2 = math.sqrt(overlap((region, part) for region, _, part in regions))
    return claim(spec, query.table, l1, l2, query.most, adds=query.adds)


def claim(
    spec: DatabaseSpec,
    table: str,
    l1: float = 1,
    l2: float = 1.0,
    linf: float = 1,
    *,
    adds: bool = False,
    steps: int = GRID,
) -> Sensitivity:
    """Return the sensitivity where a row of weight w moves a statistic by at most w times these.

    ``l1``, ``l2`` and ``linf`` are A, √B and m of the module's docstring; ``adds`` says whether
    rows only add; ``steps`` are the units of the statistic in a weight of 1.
    """
    total = contribution(spec, table) // GRID * steps
    added = Sensitivity(math.ceil(total * l1), up(total * l2), math.ceil(total * linf))
    if not adds or spec.relation.neighbours == "add-remove":
        return doubled(spec, added)
    return Sensitivity(2 * added.l1, up(added.l2 * math.sqrt(2)), added.linf)


def up(value: float) -> float:
    """Return ``value``, or the next larger float if it is no integer, as bounds are rounded up."""
    return value if value == int(value) else math.nextafter(value, math.inf)


def doubled(spec: DatabaseSpec, added: Sensitivity) -> Sensitivity:
    """Return the sensitivity for the relation, given that under add/remove.

    It is twice as large under replace, which removes one unit and adds one.
    """
    if spec.relation.neighbours == "replace":
        return Sensitivity(2 * added.l1, 2 * added.l2, 2 * added.linf)
    return added
