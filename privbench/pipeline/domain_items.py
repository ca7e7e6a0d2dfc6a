"""What columns need as items with a price: what shows one well, and which would drown in noise.

Reads no rows: prices follow from numbers that are released by then (P19, P20).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log
from typing import Self

from privbench.encoding import CategoriesNeed, DecimalsNeed
from privbench.encoding.base import Need
from privbench.pipeline.domain_modes import Mode, expected, is_clear
from privbench.pipeline.domain_stages import amount_of, delta_shares, epsilon_of, item_of, needs
from privbench.pipeline.domain_weights import Weights
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import MARGIN, Accounting, Purse, root_sums

#: How far above its threshold a list's largest label is to lie, since others are rarer; at least.
_WELL, _CLEARLY = 1.5, 1.25
#: How many times that amount a list of numbers or times gets at most.
_MANIFOLD = 3.0
#: Part of the amount for what tables need in which few units have rows, and rows in noise scales
#: that their ranges are to get.
_THIN_PART, _FRUGAL = 0.6, 16.0
#: Rows, in noise scales, below which a column's range is not asked for.
_LEAST_SEEN = 12.0
#: The same for its decimals, and what they get at the least where they are asked for.
_LEAST_TOLD, _TOLD = 8.0, 10.0
#: The most rows, in noise scales, that either is paid: all are told then, and lists need the rest.
_ENOUGH = 120.0


@dataclass(frozen=True)
class Items:
    """What is asked for.

    Attributes:
        needs: By item, the table and what it needs.
        weights: Weight of the table's rows; of a list, units that its largest label has.
        deltas: δ by item, of lists.
        prices: What shows an item well, ε or ρ: what it gets is proportional.
        most: What it gets at most.
        roots: Root tables of every item.
        accounting: What amounts are.
        thin: Tables in which few of the units that may have rows do.
    """

    needs: Mapping[str, tuple[str, Need]]
    weights: Mapping[str, float]
    deltas: Mapping[str, float]
    prices: Mapping[str, float]
    most: Mapping[str, float]
    roots: Mapping[str, frozenset[str]]
    accounting: Accounting
    thin: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        plan: FitPlan,
        known: Weights,
        accounting: Accounting,
        delta: float,
        modes: Mapping[str, Mode],
        wanted: float,
    ) -> Items:
        """All but what is not worth it; see `Shares.of`."""
        weights = known.weights
        items = {item_of(table, need): (table, need) for table, _, need in needs(plan)}
        seen = {
            name: expected(need, known.units[table], modes.get(name))
            if isinstance(need, CategoriesNeed)
            else weights[table]
            for name, (table, need) in items.items()
        }
        items = {name: item for name, item in items.items() if seen[name] > 0}
        tables = [table for table, need in items.values() if isinstance(need, CategoriesNeed)]
        of_table = delta_shares(plan.spec, tables, delta)
        deltas = {name: of_table.get(table, 0.0) for name, (table, _) in items.items()}
        prices = {
            name: amount_of(
                _epsilon_for(
                    need, seen[name], deltas[name], _FRUGAL if table in known.thin else wanted
                ),
                accounting,
            )
            for name, (table, need) in items.items()
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
        return cls(items, seen, deltas, prices, most, roots, accounting, known.thin)

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

    def unaffordable(self, amount: float) -> list[str]:
        """What thin tables ask for beyond a part of the amount, the dearest.

        Else the needs of a few units would lower what all others get until these drown.
        """
        purse = Purse(_THIN_PART * amount)
        thin = [name for name, (table, _) in self.needs.items() if table in self.thin]
        cheapest = sorted(thin, key=lambda name: self.prices[name])
        return [name for name in cheapest if not purse.take(self.roots[name], self.prices[name])]

    def hopeless(self, amount: float) -> list[str]:
        """Lists that would drown in all of the amount: ranges are not to make room for them."""
        whole = epsilon_of(amount, self.accounting)
        return [
            name
            for name, (_, need) in self.needs.items()
            if isinstance(need, CategoriesNeed)
            and _drowned(need, self.weights[name], whole, self.deltas[name])
        ]

    def lists(self, modes: Mapping[str, Mode]) -> int:
        """Number of category lists that may well be there, and of what else thin tables need.

        Of texts that are seldom shared those that are for sure: no budget is moved for the one in
        50 that noise makes look so.
        """
        return sum(
            not need.own or is_clear(modes.get(name))
            if isinstance(need, CategoriesNeed)
            else table in self.thin
            for name, (table, need) in self.needs.items()
        )

    def amounts(self, amount: float) -> dict[str, float]:
        """ε or ρ of every item; see `need_amounts`."""
        return need_amounts(self.roots, self.needs, self.prices, amount, self.most)

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


def need_amounts(
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
