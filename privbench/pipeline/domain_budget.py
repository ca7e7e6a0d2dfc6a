"""The measurements from which columns' domains are made, and the budget of each.

Reads no rows: everything follows from the plan and from numbers that are released by then.

The objective is the expected |log Q-error| of a query on a value or a range of a column, summed
over columns (`domain_error`). Of a table without other measurements it is the error of the table's
total, once for every column.

`shares` chooses the amounts with the least sum of errors. Every measurement that is worth its cost
gets an equal floor. The rest is spent in steps along the lower convex hulls of the error curves,
the steepest step first, as long as a step saves more than the same amount would save for the
synthesizer, whose error is taken to be √(σ/W) for each attribute.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Self

import numpy as np

from privbench.arrays import Floats
from privbench.encoding import BoundsNeed, CategoriesNeed, PartNeed
from privbench.encoding.base import Need
from privbench.learning.answers import by_norms
from privbench.pipeline.domain_error import (
    Size,
    amount_for,
    deviation,
    deviations,
    list_loss,
    margin_of,
    range_loss,
    total_loss,
)
from privbench.pipeline.prepare import FitPlan, need_key
from privbench.privacy import (
    MARGIN,
    PART,
    Accounting,
    DatabaseSpec,
    LabelRelease,
    Measurement,
    Purse,
    Question,
    allocate,
    root_sums,
)
from privbench.privacy.queries import (
    GridHistogram,
    LabelCounts,
    PublicArray,
    RankedCounts,
    Total,
)
from privbench.privacy.queries.labels import NORMS
from privbench.privacy.units import bound, single

#: Part of the budget for totals; the second number holds where histograms also show every table's
#: size.
TOTALS, TOTALS_BESIDE = 0.05, 0.02
#: The largest part of the budget that columns' domains get; and the parts of it that counts of
#: units in owned tables and laws by rank get.
DOMAINS, UNITS, LAWS = 0.4, 0.05, 0.25
#: Part of what is then left for domains that is shared equally.
EQUAL = 0.3
#: An item of `_spread` gets enough budget for its units to be at least 12 times its noise scale; it
#: is not measured if that costs more than 8 equal shares.
_SCALES, _COSTLY = 12.0, 8.0
#: An item of `_spread` gets no more budget than makes its units this many times its noise scale.
#: A table's units count by their rows (a clip C above 1) if it has more rows than this many noise
#: scales of a histogram with an equal share of the budget.
_ENOUGH = 300.0
#: Typical norm of a unit's rows by label, as a part of the mean number of rows of a unit. A clip C
#: above it only lowers the weight of labels that many units share. Twice this value loses a tenth
#: of the labels of a table with 20 rows a unit; half of it changes nothing there, and counts units
#: with many rows for less.
_TYPICAL = 0.5
#: The step of an integer is asked for only where this part of the budget of domains makes a
#: table's units this many times its noise scale, since few columns have one.
_CHEAP, _CLEAR = 0.002, 40.0
#: The part of its error without a measurement that an item must save to be measured.
_WORTH = 0.05
#: The number of amounts for which an item's error is computed; the least of them, as a part of the
#: whole; and the difference of errors below which two amounts count as equally good.
_LEVELS, _LEAST, _SAME = 49, 2.0**-16, 0.02


@dataclass(frozen=True)
class Item:
    """A measurement for a column's domain, which is made if it is worth its share of the budget."""

    roots: frozenset[str]  # root tables that are charged
    error: Callable[[Floats], Floats]  # expected errors at given standard deviations of the noise


