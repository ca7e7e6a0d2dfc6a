"""The shares of the budget for each measurement of a fit; `plan` and `fit` use the same list.

Units of different trees of ownership are disjoint, so every tree has the whole amount. An event is
charged to every tree whose units can change its result, and gets the smallest of the amounts that
these trees have for it. "Budget" in ``docs/method.md`` explains the shares, and how each is split
among measurements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations
from math import ceil, log, sqrt
from typing import Literal

from privbench.arrays import Floats
from privbench.learning.answers import by_norms
from privbench.learning.graphical.columns import (
    ModelColumn,
    Variable,
    children,
    public_owner,
    shown,
    varies,
)
from privbench.learning.graphical.siblings import date_of, pair_axis
from privbench.learning.graphical.sizes import MANY, ONE, contributed
from privbench.learning.graphical.times import times_of
from privbench.privacy import MARGIN, Accounting, DatabaseSpec, KeySpec, Measurement, noise_sd
from privbench.privacy.queries import (
    Axis,
    CrossMoment,
    FanIn,
    Histogram,
    NormedHistogram,
    PresencePairs,
    Refers,
    TargetHistogram,
    Total,
    UnitRows,
    Whole,
)
from privbench.privacy.queries.labels import NORMS
from privbench.privacy.queries.references import KEPT, MOST_CAP, most_kept

#: Shares of a tree's amount for sizes and for references. Sizes: half costs 2 % of Q-error, double
#: 5 %. References get the share times R / (R + T), where R references touch the tree and T is its
#: number of tables; half as much again: no difference beyond scatter.
SIZES, REFERENCES = 0.15, 0.4
#: Share of a tree's amount for each moment of two degrees, and most for all of them.
MOMENT, MOMENTS = 0.02, 0.1
#: Largest share of a tree's amount for siblings; their largest useful noise, as a share of the
#: owners of several rows; and the largest useful multiple of the amount for that.
SIBLINGS, COARSE, FINE = 0.06, 0.02, 25.0
#: Of sets of labels: the share of a tree's amount for each pair of labels, and for all of them.
SET, SETS = 0.003, 0.06
#: Of sets: the most labels, the most rows, and the least number of units with several rows, in
#: standard deviations of the noise, beyond the number of pairs.
LABELS, ROWS, MORE = 24, 2**20, 10
#: Share of one-way marginals ("one-ways") in the budget of one-ways and pairs. At .24: 2-way
#: divergence of coded Adult .044 for .040.
ONE_WAYS = 0.25 / (0.25 + 0.48)
#: Share of one-ways in a tree with a target column that the others are to predict. On car, .1 and
#: .4 gave an AUROC .01 higher and .02 lower with an earlier learner.
AIMED = 0.2
#: Largest share of the amount for pairs that their selection may take; what it does not need goes
#: to measuring them, so this limits selection in small tables alone. Half or double: not measured.
SELECTION = 0.2
#: Gap between a pair and its prediction, as a share of the table's weight, that selection should
#: detect among all candidates; the noise of a pair of the target column should be below it. Half:
#: 1 % of Q-error on the development databases; double: -1 %. For target columns at .02 or .1: AUROC
#: of Adult within scatter.
LEAST_GAP = 0.05
#: Most pairs that a round of selection takes per own column; and the number of rounds. Coded Adult,
#: 2-way total variation: .0334 at half, .0314 here, .0330 at nearly double.
PICKS, ROUNDS = 1.2, 3
#: Most candidates of a round; and most scores of all selections of a table, which is also the most
#: cells of joint groups that a score of targets counts. With these limits a table of hundreds of
#: columns takes seconds. Up to 80 columns all pairs are candidates at every level.
MOST_CANDIDATES, MOST_SCORES = 10_000, 300_000
#: Cells of a column beyond which its share of the one-ways does not grow: shrinkage makes noise of
#: more cells cheap. Half or double: not measured.
MOST_CELLS = 64
#: Factor on the cells of columns that only shape surrogate texts, which no query can name:
#: they get a tenth of what others get.
FILLER = 0.03
#: Parts of the amount for an owned table's size: for the clipped sum, and for rows without an
#: owner. The rest goes to the histogram of rows per unit. Half or double: not measured.
CLIPPED, FREE = 0.3, 0.15
#: Largest part of a reference's amount that goes to columns of its targets, and the least number of
#: columns for which the part is that large. The rest goes to fan-in.
TARGETS, SOME_COLUMNS = 0.6, 4
#: Where pairs of a row's and its target's columns are looked for, the reference keeps this part of
#: its amount, and at most so many times its amount go to them; and their part for selection.
KEPT_PART, ASSOCIATIONS, CHOSEN = 0.75, 1.5, 0.4
#: Most pairs of a row's and its target's columns that are candidates. One is measured: with 3,
#: noise of one-ways of stats5 is 1.13 times that of a fit without, for 1.05.
MOST_OFFERED = 64
#: Gap between such a pair and its prediction, as a share of the weight, that selection should
#: detect; and the weight in standard deviations of the noise beyond which a pair needs no more.
ASSOCIATED_GAP, PRECISE = 0.12, 60.0
#: Largest total weight of the references to one target unit, if a unit can send several references
#: or hold both ends; else it is 1, since noise grows with it. Chosen by least squared error
#: instead: stats5 2.71 for 2.68.
CAP = 4
#: Weight that counts under a larger cap, in standard deviations of the noise of one cell, from
#: which on that cap is taken. On 10,000 order lines of 400 products (28), the shares of the lines
#: by categories of products are off by .14 for .17 (L1); at 9, by .30 for .29.
CLEARLY = 12.0
#: Largest share of a tree's amount that tests of its tables against an earlier model take. Only
#: tables of few units reach it: Adult's test takes under a thousandth of it. Half or double: not
#: measured; with half, tests of few units detect less; with double, tables that have changed are
#: learned with a twentieth less of the budget.
TESTS = 0.05


@dataclass(frozen=True, slots=True)
class TableSize:
    """The estimated numbers of rows and of units of a table."""

    rows: float
    weight: float  # sum of the weights of its rows
    free: float = 0.0  # rows without an owner
    # Of an owned table, units of its tree per bucket of rows (`MANY`); log posterior odds that it
    # has rows at all, at equal prior odds; and rows whose owner is not there, by a declared key.
    units: Floats | None = None
    odds: float = 0.0
    lost: float = 0.0

    @property
    def several(self) -> float:
        """The number of units with several rows in an owned table."""
        return self.rows / 2 if self.units is None else float(self.units[2:].sum())

    @property
    def owned(self) -> float:
        """The number of rows that have an owner."""
        return max(self.rows - self.free, 0.0)

    @property
    def kept(self) -> float:
        """The share of the table's rows that are among the first `KEPT` rows of their unit."""
        if self.units is None:
            return 1.0
        return min((contributed(self.units, KEPT) + self.free) / max(self.rows, 1.0), 1.0)


