"""The first measurements of a fit: noisy totals (P17), then bounds, decimals and categories.

Which events run, and their shapes, follow from config and catalog alone; how the budget is split
follows from the totals, which are released by then (P19, P20).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import cast

import numpy as np

from privbench.encoding import Bounds, BoundsNeed, CategoriesNeed, Codec, Decimals, DecimalsNeed
from privbench.encoding.base import Need, Released
from privbench.encoding.lattice import USUAL
from privbench.encoding.ordered import OrderedReader
from privbench.encoding.scale import LINEAR
from privbench.learning.denoise import Floats
from privbench.learning.ranges import as_told, cut, find_decimals, find_range
from privbench.pipeline.neighbours import lend_ranges
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import (
    PART,
    Accounting,
    DatabaseSpec,
    Labels,
    Measurement,
    Question,
    Result,
    Session,
    allocate,
)
from privbench.privacy.queries import GridHistogram, LabelCounts, PublicArray, Total
from privbench.synthesizers import PlanInput, PlannedEvent

#: Shares of the whole budget: totals, bounds, categories. What is not needed goes to the
#: synthesizer.
TOTALS, BOUNDS, CATEGORIES = 0.05, 0.08, 0.12
#: The same for totals where every table's histograms tell its size too.
TOTALS_BESIDE = 0.02

#: Part of the amount for domains that goes to second totals; the rest goes to the synthesizer.
AGAIN = 0.25

#: Share of a label that is to pass a list's threshold, for the list to be asked for.
_SHARED = 0.12
#: Rows, in noise scales, below which a column's range is not asked for, and the most that are paid.
_LEAST_SEEN, _ENOUGH = 20.0, 60.0
#: The same for its decimals.
_LEAST_TOLD = 8.0
#: Standard deviations of noise from which on values below zero are seen.
_CLEAR = 2.0
#: Fewest equal cells of a column with released bounds.
LEAST_CELLS = 16

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


@dataclass(frozen=True)
class _Shares:
    """What may be spent on what columns need, by item; those left out would drown in noise.

    Attributes:
        amounts: ε or ρ of every item that is asked for.
        totals: Released weight of every table's rows, as far as totals tell.
        again: ε or ρ of second totals, of root tables whose units are asked for nothing else: so
            few rows that their number is all that can be learned of them.
    """

    amounts: dict[str, float]
    totals: dict[str, float]
    again: dict[str, float]

    @classmethod
    def of(
        cls,
        plan: FitPlan,
        spec: DatabaseSpec,
        totals: Mapping[str, float],
        amount: float,
        accounting: Accounting,
        delta: float,
    ) -> _Shares:
        """Share the amount, and drop what drowns by turns: a rule of released numbers.

        After every drop the amount is shared anew, so that what is left drowns less (`_turns`).
        """
        weights = {name: _rows_weight(spec, totals, name) for name in spec.tables}
        deltas = delta_shares(plan, spec, delta)
        kept = {_item(table, need): (table, need) for table, _, need in needs(plan)}

        def drowned(names: Sequence[str]) -> list[str]:
            given = _need_amounts(spec, kept, amount)
            return [
                name
                for name in names
                if _drowned(
                    kept[name][1],
                    weights[kept[name][0]],
                    _epsilon(given[name], accounting),
                    deltas.get(kept[name][0], 0.0),
                )
            ]

        for turn in _turns(kept):
            while turn and (gone := drowned(turn)):
                gone = _later(spec, kept, gone) if kept[gone[0]][1].dear else gone
                kept = {name: item for name, item in kept.items() if name not in gone}
                turn = [name for name in turn if name in kept]
        given = _need_amounts(spec, kept, amount)
        for name, (table, need) in kept.items():
            if isinstance(need, BoundsNeed):
                given[name] = min(given[name], _amount(_ENOUGH / weights[table], accounting))
        charged = {root for table, _ in kept.values() for root in spec.roots(table)}
        again = {
            table: (1.0, spec.roots(table))
            for table in sorted(spec.tables)
            if spec.tables[table].own is None and not charged & set(spec.roots(table))
        }
        return cls(
            given,
            weights,
            allocate(again, AGAIN * amount) if again and amount else {},
        )


def _rows_weight(spec: DatabaseSpec, totals: Mapping[str, float], table: str) -> float:
    """Weight of a table's rows: of owned ones, one per owner at most.

    The total of an owned table's own rows says little of few: its sensitivity is 100.
    """
    return totals[spec.top(table)]


def _epsilon(amount: float, accounting: Accounting) -> float:
    """ε of a question."""
    return amount if accounting == "pure" else (8 * amount) ** 0.5


def _amount(epsilon: float, accounting: Accounting) -> float:
    """The amount that gives a question an ε; undoes `_epsilon`."""
    return epsilon if accounting == "pure" else epsilon**2 / 8


def _turns(items: Mapping[str, tuple[str, Need]]) -> Iterator[list[str]]:
    """Items in the order in which they are dropped: what tells little first, then lists first."""
    for dear in (False, True):
        for lists in (True, False):
            yield [
                name
                for name, (_, need) in items.items()
                if isinstance(need, CategoriesNeed) == lists and need.dear == dear
            ]


def _later(
    spec: DatabaseSpec, items: Mapping[str, tuple[str, Need]], names: Sequence[str]
) -> list[str]:
    """The later half of some items, of each set of root tables: as many are left as have room."""
    trees: dict[frozenset[str], list[str]] = {}
    for name in names:
        trees.setdefault(frozenset(spec.roots(items[name][0])), []).append(name)
    return [name for group in trees.values() for name in group[len(group) // 2 :]]


def _drowned(need: Need, weight: float, epsilon: float, delta: float) -> bool:
    """Whether too little of the rows would show in the answer."""
    if isinstance(need, CategoriesNeed):
        return delta > 0 and log(1 / delta) > epsilon * weight * _SHARED
    least = _LEAST_TOLD if isinstance(need, DecimalsNeed) else _LEAST_SEEN
    return weight * epsilon < least


def _need_amounts(
    spec: DatabaseSpec, items: Mapping[str, tuple[str, Need]], amount: float
) -> dict[str, float]:
    """A category list costs three times as much as bounds: its threshold is Θ(log(1/δ)/ε) units."""
    if not (amount and items):
        return {}
    return allocate(
        {name: (_weight(need), spec.roots(table)) for name, (table, need) in items.items()}, amount
    )


def _item(table: str, need: Need) -> str:
    """Name of a need's share of the budget."""
    return f"{table}{PART}{need.attribute}"


