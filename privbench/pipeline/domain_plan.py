"""The first measurements of a fit as `plan` shows them, without data."""

from __future__ import annotations

from dataclasses import replace

from privbench.encoding import Bounds, BoundsNeed, CategoriesNeed, Decimals, DecimalsNeed
from privbench.encoding.base import Released
from privbench.encoding.lattice import USUAL
from privbench.pipeline.domain_shares import (
    Shares,
    epsilon_of,
    grid,
    item_of,
    needs,
    stages,
    total_amounts,
)
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import DatabaseSpec
from privbench.privacy.queries import Total
from privbench.synthesizers import PlanInput, PlannedEvent


def planned(plan: FitPlan, source: PlanInput, delta: float) -> list[PlannedEvent]:
    """The events of these two stages, without data.

    Args:
        plan: The fit's plan.
        source: The whole budget and the rows that are guessed.
        delta: δ for threshold releases, per root table: the accountant's, as in the fit.
    """
    split = stages(plan, source.total)
    spec = plan.spec
    events = []
    for name, amount in (total_amounts(spec, split.totals) if spec.tables else {}).items():
        events.append(PlannedEvent.of(f"total {name}", Total(name), spec, amount, source))
    totals = {name: source.rows(name) for name in spec.tables}
    shares = Shares.of(plan, spec, totals, split.domains, source.accounting, delta)
    for name, amount in shares.again.items():
        events.append(PlannedEvent.of(f"second total {name}", Total(name), spec, amount, source))
    for table, column, need in needs(plan):
        if item_of(table, need) not in shares.amounts:
            continue
        amount = shares.amounts[item_of(table, need)]
        if isinstance(need, CategoriesNeed):
            events.append(_planned_labels(table, column, amount, spec, source))
        else:
            question = grid(table, column, need, amount)
            events.append(PlannedEvent.of(question.label, question.query, spec, amount, source))
    return events


def _planned_labels(
    table: str, column: str, amount: float, spec: DatabaseSpec, source: PlanInput
) -> PlannedEvent:
    """The release of a category list; its error, 1/ε in units, is not that of a noisy count."""
    return PlannedEvent(
        f"categories {table}.{column}",
        table,
        "label counts",
        (),
        amount,
        amount / source.total,
        1.0 / epsilon_of(amount, source.accounting),
        spec.roots(table),
    )


def settled(plan: FitPlan) -> DatabaseSpec:
    """The spec with the domains that are known before any release, for ``plan``.

    Attributes whose domain must be released are given the size that they are likely to get.
    """
    spec = plan.spec
    for item in plan.private:
        domains = {}
        for reader in item.readers.values():
            guess: dict[str, Released] = {}
            for need in reader.needs:
                if isinstance(need, BoundsNeed):
                    quarter = len(need.candidates) // 4
                    guess[need.attribute] = Bounds(
                        int(need.candidates[quarter]), int(need.candidates[3 * quarter])
                    )
                elif isinstance(need, DecimalsNeed):
                    guess[need.attribute] = Decimals(USUAL)
                else:
                    guess[need.attribute] = tuple(f"value {i}" for i in range(20))
            domains.update(reader.finish(guess).domains)
        spec = replace(
            spec,
            tables={
                **spec.tables,
                item.table.key: replace(spec.tables[item.table.key], attributes=domains),
            },
        )
    return spec
