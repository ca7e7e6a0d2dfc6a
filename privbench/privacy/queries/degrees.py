"""Cross moments of degrees: how the numbers of rows that meet in one parent row go together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privbench.arrays import Ints
from privbench.errors import PrivacyRefusal, SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.references import kept_rows, most_kept
from privbench.privacy.query import GRID, Sensitivity, TableQuery
from privbench.privacy.spec import DatabaseSpec, KeySpec
from privbench.privacy.units import contribution, tally

#: Largest product of the clips of a moment: with it, a row's product fits into 62 bits.
MOST_PRODUCT = 2**32


@dataclass(frozen=True, slots=True)
class Degree:
    """The number of rows that refer to a parent row by one key, up to a public clip."""

    key: KeySpec
    clip: int
    outside: bool = False  # of a REF key: whether edges into the row's own unit are left out

    def __post_init__(self) -> None:
        if self.key.role not in ("own", "ref"):
            raise PrivacyRefusal(f"key {self.key.name!r} is public.", table=self.key.table)
        if self.clip < 1:
            raise SchemaError("a clip must be 1 or more.", table=self.key.table)


@dataclass(frozen=True, slots=True)
class CrossMoment(TableQuery):
    """Sum over the rows of a parent table of the product of their clipped degrees.

    Statistic, shape (1,): Σ ⌊w·min(d₁, c₁)·min(d₂, c₂) … / (c₁·c₂ …)⌋ over parent rows, where w is
    the row's weight in grid units, and dᵢ counts the rows that refer to it by the key of the i-th
    degree: its children by an OWN key, the kept edges into it (`kept_rows`) by a REF key. Degrees
    are clipped before they are multiplied, and products before they are summed: one user with 1,000
    posts of 20 comments and 20 votes each would else move the sum over posts by 400,000.

    Sensitivity, when unit U goes (P40):

    1. *U's parent rows leave.* A row adds at most its weight, since no degree exceeds its clip. The
       weights of U's rows sum to at most C (`units.contribution`), however many rows the unit has
       and whatever constraints they break (P33).
    2. *U's kept edges of REF keys leave*; there are at most e of each key (`most_kept`: ranks
       enforce it, and those of other units stay). An edge counts in one parent row alone, or in
       none if several have its key. Removed one after the other, each lowers one degree of one row
       by at most 1, while the other degrees are at most their clips and w ≤ GRID. So each moves the
       sum by at most ⌈GRID/c⌉, c the clip of its own degree; rounding down makes no more of it.
       The steps of all degrees with such keys add up (telescoping the product).
    3. *Edges of others into U become ⊥* and count no more, but their targets were U's, and they
       keep their ranks. An OWN edge leads into its own unit: children and parent leave together.

    A unit rooted in table R can do 1 only if it can hold parent rows, and 2 only for keys of tables
    whose rows it can hold: the claim is the largest over all R, each of which is charged. Replace
    costs no more: rows and edges only add, so in both neighbours the sum lies between its value
    without either unit and that plus the claim. One number has one norm.
    """

    degrees: tuple[Degree, ...]
    kind = "cross moment"
    unit = GRID

    def __post_init__(self) -> None:
        if not self.degrees or any(one.key.parent != self.source for one in self.degrees):
            raise SchemaError("a moment needs degrees of its own table.", table=self.source)
        if self._clips > MOST_PRODUCT:
            raise SchemaError("the clips of a moment are too large.", table=self.source)

    @property
    def _clips(self) -> int:
        return math.prod(one.clip for one in self.degrees)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"{one.key.table}.{one.key.name}" for one in self.degrees)

    @property
    def shape(self) -> tuple[int, ...]:
        return (1,)

    def roots(self, spec: DatabaseSpec) -> frozenset[str]:
        sources = (one.key.table for one in self.degrees if one.key.role == "ref")
        return spec.roots(self.source).union(*map(spec.roots, sources))

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        most = max(self._moved(spec, root) for root in self.roots(spec))
        return Sensitivity(most, float(most), most)

    def _moved(self, spec: DatabaseSpec, root: str) -> int:
        """Most that a unit rooted in a table moves the sum."""
        found = contribution(spec, self.source) if root in spec.roots(self.source) else 0
        for one in self.degrees:
            if one.key.role == "ref" and root in spec.roots(one.key.table):
                found += most_kept(spec, one.key) * -(-GRID // one.clip)
        return found

    def evaluate(self, data: PrivateDatabase) -> Ints:
        product = data._units.weights(self.source).astype(np.int64)
        for one in self.degrees:
            edges = data._parents(one.key)
            if one.key.role == "ref":
                edges = edges[kept_rows(data, one.key, outside=one.outside)]
            product *= np.minimum(tally(edges, data._rows(self.source)), one.clip)
        return np.array([int((product // self._clips).sum())], dtype=np.int64)
