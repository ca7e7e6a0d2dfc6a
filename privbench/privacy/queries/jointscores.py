"""Pair scores over several regions in one event."""

from __future__ import annotations

import math
from dataclasses import dataclass

from privbench.errors import SchemaError
from privbench.privacy.queries.claims import doubled, up
from privbench.privacy.queries.dependence import DependenceScores
from privbench.privacy.queries.joint import Joint
from privbench.privacy.queries.regions import overlap
from privbench.privacy.queries.scores import PairScores
from privbench.privacy.query import GRID, Sensitivity
from privbench.privacy.spec import DatabaseSpec
from privbench.privacy.units import contribution


@dataclass(frozen=True, slots=True)
class JointScores(Joint):
    """The scores of several `PairScores` of one table, one after the other, as one vector.

    Statistic: the concatenation of the parts' doubled scores, in grid units; `unit` is twice the
    grid, so that results are in counts of ½‖H − P‖₁.

    Sensitivity: let part r score q_r pairs in its region, against public predictions. A row of
    weight w in that region moves each of the part's pair tables by w in one cell, hence (reverse
    triangle inequality) each of its q_r distances by at most w; a row outside moves none. Adding up
    row by row, a removed unit's change v satisfies, entry by entry, |v| ≤ Σ over its rows of the
    vectors that hold w in the entries of the parts whose regions hold the row. Such a vector has L1
    norm w·Q₁ with Q₁ the sum of q_r over those parts, L2 norm w·√Q₁, and L∞ norm w. With M the
    largest Q₁ over all paths (`regions.overlap`, public) and C the largest sum of a unit's weights
    (`units.contribution`): C·M in L1, C·√M in L2, C in L∞. Rows of one unit may fall in several
    regions; that is why the parts are one joint query (P16) and not parallel events. Replace
    doubles all of it by the triangle inequality. Sources: P16, P18.

    Attributes:
        parts: Scores of one table, each over its own region.
    """

    parts: tuple[PairScores, ...]
    kind = "joint scores"
    unit = 2 * GRID

    def __post_init__(self) -> None:
        Joint.__post_init__(self)
        if any(isinstance(part, DependenceScores) for part in self.parts):
            raise SchemaError("scores of dependence move by more than joint scores claim.")

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        """See the class's docstring."""
        regions = ((part.region, float(len(part.pairs))) for part in self.parts)
        total, most = contribution(spec, self.table), overlap(regions)
        claim = Sensitivity(math.ceil(total * most), up(total * math.sqrt(most)), total)
        return doubled(spec, claim)
