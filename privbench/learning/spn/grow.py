"""PrivSPN, level by level: one joint query for all nodes that do the same thing at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privbench.learning.answers import Measure
from privbench.learning.bins import Bins
from privbench.learning.denoise import Noise
from privbench.learning.graphical.estimate import Floats, shrink
from privbench.learning.spn.colsplit import Dependence, dependence, score_query
from privbench.learning.spn.node import Node
from privbench.learning.spn.planning import Budget
from privbench.learning.spn.rowsplit import first_split, next_split
from privbench.learning.spn.settle import scaled, settle
from privbench.privacy import DatabaseSpec
from privbench.privacy.queries import Axis, Histogram, JointHistogram, JointScores, Region


@dataclass(frozen=True, slots=True)
class Grower:
    """Grows one table's network.

    Attributes:
        spec: What is public.
        table: The table.
        bins: Bins of every attribute, from released one-way histograms.
        axes: The bins as axes of queries.
        measure: Asks the session.
        noise: Law of the noise.
        budget: Amounts per level.
        alpha: Threshold of dependence below which attributes are split apart.
        iterations: J, iterations of k-means.
    """

    spec: DatabaseSpec
    table: str
    bins: dict[str, Bins]
    axes: dict[str, Axis]
    measure: Measure
    noise: Noise
    budget: Budget
    alpha: float
    iterations: int

    def grow(self, rows: float) -> Node:
        """The whole network with all its leaves measured.

        Args:
            rows: Released weight of the table's rows.
        """
        names = tuple(self.bins)
        counts = {name: scaled(self.bins[name].counts, rows) for name in names}
        root = Node(Region(self.table), names, counts)
        frontier = [root]
        unused = 0.0
        for level in range(self.budget.levels):
            frontier = [node for node in frontier if self._can_split(node)]
            if not frontier:
                unused += self._level_amount
                continue
            frontier = self._split_level(frontier, level)
            settle(root)
        if self.budget.leaves + unused > 0:
            self._measure(root.leaves(), self.budget.leaves + unused, "leaves")
        settle(root)
        return root

    @property
    def _level_amount(self) -> float:
        budget = self.budget
        return budget.evaluate + self.iterations * budget.operate + budget.children

    def _can_split(self, node: Node) -> bool:
        return len(node.scope) > 1 and node.rows >= 2 * self.budget.least

    def _split_level(self, nodes: list[Node], level: int) -> list[Node]:
        """DecideOP for all nodes of a level, then their splits; returns the new leaves."""
        sums: list[Node] = []
        for node, found in zip(nodes, self._evaluate(nodes, level), strict=True):
            sums += self._column_split(node, found)
        if not sums:
            return []
        for step in range(self.iterations):
            parts = self._part_counts(sums, f"k-means {step + 1} on level {level + 1}")
            for node, estimates in zip(sums, parts, strict=True):
                node.split = next_split(node, estimates, self.bins)
        children = []
        for node in sums:
            if node.split is not None:
                regions = node.region.children(node.split)
                halves = len(regions)
                node.children = [
                    Node(region, node.scope, {n: node.counts[n] / halves for n in node.scope})
                    for region in regions
                ]
                children += node.children
        self._measure(children, self.budget.children, f"regions on level {level + 1}")
        return children

    def _evaluate(self, nodes: list[Node], level: int) -> list[Dependence]:
        query = JointScores(
            tuple(score_query(self.spec, self.table, node, self.axes) for node in nodes)
        )
        noisy, _ = self.measure(
            query, self.budget.evaluate, f"dependence on level {level + 1} of {self.table}"
        )
        parts = query.split(noisy)
        return [dependence(node, scores) for node, scores in zip(nodes, parts, strict=True)]

    def _column_split(self, node: Node, found: Dependence) -> list[Node]:
        """Split by attributes where they are near independent; returns nodes to split by rows."""
        groups = found.groups(self.alpha)
        if len(groups) > 1:
            node.parts = [
                Node(
                    node.region,
                    group,
                    {name: node.counts[name] for name in group},
                    prior={name: node.prior[name] for name in group},
                )
                for group in groups
            ]
        sums = []
        for part in node.parts or [node]:
            part.precision = node.precision
            part.noisy = {name: node.noisy[name] for name in part.scope if name in node.noisy}
            if len(part.scope) > 1:
                name = found.strongest(part.scope)
                ordered = self.spec.tables[self.table].attributes[name].ordered
                if self.bins[name].size > 1:
                    part.split = first_split(part, name, self.bins[name], ordered)
                    sums.append(part)
        return sums

    def _part_counts(self, nodes: list[Node], label: str) -> list[list[dict[str, Floats]]]:
        """Noisy bin counts of every part of every node's current split."""
        regions = [
            (region, node.scope)
            for node in nodes
            if node.split is not None
            for region in node.region.children(node.split)
        ]
        found, _ = self._histograms(regions, self.budget.operate, label)
        each = iter(found)
        return [
            [next(each) for _ in range(node.split.parts)] if node.split is not None else []
            for node in nodes
        ]

    def _measure(self, nodes: Sequence[Node], amount: float, label: str) -> None:
        """Measure the binned histograms of nodes and update their estimates."""
        found, sd = self._histograms([(node.region, node.scope) for node in nodes], amount, label)
        for node, noisy in zip(nodes, found, strict=True):
            node.observe(noisy, sd)
        estimate(nodes, self.noise)

    def _histograms(
        self, regions: Sequence[tuple[Region, tuple[str, ...]]], amount: float, label: str
    ) -> tuple[list[dict[str, Floats]], float]:
        parts = tuple(
            (self._histogram(region, name), 1.0) for region, scope in regions for name in scope
        )
        query = JointHistogram(parts)
        noisy, sd = self.measure(query, amount, f"{label} of {self.table}")
        pieces = iter(query.split(noisy))
        return [{name: next(pieces) for name in scope} for _, scope in regions], sd

    def _histogram(self, region: Region, name: str) -> Histogram:
        return Histogram(self.table, (self.axes[name],), region)


def estimate(nodes: Sequence[Node], noise: Noise) -> None:
    """New estimates of all nodes' counts, denoised together to their predictions."""
    cells = [(node, name) for node in nodes for name in node.scope]
    rows = {id(node): rows_of(node) for node in nodes}
    guess = [scaled(node.prior[name], rows[id(node)]) for node, name in cells]
    noisy = [node.noisy[name] for node, name in cells]
    found = shrink_all(noisy, [node.sd for node, _ in cells], guess, noise)
    for (node, name), values in zip(cells, found, strict=True):
        node.counts[name] = scaled(values, rows[id(node)])


def shrink_all(
    noisy: Sequence[Floats], sds: Sequence[float], guess: Sequence[Floats], noise: Noise
) -> list[Floats]:
    """`shrink` over the cells of several histograms together, each with a noise of its own."""
    sizes = [len(part) for part in noisy]
    sd = np.repeat(sds, sizes)
    found = shrink(np.concatenate(noisy) / sd, 1.0, np.concatenate(guess) / sd, noise) * sd
    return np.split(found, np.cumsum(sizes)[:-1])


def rows_of(node: Node) -> float:
    """Size of a region: the mean over attributes of its noisy sums, weighed by their noise."""
    sums = np.array([node.noisy[name].sum() for name in node.scope])
    weights = np.array([1.0 / len(node.noisy[name]) for name in node.scope])
    return float(max((sums * weights).sum() / weights.sum(), 1.0))
