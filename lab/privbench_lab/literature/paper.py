"""PrivBench's own learner: sum-product networks grown under differential privacy.

After "Privacy-Enhanced Database Synthesis for Benchmark Publishing" (PVLDB 18(2), 2024), with the
holes in its proof closed; ``lab/docs/privbench-paper.md`` lists every departure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log2
from typing import Annotated, ClassVar

from pydantic import Field

from privbench.arrays import Floats
from privbench.learning.graphical.one_way import one_way
from privbench.privacy import DatabaseSpec, Measurement, noise_sd
from privbench.privacy.queries import Axis, Column, Histogram, Joint, PublicArray
from privbench.synthesizers.base import Options, PlanInput
from privbench.synthesizers.database import TableFit
from privbench_lab.circuit import Builder, Circuit
from privbench_lab.literature.circuits import CircuitSynthesizer
from privbench_lab.queries import Region
from privbench_lab.spn.node import (
    Bins,
    Measure,
    Node,
    estimate,
    make_bins,
    region_histograms,
    scaled,
)
from privbench_lab.spn.splits import (
    column_split,
    dependence,
    first_split,
    next_split,
    planned_histograms,
    planned_scores,
    score_query,
    strongest,
)

Fraction = Annotated[float, Field(gt=0, lt=1)]
#: β, if it is not given, in standard deviations of the noise that histograms of all attributes
#: would have for the whole amount.
LEAST = 200.0


class PaperOptions(Options):
    """Parameters, in the paper's letters where it has them."""

    # α: attributes whose pairwise total variation distance from independence is at most this are
    # split apart.
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.05
    # β: a region of fewer than 2β rows is not split; 0 derives it from the noise.
    beta: Annotated[float, Field(ge=0)] = 0.0
    # γ: of the amount that remains after one-ways, the share for the structure (row and column
    # splits); the rest goes to leaves.
    gamma: Fraction = 0.5
    gamma1: Fraction = 0.2  # γ₁: share of γ for column splits; γ₂ = 1 − γ₁ goes to row splits
    iterations: Annotated[int, Field(ge=0, le=20)] = 2  # J: iterations of k-means in a row split
    one_ways: Fraction = 0.5  # share of a table's amount for its one-way histograms
    depth: Annotated[int, Field(ge=0, le=12)] = 6  # most levels of row splits
    # About the most bins of an attribute inside regions; NULL, codes outside of a range and
    # frequent values have bins of their own beside these.
    bins: Annotated[int, Field(ge=2, le=64)] = 16


@dataclass(frozen=True, slots=True)
class Budget:
    """Amounts of one table's operations."""

    one_ways: float  # the table's one-way histograms
    levels: int = 0  # number of levels of row splits, σ(T)
    evaluate: float = 0.0  # pair scores, per level (ε_eval)
    # One measurement of the parts of row splits, per level and iteration of k-means, and once more
    # for the children's histograms.
    move: float = 0.0
    leaves: float = 0.0  # leafGen; the amount that levels do not use is added
    least: float = 0.0  # the effective β: a region is split if it holds at least 2β rows


@dataclass(frozen=True, slots=True)
class Grower:
    """Grows one table's network level by level; nodes that take the same step share one query."""

    fit: TableFit
    options: PaperOptions
    budget: Budget  # amounts per level
    bins: Mapping[str, Bins]  # bins of every attribute, from released one-way histograms
    axes: Mapping[str, Axis]  # the bins as axes of queries

    def grow(self) -> Node:
        """The whole network with all its leaves measured."""
        counts = {name: scaled(bins.counts, self.fit.weight) for name, bins in self.bins.items()}
        root = Node(Region(self.fit.table), tuple(self.bins), counts)
        budget, frontier = self.budget, [root]
        left = budget.leaves
        for level in range(budget.levels):
            chosen = [
                node for node in frontier if len(node.scope) > 1 and node.rows >= 2 * budget.least
            ]
            if chosen:
                frontier = self._split_level(chosen, level)
                root.settle()
            else:
                moves = self.options.iterations * budget.move
                left += budget.evaluate + moves + budget.move
                frontier = []
        if left > 0:
            self._measure(root.leaves(), left, "leaves")
        root.settle()
        return root

    def _split_level(self, nodes: Sequence[Node], level: int) -> list[Node]:
        """DecideOP for all nodes of a level, then their splits; returns the new leaves."""
        sums = self._column_splits(nodes, level)
        for step in range(self.options.iterations if sums else 0):
            label = f"k-means {step + 1} on level {level + 1}"
            parts = [(region, node.scope) for node in sums for region in _halves(node)]
            each = iter(self._histograms(parts, self.budget.move, label)[0])
            for node in sums:
                node.split = next_split(node, [next(each) for _ in _halves(node)], self.bins)
        for node in sums:
            regions = _halves(node)
            even = {name: values / len(regions) for name, values in node.counts.items()}
            node.children = [Node(region, node.scope, dict(even)) for region in regions]
        children = [child for node in sums for child in node.children]
        if children:
            self._measure(children, self.budget.move, f"regions on level {level + 1}")
        return children

    def _column_splits(self, nodes: Sequence[Node], level: int) -> list[Node]:
        """Split by attributes where they are near independent; returns nodes to split by rows."""
        spec, table, sums = self.fit.spec, self.fit.table, []
        query = Joint(tuple(score_query(spec, table, node, self.axes) for node in nodes))
        label = f"dependence on level {level + 1} of {table}"
        noisy, _ = self.fit.measure(query, self.budget.evaluate, label)
        for node, scores in zip(nodes, query.split(noisy), strict=True):
            matrix = dependence(node, scores)
            groups = column_split(matrix, self.options.alpha)
            if len(groups) > 1:
                node.parts = [node.restricted(tuple(node.scope[i] for i in g)) for g in groups]
            for part, places in zip(node.parts or [node], groups, strict=True):
                name = node.scope[strongest(matrix, places)]
                if len(part.scope) > 1 and self.bins[name].size > 1:
                    ordered = spec.tables[table].attributes[name].ordered
                    part.split = first_split(part, name, self.bins[name], ordered)
                    sums.append(part)
        return sums

    def _measure(self, nodes: Sequence[Node], amount: float, label: str) -> None:
        """Measure the binned histograms of nodes and update their estimates."""
        found, sd = self._histograms([(node.region, node.scope) for node in nodes], amount, label)
        for node, noisy in zip(nodes, found, strict=True):
            node.observe(noisy, sd)
        estimate(nodes, self.fit.noise)

    def _histograms(
        self, regions: Sequence[tuple[Region, tuple[str, ...]]], amount: float, label: str
    ) -> tuple[list[dict[str, Floats]], float]:
        query = region_histograms(self.fit.table, self.axes, regions)
        noisy, sd = self.fit.measure(query, amount, f"{label} of {self.fit.table}")
        pieces = iter(query.split(noisy))
        return [{name: next(pieces) for name in scope} for _, scope in regions], sd


