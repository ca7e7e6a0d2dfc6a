"""The learner of one table: what is measured, in which order, and what is made of it.

One-ways, bins, a tree of pairs by noisy selection, further pairs in rounds against what the model
predicts. Measurements go through the session alone; everything between two of them is computed
from released numbers, with fixed public seeds, so that a killed fit resumes to the same model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privbench.learning.bins import Bins
from privbench.learning.denoise import Floats, Noise
from privbench.learning.junction.budget import Budget, table_parts
from privbench.learning.junction.model import TableLaw
from privbench.learning.junction.oneway import (
    Measure,
    denoise_one_way,
    fill_bins,
    measure_one_ways,
    weight_of,
)
from privbench.learning.junction.pool import cells_of, draw_pool, rake_pool
from privbench.learning.junction.ratios import rake, shrink
from privbench.learning.junction.structure import (
    Components,
    Pair,
    best_layout,
    orders,
    thin,
)
from privbench.learning.junction.tree import fit_tree
from privbench.privacy import DatabaseSpec, Query, noise_sd
from privbench.privacy.events import Accounting
from privbench.privacy.queries import Axis, Column, Histogram, PairScores, PublicArray
from privbench.privacy.query import GRID
from privbench.rng import generator

#: Asks for a selection: (query, amount, label) → index.
Select = Callable[[Query, float, str], int]

#: Rows of the pool that predicts tables between rounds.
_LEAST_POOL, _MOST_POOL = 20_000, 60_000
_SWEEPS = 6
#: A prediction never falls below this part of independence.
_FLOOR = 0.003


@dataclass(slots=True)
class Learner:
    """One table's fit under way.

    Attributes:
        spec: What is public.
        table: The table.
        amount: What may be spent.
        budget: The rule's decision.
        accounting: ``pure`` or ``zcdp``.
        noise: Law of the noise.
        measure: Asks the session for a measurement.
        select: Asks the session for a selection.
        rows: Released weight of all rows; set by the fit, as is all that follows.
        bins: Bins of every attribute.
        axes: The bins as axes of queries.
        tables: Denoised pair tables.
        sums: Sum of every one-way histogram, and the variance of its noise.
    """

    spec: DatabaseSpec
    table: str
    amount: float
    budget: Budget
    accounting: Accounting
    noise: Noise
    measure: Measure
    select: Select
    rows: float = 1.0
    bins: list[Bins] = field(default_factory=list)
    axes: tuple[Axis, ...] = ()
    tables: dict[Pair, Floats] = field(default_factory=dict)
    sums: list[tuple[float, float]] = field(default_factory=list)

    def learn(self, total: tuple[float, float] | None) -> TableLaw:
        """Measure and fit.

        Args:
            total: Released total of the weights and its standard deviation, or None.
        """
        self._one_ways(total)
        edges = self._tree() if self.budget.edges else []
        self._measure_pairs(edges, self.budget.tree, self._independent(edges), "tree")
        if self.budget.rounds:
            self._rounds(edges)
        extras = [pair for pair in self.tables if pair not in edges]
        found, inside = thin(orders(edges, len(self.bins)), edges, extras, self._sizes)
        tree = fit_tree(found, self._shares, {pair: self.tables[pair] for pair in inside})
        domains = self.spec.tables[self.table].attributes
        return TableLaw(dict(domains), tuple(self.bins), tree, dict(self.tables), self.rows)

    @property
    def _sizes(self) -> list[int]:
        return [bins.size for bins in self.bins]

    @property
    def _shares(self) -> list[Floats]:
        return [bins.counts / bins.counts.sum() for bins in self.bins]

    def _one_ways(self, total: tuple[float, float] | None) -> None:
        """Measure and denoise all one-ways; make bins."""
        amount = self.amount * self.budget.one_ways
        raws = measure_one_ways(
            self.spec, self.table, amount, self.budget, self.measure, self.noise
        )
        self.rows = weight_of(raws, *(total or (None, 0.0)))
        self.sums = [raw.total for raw in raws.values()]
        domains = self.spec.tables[self.table].attributes
        least = min(2 * self._tree_sd(), 0.2 * self.rows)
        for name, raw in raws.items():
            counts = denoise_one_way(raw, domains[name], self.rows, self.noise)
            self.bins.append(fill_bins(counts, domains[name], self.budget.bins, least))
        self.axes = tuple(
            Column.of(self.spec, self.table, name, PublicArray(bins.of))
            for name, bins in zip(domains, self.bins, strict=True)
        )

    def _tree_sd(self) -> float:
        """Noise of a tree table at an even split."""
        amount = self.amount * self.budget.tree / max(self.budget.edges, 1)
        if amount <= 0:
            return 0.0
        return noise_sd(Histogram.of(self.spec, self.table, []), self.spec, amount, self.accounting)

    def _scale(self, sd: float) -> float:
        return sd / float(np.sqrt(2.0)) if self.noise == "laplace" else sd

    def _independent(self, pairs: Sequence[Pair]) -> dict[Pair, Floats]:
        shares = self._shares
        return {(i, j): self.rows * np.outer(shares[i], shares[j]) for i, j in pairs}

    def _tree(self) -> list[Pair]:
        """Edges by noisy maximum over pairs that join components."""
        count = len(self.bins)
        pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
        choice = _Choice(self, self._independent(pairs), self._scale(self._tree_sd()))
        forest = Components(count)
        edges: list[Pair] = []
        for number in range(self.budget.edges):
            pair = choice.take(f"tree edge {number + 1}", forest.apart)
            forest.join(pair)
            edges.append(pair)
        return edges

    def _measure_pairs(
        self, pairs: Sequence[Pair], part: float, predicted: dict[Pair, Floats], what: str
    ) -> None:
        """Measure pair tables and denoise them once; they are fixed targets from then on."""
        if not pairs:
            return
        sizes = self._sizes
        parts = table_parts([sizes[i] * sizes[j] for i, j in pairs])
        for number, ((i, j), share) in enumerate(zip(pairs, parts, strict=True)):
            query = Histogram(self.table, (self.axes[i], self.axes[j]))
            label = f"{what} pair {number + 1} of {self.table}"
            noisy, sd = self.measure(query, self.amount * part * share, label)
            shrunk = shrink(noisy, predicted[i, j], max(self._scale(sd), 1e-9), self.noise)
            margins = self.bins[i].counts, self.bins[j].counts
            self.tables[i, j] = rake(shrunk, *margins, 8)

    def _rounds(self, edges: Sequence[Pair]) -> None:
        """Choose further pairs where the raked pool is farthest from the rows; measure them."""
        count, sizes = len(self.bins), self._sizes
        tree = fit_tree(best_layout(orders(edges, count), edges, sizes), self._shares, self.tables)
        rows = int(np.clip(round(self.rows), _LEAST_POOL, _MOST_POOL))
        pool = draw_pool(tree, rows, generator(0, "junction", "rounds"))
        pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
        cells = {pair: cells_of(pool.bins, pair, sizes).astype(np.uint16) for pair in pairs}
        weights = np.full(rows, self.rows / rows)
        for number, chosen in enumerate(self.budget.rounds):
            if number:
                targets = [table.ravel() for table in self.tables.values()]
                weights = rake_pool([cells[pair] for pair in self.tables], targets, _SWEEPS)
            left = [pair for pair in pairs if pair not in self.tables]
            self._round(number, chosen, {p: self._seen(cells[p], p, weights) for p in left})

    def _seen(self, cells: NDArray[np.uint16], pair: Pair, weights: Floats) -> Floats:
        """The pool's table of a pair."""
        shape = self.bins[pair[0]].size, self.bins[pair[1]].size
        held = np.bincount(cells, weights, minlength=shape[0] * shape[1])
        return np.asarray(held.reshape(shape), np.float64)

    def _round(self, number: int, chosen: int, seen: dict[Pair, Floats]) -> None:
        part = self.budget.of_round(number)
        whole = Histogram.of(self.spec, self.table, [])
        sd = noise_sd(whole, self.spec, self.amount * part / chosen, self.accounting)
        choice = _Choice(self, seen, self._scale(sd))
        found = [choice.take(f"round {number + 1} choice {k + 1}") for k in range(chosen)]
        floor = self._independent(found)
        predicted = {pair: np.maximum(seen[pair], _FLOOR * floor[pair]) for pair in found}
        self._measure_pairs(found, part, predicted, f"round {number + 1}")


class _Choice:
    """Pairs to choose from, each with its released prediction (P18); each is taken once."""

    def __init__(self, learner: Learner, predicted: dict[Pair, Floats], scale: float) -> None:
        self._learner = learner
        self._predicted = {
            pair: PublicArray.rounded(table, GRID) for pair, table in predicted.items()
        }
        price = learner.budget.penalty * scale
        self._prices = {pair: price * table.size for pair, table in predicted.items()}

    def take(self, label: str, allowed: Callable[[Pair], bool] = lambda pair: True) -> Pair:
        """The pair of the noisy maximum of ½‖H − P‖₁ − price among those allowed."""
        learner = self._learner
        pairs = [pair for pair in self._predicted if allowed(pair)]
        query = PairScores(
            learner.table,
            learner.axes,
            tuple(pairs),
            tuple(self._predicted[pair] for pair in pairs),
            PublicArray.rounded([self._prices[pair] for pair in pairs], 2 * GRID),
        )
        amount = learner.amount * learner.budget.each_selection
        taken = pairs[learner.select(query, amount, f"{label} of {learner.table}")]
        del self._predicted[taken]
        return taken
