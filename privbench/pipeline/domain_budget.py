"""How much of the budget each column's domain gets: by the log Q-error that it buys.

Reads no rows: everything follows from the plan and from numbers that are released by then.

The objective is the expected |log Q-error| of a query on a value or a range of a column, summed
over columns (`domain_error`), and of a table of which nothing else is asked, the error of its
total, for every column.

`shares` takes the amounts with the least sum: an equal floor for what is worth it at all, and the
rest by the steepest step along the lower convex hulls, as long as a step buys more than the same
amount would for the synthesizer, whose error is taken to be √(σ/W) for each attribute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from privbench.encoding import BoundsNeed, CategoriesNeed, DecimalsNeed
from privbench.pipeline.domain_error import (
    Floats,
    Law,
    Noise,
    Size,
    list_loss,
    range_loss,
)
from privbench.pipeline.prepare import FitPlan, item_of
from privbench.privacy import MARGIN, DatabaseSpec, Purse, allocate, root_sums
from privbench.privacy.units import bound, single

#: Part of the budget for totals, and where every table's histograms tell its size too.
TOTALS, TOTALS_BESIDE = 0.05, 0.02
#: The most for columns' domains, and of that: for units of owned tables, and for laws by rank.
DOMAINS, UNITS, LAWS = 0.4, 0.05, 0.25
#: Part of what is left of it that is shared equally.
EQUAL = 0.3
#: Units of a table in noise scales of its laws, at least, unless that costs so many equal shares.
_SCALES, _DEAR = 12.0, 8.0
#: Units of a table in noise scales of its laws at most; rows of a table in noise scales of a
#: histogram for all, beyond which its units count by rows.
_ENOUGH = 300.0
#: Norm of a unit's rows by label, as a part of their mean number: C beyond it makes labels of many
#: units weigh less and corrects nothing. Twice as much loses a tenth of the labels of a table with
#: 20 rows a unit; half as much changes nothing there, and counts heavy units for less.
_TYPICAL = 0.5
#: Part of its error that an item must save to be asked for.
_WORTH = 0.05
#: Amounts that are compared, the least of them as a part of the whole, and the error beyond the
#: least that makes no difference.
_LEVELS, _LEAST, _SAME = 49, 2.0**-16, 0.02


@dataclass(frozen=True)
class Stages:
    """The budget of the three stages of a fit, per root table: ε or ρ."""

    totals: float
    domains: float
    synthesizer: float


def totals_share(plan: FitPlan) -> float:
    """Totals matter less where all tables are roots with attributes.

    Every row of a root stands in one cell of each one-way histogram with weight 1, so that their
    sums are further totals; an owned table's weights say nothing of its rows.
    """
    told = all(
        item.readers and plan.spec.tables[item.table.key].own is None for item in plan.private
    )
    return TOTALS_BESIDE if told else TOTALS


def total_amounts(spec: DatabaseSpec, amount: float) -> dict[str, float]:
    """ε or ρ of every table's total."""
    if not spec.tables:
        return {}
    return allocate({name: (1.0, spec.roots(name)) for name in spec.tables}, amount)


def unit_amounts(
    plan: FitPlan, totals: Mapping[str, float], amount: float, noise: Noise
) -> dict[str, float]:
    """ε or ρ of the count of units of every owned table with needs, where it tells anything.

    Args:
        plan: The fit's plan.
        totals: Released rows per table.
        amount: What may be spent on domains per root table.
        noise: Noise of the accounting.
    """
    spec = plan.spec
    tables = {table for table, _, _ in plan.needs() if not single(spec, table)}
    wanted = {table: (totals[spec.top(table)], spec.roots(table)) for table in sorted(tables)}
    return _spread(wanted, UNITS * amount, noise)


def sizes_of(
    plan: FitPlan,
    totals: Mapping[str, float],
    units: Mapping[str, tuple[float, float]],
    amount: float,
    noise: Noise,
) -> dict[str, Size]:
    """What totals and counts of units tell of every table.

    Args:
        plan: The fit's plan.
        totals: Released rows per table.
        units: Released units of owned tables and the standard deviation of that, where asked.
        amount: The whole budget per root table.
        noise: Noise of the accounting.
    """
    spec = plan.spec
    columns = root_sums((spec.roots(table), 1.0) for table, _, _ in plan.needs())
    found = {}
    for name in spec.tables:
        rows = max(totals[name], 1.0)
        if single(spec, name):
            found[name] = Size(rows, rows, rows)
            continue
        most = max(totals[spec.top(name)], 1.0)
        count, sd = units.get(name, (min(most, rows), 0.0))
        # Every unit has a row: where a total is mostly noise, clear counts of units tell more.
        rows = max(rows, min(count - 2 * sd, most))
        held = min(max(count, sd, 1.0), most, max(rows, sd, 1.0))
        share = amount / max((columns.get(root, 1.0) for root in spec.roots(name)), default=1.0)
        # A label loses one unit besides the noise.
        clip = rows / (_ENOUGH * max(noise.deviation(share), 1.0))
        clip = min(clip, _TYPICAL * rows / held)
        clip = 2 ** int(np.clip(math.floor(math.log2(max(clip, 1.0))), 0, 6))
        found[name] = Size(rows, held, held * min(1.0, rows / held / bound(spec, name)), clip)
    return found


