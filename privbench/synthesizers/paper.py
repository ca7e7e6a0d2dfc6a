"""PrivBench's own learner: sum-product networks grown under differential privacy.

After "Privacy-Enhanced Database Synthesis for Benchmark Publishing" (PVLDB 18(2), 2024), with the
holes in its proof closed; ``docs/privbench-paper.md`` lists every departure.
"""

from __future__ import annotations

from math import floor, log2
from typing import Annotated, ClassVar

from pydantic import Field

from privbench.circuit import Builder, Circuit
from privbench.learning.answers import Measure
from privbench.learning.graphical.one_way import one_way
from privbench.learning.spn import outline
from privbench.learning.spn.grow import Budget, Grower
from privbench.learning.spn.node import Bins, make_bins
from privbench.privacy import DatabaseSpec, Query, noise_sd
from privbench.privacy.queries import Column, Histogram, Joint, PublicArray
from privbench.synthesizers.base import Options, PlanInput, PlannedEvent
from privbench.synthesizers.database import TableFit, TableSynthesizer

Fraction = Annotated[float, Field(gt=0, lt=1)]
#: β, where it is not given, in standard deviations of the noise that the whole amount would leave
#: on histograms of all attributes.
LEAST = 200.0


class PaperOptions(Options):
    """Parameters, in the paper's letters where it has them.

    Attributes:
        alpha: α: attributes whose pairwise total variation distance from independence is at most
            this are split apart.
        beta: β: a region of fewer than 2β rows is not split; 0 derives it from the noise.
        gamma: γ: share for the structure (row and column splits) of what one-ways leave; the rest
            goes to leaves.
        gamma1: γ₁: share of γ for evaluating column splits; γ₂ = 1 − γ₁ goes to row splits.
        iterations: J: iterations of k-means in a row split.
        one_ways: Share of a table's amount for its one-way histograms.
        depth: Most levels of row splits.
        bins: About the most bins of an attribute inside regions; NULL, codes outside of a range and
            frequent values have bins of their own beside these.
    """

    alpha: Annotated[float, Field(ge=0, le=1)] = 0.05
    beta: Annotated[float, Field(ge=0)] = 0.0
    gamma: Fraction = 0.5
    gamma1: Fraction = 0.2
    iterations: Annotated[int, Field(ge=0, le=20)] = 2
    one_ways: Fraction = 0.5
    depth: Annotated[int, Field(ge=0, le=12)] = 6
    bins: Annotated[int, Field(ge=2, le=64)] = 16


class PaperSynthesizer(TableSynthesizer[PaperOptions]):
    """Sum-product networks after the paper."""

    name: ClassVar[str] = "privbench-paper"
    options_type: ClassVar[type[Options]] = PaperOptions

    def fit_table(self, fit: TableFit) -> Circuit:
        """See `TableSynthesizer.fit_table`."""
        spec, table = fit.spec, fit.table
        budget = self._divide(spec, table, fit.amount, fit.start)
        bins = one_way_bins(fit, fit.measure, budget.one_ways, self.options.bins)
        axes = {name: Column.of(spec, table, name, PublicArray(bins[name].of)) for name in bins}
        options = self.options.alpha, self.options.iterations
        grower = Grower(spec, table, bins, axes, fit.measure, fit.noise, budget, *options)
        builder = Builder(spec.tables[table].attributes)
        grower.grow(fit.weight).add_to(builder, bins)
        return builder.build()

    def plan_table(
        self, spec: DatabaseSpec, table: str, amount: float, plan: PlanInput
    ) -> list[PlannedEvent]:
        """See `TableSynthesizer.plan_table`; a full tree of regions without column splits."""
        budget, bins = self._divide(spec, table, amount, plan), self.options.bins
        asked = one_way_events(spec, table, budget.one_ways)
        for level in range(budget.levels):
            place = f"on level {level + 1} of {table}"
            scores = outline.scores(spec, table, level, bins)
            below = outline.histograms(spec, table, level + 1, bins)
            asked.append((f"dependence {place}", scores, budget.evaluate))
            for step in range(self.options.iterations):
                asked.append((f"k-means {step + 1} {place}", below, budget.operate))
            asked.append((f"regions {place}", below, budget.children))
        if budget.leaves > 0:
            query = outline.histograms(spec, table, budget.levels, bins)
            asked.append((f"leaves of {table}", query, budget.leaves))
        return [PlannedEvent.of(label, query, spec, given, plan) for label, query, given in asked]

    def _divide(self, spec: DatabaseSpec, table: str, amount: float, start: PlanInput) -> Budget:
        """Planning, AllocBudget: how deep a network can grow, and what its operations may spend.

        The paper gives every node its own budget and divides it by σ(T), the number of operations
        that it expects below. Children of a row split hold disjoint rows, so all nodes of one level
        can share one joint query; what composes in sequence is the levels alone. σ(T) is therefore
        the number of levels, and every level spends the same.
        """
        options, names = self.options, list(spec.tables[table].attributes)
        everything = Joint(tuple(Histogram.of(spec, table, [name]) for name in names))
        noise = noise_sd(everything, spec, amount, start.accounting)
        rows = min(start.rows(table), start.rows(spec.top(table)))
        least = options.beta or LEAST * noise
        deepest = floor(log2(max(rows / max(least, 1.0), 1.0)))
        levels = min(options.depth, deepest) if len(names) > 1 else 0
        if levels == 0:
            return Budget(amount, least=least)
        rest = amount * (1 - options.one_ways)
        level = rest * options.gamma / levels
        move = level * (1 - options.gamma1) / (options.iterations + 1)
        leaves = rest * (1 - options.gamma)
        return Budget(amount - rest, levels, level * options.gamma1, move, move, leaves, least)


def one_way_events(spec: DatabaseSpec, table: str, amount: float) -> list[tuple[str, Query, float]]:
    """Label, query and amount of every attribute's histogram; the events of `one_way_bins`.

    Amounts are ∝ min(m, 1000)^⅓ with m cells.
    """
    domains = spec.tables[table].attributes
    raw = {name: min(domain.size, 1000) ** (1 / 3) for name, domain in domains.items()}
    total = sum(raw.values())
    return [
        (f"one-way of {table}.{name}", Histogram.of(spec, table, [name]), amount * (part / total))
        for name, part in raw.items()
    ]


def one_way_bins(fit: TableFit, measure: Measure, amount: float, most: int) -> dict[str, Bins]:
    """Bins of every attribute from its noisy histogram.

    Args:
        fit: The fit under way.
        measure: Asks for the histograms.
        amount: What all histograms may spend together, ε or ρ.
        most: About how many bins an attribute may have.
    """
    domains, bins = fit.spec.tables[fit.table].attributes, {}
    asked = one_way_events(fit.spec, fit.table, amount)
    for (name, domain), (label, query, given) in zip(domains.items(), asked, strict=True):
        values, sd = measure(query, given, label)
        counts = fit.weight * one_way(values, sd, domain, fit.noise, fit.weight)
        bins[name] = make_bins(counts, domain, most, 2 * sd)
    return bins
