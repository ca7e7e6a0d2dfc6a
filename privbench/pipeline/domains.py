"""The first measurements of a fit: noisy totals (P17), then bounds and categories (P19, P20).

Which events run, and their shapes, follow from config and catalog alone; how the budget is split
follows from the totals, which are released by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import log
from typing import cast

from privbench.encoding import Bounds, BoundsNeed, CategoriesNeed, Codec
from privbench.encoding.base import Need, Released
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import (
    PART,
    DatabaseSpec,
    Labels,
    Measurement,
    Question,
    Result,
    Selection,
    Session,
    allocate,
)
from privbench.privacy.queries import LabelCounts, PublicArray, Quantile, Total
from privbench.synthesizers import PlanInput, PlannedEvent

#: Shares of the whole budget: totals, bounds, categories. What is not needed goes to the
#: synthesizer.
TOTALS, BOUNDS, CATEGORIES = 0.05, 0.08, 0.12
#: The same for totals where every table's histograms tell its size too.
TOTALS_BESIDE = 0.02

#: Codecs per table and column.
Codecs = dict[str, dict[str, Codec]]


@dataclass(frozen=True)
class Stages:
    """The budget of the three stages of a fit, per root table: ε or ρ."""

    totals: float
    domains: float
    synthesizer: float


def stages(plan: FitPlan, amount: float) -> Stages:
    """Split the budget by a public rule: what the plan needs decides, never rows."""
    totals = _totals_share(plan) * amount if plan.spec.tables else 0.0
    kinds = {type(need) for _, _, need in needs(plan)}
    share = BOUNDS * (BoundsNeed in kinds) + CATEGORIES * (CategoriesNeed in kinds)
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


def _total_amounts(spec: DatabaseSpec, amount: float) -> dict[str, float]:
    if not spec.tables:
        return {}
    return allocate({name: (1.0, spec.roots(name)) for name in spec.tables}, amount)


def _need_amounts(plan: FitPlan, spec: DatabaseSpec, amount: float) -> dict[str, float]:
    """A category list costs three times as much as bounds: its threshold is Θ(log(1/δ)/ε) units."""
    return allocate(
        {_item(table, need): (_weight(need), spec.roots(table)) for table, _, need in needs(plan)},
        amount,
    )


def _item(table: str, need: Need) -> str:
    """Name of a need's share of the budget."""
    return f"{table}{PART}{need.attribute}"


def _weight(need: Need) -> float:
    return 3.0 if isinstance(need, CategoriesNeed) else 1.0


def release_totals(session: Session, amount: float) -> dict[str, float]:
    """Noisy rows of every private table, floored at 1.

    Roots count units; tables with an OWN key Σ min(n, 100) (P17).
    """
    amounts, names = _total_amounts(session.spec, amount), session.spec.order()
    found = session.measure_all(
        [Measurement(Total(name), amounts[name], f"total {name}") for name in names]
    )
    return {
        name: max(float(noisy.reshape(-1)[0]), 1.0)
        for name, noisy in zip(names, found, strict=True)
    }


def release_domains(
    session: Session, plan: FitPlan, totals: Mapping[str, float], amount: float
) -> Codecs:
    """Release what every column needs, settle its domain, and give the codecs.

    Args:
        session: The door to the private rows.
        plan: The fit's plan.
        totals: Noisy rows per table.
        amount: What may be spent per root table, ε or ρ.

    Returns:
        Codecs per private table and modelled column.
    """
    released = _released(session, plan, totals, amount)
    codecs: Codecs = {}
    for item in plan.private:
        table = item.table.key
        codecs[table] = {}
        for name, reader in item.readers.items():
            codec = reader.finish(
                {need.attribute: released[table, need.attribute] for need in reader.needs}
            )
            for attribute, recoding in codec.recodings.items():
                session.recode(table, attribute, recoding)
            codecs[table][name] = codec
    return codecs