def delta_of(plan: FitPlan, lists: Iterable[str], delta: float) -> dict[str, float]:
    """δ of one list per table: the whole, split over a root table's lists.

    Args:
        plan: The fit's plan.
        lists: The table of every list that may be asked for.
        delta: δ for threshold releases, per root table.
    """
    tables = list(lists)
    load = root_sums((plan.spec.roots(table), 1.0) for table in tables)
    return {
        table: delta * MARGIN / max(load[root] for root in plan.spec.roots(table))
        for table in set(tables)
    }


def law_amounts(
    plan: FitPlan,
    sizes: Mapping[str, Size],
    amount: float,
    deltas: Mapping[str, float],
    noise: Noise,
) -> dict[str, float]:
    """ε or ρ of the law by rank of every list that all of the amount would show.

    Args:
        plan: The fit's plan.
        sizes: What is known of the tables.
        amount: What may be spent on domains per root table.
        deltas: δ of a list per table.
        noise: Noise of the accounting.
    """
    spec = plan.spec
    whole = noise.deviation(amount)
    wanted = {}
    for name, (table, need) in plan.lists().items():
        most = 1 if single(spec, table) else need.per_unit
        if sizes[table].units > 1 + 2 * whole * noise.margin(deltas[table], most):
            wanted[name] = sizes[table].units, spec.roots(table)
    return _spread(wanted, LAWS * amount, noise)


def _spread(
    wanted: Mapping[str, tuple[float, frozenset[str]]], amount: float, noise: Noise
) -> dict[str, float]:
    """Equal shares, or what an item needs and no more than shows it well, by its units.

    Without items that need many equal shares: all others would pay for these few units.
    """
    left = dict(wanted)
    while left:
        load = root_sums((roots, 1.0) for _, roots in left.values())
        equal = {
            name: amount / max(load[root] for root in roots) for name, (_, roots) in left.items()
        }
        least = {name: noise.amount(units / _SCALES) for name, (units, _) in left.items()}
        worst = max(left, key=lambda name: (least[name] / equal[name], name))
        if least[worst] <= _DEAR * equal[worst]:
            raised = {n: (max(least[n], equal[n]), roots) for n, (_, roots) in left.items()}
            most = {n: noise.amount(units / _ENOUGH) for n, (units, _) in left.items()}
            given = allocate(raised, amount * MARGIN)
            return {name: min(share, most[name]) for name, share in given.items()}
        del left[worst]
    return {}


@dataclass(frozen=True)
class Item:
    """Something that may be asked for.

    Attributes:
        roots: Root tables that are charged.
        error: Expected error by noise.
    """

    roots: frozenset[str]
    error: Callable[[Floats], Floats]


def shares(
    items: Mapping[str, Item], amount: float, noise: Noise, price: Mapping[str, float]
) -> dict[str, float]:
    """ε or ρ of every item that is worth it; no root table's sum passes the amount.

    Args:
        items: What may be asked for.
        amount: What may be spent per root table.
        noise: Noise of the accounting.
        price: What the same amount would save elsewhere, by root table.
    """
    left = dict(items)
    for _ in range(4):
        given = _greedy(left, amount, noise, price) if left else {}
        worth = [name for name, item in left.items() if _saves(item, given[name], noise)]
        if len(worth) == len(left):
            return given
        left = {name: left[name] for name in worth}
    return {name: given[name] for name in left}


def _saves(item: Item, amount: float, noise: Noise) -> bool:
    error = item.error(noise.sd(np.array([0.0, amount])))
    return bool(error[0] - error[1] > _WORTH * error[0])


