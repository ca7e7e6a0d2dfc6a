"""How the budget of columns' domains is shared: a rule of what totals and largest counts tell.

Reads no rows: how the budget is split follows from numbers that are released by then (P19, P20).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log
from typing import Self

from privbench.encoding import BoundsNeed, CategoriesNeed, DecimalsNeed
from privbench.encoding.base import Need
from privbench.pipeline.domain_modes import Mode, Modes, expected
from privbench.pipeline.domain_stages import (
    Stages,
    amount_of,
    delta_shares,
    epsilon_of,
    item_of,
    needs,
    stages,
    weights_of,
)
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import MARGIN, Accounting, Measurement, allocate, root_sums
from privbench.privacy.queries import GridHistogram, PublicArray

#: How many times as much bounds and categories may take, and rows in noise scales that a range is
#: to get, where that saves category lists: queries on a column without its labels find nothing at
#: all, all others lose a little.
STEPS = ((1.0, 40.0), (1.0, 24.0), (1.0, 16.0), (1.35, 20.0), (1.7, 24.0))

#: Part of the amount for domains that goes to second totals; the rest goes to the synthesizer.
AGAIN = 0.25

#: How far above its threshold a list's largest label is to lie, since others are rarer; at least.
_WELL, _CLEARLY = 1.5, 1.25
#: How many times that amount a list of numbers or times gets at most.
_MANIFOLD = 3.0
#: Rows, in noise scales, below which a column's range is not asked for.
_LEAST_SEEN = 12.0
#: The same for its decimals, and what they get at the least where they are asked for.
_LEAST_TOLD, _TOLD = 8.0, 10.0
#: The most rows, in noise scales, that either is paid: all are told then, and lists need the rest.
_ENOUGH = 120.0


def settled_stages(
    plan: FitPlan,
    totals: Mapping[str, float],
    amount: float,
    accounting: Accounting,
    delta: float,
    modes: Modes,
) -> tuple[Stages, Shares]:
    """The three stages' budget once totals and largest counts are released, and its shares.

    A rule of released numbers: domains take the first of `STEPS` that keeps as many category lists
    as any; lists of which nothing is known do not count where a column's name or type tells that
    few rows share a value.

    Args:
        plan: The fit's plan.
        totals: Released rows per table.
        amount: The whole budget per root table, ε or ρ.
        accounting: What the amount is.
        delta: δ for threshold releases, per root table.
        modes: What largest counts have told, and what they took of domains.
    """
    listed = any(isinstance(need, CategoriesNeed) for _, _, need in needs(plan))
    found = []
    for step, wanted in STEPS if listed else STEPS[:1]:
        split = stages(plan, amount, step)
        rest = (split.domains - modes.spent) * MARGIN
        shares = Shares.of(plan, totals, rest, accounting, delta, modes.found, wanted)
        found.append((split, shares))
        if shares.lists == shares.possible:
            break
    kept = [shares.lists for _, shares in found]
    return found[kept.index(max(kept))]


@dataclass(frozen=True)
class Shares:
    """What may be spent on what columns need, by item; those left out would drown in noise.

    Attributes:
        amounts: ε or ρ of every item that is asked for.
        totals: Released weight of every table's rows, as far as totals tell.
        again: ε or ρ of second totals, of root tables whose units are asked for nothing else: so
            few rows that their number is all that can be learned of them.
        lists: Number of category lists that are asked for and may well be there.
        possible: The same before any was dropped.
    """

    amounts: dict[str, float]
    totals: dict[str, float]
    again: dict[str, float]
    lists: int
    possible: int

    @classmethod
    def of(
        cls,
        plan: FitPlan,
        totals: Mapping[str, float],
        amount: float,
        accounting: Accounting,
        delta: float,
        modes: Mapping[str, Mode],
        wanted: float = STEPS[0][1],
    ) -> Shares:
        """Share the amount, and drop what drowns by turns: a rule of released numbers.

        After every drop the amount is shared anew, so that what is left drowns less (`_turns`).

        Args:
            plan: The fit's plan.
            totals: Released rows per table.
            amount: What may be spent per root table, ε or ρ.
            accounting: What the amount is.
            delta: δ for threshold releases, per root table.
            modes: What is known of lists, by item.
            wanted: Rows in noise scales that a range is to get.
        """
        spec = plan.spec
        kept = _Items.of(plan, totals, accounting, delta, modes, wanted)
        possible = kept.lists(modes)
        for turn in _turns(kept, modes):
            left = turn
            while left and (gone := kept.drowned(left, amount)):
                need = kept.needs[gone[0]][1]
                in_parts = need.dear or isinstance(need, CategoriesNeed)
                gone = kept.later(gone) if in_parts else gone
                kept = kept.without(gone)
                left = [name for name in left if name in kept.needs]
        charged = {root for name in kept.needs for root in kept.roots[name]}
        again = {
            table: (1.0, spec.roots(table))
            for table in sorted(spec.tables)
            if spec.tables[table].own is None and not charged & set(spec.roots(table))
        }
        return cls(
            kept.amounts(amount),
            weights_of(spec, totals),
            allocate(again, AGAIN * amount) if again and amount else {},
            kept.lists(modes),
            possible,
        )


@dataclass(frozen=True)
class _Items:
    """What is asked for.

    Attributes:
        needs: By item, the table and what it needs.
        weights: Weight of the table's rows; of a list, units that its largest label has.
        deltas: δ by item, of lists.
        prices: What shows an item well, ε or ρ: what it gets is proportional.
        most: What it gets at most.
        roots: Root tables of every item.
        accounting: What amounts are.
    """

    needs: Mapping[str, tuple[str, Need]]
    weights: Mapping[str, float]
    deltas: Mapping[str, float]
    prices: Mapping[str, float]
    most: Mapping[str, float]
    roots: Mapping[str, frozenset[str]]
    accounting: Accounting

    @classmethod
    def of(
        cls,
        plan: FitPlan,
        totals: Mapping[str, float],
        accounting: Accounting,
        delta: float,
        modes: Mapping[str, Mode],
        wanted: float,
    ) -> _Items:
        """All but lists that are not worth it; see `Shares.of`."""
        weights = weights_of(plan.spec, totals)
        items = {item_of(table, need): (table, need) for table, _, need in needs(plan)}
        seen = {
            name: expected(need, weights[table], modes.get(name))
            if isinstance(need, CategoriesNeed)
            else weights[table]
            for name, (table, need) in items.items()
        }
        items = {name: item for name, item in items.items() if seen[name] > 0}
        tables = [table for table, need in items.values() if isinstance(need, CategoriesNeed)]
        deltas = delta_shares(plan.spec, tables, delta)
        shares = {name: deltas.get(table, 0.0) for name, (table, _) in items.items()}
        prices = {
            name: amount_of(_epsilon_for(need, seen[name], shares[name], wanted), accounting)
            for name, (_, need) in items.items()
        }
        most = {
            name: _MANIFOLD * prices[name]
            if isinstance(need, CategoriesNeed)
            else amount_of(_ENOUGH / weights[table], accounting)
            for name, (table, need) in items.items()
            if not isinstance(need, CategoriesNeed) or need.grid
        }
        owners = {table: plan.spec.roots(table) for table in plan.spec.tables}
        roots = {name: owners[table] for name, (table, _) in items.items()}
        return cls(items, seen, shares, prices, most, roots, accounting)

    def without(self, names: Sequence[str]) -> Self:
        """All but some."""
        gone = set(names)
        left = {name: item for name, item in self.needs.items() if name not in gone}
        return replace(self, needs=left)

    def later(self, names: Sequence[str]) -> list[str]:
        """The last quarter of some, of each set of root tables: as many are left as have room."""
        trees: dict[frozenset[str], list[str]] = {}
        for name in names:
            trees.setdefault(self.roots[name], []).append(name)
        return [name for group in trees.values() for name in group[-max(len(group) // 4, 1) :]]

    def lists(self, modes: Mapping[str, Mode]) -> int:
        """Number of category lists that may well be there."""
        return sum(
            isinstance(need, CategoriesNeed) and (name in modes or not need.own)
            for name, (_, need) in self.needs.items()
        )

    def amounts(self, amount: float) -> dict[str, float]:
        """ε or ρ of every item; see `_need_amounts`."""
        return _need_amounts(self.roots, self.needs, self.prices, amount, self.most)

    def drowned(self, names: Sequence[str], amount: float) -> list[str]:
        """Those of the items that would not show in their answers."""
        given = self.amounts(amount)
        return [
            name
            for name in names
            if _drowned(
                self.needs[name][1],
                self.weights[name],
                epsilon_of(given[name], self.accounting),
                self.deltas[name],
            )
        ]


def _turns(items: _Items, modes: Mapping[str, Mode]) -> Iterator[list[str]]:
    """Groups in the order in which they are dropped; of a group, the end goes first.

    Lists that are unlikely, then what tells little, lists first. Of lists the dearest, of those of
    one price those of long texts.
    """
    groups: dict[tuple[int, bool], list[str]] = {}
    for name, (_, need) in items.needs.items():
        lists = isinstance(need, CategoriesNeed)
        unlikely = isinstance(need, CategoriesNeed) and need.own and name not in modes
        worth = 0 if unlikely else 1 + need.dear
        groups.setdefault((worth, not lists), []).append(name)
    for _, group in sorted(groups.items()):
        yield sorted(group, key=lambda name: _rank(items.needs[name][1], items.prices[name]))


def _rank(need: Need, price: float) -> tuple[float, float]:
    if not isinstance(need, CategoriesNeed):
        return 0.0, 0.0
    return price, inf if need.length is None else need.length


def _drowned(need: Need, weight: float, epsilon: float, delta: float) -> bool:
    """Whether too little of the rows, or of a list's largest label, would show in the answer."""
    if isinstance(need, CategoriesNeed):
        return delta > 0 and _CLEARLY * log(1 / delta) > epsilon * weight
    least = _LEAST_TOLD if isinstance(need, DecimalsNeed) else _LEAST_SEEN
    return weight * epsilon < least