def _released(
    session: Session, plan: FitPlan, totals: Mapping[str, float], amount: float
) -> dict[tuple[str, str], Released]:
    """What all columns need, in one batch: nothing here depends on more than the totals."""
    amounts = _need_amounts(plan, session.spec, amount) if amount else {}
    deltas = delta_shares(plan, session.spec, session.delta_total)
    asked: list[tuple[str, Need, list[Question]]] = []
    for table, name, need in needs(plan):
        share = amounts[_item(table, need)]
        if isinstance(need, BoundsNeed):
            epsilon = share / 2 if session.accounting == "pure" else (4 * share) ** 0.5
            fitted = need.adapted(totals[table], epsilon)
            asked.append((table, need, _bounds(table, fitted, share)))
        else:
            query = LabelCounts(table, need.attribute, need.per_unit)
            label = f"categories {table}.{name}"
            asked.append((table, need, [Labels(query, share, label, deltas[table])]))
    results = iter(session.ask([question for *_, group in asked for question in group]))
    return {
        (table, need.attribute): _settled(need, [next(results) for _ in group])
        for table, need, group in asked
    }


def _bounds(table: str, need: BoundsNeed, amount: float) -> list[Question]:
    """Both ends of a column's range."""
    candidates = PublicArray(need.candidates)
    return [
        Selection(
            Quantile(table, need.attribute, candidates, numerator, denominator),
            amount / 2,
            f"{end} bound {table}.{need.attribute}",
        )
        for end, (numerator, denominator) in (("lower", need.lo_q), ("upper", need.hi_q))
    ]


def _settled(need: Need, found: list[Result]) -> Released:
    """What a reader takes, from the results of its questions."""
    if not isinstance(need, BoundsNeed):
        (labels,) = found
        return cast(tuple[str, ...], labels)
    low, high = sorted(int(need.candidates[cast(int, index)]) for index in found)
    return Bounds(low, high if high > low else low + 1)


def delta_shares(plan: FitPlan, spec: DatabaseSpec, delta: float) -> dict[str, float]:
    """δ of one category release, per table: the whole, split over a root table's releases."""
    load: dict[str, int] = {}
    tables = [table for table, _, need in needs(plan) if isinstance(need, CategoriesNeed)]
    for table in tables:
        for root in spec.roots(table):
            load[root] = load.get(root, 0) + 1
    # A hair less than an equal part, so that rounding in the sum cannot pass the whole.
    return {
        table: delta * (1 - 1e-9) / max(load[root] for root in spec.roots(table))
        for table in set(tables)
    }


def planned(plan: FitPlan, source: PlanInput) -> list[PlannedEvent]:
    """The events of these two stages, without data."""
    split = stages(plan, source.total)
    spec = plan.spec
    events = []
    for name, amount in (_total_amounts(spec, split.totals) if spec.tables else {}).items():
        events.append(PlannedEvent.of(f"total {name}", Total(name), spec, amount, source))
    amounts = _need_amounts(plan, spec, split.domains) if split.domains else {}
    for table, column, need in needs(plan):
        amount = amounts[_item(table, need)]
        if isinstance(need, CategoriesNeed):
            events.append(
                _planned(
                    f"categories {table}.{column}",
                    table,
                    "label counts",
                    (),
                    1.0,
                    amount,
                    spec,
                    source,
                )
            )
        else:
            for end in ("lower", "upper"):
                shape = (len(need.candidates),)
                events.append(
                    _planned(
                        f"{end} bound {table}.{column}",
                        table,
                        "quantile",
                        shape,
                        2 * log(len(need.candidates)),
                        amount / 2,
                        spec,
                        source,
                    )
                )
    return events


def _planned(
    label: str,
    table: str,
    kind: str,
    shape: tuple[int, ...],
    spread: float,
    amount: float,
    spec: DatabaseSpec,
    source: PlanInput,
) -> PlannedEvent:
    """An event whose error is not that of a noisy count: ``spread``/ε in counted units."""
    epsilon = amount if source.accounting == "pure" else (8 * amount) ** 0.5
    return PlannedEvent(
        label,
        table,
        kind,
        shape,
        amount,
        amount / source.total,
        spread / epsilon,
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
