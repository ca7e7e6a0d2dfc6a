"""Nodes of a network that grows: regions of rows and sets of attributes, with released counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from privbench.arrays import Floats, Ints
from privbench.domain import Domain
from privbench.learning.answers import Measured
from privbench.learning.denoise import Noise
from privbench.learning.graphical.columns import group
from privbench.learning.graphical.estimate import rake, shrink
from privbench.privacy import Query
from privbench.privacy.queries import Axis, Histogram, Joint
from privbench_lab.circuit import Builder
from privbench_lab.queries import Region, Split

#: Takes a measurement: (query, amount, label).
Measure = Callable[[Query, float, str], Measured]


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """A public partition of one attribute's codes."""

    of: Ints  # the bin that every code is in, shape (domain size,)
    inside: Floats  # law of the codes within each bin, shape (domain size,); sums to 1 in every bin
    counts: Floats  # released counts per bin

    @property
    def size(self) -> int:
        """Number of bins."""
        return len(self.counts)

    def spread(self, counts: Floats) -> Floats:
        """Counts per code from counts per bin, shape (domain size,)."""
        return np.asarray(counts[self.of] * self.inside)


def make_bins(counts: Floats, domain: Domain, most: int, least: float) -> Bins:
    """About ``most`` bins, as the default learner groups the cells of a column (`group`).

    Counts per code are released and at least 0; ``least`` is the least mass of a bin in a tail.
    """
    (of,) = group(counts, domain, least / max(float(counts.sum()), 1e-9), levels=(most,))
    return bins_of(of, counts)


def bins_of(of: Ints, mass: Floats) -> Bins:
    """The bins of a partition of codes, each with the law of its codes.

    In a bin without mass the law is even. Every bin has a code, and ``mass`` are released,
    non-negative counts per code.
    """
    bins = np.asarray(np.bincount(of, mass), np.float64)
    sizes = np.bincount(of)
    inside = np.where(bins[of] > 1e-200, mass / np.maximum(bins[of], 1e-200), 1.0 / sizes[of])
    return Bins(of, inside, bins)


def region_histograms(
    table: str, axes: Mapping[str, Axis], regions: Iterable[tuple[Region, tuple[str, ...]]]
) -> Joint:
    """Histograms by the bins of some attributes in each of some regions, as one query."""
    pairs = ((region, name) for region, scope in regions for name in scope)
    return Joint(tuple(Histogram(table, (axes[name],), region) for region, name in pairs))


@dataclass(slots=True, eq=False)
class Node:
    """A region of rows, restricted to some attributes."""

    region: Region  # public description of its rows
    scope: tuple[str, ...]  # its attributes
    counts: dict[str, Floats]  # estimated counts per attribute and bin; each sums to `rows`
    precision: float = 0.0  # inverse variance of the region's own measurements, 0 without one
    # Precision-weighted mean of those measurements per attribute.
    noisy: dict[str, Floats] = field(default_factory=dict)
    parts: list[Node] = field(default_factory=list)  # children by attributes (a product node)
    split: Split | None = None  # how its rows are split (a sum node)
    children: list[Node] = field(default_factory=list)  # children by rows
    # The counts that were expected before the region itself was measured.
    prior: dict[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.prior = self.prior or dict(self.counts)

    @property
    def rows(self) -> float:
        """Estimated weight of its rows."""
        return float(np.mean([self.counts[name].sum() for name in self.scope]))

    def leaves(self) -> list[Node]:
        """Nodes below (or itself) that are not split further."""
        below = [*self.parts, *self.children]
        return [leaf for child in below for leaf in child.leaves()] if below else [self]

    def size(self) -> float:
        """Estimated number of rows, summed from its leaves upward."""
        if self.parts:
            return float(np.mean([part.size() for part in self.parts]))
        return sum(child.size() for child in self.children) if self.children else self.rows

    def restricted(self, scope: tuple[str, ...]) -> Node:
        """A node of the same rows with some of the attributes and their estimates so far."""
        return Node(
            self.region,
            scope,
            {name: self.counts[name] for name in scope},
            self.precision,
            {name: self.noisy[name] for name in scope if name in self.noisy},
            prior={name: self.prior[name] for name in scope},
        )

    def observe(self, noisy: Mapping[str, Floats], sd: float) -> None:
        """Combine the node's measurements with one more of its binned histograms."""
        new = 1.0 / max(sd, 1e-9) ** 2
        total = self.precision + new
        for name, values in noisy.items():
            old = self.noisy.get(name, values)
            self.noisy[name] = (old * self.precision + values * new) / total
        self.precision = total

    def settle(self) -> None:
        """Make sizes add up along the tree below this root, and the leaves' bins to its own bins.

        The root's counts come from the one-way histograms, which carry the noise of one region; the
        leaves' carry that of all regions together. The leaves that hold an attribute are disjoint
        regions that make up the whole table, since a product node gives it to one part; so their
        table is raked to the root's bins and the leaves' sizes.
        """
        for name in self.scope:
            self._resize(name, self.rows)
            leaves = [leaf for leaf in self.leaves() if name in leaf.scope]
            table = np.stack([leaf.counts[name] for leaf in leaves])
            fitted = rake(table, table.sum(axis=1), self.counts[name])
            for leaf, values in zip(leaves, fitted, strict=True):
                leaf.counts[name] = values

    def _resize(self, name: str, rows: float) -> None:
        """Scale one attribute's counts so that children sum to ``rows``, from the top down."""
        self.counts[name] = scaled(self.counts[name], rows)
        for part in self.parts:
            if name in part.scope:
                part._resize(name, rows)
        sizes = np.array([child.size() for child in self.children])
        for child, share in zip(self.children, scaled(sizes, rows), strict=True):
            child._resize(name, float(share))

    def add_to(self, builder: Builder, bins: Mapping[str, Bins]) -> int:
        """Add the network to a circuit that is being built; returns the id of its root.

        A leaf's law is its region's histogram of bins times the table's law within each bin.
        """
        if self.parts:
            return builder.product([part.add_to(builder, bins) for part in self.parts])
        if self.children:
            below = [child.add_to(builder, bins) for child in self.children]
            return builder.sum(below, [child.rows for child in self.children])
        leaves = [builder.leaf(name, bins[name].spread(self.counts[name])) for name in self.scope]
        return leaves[0] if len(leaves) == 1 else builder.product(leaves)


def scaled(counts: Floats, total: float) -> Floats:
    """Non-negative counts that sum to ``total``."""
    mass = np.maximum(counts, 0.0)
    held = mass.sum()
    if held <= 0:
        return np.full(len(mass), total / max(len(mass), 1))
    return np.asarray(mass * (total / held))


def estimate(nodes: Sequence[Node], noise: Noise) -> None:
    """Estimate the counts of all nodes again: noisy counts are shrunk towards the priors."""
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
    """Apply `shrink` to the cells of several histograms together; each has its own noise."""
    sizes = [len(part) for part in noisy]
    found = shrink(np.concatenate(noisy), np.repeat(sds, sizes), np.concatenate(guess), noise)
    return np.split(found, np.cumsum(sizes)[:-1])


def rows_of(node: Node) -> float:
    """Size of a region: the mean over attributes of its noisy sums, weighed by their noise."""
    sums = np.array([node.noisy[name].sum() for name in node.scope])
    weights = np.array([1.0 / len(node.noisy[name]) for name in node.scope])
    return float(max((sums * weights).sum() / weights.sum(), 1.0))