def _weight(need: Need) -> float:
    if isinstance(need, DecimalsNeed):
        # Nine cells that most rows share need less than the ends of a range.
        return 0.5
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
) -> tuple[Codecs, dict[str, float]]:
    """Release what every column needs, settle its domain, and give the codecs.

    Args:
        session: The door to the private rows.
        plan: The fit's plan.
        totals: Noisy rows per table.
        amount: What may be spent per root table, ε or ρ.

    Returns:
        Codecs per private table and modelled column, and totals: those of small tables have been
        released once more.
    """
    given, again = _released(session, plan, totals, amount)
    limits = {
        (item.table.key, name): (reader.range.lo, reader.range.hi)
        for item in plan.private
        for name, reader in item.readers.items()
        if isinstance(reader, OrderedReader)
    }
    released = lend_ranges((item.table for item in plan.private), given, limits)
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
            for need in reader.needs:
                if isinstance(need, DecimalsNeed):
                    session.let_go(table, need.attribute)
            codecs[table][name] = codec
    return codecs, {**totals, **again}


def _released(
    session: Session, plan: FitPlan, totals: Mapping[str, float], amount: float
) -> tuple[dict[tuple[str, str], Released], dict[str, float]]:
    """What all columns need, in one batch: nothing here depends on more than the totals."""
    accounting, delta = session.accounting, session.delta_total
    shares = _Shares.of(plan, session.spec, totals, amount, accounting, delta)
    deltas = delta_shares(plan, session.spec, delta)
    asked: list[tuple[str, Need, list[Question]]] = []
    for table, name, need in needs(plan):
        share = shares.amounts.get(_item(table, need))
        if share is None:
            asked.append((table, need, []))
        elif isinstance(need, CategoriesNeed):
            query = LabelCounts(table, need.attribute, need.per_unit)
            label = f"categories {table}.{name}"
            asked.append((table, need, [Labels(query, share, label, deltas[table])]))
        else:
            asked.append((table, need, [_grid(table, name, need, share)]))
    repeated = [
        Measurement(Total(name), share, f"second total {name}")
        for name, share in shares.again.items()
    ]
    results = iter(session.ask([*repeated, *(q for *_, group in asked for q in group)]))
    again = {
        item.query.table: _better(session, item, float(np.ravel(next(results))[0]), totals)
        for item in repeated
    }
    cells = _cells(plan, session, shares.totals)
    found = {
        (table, need.attribute): _settled(
            session, need, group, [next(results) for _ in group], cells[table]
        )
        for table, need, group in asked
    }
    return found, again