@dataclass(frozen=True)
class Rounds:
    """The questions of every round of domain measurements, used by `fit` and `plan`."""

    plan: FitPlan  # the fit's plan
    accounting: Accounting  # whether amounts are ε or ρ
    whole: float  # the whole budget per root table, ε or ρ
    delta: float  # δ for threshold releases, per root table
    totals: Mapping[str, float]  # noisy or guessed rows per table
    sizes: Mapping[str, Size] = field(default_factory=dict)  # of every table, once `sized`

    @property
    def budget(self) -> float:
        """The most budget that domain measurements get per root table."""
        return DOMAINS * self.whole

    def deltas(self, tables: Iterable[str]) -> dict[str, float]:
        """Return the δ that one list of each table gets.

        A table is named once for each of its lists. The δ of a root table is shared equally by the
        lists that its units can change.
        """
        spec, tables = self.plan.spec, list(tables)
        load = root_sums((spec.roots(table), 1.0) for table in tables)
        return {
            table: self.delta * MARGIN / max(load[root] for root in spec.roots(table))
            for table in set(tables)
        }

    @cached_property
    def margins(self) -> dict[str, float]:
        """Return by how many standard deviations each list's threshold exceeds one unit."""
        spec, lists = self.plan.spec, self.plan.lists
        deltas = self.deltas(table for table, _ in lists.values())
        return {
            name: margin_of(
                self.accounting, deltas[table], 1 if single(spec, table) else need.per_unit
            )
            for name, (table, need) in lists.items()
        }

    def units(self) -> list[Measurement]:
        """Return measurements of how many units have rows in owned tables, if noise allows.

        Only tables with columns whose domain must be released are counted.
        """
        spec = self.plan.spec
        tables = {table for table, _, _ in self.plan.needs() if not single(spec, table)}
        totals_roots = {t: (self.totals[spec.top(t)], spec.roots(t)) for t in sorted(tables)}
        amounts = _spread(totals_roots, UNITS * self.budget, self.accounting)
        return [
            Measurement(Total(name, 1), amount, f"units {name}") for name, amount in amounts.items()
        ]

    def sized(self, units: Mapping[str, tuple[float, float]]) -> Self:
        """Return these rounds with the sizes of tables, from totals and noisy numbers of units."""
        spec = self.plan.spec
        columns = root_sums((spec.roots(table), 1.0) for table, _, _ in self.plan.needs())
        result = {}
        for name in spec.tables:
            rows = max(self.totals[name], 1.0)
            if single(spec, name):
                result[name] = Size(rows, rows, rows)
                continue
            most = max(self.totals[spec.top(name)], 1.0)
            count, sd = units.get(name, (min(most, rows), 0.0))
            # Every unit has a row: where a total is mostly noise, clear counts of units are better.
            rows = max(rows, min(count - 2 * sd, most))
            counted_units = min(max(count, sd, 1.0), most, max(rows, sd, 1.0))
            share = self.whole / max(
                (columns.get(root, 1.0) for root in spec.roots(name)), default=1.0
            )
            # The statistic leaves out one unit of a label, which biases the label's count.
            clip = rows / (_ENOUGH * max(deviation(self.accounting, share), 1.0))
            clip = min(clip, _TYPICAL * rows / counted_units)
            clip = 2 ** int(np.clip(math.floor(math.log2(max(clip, 1.0))), 0, 6))
            result[name] = Size(
                rows,
                counted_units,
                counted_units * min(1.0, rows / counted_units / bound(spec, name)),
                clip,
            )
        return replace(self, sizes=result)

    def laws(self) -> dict[str, Measurement]:
        """Return measurements of counts by rank, for columns that may get a list, by item.

        A column has none if noise would hide its list even with the whole budget.
        """
        whole, items = deviation(self.accounting, self.budget), {}
        for name, (table, _) in self.plan.lists.items():
            if self.sizes[table].units > 1 + 2 * whole * self.margins[name]:
                items[name] = self.sizes[table].units, self.plan.spec.roots(table)
        measurements = {}
        for name, amount in _spread(items, LAWS * self.budget, self.accounting).items():
            table, need = self.plan.lists[name]
            clip, votes = _counted(need, self.sizes[table])
            query = RankedCounts(table, need.source, clip, votes=votes)
            measurements[name] = Measurement(query, amount, f"ranked counts {table}.{need.source}")
        return measurements

    def last(self, laws: Mapping[str, Floats]) -> dict[str, list[tuple[Need | None, Question]]]:
        """Return the questions of the last round: lists, ranges, parts and second totals.

        They are the questions that are worth their cost, by the need that each is about (see
        `need_key`), or by the table for a total. `laws` has the measured counts by rank of the
        columns whose lists are considered, by the same names.
        """
        spec = self.plan.spec
        before = root_sums(
            (item.query.roots(spec), item.amount) for item in (*self.units(), *self.laws().values())
        )
        rest = self.budget - max(before.values(), default=0.0)
        amounts = shares(self._items(laws), rest, self.accounting, self._prices())
        lists = self.plan.lists
        deltas = self.deltas(lists[name][0] for name in amounts if name in lists)
        questions: dict[str, list[tuple[Need | None, Question]]] = {}
        for table, column, need in self.plan.needs():
            name = need_key(table, need)
            if name not in amounts:
                continue
            amount = amounts[name]
            if isinstance(need, CategoriesNeed):
                norm, (clip, votes) = NORMS[self.accounting], _counted(need, self.sizes[table])
                query = LabelCounts(
                    table, need.source, clip, norm, need.public, need.per_unit, votes=votes
                )
                label = f"categories {table}.{column}"
                questions[name] = [(need, LabelRelease(query, amount, label, deltas[table]))]
            else:
                size = self.sizes[table]
                scales = size.weight / deviation(self.accounting, amount)
                normed = by_norms(spec, self.accounting, table, size.rows, scales)
                least = size.clip if normed else None
                questions[name] = [*grids(table, column, need, amount, scales, least)]
        for name in spec.tables:
            if name in amounts:
                second = Measurement(Total(name), amounts[name], f"second total {name}")
                questions[name] = [(None, second)]
        return questions

    def _items(self, laws: Mapping[str, Floats]) -> dict[str, Item]:
        """Everything that may be measured, by item; a root's second total by the table's key."""
        spec, items = self.plan.spec, dict[str, Item]()
        clear = _CLEAR * deviation(self.accounting, _CHEAP * self.budget)
        for table, _, need in self.plan.needs():
            name, size = need_key(table, need), self.sizes[table]
            if isinstance(need, PartNeed) and need.sizes and size.weight < clear:
                continue
            if not isinstance(need, CategoriesNeed):
                items[name] = Item(spec.roots(table), partial(range_loss, need, size))
            elif name in laws:
                error = partial(list_loss, need, laws[name], size, self.margins[name])
                items[name] = Item(spec.roots(table), error)
        first = total_amounts(self.plan, self.whole)
        for item in self.plan.private:
            name = item.table.key
            if spec.tables[name].own is None and not is_public(spec, name):
                sd = deviation(self.accounting, first[name])
                error = partial(total_loss, len(item.readers), self.sizes[name], sd)
                items[name] = Item(spec.roots(name), error)
        return items

    def _prices(self) -> dict[str, float]:
        """The error that the synthesizer would save by one more unit of ε or ρ, by root table.

        With σ ∝ amount^-p, the derivative of √(σ/W) is p/2·√(σ/W)/amount.
        """
        spec, amount = self.plan.spec, self.whole - self.budget
        columns = {item.table.key: len(item.readers) for item in self.plan.private}
        load = root_sums((spec.roots(name), 2.0 * count) for name, count in columns.items())
        power = 1.0 if self.accounting == "pure" else 0.5
        parts = []
        for name, count in columns.items():
            roots = spec.roots(name)
            if not count or not roots:
                continue
            each = amount / max(load[root] for root in roots)
            error = min(math.sqrt(deviation(self.accounting, each) / self.sizes[name].weight), 1.0)
            parts.append((roots, count * power / 2 * error / amount))
        return root_sums(parts)