def _halves(node: Node) -> tuple[Region, ...]:
    """The regions of a node's split."""
    return node.region.children(node.split) if node.split is not None else ()


class PaperSynthesizer(CircuitSynthesizer[PaperOptions]):
    """Sum-product networks after the paper."""

    name: ClassVar[str] = "privbench-paper"
    options_type: ClassVar[type[Options]] = PaperOptions

    def fit_table(self, fit: TableFit) -> Circuit:
        """See `TableSynthesizer.fit_table`."""
        spec, table = fit.spec, fit.table
        budget = self._divide(spec, table, fit.amount, fit.start)
        bins = one_way_bins(fit, fit.measure, budget.one_ways, self.options.bins)
        axes = {name: Column.of(spec, table, name, PublicArray(bins[name].of)) for name in bins}
        builder = Builder(spec.tables[table].attributes)
        Grower(fit, self.options, budget, bins, axes).grow().add_to(builder, bins)
        return builder.build()

    def plan_table(
        self, spec: DatabaseSpec, table: str, amount: float, plan: PlanInput
    ) -> list[Measurement]:
        """See `TableSynthesizer.plan_table`; plans a full tree of regions, no column splits."""
        budget, bins = self._divide(spec, table, amount, plan), self.options.bins
        events = one_way_events(spec, table, budget.one_ways)
        for level in range(budget.levels):
            place = f"on level {level + 1} of {table}"
            scores = planned_scores(spec, table, level, bins)
            below = planned_histograms(spec, table, level + 1, bins)
            events.append(Measurement(scores, budget.evaluate, f"dependence {place}"))
            for step in range(self.options.iterations):
                events.append(Measurement(below, budget.move, f"k-means {step + 1} {place}"))
            events.append(Measurement(below, budget.move, f"regions {place}"))
        if budget.leaves > 0:
            query = planned_histograms(spec, table, budget.levels, bins)
            events.append(Measurement(query, budget.leaves, f"leaves of {table}"))
        return events

    def _divide(self, spec: DatabaseSpec, table: str, amount: float, start: PlanInput) -> Budget:
        """Planning, AllocBudget: how deep a network can grow, and what its operations may spend.

        Nodes of one level share one joint query, so levels alone compose in sequence: σ(T) is their
        number, and every level spends the same.
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
        return Budget(amount - rest, levels, level * options.gamma1, move, leaves, least)


def one_way_events(spec: DatabaseSpec, table: str, amount: float) -> list[Measurement]:
    """Every attribute's histogram, for an amount ∝ min(m, 1000)^⅓ with m cells."""
    domains = spec.tables[table].attributes
    raw = {name: min(domain.size, 1000) ** (1 / 3) for name, domain in domains.items()}
    total = sum(raw.values())
    return [
        Measurement(
            Histogram.of(spec, table, [n]), amount * (part / total), f"one-way of {table}.{n}"
        )
        for n, part in raw.items()
    ]


def one_way_bins(fit: TableFit, measure: Measure, amount: float, most: int) -> dict[str, Bins]:
    """Bins of every attribute, about ``most``, from noisy histograms; these cost ``amount``."""
    domains, bins = fit.spec.tables[fit.table].attributes, {}
    events = one_way_events(fit.spec, fit.table, amount)
    for (name, domain), item in zip(domains.items(), events, strict=True):
        values, sd = measure(item.query, item.amount, item.label)
        counts = fit.weight * one_way(values, sd, domain, fit.noise, fit.weight)
        bins[name] = make_bins(counts, domain, most, 2 * sd)
    return bins
