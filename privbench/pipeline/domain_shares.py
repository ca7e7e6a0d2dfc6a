"""How the budget of a fit's first measurements is shared: a rule of the plan and of totals.

Reads no rows. Which events run, and their shapes, follow from config and catalog alone; how the
budget is split follows from the totals, which are released by then (P19, P20).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log

from privbench.encoding import BoundsNeed, CategoriesNeed, DecimalsNeed
from privbench.encoding.base import Need
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import PART, Accounting, DatabaseSpec, Measurement, allocate
from privbench.privacy.queries import GridHistogram, PublicArray

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


def total_amounts(spec: DatabaseSpec, amount: float) -> dict[str, float]:
    """ε or ρ of every table's total."""
    if not spec.tables:
        return {}
    return allocate({name: (1.0, spec.roots(name)) for name in spec.tables}, amount)


@dataclass(frozen=True)
class Shares:
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
    ) -> Shares:
        """Share the amount, and drop what drowns by turns: a rule of released numbers.

        After every drop the amount is shared anew, so that what is left drowns less (`_turns`).
        """
        weights = {name: _rows_weight(spec, totals, name) for name in spec.tables}
        deltas = delta_shares(plan, spec, delta)
        kept = {item_of(table, need): (table, need) for table, _, need in needs(plan)}

        def drowned(names: Sequence[str]) -> list[str]:
            given = _need_amounts(spec, kept, amount)
            return [
                name
                for name in names
                if _drowned(
                    kept[name][1],
                    weights[kept[name][0]],
                    epsilon_of(given[name], accounting),
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
                given[name] = min(given[name], amount_of(_ENOUGH / weights[table], accounting))
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


def epsilon_of(amount: float, accounting: Accounting) -> float:
    """ε of a question."""
    return amount if accounting == "pure" else (8 * amount) ** 0.5


def amount_of(epsilon: float, accounting: Accounting) -> float:
    """The amount that gives a question an ε; undoes `epsilon_of`."""
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


def item_of(table: str, need: Need) -> str:
    """Name of a need's share of the budget."""
    return f"{table}{PART}{need.attribute}"


def _weight(need: Need) -> float:
    if isinstance(need, DecimalsNeed):
        # Nine cells that most rows share need less than the ends of a range.
        return 0.5
    return 3.0 if isinstance(need, CategoriesNeed) else 1.0


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


def grid(table: str, column: str, need: BoundsNeed | DecimalsNeed, amount: float) -> Measurement:
    """The question of a column's range, or of its decimals."""
    query = GridHistogram(table, need.attribute, PublicArray(need.candidates))
    what = "range" if isinstance(need, BoundsNeed) else "decimals"
    return Measurement(query, amount, f"{what} {table}.{column}")