def _counted(need: CategoriesNeed, size: Size) -> tuple[int, bool]:
    """How the values of a list count: C, and whether every value of a unit has one vote.

    A list of texts is chosen by votes: by rows, units with many rows hardly count for a label that
    few of these have. How many rows a label has is told by the column's one-way marginal. A list of
    numbers or times counts rows, since it is subtracted from a histogram that does
    (`domain_answers.without`), and votes may be fewer.
    """
    return (size.clip, False) if need.grid else (1, True)


def is_public(spec: DatabaseSpec, table: str) -> bool:
    """Return whether a table's number of rows is public, so that its total costs nothing (P11)."""
    return not Total(table).sensitivity(spec).l1


def totals_share(plan: FitPlan) -> float:
    """Return the part of the budget for totals, which is smaller if all tables are roots.

    It is 0 if all totals are public. Every row of a root table is in one cell of each one-way
    histogram with weight 1, so the sum of each histogram is a further total, if the table has
    attributes. Histograms of owned tables hold weights, whose sum does not show the number of rows.
    """
    if all(is_public(plan.spec, name) for name in plan.spec.tables):
        return 0.0
    roots = all(
        item.readers and plan.spec.tables[item.table.key].own is None for item in plan.private
    )
    return TOTALS_BESIDE if roots else TOTALS


def total_amounts(plan: FitPlan, whole: float) -> dict[str, float]:
    """Return the part of the whole budget (ε or ρ) for the total of each table."""
    spec = plan.spec
    amounts = dict.fromkeys(spec.tables, 0.0)
    shares = {n: (1.0, spec.roots(n)) for n in spec.tables if not is_public(spec, n)}
    return amounts | (allocate(shares, totals_share(plan) * whole) if shares else {})


def grids(
    table: str,
    column: str,
    need: BoundsNeed | PartNeed,
    amount: float,
    scales: float,
    clip: int | None,
) -> list[tuple[Need, Measurement]]:
    """Return the releases for a column's range or one of its parts, each with its measurement.

    The measurements share the amount equally. `scales` is the table's number of rows in noise
    scales of a single histogram that would get the whole amount. `clip` is C if units count by
    their norms; it is the C of lists, so that a list gives its values no less weight than a
    histogram does (`domain_answers.without`). Two ranges of one column count by weights, since they
    are compared with each other, and norms differ between few and many cells.
    """
    needs: tuple[BoundsNeed | PartNeed, ...] = (need,)
    words = [need.attribute.rpartition(PART)[2]]  # step, weekday or hour
    if isinstance(need, BoundsNeed):
        needs, words = need.questions(scales), ["range", "range closely"]
    measurements = list[tuple[Need, Measurement]]()
    for part, word in zip(needs, words, strict=False):
        norms = clip if len(needs) == 1 else None
        query = GridHistogram(table, part.attribute, PublicArray(part.candidates), norms)
        measurements.append(
            (part, Measurement(query, amount / len(needs), f"{word} {table}.{column}"))
        )
    return measurements


