"""Cross moments of degrees: how the numbers of child rows by two keys correlate over parents."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privbench.arrays import AnyInts, Ints
from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.references import kept_rows, most_kept
from privbench.privacy.query import GRID, Sensitivity, TableQuery
from privbench.privacy.spec import DatabaseSpec, KeySpec
from privbench.privacy.units import contribution, tally

#: Largest product of the clips of a moment: with it, a row's product fits into 62 bits.
MOST_PRODUCT = 2**32


@dataclass(frozen=True, slots=True)
class CrossMoment(TableQuery):
    """Sum over the rows of a parent table of the product of their clipped degrees.

    Statistic, shape (1,): Σ ⌊w·min(d₁, c₁)·min(d₂, c₂) … / (c₁·c₂ …)⌋ over parent rows, where w is
    the row's weight in grid units, and dᵢ counts the rows that refer to it by the i-th key: its
    children by an OWN key, the kept edges into it (`kept_rows`) by a REF key. Degrees are clipped
    before they are multiplied, and products before they are summed: one user with 1,000 posts of 20
    comments and 20 votes each would else move the sum over posts by 400,000.

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

    keys: tuple[KeySpec, ...]  # a degree is the number of rows that refer to a row by its key
    clips: tuple[int, ...]  # most that counts of each degree
    kind = "cross moment"
    unit = GRID

    def __post_init__(self) -> None:
        valid = [key for key in self.keys if key.parent == self.source and key.role != "public"]
        if not valid or not len(valid) == len(self.keys) == len(self.clips):
            raise SchemaError("a moment needs degrees of its own table.", table=self.source)
        if min(self.clips) < 1 or self._product > MOST_PRODUCT:
            raise SchemaError("a moment's clips are 1 or more, and small.", table=self.source)

    @property
    def _product(self) -> int:
        return math.prod(self.clips)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"{key.table}.{key.name}" for key in self.keys)

    @property
    def shape(self) -> tuple[int, ...]:
        return (1,)

    def roots(self, spec: DatabaseSpec) -> frozenset[str]:
        sources = (key.table for key in self.keys if key.role == "ref")
        return spec.roots(self.source).union(*map(spec.roots, sources))

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        most = max(self._moved(spec, root) for root in self.roots(spec))
        return Sensitivity(most, float(most), most)

    def _moved(self, spec: DatabaseSpec, root: str) -> int:
        """Most that a unit rooted in a table moves the sum."""
        bound = contribution(spec, self.source) if root in spec.roots(self.source) else 0
        for key, clip in zip(self.keys, self.clips, strict=True):
            if key.role == "ref" and root in spec.roots(key.table):
                bound += most_kept(spec, key) * -(-GRID // clip)
        return bound

    def evaluate(self, data: PrivateDatabase) -> Ints:
        product = data._units.weights(self.source).astype(np.int64)
        for key, clip in zip(self.keys, self.clips, strict=True):
            if key.role == "ref":
                edges = data._parents(key)[kept_rows(data, key, outside=False)]
                degrees: AnyInts = tally(edges, data._rows(self.source))
            else:
                degrees = data._fan_out(key)
            product *= np.minimum(degrees, clip)
        return np.array([int((product // self._product).sum())], dtype=np.int64)