def _better(
    session: Session, second: Measurement, noisy: float, totals: Mapping[str, float]
) -> float:
    """The inverse-variance mean of both totals of a table, at least 1."""
    table = second.query.table
    first = next(
        step.event.amount
        for step in session.trace
        if isinstance(step.query, Total) and step.query.table == table
    )
    sds = [session.noise_scale(second.query, amount) for amount in (first, second.amount)]
    values = [totals[table], noisy / second.query.unit]
    return max(float(np.average(values, weights=[1 / max(sd, 1e-9) ** 2 for sd in sds])), 1.0)


def _cells(plan: FitPlan, session: Session, weights: Mapping[str, float]) -> dict[str, int]:
    """Per table, the equal cells of a column that its one-way histogram can tell apart.

    Cells hold two noise scales each on average, if all columns that share a root get equal parts.
    More would cost time and say nothing.
    """
    columns: dict[str, int] = {}
    for item in plan.private:
        for root in session.spec.roots(item.table.key):
            columns[root] = columns.get(root, 0) + len(item.readers)
    total = session.amount_total
    epsilon = total if session.accounting == "pure" else (2 * total) ** 0.5
    found = {}
    for table, weight in weights.items():
        most = max((columns[root] for root in session.spec.roots(table)), default=1)
        found[table] = int(min(max(weight * epsilon / (2 * max(most, 1)), LEAST_CELLS), LINEAR))
    return found


def _grid(table: str, column: str, need: BoundsNeed | DecimalsNeed, amount: float) -> Measurement:
    """The question of a column's range, or of its decimals."""
    query = GridHistogram(table, need.attribute, PublicArray(need.candidates))
    what = "range" if isinstance(need, BoundsNeed) else "decimals"
    return Measurement(query, amount, f"{what} {table}.{column}")


def _settled(
    session: Session, need: Need, questions: list[Question], found: list[Result], cells: int
) -> Released:
    """What a reader takes, from the results of its questions, if any were asked."""
    if isinstance(need, CategoriesNeed):
        # As many usual labels as the histogram can tell apart, and as many again.
        return (cast(tuple[str, ...], found[0]) if found else ()) or need.usual[: 2 * cells]
    if found:
        (question,) = questions
        sd = session.noise_scale(question.query, question.amount)
        noisy = np.asarray(found[0], np.float64) / question.query.unit
        if isinstance(need, DecimalsNeed):
            return Decimals(find_decimals(noisy, max(sd, 1e-9), USUAL))
        ends = find_range(noisy, max(sd, 1e-9), narrow=not need.dear)
        if ends is not None and need.told:
            ends = as_told(noisy, max(sd, 1e-9), ends, need.told_cells)
        if ends is not None:
            ends = _from_zero(need, noisy, sd, *ends)
            return need.between(*ends, cut(noisy, sd, *ends, cells), cells)
    return Decimals() if isinstance(need, DecimalsNeed) else replace(need.usual, cells=cells)


def _from_zero(
    need: BoundsNeed, noisy: Floats, sd: float, first: int, last: int
) -> tuple[int, int]:
    """The cells of a range, from zero on where nothing is seen below it.

    A run of cells that tells a range only as a whole may begin anywhere: prices below zero are no
    fair guess.
    """
    zero = int(np.searchsorted(need.candidates, 0))
    known = zero < len(need.candidates) and need.candidates[zero] == 0
    if need.dear or not known or not first <= zero < last:
        return first, last
    below = noisy[first : zero + 1]
    seen = float(below.sum()) > _CLEAR * sd * len(below) ** 0.5
    return (first, last) if seen else (zero + 1, last)


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
    for name, amount in (_total_amounts(spec, split.totals) if spec.tables else {}).items():
        events.append(PlannedEvent.of(f"total {name}", Total(name), spec, amount, source))
    totals = {name: source.rows(name) for name in spec.tables}
    shares = _Shares.of(plan, spec, totals, split.domains, source.accounting, delta)
    for name, amount in shares.again.items():
        events.append(PlannedEvent.of(f"second total {name}", Total(name), spec, amount, source))
    for table, column, need in needs(plan):
        if _item(table, need) not in shares.amounts:
            continue
        amount = shares.amounts[_item(table, need)]
        if isinstance(need, CategoriesNeed):
            events.append(_planned_labels(table, column, amount, spec, source))
        else:
            question = _grid(table, column, need, amount)
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
        1.0 / _epsilon(amount, source.accounting),
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
