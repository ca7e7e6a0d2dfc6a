"""The stages of a fit before the synthesizer's, and what columns need: rules of the plan.

Reads no rows. Which events may run, and their shapes, follow from config and catalog alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from privbench.encoding import BoundsNeed, CategoriesNeed
from privbench.encoding.base import Need
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import MARGIN, PART, Accounting, DatabaseSpec, allocate, root_sums

#: Shares of the whole budget: totals, bounds, categories. What is not needed goes to the
#: synthesizer.
TOTALS, BOUNDS, CATEGORIES = 0.05, 0.08, 0.12
#: The same for totals where every table's histograms tell its size too.
TOTALS_BESIDE = 0.02


@dataclass(frozen=True)
class Stages:
    """The budget of the three stages of a fit, per root table: ε or ρ."""

    totals: float
    domains: float
    synthesizer: float


def stages(plan: FitPlan, amount: float, step: float = 1.0) -> Stages:
    """Split the budget by a public rule: what the plan needs decides, never rows.

    Args:
        plan: The fit's plan.
        amount: The whole budget per root table, ε or ρ.
        step: How many times as much bounds and categories take; see `settled_stages`.
    """
    totals = _totals_share(plan) * amount if plan.spec.tables else 0.0
    kinds = {type(need) for _, _, need in needs(plan)}
    share = step * (BOUNDS * (BoundsNeed in kinds) + CATEGORIES * (CategoriesNeed in kinds))
    return Stages(totals, share * amount, amount * (1 - share) - totals)


def _totals_share(plan: FitPlan) -> float:
    """Totals matter less where all tables are roots with attributes.

    Every row of a root stands in one cell of each one-way histogram with weight 1, so that their
    sums are further totals; an owned table's weights say nothing of its rows.
    """
    told = all(
        item.readers and plan.spec.tables[item.table.key].own is None for item in plan.private
    )
    return TOTALS_BESIDE if told else TOTALS


def needs(plan: FitPlan) -> Iterator[tuple[str, str, Need]]:
    """Every (table, column, need), in table and column order."""
    for item in plan.private:
        for name, reader in item.readers.items():
            for need in reader.needs:
                yield item.table.key, name, need


def lists_of(plan: FitPlan) -> dict[str, tuple[str, CategoriesNeed]]:
    """Every list that columns need, by item."""
    return {
        item_of(table, need): (table, need)
        for table, _, need in needs(plan)
        if isinstance(need, CategoriesNeed)
    }


def item_of(table: str, need: Need) -> str:
    """Name of a need's share of the budget."""
    return f"{table}{PART}{need.attribute}"


def total_amounts(spec: DatabaseSpec, amount: float) -> dict[str, float]:
    """ε or ρ of every table's total."""
    if not spec.tables:
        return {}
    return allocate({name: (1.0, spec.roots(name)) for name in spec.tables}, amount)


def delta_shares(spec: DatabaseSpec, tables: Iterable[str], delta: float) -> dict[str, float]:
    """δ of one list, per table: the whole, split over a root table's lists.

    Args:
        spec: The plan's.
        tables: The table of every list that is asked for.
        delta: δ for threshold releases, per root table.
    """
    asked = list(tables)
    load = root_sums((spec.roots(table), 1.0) for table in asked)
    return {
        table: delta * MARGIN / max(load[root] for root in spec.roots(table))
        for table in set(asked)
    }


def epsilon_of(amount: float, accounting: Accounting) -> float:
    """ε of a question."""
    return amount if accounting == "pure" else (8 * amount) ** 0.5


def amount_of(epsilon: float, accounting: Accounting) -> float:
    """The amount that gives a question an ε; undoes `epsilon_of`."""
    return epsilon if accounting == "pure" else epsilon**2 / 8