@dataclass(frozen=True, slots=True)
class PairBudget:
    """The amounts of budget for selecting and measuring pairs of columns of one table."""

    picks: int = 0  # pairs that are selected
    star: int = 0  # pairs of the target column with the others, measured without selection
    select: float = 0.0  # amount of one selection
    first: float = 0.0  # amount of one first measurement
    refine: float = 0.0  # amount for the second measurements of all pairs

    @property
    def pairs(self) -> int:
        """The number of pairs that are measured; with 0 the table's columns stay independent."""
        return self.picks + self.star


@dataclass(slots=True)
class Budget:
    """The amounts of budget of all measurements of a fit; see `size_amount` and `divide`."""

    spec: DatabaseSpec
    accounting: Accounting
    amount: float  # ε or ρ that every root table may spend
    spare: Mapping[str, float]  # ε or ρ that every root table may spend beyond that
    # Noisy numbers of units with rows in owned tables, if counted; each at least its noise.
    units: Mapping[str, float]
    target: tuple[str, str] | None = None  # table and attribute to be predicted from the others
    # How a table's columns are learned: ``pairs``: by one-ways and pairs; ``columns``: by one-ways;
    # ``attributes``: attributes by a learner of their own, which gets the budget of their one-ways
    # and pairs, and all other columns by one-ways.
    learns: Literal["pairs", "columns", "attributes"] = "pairs"
    tests: float = 0.0  # share of the amount that is for tests against an earlier model
    # Amount per tree of ownership, including the least that all of its roots have to spare.
    total: dict[str, float] = field(init=False, default_factory=dict)
    sizes: Mapping[str, TableSize] = field(init=False, default_factory=dict)
    columns: Mapping[str, list[ModelColumn]] = field(init=False, default_factory=dict)
    # Amount per table and column, budget per table, amount per table and key.
    one_ways: dict[tuple[str, str], float] = field(init=False, default_factory=dict)
    pairs: dict[str, PairBudget] = field(init=False, default_factory=dict)
    references: dict[tuple[str, str], float] = field(init=False, default_factory=dict)
    # Budget per table and key of pairs of a row's and its target's columns.
    associations: dict[tuple[str, str], PairBudget] = field(init=False, default_factory=dict)
    sets: dict[tuple[str, str], float] = field(init=False, default_factory=dict)
    # Amount for each moment of two degrees, by their keys.
    moments: dict[tuple[KeySpec, KeySpec], float] = field(init=False, default_factory=dict)
    # Amount for pairs of siblings per owned table and place of a column.
    siblings: dict[tuple[str, int], float] = field(init=False, default_factory=dict)
    # Amount per table whose attributes have a learner of their own.
    attributes: dict[str, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for table in self.spec.tables:
            least = min((self.spare.get(root, 0.0) for root in self.spec.roots(table)), default=0.0)
            top, amount = self.spec.top(table), (self.amount + least) * MARGIN * (1 - self.tests)
            self.total[top] = min(self.total.get(top, amount), amount)

    def tree(self, top: str) -> list[str]:
        """Return the tables of the ownership tree with this root."""
        return [name for name in self.spec.order() if self.spec.top(name) == top]

    def _sizes_share(self, top: str) -> float:
        return SIZES if len(self.tree(top)) > 1 else 0.0

    def _tops(self, key: KeySpec) -> set[str]:
        return {self.spec.top(key.table), self.spec.top(key.parent)}

    def _touching(self, top: str) -> list[KeySpec]:
        """References between private tables that a unit of a tree can move."""
        keys = (key for table in self.spec.tables.values() for key in table.keys)
        return [key for key in keys if key.role == "ref" and top in self._tops(key)]

    def size_amount(self, table: str) -> float:
        """Return the amount for measuring an owned table's size; more if fewer units have rows."""
        top = self.spec.top(table)
        most = max(self.units.values(), default=1.0)
        owned = [name for name in self.tree(top) if name != top]
        each = {name: float(max(self.units.get(name, most), 1.0) ** (-2 / 3)) for name in owned}
        return self.total[top] * self._sizes_share(top) * each[table] / sum(each.values())

    def divide(
        self, sizes: Mapping[str, TableSize], columns: Mapping[str, list[ModelColumn]]
    ) -> None:
        """Divide the amounts left after measuring sizes among one-ways, pairs and references."""
        self.sizes, self.columns = sizes, columns
        touching = {top: self._touching(top) for top in self.total}
        for key in (key for keys in touching.values() for key in keys):
            amount = min(
                self.total[top] * REFERENCES / (len(touching[top]) + len(self.tree(top)))
                for top in self._tops(key)
            )
            each = self._association_budget(key, amount * ASSOCIATIONS)
            self.associations[key.table, key.name] = each
            self.references[key.table, key.name] = amount * (KEPT_PART if each.picks else 1.0)
        for top, keys in touching.items():
            # If the other end of a reference can pay less than this one, this one keeps the rest.
            rest = self.total[top] * (1.0 - self._sizes_share(top)) - self._divide_moments(top)
            rest -= self._divide_siblings(top) + self._divide_sets(top)
            self._divide_tree(top, rest - sum(self._reference_amount(key) for key in keys))

    def _reference_amount(self, key: KeySpec) -> float:
        pairs = self.associations[key.table, key.name]
        whole = pairs.picks * (pairs.select + pairs.first)
        return self.references[key.table, key.name] + whole

    def cap(self, key: KeySpec, columns: int) -> int:
        """Return the cap on the summed weight of references to one target unit.

        If target units have nearly as much weight on average as `cap_of` allows, nearly all targets
        reach the cap and count the same, which hides any effect of their columns. Then the cap is
        twice the average, if the noise is small enough for the number of the target's ``columns``.
        """
        least, weight, units = cap_of(self.spec, key), *self._reference_sizes(key)
        cap = min(ceil(2.0 * weight / units), MOST_CAP)
        amount = self.references[key.table, key.name] * targets_part(columns) / 2
        if cap <= least or amount <= 0:
            return least
        query = TargetHistogram(key, (Whole(),), (Whole(),), cap)
        sd = noise_sd(query, self.spec, amount, self.accounting)
        return cap if min(weight, cap * units) >= CLEARLY * sd else least

    def _reference_sizes(self, key: KeySpec) -> tuple[float, float]:
        """The estimated weight of the key's table, and the number of units that it can refer to."""
        units = min(self.sizes[name].rows for name in (key.parent, self.spec.top(key.parent)))
        return self.sizes[key.table].weight, max(units, 1.0)

    def _association_budget(self, key: KeySpec, amount: float) -> PairBudget:
        """One pick, if selection can detect `ASSOCIATED_GAP` among all candidates."""
        ends = [sum(c.varied for c in self.columns[name]) for name in (key.table, key.parent)]
        candidates, cap = min(ends[0] * ends[1], MOST_OFFERED), cap_of(self.spec, key)
        if self.learns != "pairs" or not candidates:
            return PairBudget()
        weight, units = self._reference_sizes(key)
        weight = min(weight, cap * units)
        histogram = TargetHistogram(key, (Whole(),), (Whole(),), cap)
        moved = histogram.sensitivity(self.spec)
        gap, norm = moved.l1 / histogram.unit, moved.l2 / histogram.unit
        each = self._choice_amount(ASSOCIATED_GAP * weight / (gap * log(3 * candidates + 2)))
        if CHOSEN * amount < each:
            return PairBudget()
        enough = self._choice_amount(weight / (PRECISE * norm))
        return PairBudget(1, 0, each, min(amount - each, enough))

    def _divide_moments(self, top: str) -> float:
        """Divide a part of a tree's amount among moments of degrees, and return it."""
        pairs = [keys for table in self.tree(top) for keys in degree_pairs(self.spec, table)]
        count = sum(len(moments(keys)) for keys in pairs)
        each = self.total[top] * min(MOMENT, MOMENTS / max(count, 1))
        self.moments |= dict.fromkeys(pairs, each)
        return each * count

    def _divide_siblings(self, top: str) -> float:
        """Divide a part of a tree's amount among siblings, and return what they take."""
        most = self.total[top] * SIBLINGS
        needs = sorted(need for name in self.tree(top) for need in self._sibling_needs(name))
        costs = accumulate(need for need, *_ in needs)
        bought = [item for item, cost in zip(needs, costs, strict=True) if cost <= most]
        each = (most - sum(need for need, *_ in bought)) / max(len(bought), 1)
        self.siblings |= {(name, at): min(need + each, FINE * need) for need, name, at in bought}
        return sum(self.siblings[name, at] for _, name, at in bought)

    def _sibling_needs(self, table: str) -> list[tuple[float, str, int]]:
        """Least useful amount, table and place of each column, where owners have several rows."""
        size, own = self.sizes[table], self.spec.tables[table].own
        if self.learns != "pairs" or own is None or own.unique:
            return []
        several = max(min(size.several, self.sizes[own.parent].weight), 1.0)
        sd = noise_sd(Histogram(own.parent, ()), self.spec, 1.0, self.accounting)
        need = float(sd / several / COARSE) ** (1 if self.accounting == "pure" else 2)
        return [(need, table, at) for at, item in enumerate(self.columns[table]) if item.varied]

    def _divide_sets(self, top: str) -> float:
        """Divide a part of a tree's amount among sets beyond noise, and return it."""
        amounts, total = {}, self.total[top]
        most = max(SETS, 0.5 / max(sum(len(self.columns[name]) for name in self.tree(top)), 1))
        for name in self.tree(top) if self.spec.relation.unit != "row" else ():
            size, own = self.sizes[name], self.spec.tables[name].own
            scope = public_owner(self.spec, name, self.columns[name])
            if not (own or scope) or size.rows > ROWS or self.learns != "pairs":
                continue
            noise = noise_sd(Histogram(name, ()), self.spec, total * most, self.accounting)
            for column in self.columns[name]:
                domain, labels = column.domain, column.domain.values
                pairs = labels * (labels - 1) / 2 * (labels <= LABELS)
                other = domain.ordered or domain.filler or isinstance(column.axis, Refers)
                if scope:
                    full = size.rows > labels * scope.domain.size
                    other |= full or column is scope or column.kind != "scope"
                if pairs and size.several / noise >= MORE + pairs and not other:
                    amounts[name, column.name] = pairs
        each = total * min(SET, most / max(sum(amounts.values()), 1.0))
        self.sets |= {place: each * pairs for place, pairs in amounts.items()}
        return each * sum(amounts.values())

    def _divide_tree(self, top: str, rest: float) -> None:
        """Divide the part of a tree's amount that remains after sizes and references."""
        aimed = self.target is not None and self.spec.top(self.target[0]) == top
        ways = rest * (AIMED if aimed else ONE_WAYS)
        pairs, measured = rest - ways, self._measured(top)
        each = {
            name: (len(self.columns[name]) / self._weight(name, ways / max(len(measured), 1), 6.0))
            ** (2 / 3)
            for name in self.tree(top)
        }
        self._divide_pairs(pairs, each)
        # If a table is too small to detect a pair, its part goes to pairs of the other tables. If
        # half of that part goes to one-ways, stats5 is off by 2.37 for 2.23.
        seeing = {
            name: value
            for name, value in each.items()
            if self.pairs[name].pairs or (self.learns == "attributes" and varies(self.spec, name))
        }
        self._divide_pairs(pairs, seeing)
        if not seeing:
            ways += pairs
        shares = {}
        for name, column in measured:
            noises = 3.0 * sqrt(min(column.domain.size, 1000))
            cells = min(column.domain.size, MOST_CELLS) * (FILLER if column.domain.filler else 1.0)
            relative = cells / self._weight(name, ways / len(measured), noises)
            shares[name, column.name] = relative ** (2 / 3) * self.spec.tables[name].weight
        total = sum(shares.values())
        self.one_ways |= {item: ways * share / total for item, share in shares.items()}
        if self.learns == "attributes":
            for name, value in seeing.items():
                names = self.spec.tables[name].attributes
                taken_over = sum(self.one_ways.pop((name, attribute), 0.0) for attribute in names)
                self.attributes[name] = pairs * value / sum(seeing.values()) + taken_over

    def _divide_pairs(self, amount: float, each: Mapping[str, float]) -> None:
        total = max(sum(each.values()), 1e-12)
        for name, value in each.items():
            self.pairs[name] = self._pair_budget(name, amount * value / total)

    def _measured(self, top: str) -> list[tuple[str, ModelColumn]]:
        """Columns whose one-way is measured; degrees of roots and unique keys follow from sizes."""
        return [
            (name, column)
            for name in self.tree(top)
            for column in (*self.columns[name], *self.times_of(name))
            if column.domain.size > 1
            and not (column.kind == "degree" and (name == top or column.buckets is ONE))
        ]

    def times_of(self, table: str) -> list[ModelColumn]:
        """Return the time orders of a table that are measured (see `learning.graphical.times`)."""
        return [] if self.learns == "attributes" else times_of(self.spec, table)

    def _weight(self, table: str, amount: float, noises: float) -> float:
        """Weight of a table, at least ``noises`` standard deviations of a one-way's noise."""
        sd = noise_sd(Histogram(table, ()), self.spec, max(amount, 1e-12), self.accounting)
        return max(self.sizes[table].weight, noises * sd, 1.0)

    def marginal(
        self, table: str, axes: Sequence[Axis], amount: float
    ) -> Histogram | NormedHistogram:
        """Return the query for a marginal of a table, weighted by rows or by norms of units."""
        plain = Histogram(table, tuple(axes))
        size = self.sizes[table]
        scales = size.weight / noise_sd(plain, self.spec, amount, self.accounting)
        if by_norms(self.spec, self.accounting, table, size.rows, scales):
            return NormedHistogram(table, tuple(axes))
        return plain

    def _pair_budget(self, table: str, amount: float) -> PairBudget:
        """As many picks as let the mechanism detect `LEAST_GAP` among all candidates.

        A gap of β·log(3c) stands out among c candidates at Gumbel or exponential noise of scale β.
        """
        columns = self.columns[table]
        own = sum(not column.domain.filler for column in columns)
        context = sum(len(self.columns[name]) for name in self.spec.ancestors(table))
        candidates = min(own * (own - 1) // 2 + own * context, MOST_CANDIDATES)
        if self.learns != "pairs" or not candidates or amount <= 0:
            return PairBudget()
        each = self._choice(table, candidates, 1.0 if self.spec.tables[table].own else 0.5)
        most = min(max(2, round(PICKS * own * ROUNDS)), candidates, MOST_SCORES // candidates)
        picks = max(min(2, candidates), min(most, int(SELECTION * amount / each)))
        star = len(star_of(self.target, table, columns))
        picks = 0 if 2 * each > amount / 2 else min(picks, star or picks)
        if not picks + star:
            return PairBudget()
        # Half is for first measurements; the other half is for a second measurement of the pairs
        # that were kept. Coded Adult with .9 for first ones: total variation .0351 for .0334; with
        # .4 and .6: the same.
        half = (amount - picks * each) / 2
        return PairBudget(picks, star, each, half / (picks + star), half)

    def _choice(self, table: str, candidates: int, gap: float) -> float:
        """Amount of a choice among candidates that detects `LEAST_GAP`.

        ``gap`` is the sensitivity of a score under add/remove.
        """
        gap *= 2.0 if self.spec.relation.neighbours == "replace" else 1.0
        return self._choice_amount(
            LEAST_GAP * self.sizes[table].weight / (gap * log(3 * candidates + 2))
        )

    def _choice_amount(self, scale: float) -> float:
        """Amount of a choice among scores of sensitivity 1, at noise of a scale."""
        return 2.0 / scale if self.accounting == "pure" else 0.5 / scale**2

    def test_amount(self, table: str, candidates: int, gap: float) -> float:
        """Return the ε or ρ for each question of a test of whether a table fits an earlier model.

        A test has two questions (`--since`), and an owned table has at most two tests.
        """
        top = self.spec.top(table)
        questions = 2 * sum(1 if name == top else 2 for name in self.tree(top))
        most = self.total[top] / (1 - self.tests) * self.tests / questions
        return min(self._choice(table, candidates, gap), most)


def guessed_sizes(spec: DatabaseSpec, totals: Mapping[str, float]) -> dict[str, TableSize]:
    """Guess the weights of tables from their numbers of rows alone.

    In an owned table every row weighs 1, as long as the sum is not more than the number of units.
    """
    rows = {name: max(float(totals.get(name, 1.0)), 1.0) for name in spec.tables}
    return {name: TableSize(rows[name], min(rows[name], rows[spec.top(name)])) for name in rows}


def star_of(
    target: tuple[str, str] | None, table: str, columns: Sequence[ModelColumn]
) -> list[tuple[int, int]]:
    """Return the target column paired with each other modelled column of its table, by position.

    The smaller position comes first in each pair.
    """
    modelled = [place for place, column in enumerate(columns) if not column.domain.filler]
    at = [place for place in modelled if (table, columns[place].name) == target]
    return [(min(at[0], place), max(at[0], place)) for place in modelled if at and place != at[0]]


def size_questions(budget: Budget, table: str) -> list[Measurement]:
    """Return the measurements of an owned table's rows per unit and of its unowned rows."""
    spec, amount = budget.spec, budget.size_amount(table)
    own = spec.tables[table].own
    top = spec.top(table)
    histogram = Histogram.of(spec, top, [UnitRows(table, MANY.lower)])
    free = FREE if own is not None and own.nullable else 0.0
    part = 1.0 - CLIPPED - free
    questions = [Measurement(histogram, amount * part, f"rows per unit of {table}")]
    if own is not None and own.nullable:
        label = f"rows of {table} without an owner"
        axis = Refers(own, own=own.loose)
        questions.append(Measurement(Histogram(table, (axis,)), amount * free, label))
    return questions


def clipped_question(budget: Budget, table: str, clip: int) -> Measurement:
    """Return the measurement of Σ min(n, C) over the units of an owned table."""
    amount = budget.size_amount(table) * CLIPPED
    return Measurement(Total(table, clip), amount, f"clipped rows of {table}")


def one_way_questions(
    budget: Budget, table: str, columns: list[ModelColumn]
) -> list[tuple[ModelColumn, Measurement]]:
    """Return the measurements of the one-way marginals of a table's own columns."""
    questions = []
    for column in columns:
        amount = budget.one_ways.get((table, column.name))
        if amount is None:
            continue
        query = budget.marginal(table, (column.axis,), amount)
        if column.kind in ("degree", "order"):
            query = Histogram(table, (column.axis,))
        label = f"one-way of {table}.{shown(column.name)}"
        questions.append((column, Measurement(query, amount, label)))
    return questions


def sibling_questions(
    budget: Budget, table: str, variables: Sequence[Variable]
) -> dict[int, Measurement]:
    """Return the measurements of pairs of rows of one owner, by position in ``variables``."""
    own, date = budget.spec.tables[table].own, date_of(budget.spec, table, variables)
    return {
        place: Measurement(
            Histogram(own.parent, (pair_axis(own, variables, place, date),)),
            amount,
            f"siblings of {table}.{shown(variables[place].name)}",
        )
        for (name, place), amount in budget.siblings.items()
        if own and name == table
    }


def set_questions(budget: Budget, table: str) -> Iterator[tuple[ModelColumn, Measurement]]:
    """Yield the measurements of which labels of a column occur together among an owner's rows."""
    scope = public_owner(budget.spec, table, budget.columns[table])
    for one in budget.columns[table]:
        if amount := budget.sets.get((table, one.name)):
            last = NORMS[budget.accounting], scope.key if scope else None
            query = PresencePairs(table, (one.axis,), one.domain.values, *last)
            yield one, Measurement(query, amount, f"sets of {table}.{shown(one.name)}")


def degree_pairs(spec: DatabaseSpec, table: str) -> list[tuple[KeySpec, KeySpec]]:
    """Return all pairs of owning (OWN) keys that refer to a table."""
    return list(combinations(children(spec, table), 2))


def moments(
    keys: tuple[KeySpec, KeySpec], clips: tuple[int, int] = (1, 1)
) -> list[tuple[int, int]]:
    """Return the pairs of clips at which the products of two degrees are summed.

    With the clips (1, 1), the sum counts the rows that have children by both keys.
    """
    return [(1, 1), clips]


def moment_question(
    budget: Budget, keys: tuple[KeySpec, KeySpec], clips: tuple[int, int]
) -> Measurement:
    """Return the measurement of Σ min(d₁, c₁)·min(d₂, c₂) over the rows that two keys lead to."""
    query = CrossMoment(keys[0].parent, keys, clips)
    return Measurement(query, budget.moments[keys], f"degrees of {query.source} together")


def cap_of(spec: DatabaseSpec, key: KeySpec) -> int:
    """Return the default cap on the summed weight of the references to one target unit."""
    return 1 if spec.is_apart(key) and most_kept(spec, key) == 1 else CAP


def targets_part(columns: int) -> float:
    """Return the part of a reference's budget for columns of its targets, by their number."""
    return TARGETS * min(columns / SOME_COLUMNS, 1.0)


def fan_in_question(budget: Budget, key: KeySpec, columns: int, inside: bool) -> Measurement:
    """Return the measurement of references per target, for a key between private tables."""
    query = FanIn(key, outside=inside)
    amount = budget.references[key.table, key.name] * (1.0 - targets_part(columns))
    return Measurement(query, amount, f"fan-in of {key.table}.{key.name}")
