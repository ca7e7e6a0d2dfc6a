"""The first measurements of a fit as `plan` shows them, without data."""

from __future__ import annotations

from dataclasses import replace

from privbench.encoding import Bounds, BoundsNeed, CategoriesNeed, Decimals, DecimalsNeed
from privbench.encoding.base import Released
from privbench.pipeline.domain_modes import Modes, mode_amounts, mode_questions
from privbench.pipeline.domain_shares import grids, settled_stages
from privbench.pipeline.domain_stages import (
    Stages,
    epsilon_of,
    item_of,
    lists_of,
    needs,
    stages,
    total_amounts,
)
from privbench.pipeline.domain_weights import Weights, weight_amounts, weight_questions
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import DatabaseSpec
from privbench.privacy.queries import Total
from privbench.synthesizers import PlanInput, PlannedEvent


def planned(plan: FitPlan, source: PlanInput, delta: float) -> tuple[list[PlannedEvent], Stages]:
    """The events of these two stages, without data, and the budget of all three.

    What largest counts may tell of lists is not guessed, and all units have rows in owned tables.

    Args:
        plan: The fit's plan.
        source: The whole budget and the rows that are guessed.
        delta: δ for threshold releases, per root table: the accountant's, as in the fit.
    """
    spec = plan.spec
    totals = {name: source.rows(name) for name in spec.tables}
    usual = stages(plan, source.total)
    counted = weight_amounts(plan, totals, usual.domains, source.accounting)
    weights = Weights.of(spec, totals).told(spec, counted, {})
    amounts = mode_amounts(plan, weights, usual.domains, source.accounting)
    modes = Modes.of(plan, amounts, {}, weights.spent)
    split, shares = settled_stages(plan, weights, source.total, source.accounting, delta, modes)
    events = []
    for name, amount in (total_amounts(spec, split.totals) if spec.tables else {}).items():
        events.append(PlannedEvent.of(f"total {name}", Total(name), spec, amount, source))
    for question in (*weight_questions(spec, counted), *mode_questions(lists_of(plan), amounts)):
        events.append(
            PlannedEvent.of(question.label, question.query, spec, question.amount, source)
        )
    for name, amount in shares.again.items():
        events.append(PlannedEvent.of(f"second total {name}", Total(name), spec, amount, source))
    for table, column, need in needs(plan):
        if item_of(table, need) not in shares.amounts:
            continue
        amount = shares.amounts[item_of(table, need)]
        if isinstance(need, CategoriesNeed):
            events.append(_planned_labels(table, column, amount, spec, source))
        else:
            seen = shares.weights[table] * epsilon_of(amount, source.accounting)
            for _, question in grids(table, column, need, amount, seen):
                events.append(
                    PlannedEvent.of(question.label, question.query, spec, question.amount, source)
                )
    return events, split


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
                    guess[need.attribute] = Decimals(need.usual)
                elif need.grid is None:
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
