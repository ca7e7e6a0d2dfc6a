"""Sensitivities shared by queries that add up weights of rows.

Let a unit's rows in the table carry weights that sum to at most C (`units.contribution`). If every
row adds its weight, times public multipliers, to certain cells that it alone determines, removing
the unit changes the statistic by a vector u ≥ 0:

* ‖u‖₁ ≤ C·m₁, where m₁ is the largest sum of the multipliers of one row's cells;
* ‖u‖₂ ≤ C·m₂, where m₂ is the largest root of the sum of their squares (triangle inequality over
  the rows);
* ‖u‖∞ ≤ C·m∞, where m∞ is the largest multiplier.

Replacing it by another unit changes the statistic by v − u with v of the same kind: at most 2·C·m₁
in L1. In L∞ at most C·m∞, since both entries lie in [0, C·m∞]. In L2 at most 2·C·m₂, and √2·C·m₂
where a unit has one row in the table: ‖v − u‖² = ‖u‖² + ‖v‖² − 2u·v and u·v ≥ 0.
"""

from __future__ import annotations

import math

from privbench.privacy.query import Sensitivity
from privbench.privacy.spec import DatabaseSpec
from privbench.privacy.units import contribution, single


def weighted(
    spec: DatabaseSpec,
    table: str,
    *,
    m1: float = 1,
    m2: float = 1.0,
    most: float = 1,
) -> Sensitivity:
    """The claim for rows of ``table`` with multipliers as in the module's docstring."""
    total = contribution(spec, table)
    l1, l2, linf = math.ceil(total * m1), up(total * m2), math.ceil(total * most)
    if spec.relation.neighbours == "replace":
        return Sensitivity(2 * l1, up(l2 * math.sqrt(2)) if single(spec, table) else 2 * l2, linf)
    return Sensitivity(l1, l2, linf)


def up(value: float) -> float:
    """``value``, or the next larger float where it is no integer: a bound is rounded up."""
    return value if value == int(value) else math.nextafter(value, math.inf)


def doubled(spec: DatabaseSpec, claim: Sensitivity) -> Sensitivity:
    """``claim`` under add/remove; twice it under replace, which removes one unit and adds one."""
    if spec.relation.neighbours == "replace":
        return Sensitivity(2 * claim.l1, 2 * claim.l2, 2 * claim.linf)
    return claim
