"""PrivBench's own learner: sum-product networks grown under differential privacy.

After "Privacy-Enhanced Database Synthesis for Benchmark Publishing" (PVLDB 18(2), 2024), with the
holes in its proof closed; ``docs/privbench-paper.md`` lists every departure.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from privbench.learning.bins import Bins, make_bins
from privbench.learning.graphical.attributes import CircuitModel
from privbench.learning.graphical.one_way import one_way
from privbench.learning.spn import outline
from privbench.learning.spn.assemble import to_circuit
from privbench.learning.spn.grow import Grower
from privbench.learning.spn.planning import Budget, Shares, column_shares, plan_budget
from privbench.privacy import DatabaseSpec, Query, noise_sd
from privbench.privacy.queries import Column, Histogram, JointHistogram, PublicArray, Region
from privbench.synthesizers.base import Options, PlanInput, PlannedEvent
from privbench.synthesizers.database import TableFit, TableSynthesizer

Fraction = Annotated[float, Field(gt=0, lt=1)]


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
        one_ways: Share of a table's amount for its one-way histograms; 0 derives it from the noise.
        depth: Most levels of row splits.
        bins: Most bins of an attribute inside regions.
    """

    alpha: Annotated[float, Field(ge=0, le=1)] = 0.05
    beta: Annotated[float, Field(ge=0)] = 0.0
    gamma: Fraction = 0.5
    gamma1: Fraction = 0.2
    iterations: Annotated[int, Field(ge=0, le=20)] = 2
    one_ways: Annotated[float, Field(ge=0, lt=1)] = 0.0
    depth: Annotated[int, Field(ge=0, le=12)] = 6
    bins: Annotated[int, Field(ge=2, le=64)] = 16

    def shares(self) -> Shares:
        """The rule by which a table's amount is divided."""
        return Shares(
            self.one_ways, self.gamma, self.gamma1, self.iterations, self.depth, self.beta
        )


class PaperSynthesizer(TableSynthesizer[PaperOptions]):
    """Sum-product networks after the paper."""

    name: ClassVar[str] = "privbench-paper"
    options_type: ClassVar[type[Options]] = PaperOptions

    def fit_table(self, fit: TableFit) -> CircuitModel:
        """See `TableSynthesizer.fit_table`."""
        spec, table = fit.spec, fit.table
        budget = _budget(spec, table, fit.amount, fit.start, self.options)
        bins = one_way_bins(fit, budget.one_ways, self.options.bins)
        grower = Grower(
            spec,
            table,
            bins,
            {name: Column.of(spec, table, name, PublicArray(bins[name].of)) for name in bins},
            fit.measure,
            fit.noise,
            budget,
            self.options.alpha,
            self.options.iterations,
        )
        circuit = to_circuit(grower.grow(fit.weight), bins, spec.tables[table].attributes)
        return CircuitModel(circuit)

    def plan_table(
        self, spec: DatabaseSpec, table: str, amount: float, plan: PlanInput
    ) -> list[PlannedEvent]:
        """See `TableSynthesizer.plan_table`; a full tree of regions without column splits."""
        return planned_table(spec, table, amount, plan, self.options)


def _budget(
    spec: DatabaseSpec, table: str, amount: float, start: PlanInput, options: PaperOptions
) -> Budget:
    """Divide a table's amount by its noisy size and the noise of its histograms."""
    names = list(spec.tables[table].attributes)
    everything = JointHistogram(
        tuple((Histogram.of(spec, table, [name], Region(table)), 1.0) for name in names)
    )
    noise = noise_sd(everything, spec, amount, start.accounting)
    rows = min(start.rows(table), start.rows(spec.top(table)))
    return plan_budget(amount, rows, noise, len(names), options.shares())


def one_way_bins(fit: TableFit, amount: float, most: int) -> dict[str, Bins]:
    """Bins of every attribute from its noisy histogram.

    Args:
        fit: The fit under way.
        amount: What all histograms may spend together, ε or ρ.
        most: Most bins of an attribute.
    """
    domains = fit.spec.tables[fit.table].attributes
    shares = column_shares({name: domain.size for name, domain in domains.items()})
    bins = {}
    for name, share in shares.items():
        values, sd = fit.one_way(name, amount * share)
        counts = fit.weight * one_way(values, sd, domains[name], fit.noise, fit.weight)
        bins[name] = make_bins(counts, domains[name], most, 2 * sd)
    return bins


def planned_table(
    spec: DatabaseSpec, table: str, amount: float, plan: PlanInput, options: PaperOptions
) -> list[PlannedEvent]:
    """The events of one table, over a full binary tree of regions."""
    domains = spec.tables[table].attributes
    budget = _budget(spec, table, amount, plan, options)
    shares = column_shares({name: domain.size for name, domain in domains.items()})
    events = [
        PlannedEvent.of(
            f"one-way of {table}.{name}",
            Histogram.of(spec, table, [name]),
            spec,
            budget.one_ways * share,
            plan,
        )
        for name, share in shares.items()
    ]
    for level in range(budget.levels):
        events += _planned_level(spec, table, budget, level, plan, options)
    if budget.leaves > 0:
        query = outline.histograms(spec, table, budget.levels, options.bins)
        label = f"leaves of {table}"
        events.append(PlannedEvent.of(label, query, spec, budget.leaves, plan))
    return events


def _planned_level(
    spec: DatabaseSpec,
    table: str,
    budget: Budget,
    level: int,
    plan: PlanInput,
    options: PaperOptions,
) -> list[PlannedEvent]:
    below = outline.histograms(spec, table, level + 1, options.bins)
    asked: list[tuple[str, Query, float]] = [
        ("dependence", outline.scores(spec, table, level, options.bins), budget.evaluate)
    ]
    rounds = range(options.iterations)
    asked += [(f"k-means {step + 1}", below, budget.operate) for step in rounds]
    asked.append(("regions", below, budget.children))
    return [
        PlannedEvent.of(f"{what} on level {level + 1} of {table}", query, spec, amount, plan)
        for what, query, amount in asked
    ]