def _greedy(
    items: Mapping[str, Item], amount: float, noise: Noise, price: Mapping[str, float]
) -> dict[str, float]:
    """An equal floor, and the rest step by step along the convex hulls of all items' errors."""
    amount *= MARGIN
    equal = allocate({name: (1.0, item.roots) for name, item in items.items()}, EQUAL * amount)
    least = _LEAST if noise.accounting == "zcdp" else _LEAST**0.5
    more = np.append(0.0, amount * np.geomspace(least, 1.0, _LEVELS))
    floors = {name: min(equal[name], _enough(item, more, noise)) for name, item in items.items()}
    purse = Purse(amount)
    for name, floor in floors.items():
        purse.take(items[name].roots, floor * MARGIN)
    steps: list[tuple[float, str, float, float]] = []
    for name, item in items.items():
        error = item.error(noise.sd(floors[name] + more))
        at, worth = 0, max(price.get(root, 0.0) for root in item.roots)
        # What needs more than that is left out: all others would pay for a few units.
        last = int(np.searchsorted(more, _DEAR / EQUAL * equal[name], side="right"))
        while at < last - 1:
            slopes = (error[at] - error[at + 1 : last]) / (more[at + 1 : last] - more[at])
            best = int(np.argmax(slopes))
            if slopes[best] <= max(worth, 1e-9):
                break
            steps.append((-float(slopes[best]), name, more[at], more[at + 1 + best]))
            at += 1 + best
    given = dict.fromkeys(items, 0.0)
    for _, name, start, end in sorted(steps):
        if given[name] == start and purse.take(items[name].roots, end - start):
            given[name] = float(end)
    return {name: floors[name] + extra for name, extra in given.items()}


def _enough(item: Item, amounts: Floats, noise: Noise) -> float:
    """The least of the amounts with which an item is as good as with the largest."""
    error = item.error(noise.sd(amounts))
    return float(amounts[int(np.argmax(error <= error[-1] + _SAME))])


def prices(
    plan: FitPlan, sizes: Mapping[str, Size], amount: float, noise: Noise
) -> dict[str, float]:
    """What a unit of the amount saves the synthesizer, by root table; see the module's docstring.

    With σ ∝ amount^-p, the derivative of √(σ/W) is p/2·√(σ/W)/amount.

    Args:
        plan: The fit's plan.
        sizes: What is known of the tables.
        amount: What the synthesizer is to get.
        noise: Noise of the accounting.
    """
    spec = plan.spec
    columns = {item.table.key: len(item.readers) for item in plan.private}
    load = root_sums((spec.roots(name), 2.0 * count) for name, count in columns.items())
    power = 1.0 if noise.accounting == "pure" else 0.5
    parts = []
    for name, count in columns.items():
        roots = spec.roots(name)
        if not count or not roots:
            continue
        each = amount / max(load[root] for root in roots)
        error = min(math.sqrt(noise.deviation(each) / sizes[name].weight), 1.0)
        parts.append((roots, count * power / 2 * error / amount))
    return root_sums(parts)


def items_of(
    plan: FitPlan,
    sizes: Mapping[str, Size],
    laws: Mapping[str, Law],
    total_sd: Mapping[str, float],
    deltas: Mapping[str, float],
    noise: Noise,
) -> dict[str, Item]:
    """All that may be asked for, by item; a root table's second total by its table.

    Args:
        plan: The fit's plan.
        sizes: What is known of the tables.
        laws: What is believed of lists that are worth being considered, by item.
        total_sd: Noise of first totals.
        deltas: δ of a list per table.
        noise: Noise of the accounting.
    """
    spec, found = plan.spec, dict[str, Item]()
    for table, _, need in plan.needs():
        name, size = item_of(table, need), sizes[table]
        if not isinstance(need, CategoriesNeed):
            found[name] = Item(spec.roots(table), _ranged(need, size))
        elif name in laws:
            margin = noise.margin(deltas[table], 1 if single(spec, table) else need.per_unit)
            found[name] = Item(spec.roots(table), _listed(need, laws[name], size, margin))
    for item in plan.private:
        name = item.table.key
        if spec.tables[name].own is None:
            error = _totalled(total_sd[name], sizes[name], len(item.readers))
            found[name] = Item(spec.roots(name), error)
    return found


def _ranged(need: BoundsNeed | DecimalsNeed, size: Size) -> Callable[[Floats], Floats]:
    return lambda sd: range_loss(need, size, sd)


def _listed(
    need: CategoriesNeed, law: Law, size: Size, margin: float
) -> Callable[[Floats], Floats]:
    return lambda sd: list_loss(need, law, size, sd, margin)


def _totalled(first: float, size: Size, columns: int) -> Callable[[Floats], Floats]:
    """The error of a table's size by two totals, for every column."""

    def error(sd: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            both = (first**-2 + sd**-2.0) ** -0.5
        return np.asarray(max(columns, 1) * np.log1p(0.8 * both / size.rows), np.float64)

    return error