def _epsilon_for(need: Need, weight: float, delta: float, wanted: float) -> float:
    """ε that shows an item well: what it gets is proportional.

    Args:
        need: What is asked for.
        weight: Weight of the table's rows; of a list, units that its largest label has.
        delta: δ of a list.
        wanted: Rows in noise scales that a range is to get.
    """
    if isinstance(need, CategoriesNeed):
        return _WELL * (log(1 / delta) if delta else 1.0) / max(weight, 1.0)
    # Nine cells that most rows share need less than the ends of a range.
    seen = max(wanted / 2, _TOLD) if isinstance(need, DecimalsNeed) else wanted
    return seen / max(weight, 1.0)


def _need_amounts(
    roots: Mapping[str, frozenset[str]],
    items: Collection[str],
    prices: Mapping[str, float],
    amount: float,
    most: Mapping[str, float],
) -> dict[str, float]:
    """Amount per item by its price, none above its ``most``; what these leave goes to the others.

    No root table passes the amount T. Proof: with the load of a root table, the sum of its items'
    prices, an item gets its price · T / (largest load of its root tables), so that no root table's
    sum passes T (see `allocate`). Taking the least of that and ``most`` lowers it to L_r for root
    table r. An item without a ``most`` is then raised by the least factor (T − F_r) / (L_r − F_r)
    of its root tables, where F_r is the sum of items with one, so that r's sum is at most
    F_r + (L_r − F_r)(T − F_r) / (L_r − F_r) = T. Both products carry a margin of 10⁻⁹, and sums of
    doubles are off by less.
    """
    if not (amount and items):
        return {}
    loads = root_sums((roots[name], prices[name]) for name in items)
    given = {
        name: min(
            prices[name] * (amount * MARGIN) / max(loads[root] for root in roots[name]),
            most.get(name, inf),
        )
        for name in items
    }
    fixed = root_sums((roots[name], share) for name, share in given.items() if name in most)
    free = root_sums((roots[name], share) for name, share in given.items() if name not in most)
    more = {root: (amount - fixed.get(root, 0.0)) / part for root, part in free.items()}
    return {
        name: share
        if name in most
        else share * max(min(more[root] for root in roots[name]) * MARGIN, 1.0)
        for name, share in given.items()
    }


def grids(
    table: str, column: str, need: BoundsNeed | DecimalsNeed, amount: float, seen: float
) -> list[tuple[BoundsNeed | DecimalsNeed, Measurement]]:
    """The questions of a column's range, or of its decimals, and what each is to tell.

    Args:
        table: The table.
        column: The column.
        need: What it needs.
        amount: ε or ρ of all questions together.
        seen: Rows in noise scales of one histogram that gets all of it.
    """
    asked: tuple[BoundsNeed | DecimalsNeed, ...] = (need,)
    words = ["decimals"]
    if isinstance(need, BoundsNeed):
        asked, words = need.asked(seen), ["range", "range closely"]
    return [
        (
            part,
            Measurement(
                GridHistogram(table, part.attribute, PublicArray(part.candidates)),
                amount / len(asked),
                f"{word} {table}.{column}",
            ),
        )
        for part, word in zip(asked, words, strict=False)
    ]
