"""PrivSPN, level by level: one joint query for all nodes that do the same thing at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from privbench.learning.answers import Measure
from privbench.learning.denoise import Noise
from privbench.learning.graphical.estimate import Floats, shrink
from privbench.learning.spn.node import Bins, Node, region_histograms, scaled
from privbench.learning.spn.splits import (
    column_split,
    dependence,
    first_split,
    next_split,
    score_query,
    strongest,
)
from privbench.privacy import DatabaseSpec
from privbench.privacy.queries import Axis, Joint, Region


@dataclass(frozen=True, slots=True)
class Budget:
    """Amounts of one table's operations.

    Attributes:
        one_ways: The table's one-way histograms.
        levels: Number of levels of row splits, σ(T).
        evaluate: Pair scores, per level (ε_eval).
        operate: One k-means measurement, per level and iteration (ε_op / J).
        children: The children's histograms, per level.
        leaves: LeafGen; what levels do not use is added to it.
        least: β in force: a region is split where it holds at least 2β rows.
    """

    one_ways: float
    levels: int = 0
    evaluate: float = 0.0
    operate: float = 0.0
    children: float = 0.0
    leaves: float = 0.0
    least: float = 0.0


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
    bins: Mapping[str, Bins]
    axes: Mapping[str, Axis]
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
        counts = {name: scaled(bins.counts, rows) for name, bins in self.bins.items()}
        root = Node(Region(self.table), tuple(self.bins), counts)
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
                left += budget.evaluate + self.iterations * budget.operate + budget.children
                frontier = []
        if left > 0:
            self._measure(root.leaves(), left, "leaves")
        root.settle()
        return root

    def _split_level(self, nodes: Sequence[Node], level: int) -> list[Node]:
        """DecideOP for all nodes of a level, then their splits; returns the new leaves."""
        sums = self._column_splits(nodes, level)
        for step in range(self.iterations if sums else 0):
            label = f"k-means {step + 1} on level {level + 1}"
            parts = [(region, node.scope) for node in sums for region in _halves(node)]
            each = iter(self._histograms(parts, self.budget.operate, label)[0])
            for node in sums:
                node.split = next_split(node, [next(each) for _ in _halves(node)], self.bins)
        for node in sums:
            regions = _halves(node)
            even = {name: values / len(regions) for name, values in node.counts.items()}
            node.children = [Node(region, node.scope, dict(even)) for region in regions]
        children = [child for node in sums for child in node.children]
        if children:
            self._measure(children, self.budget.children, f"regions on level {level + 1}")
        return children

    def _column_splits(self, nodes: Sequence[Node], level: int) -> list[Node]:
        """Split by attributes where they are near independent; returns nodes to split by rows."""
        query = Joint(tuple(score_query(self.spec, self.table, node, self.axes) for node in nodes))
        label = f"dependence on level {level + 1} of {self.table}"
        noisy, _ = self.measure(query, self.budget.evaluate, label)
        attributes, sums = self.spec.tables[self.table].attributes, []
        for node, scores in zip(nodes, query.split(noisy), strict=True):
            matrix = dependence(node, scores)
            groups = column_split(matrix, self.alpha)
            if len(groups) > 1:
                node.parts = [node.restricted(tuple(node.scope[i] for i in g)) for g in groups]
            for part, places in zip(node.parts or [node], groups, strict=True):
                name = node.scope[strongest(matrix, places)]
                if len(part.scope) > 1 and self.bins[name].size > 1:
                    ordered = attributes[name].ordered
                    part.split = first_split(part, name, self.bins[name], ordered)
                    sums.append(part)
        return sums

    def _measure(self, nodes: Sequence[Node], amount: float, label: str) -> None:
        """Measure the binned histograms of nodes and update their estimates."""
        found, sd = self._histograms([(node.region, node.scope) for node in nodes], amount, label)
        for node, noisy in zip(nodes, found, strict=True):
            node.observe(noisy, sd)
        estimate(nodes, self.noise)

    def _histograms(
        self, regions: Sequence[tuple[Region, tuple[str, ...]]], amount: float, label: str
    ) -> tuple[list[dict[str, Floats]], float]:
        query = region_histograms(self.table, self.axes, regions)
        noisy, sd = self.measure(query, amount, f"{label} of {self.table}")
        pieces = iter(query.split(noisy))
        return [{name: next(pieces) for name in scope} for _, scope in regions], sd


def _halves(node: Node) -> tuple[Region, ...]:
    """The regions of a node's split."""
    return node.region.children(node.split) if node.split is not None else ()


def estimate(nodes: Sequence[Node], noise: Noise) -> None:
    """New estimates of all nodes' counts, shrunk together to what was expected of them."""
    cells = [(node, name) for node in nodes for name in node.scope]
    rows = {id(node): rows_of(node) for node in nodes}
    guess = [scaled(node.prior[name], rows[id(node)]) for node, name in cells]
    noisy = [node.noisy[name] for node, name in cells]
    found = shrink_all(noisy, [node.precision**-0.5 for node, _ in cells], guess, noise)
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