def _spread(
    shares_roots: Mapping[str, tuple[float, frozenset[str]]], amount: float, accounting: Accounting
) -> dict[str, float]:
    """Divide an amount among items.

    An item gets an equal share, or more if it has few units, but never more than makes the noise
    negligible (`_ENOUGH`). An item that would need many equal shares gets nothing, since all other
    items would pay for its few units.
    """
    left = dict(shares_roots)
    while left:
        load = root_sums((roots, 1.0) for _, roots in left.values())
        equal = {
            name: amount / max(load[root] for root in roots) for name, (_, roots) in left.items()
        }
        least = {name: amount_for(accounting, units / _SCALES) for name, (units, _) in left.items()}
        worst = max(left, key=lambda name: (least[name] / equal[name], name))
        if least[worst] <= _COSTLY * equal[worst]:
            raised = {n: (max(least[n], equal[n]), roots) for n, (_, roots) in left.items()}
            most = {n: amount_for(accounting, units / _ENOUGH) for n, (units, _) in left.items()}
            allocated = allocate(raised, amount * MARGIN)
            return {name: min(share, most[name]) for name, share in allocated.items()}
        del left[worst]
    return {}


def shares(
    items: Mapping[str, Item], amount: float, accounting: Accounting, price: Mapping[str, float]
) -> dict[str, float]:
    """Return the ε or ρ of every item that is worth its cost, within each root table's amount.

    `price` is the error that the same amount would save elsewhere, by root table.
    """
    left = dict(items)
    for _ in range(4):
        amounts = _greedy(left, amount, accounting, price) if left else {}
        worth = [name for name, item in left.items() if _saves(item, amounts[name], accounting)]
        if len(worth) == len(left):
            return amounts
        left = {name: left[name] for name in worth}
    return {name: amounts[name] for name in left}


def _saves(item: Item, amount: float, accounting: Accounting) -> bool:
    error = item.error(deviations(accounting, np.array([0.0, amount])))
    return bool(error[0] - error[1] > _WORTH * error[0])


def _greedy(
    items: Mapping[str, Item], amount: float, accounting: Accounting, price: Mapping[str, float]
) -> dict[str, float]:
    """Divide an amount among items, to reduce the sum of their errors.

    Every item gets a floor from an equal division, or less if less is enough. The rest goes in
    steps along the convex hulls of the items' error curves, the steepest step first.
    """
    amount *= MARGIN
    equal = allocate({name: (1.0, item.roots) for name, item in items.items()}, EQUAL * amount)
    least = _LEAST if accounting == "zcdp" else _LEAST**0.5
    more = np.append(0.0, amount * np.geomspace(least, 1.0, _LEVELS))
    floors = {
        name: min(equal[name], _enough(item, more, accounting)) for name, item in items.items()
    }
    purse = Purse(amount)
    for name, floor in floors.items():
        purse.take(items[name].roots, floor * MARGIN)
    steps: list[tuple[float, str, float, float]] = []
    for name, item in items.items():
        error = item.error(deviations(accounting, floors[name] + more))
        at, worth = 0, max(price.get(root, 0.0) for root in item.roots)
        # Larger amounts are not considered: all other items would pay for an item of few units.
        last = int(np.searchsorted(more, _COSTLY / EQUAL * equal[name], side="right"))
        while at < last - 1:
            slopes = (error[at] - error[at + 1 : last]) / (more[at + 1 : last] - more[at])
            best = int(np.argmax(slopes))
            if slopes[best] <= max(worth, 1e-9):
                break
            steps.append((-float(slopes[best]), name, more[at], more[at + 1 + best]))
            at += 1 + best
    extras = dict.fromkeys(items, 0.0)
    for _, name, start, end in sorted(steps):
        if extras[name] == start and purse.take(items[name].roots, end - start):
            extras[name] = float(end)
    return {name: floors[name] + extra for name, extra in extras.items()}


def _enough(item: Item, amounts: Floats, accounting: Accounting) -> float:
    """The least amount whose error exceeds that of the largest amount by at most `_SAME`."""
    error = item.error(deviations(accounting, amounts))
    return float(amounts[int(np.argmax(error <= error[-1] + _SAME))])
