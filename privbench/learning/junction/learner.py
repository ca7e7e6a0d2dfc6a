"""The learner of one table: what is measured, in which order, and what is made of it.

One-ways, bins, a tree of pairs by noisy selection, further pairs in rounds against what the model
predicts. Measurements go through the session alone; everything between two of them is computed
from released numbers, with fixed public seeds, so that a killed fit resumes to the same model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privbench.learning.answers import MeasureAll
from privbench.learning.bins import split_tail
from privbench.learning.denoise import Floats, Noise, scale_of
from privbench.learning.junction.budget import Budget, table_parts
from privbench.learning.junction.byrows import RowLaw
from privbench.learning.junction.choice import Choice, Select
from privbench.learning.junction.context import Context, Variable
from privbench.learning.junction.model import TableLaw
from privbench.learning.junction.numbered import Numbered
from privbench.learning.junction.oneway import (
    denoise_one_way,
    fill_bins,
    measure_one_ways,
    weight_of,
)
from privbench.learning.junction.pairs import related
from privbench.learning.junction.parents import strongest
from privbench.learning.junction.pool import cells_of, draw_pool, rake_pool
from privbench.learning.junction.ratios import rake, shrink
from privbench.learning.junction.structure import (
    Components,
    Layout,
    Pair,
    orders,
    star_of,
    thin,
)
from privbench.learning.junction.tree import JunctionTree, fit_tree
from privbench.learning.keys import own_keys
from privbench.privacy import DatabaseSpec, Measurement, noise_sd
from privbench.privacy.events import Accounting
from privbench.privacy.queries import Histogram
from privbench.privacy.units import bound
from privbench.rng import generator

#: Rows of the pool that predicts tables between rounds.
_LEAST_POOL, _MOST_POOL = 20_000, 60_000
_SWEEPS = 6
#: A prediction never falls below this part of independence.
_FLOOR = 0.003
#: Least mass of a part of a tail, in standard deviations of the noise of a pair table: much less
#: than of other bins, since what is seen of the whole table tells what tails are like.
TAIL = 0.3


@dataclass
class Learner:
    """One table's fit under way.

    Attributes:
        spec: What is public.
        table: The table.
        amount: What may be spent.
        budget: The rule's decision.
        accounting: ``pure`` or ``zcdp``.
        noise: Law of the noise.
        measure_all: Asks the session for measurements.
        select: Asks the session for a selection.
        rows: Released weight of all rows; set by the fit, as is all that follows.
        variables: What is drawn with a row: attributes, and what is added before `learn`.
        context: What is given before.
        tables: Denoised pair tables.
        sums: Sum of every one-way histogram, and the variance of its noise.
        fine: Joint laws of the codes of two variables, by their places in ``variables``.
        held: Tables of attributes with numbers of children that are known already.
        by_rows: Laws of some variables by rows, and τ of those.
        clip: See ``by_rows``.
    """

    spec: DatabaseSpec
    table: str
    amount: float
    budget: Budget
    accounting: Accounting
    noise: Noise
    measure_all: MeasureAll
    select: Select
    rows: float = 1.0
    variables: list[Variable] = field(default_factory=list)
    context: Context = field(default_factory=Context)
    tables: dict[Pair, Floats] = field(default_factory=dict)
    sums: list[tuple[float, float]] = field(default_factory=list)
    fine: dict[Pair, Floats] = field(default_factory=dict)
    held: dict[Pair, Floats] = field(default_factory=dict)
    by_rows: tuple[RowLaw, ...] = ()
    clip: int = 1
    _edges: list[Pair] = field(default_factory=list)

    def one_ways(self, total: tuple[float, float] | None) -> None:
        """Measure and denoise the one-ways of all attributes; they become the first variables.

        Args:
            total: Released total of the weights and its standard deviation, or None.
        """
        domains = self.spec.tables[self.table].attributes
        if not domains:
            self.rows = max(total[0], 1.0) if total else self.rows
            return
        amount = self.amount * self.budget.one_ways
        raws = measure_one_ways(
            self.spec, self.table, amount, self.budget, self.measure_all, self.noise
        )
        self.rows = weight_of(raws, *(total or (None, 0.0)))
        self.sums = [raw.total for raw in raws.values()]
        least = min(2 * self.tree_sd, 0.2 * self.rows)
        for name, raw in raws.items():
            counts = denoise_one_way(raw, domains[name], self.rows, self.noise)
            bins = fill_bins(counts, domains[name], self.budget.bins, least)
            if self.has_children:
                bins = split_tail(bins, domains[name], TAIL * self.tree_sd)
            self.variables.append(Variable(name, domains[name], bins))

    def learn(self) -> TableLaw:
        """Measure pairs of all variables, given ones included, and fit."""
        forest = self._known()
        edges = self._tree(forest) if self.budget.edges else list(self.tables)
        new = [pair for pair in edges if pair not in self.tables]
        self._measure_pairs(new, self.budget.tree, self._independent(new), "tree")
        self.tables |= self.held
        if self.budget.rounds:
            self._rounds(edges)
        self._edges = edges
        return self._law()

    def _known(self) -> Components:
        """Put down the tables that are known and may be edges; what they join."""
        fixed = self._numbered.fixed
        forest = Components(len(self._numbered.sizes), fixed)
        for (i, j), table in self.fine.items():
            of = self.variables[i].bins.of, self.variables[j].bins.of
            binned = np.zeros((int(of[0].max()) + 1, int(of[1].max()) + 1))
            np.add.at(binned, (of[0][:, None], of[1]), table)
            self.tables[fixed + i, fixed + j] = binned
            forest.join((fixed + i, fixed + j))
        # Numbers of children hang together already. One edge leads to them: with another, two
        # attributes would be joined by what they share with children, and no more by a pair.
        if best := strongest(self.held, forest):
            self.tables[best] = self.held[best]
            forest.join(best)
        return forest

    def grant(self, amount: float) -> None:
        """Spend an amount on pairs and their choice besides, when one-ways are measured."""
        left = 1.0 - self.budget.one_ways
        if self.budget.edges and left > 0:
            self.amount += amount / left

    def heavier(self, law: TableLaw, by_rows: tuple[RowLaw, ...], clip: int) -> TableLaw:
        """The law with laws by rows; measures nothing."""
        self.by_rows, self.clip = by_rows, clip
        return replace(law, by_rows=by_rows, clip=clip)

    def rescale(self, factors: Mapping[str, float]) -> TableLaw:
        """The law in which numbers of children are above 0 more or less often; measures nothing.

        Args:
            factors: For early variables, the factor on the probability of more than 0 children.
        """
        for place, item in enumerate(self.variables):
            factor = factors.get(item.name, 1.0)
            counts = item.bins.counts.copy()
            if factor == 1.0 or not counts[1:].sum() > 0:
                continue
            whole, positive = counts.sum(), counts[1:].sum()
            counts[1:] *= min(positive * factor, 0.999 * whole) / positive
            counts[0] = max(whole - counts[1:].sum(), 0.0)
            self.variables[place] = replace(item, bins=replace(item.bins, counts=counts))
            number, shares = self._numbered.fixed + place, self._numbered.shares
            for i, j in [pair for pair in self.tables if number in pair]:
                margins = self.rows * shares[i], self.rows * shares[j]
                self.tables[i, j] = rake(self.tables[i, j], *margins, 30)
        return self._law()

    def _law(self) -> TableLaw:
        """Fit the law to all tables measured so far."""
        edges = self._edges
        extras = [pair for pair in self.tables if pair not in edges]
        numbered = self._numbered
        choices = orders(edges, len(numbered.sizes), numbered.classes)
        found, inside = thin(choices, edges, extras, numbered.sizes, numbered.fixed)
        tree = self._fit(found, inside)
        domains = {item.name: item.domain for item in self.variables}
        bins = tuple(item.bins for item in self.variables)
        columns = self.context.columns
        law = TableLaw(
            domains,
            bins,
            tree,
            dict(self.tables),
            self.rows,
            columns,
            bound(self.spec, self.table),
            dict(self.fine),
            self.by_rows,
            self.clip,
        )
        return law.trimmed()

    @cached_property
    def has_children(self) -> bool:
        """Whether rows of the table own others."""
        return bool(own_keys(self.spec, self.table))

    @property
    def tree_sd(self) -> float:
        """Noise of a tree table at an even split."""
        amount = self.amount * self.budget.tree / max(self.budget.edges, 1)
        if amount <= 0:
            return 0.0
        return noise_sd(Histogram.of(self.spec, self.table, []), self.spec, amount, self.accounting)

    @property
    def _numbered(self) -> Numbered:
        """Given variables and those that are drawn, by number."""
        return Numbered(self.context, self.variables)

    def _fit(self, found: Layout, pairs: Sequence[Pair]) -> JunctionTree:
        tables = {pair: self.tables[pair] for pair in pairs}
        return fit_tree(found, self._numbered.shares, tables, self.context.given)

    def _scale(self, sd: float) -> float:
        return scale_of(sd, self.noise)

    def _independent(self, pairs: Sequence[Pair]) -> dict[Pair, Floats]:
        shares = self._numbered.shares
        return {(i, j): self.rows * np.outer(shares[i], shares[j]) for i, j in pairs}

    def _tree(self, forest: Components) -> list[Pair]:
        """Edges by noisy maximum over pairs that join components of what is known already."""
        numbered = self._numbered
        known = self.tables.keys() | self.held.keys()
        known |= set(self._star())
        pairs = [pair for pair in numbered.pairs() if pair not in known]
        choice = self._choice(self._independent(pairs), self.tree_sd)
        edges = list(self.tables)
        apart = len(self.variables) - (not numbered.fixed) - len(edges)
        star = self._star()
        for pair in star:
            forest.join(pair)
        edges += star
        for number in range(len(star), min(self.budget.edges, apart)):
            pair = choice.take(f"tree edge {number + 1}", forest.apart)
            forest.join(pair)
            edges.append(pair)
        return edges

    def _star(self) -> list[Pair]:
        """Pairs of the target with every other attribute."""
        if not self.budget.star:
            return []
        attributes = self.spec.tables[self.table].attributes
        numbers = {v.name: n for n, v in enumerate(self.variables, self._numbered.fixed)}
        return star_of({name: numbers[name] for name in attributes}, self.budget.target)

    def _measure_pairs(
        self, pairs: Sequence[Pair], part: float, predicted: dict[Pair, Floats], what: str
    ) -> None:
        """Measure pair tables and denoise them once; they are fixed targets from then on."""
        if not pairs:
            return
        numbered = self._numbered
        sizes, axes, shares = numbered.sizes, numbered.axes, numbered.shares
        parts = table_parts([sizes[i] * sizes[j] for i, j in pairs])
        questions = [
            Measurement(
                Histogram(self.table, (axes[i], axes[j])),
                self.amount * part * share,
                f"{what} pair {number + 1} of {self.table}",
            )
            for number, ((i, j), share) in enumerate(zip(pairs, parts, strict=True))
        ]
        for (i, j), (noisy, sd) in zip(pairs, self.measure_all(questions), strict=True):
            scale = max(self._scale(sd), 1e-9)
            margins = self.rows * shares[i], self.rows * shares[j]
            if self.context.columns or self.has_children:
                held = numbered.blocks((i, j)), numbered.ordered((i, j))
                found = related(noisy, predicted[i, j], margins, scale, self.noise, *held)
            else:
                found = shrink(noisy, predicted[i, j], scale, self.noise)
            self.tables[i, j] = rake(found, *margins, 8)

    def _choice(self, predicted: dict[Pair, Floats], sd: float) -> Choice:
        """Pairs to choose from, against the noise of a table of theirs."""
        price = self.budget.penalty * self._scale(sd)
        amount = self.amount * self.budget.each_selection
        return Choice(self.table, self._numbered.axes, predicted, price, amount, self.select)

    def _rounds(self, edges: Sequence[Pair]) -> None:
        """Choose further pairs where the raked pool is farthest from the rows; measure them."""
        numbered = self._numbered
        sizes, pairs = numbered.sizes, numbered.pairs()
        choices = orders(edges, len(sizes), numbered.classes)
        tree = self._fit(*thin(choices, edges, [], sizes, numbered.fixed))
        rows = int(np.clip(round(self.rows), _LEAST_POOL, _MOST_POOL))
        draws = generator(0, "junction", "rounds")
        held = self.context.given
        given = None if held is None else held.resampled(rows, draws)
        pool = draw_pool(tree, rows, draws, given)
        cells = {pair: cells_of(pool.bins, pair, sizes).astype(np.uint16) for pair in pairs}
        weights = np.full(rows, self.rows / rows)
        for number, chosen in enumerate(self.budget.rounds):
            if number:
                targets = [table.ravel() for table in self.tables.values()]
                weights = rake_pool(
                    np.stack([cells[pair] for pair in self.tables]), targets, _SWEEPS
                )
            left = [pair for pair in pairs if pair not in self.tables]
            if left:
                seen = {pair: self._seen(cells[pair], pair, weights) for pair in left}
                self._round(number, min(chosen, len(left)), seen)

    def _seen(self, cells: NDArray[np.uint16], pair: Pair, weights: Floats) -> Floats:
        """The pool's table of a pair."""
        sizes = self._numbered.sizes
        shape = sizes[pair[0]], sizes[pair[1]]
        held = np.bincount(cells, weights, minlength=shape[0] * shape[1])
        return np.asarray(held.reshape(shape), np.float64)

    def _round(self, number: int, chosen: int, seen: dict[Pair, Floats]) -> None:
        part = self.budget.of_round(number)
        whole = Histogram.of(self.spec, self.table, [])
        sd = noise_sd(whole, self.spec, self.amount * part / chosen, self.accounting)
        choice = self._choice(seen, sd)
        found = [choice.take(f"round {number + 1} choice {k + 1}") for k in range(chosen)]
        floor = self._independent(found)
        predicted = {pair: np.maximum(seen[pair], _FLOOR * floor[pair]) for pair in found}
        self._measure_pairs(found, part, predicted, f"round {number + 1}")
