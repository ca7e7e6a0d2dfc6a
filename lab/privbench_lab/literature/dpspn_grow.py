"""LearnDPSPN, level by level: one joint measurement for all regions that take the same step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from privbench.arrays import Floats
from privbench.privacy.queries import Column, Joint, PublicArray
from privbench.synthesizers.database import TableFit
from privbench_lab.literature.dpspn_plan import LEAVES, MOVE, Budget
from privbench_lab.queries import Region, RegionMoments, Split
from privbench_lab.spn.node import (
    Bins,
    Measure,
    Node,
    estimate,
    region_histograms,
    scaled,
    shrink_all,
)

#: Integer steps in a squared distance of 1.
_STEP = 2**30
#: Both shape parameters of the Beta distribution of the share of columns that one side of a column
#: split gets; the paper names the distribution but no parameters. With 1 or 4 the sides are less or
#: more even.
_BETA = 2.0
#: If a part of a cluster has fewer than this share of `Budget.least` rows, the cluster is not
#: split.
_EMPTY = 0.25


@dataclass(slots=True, eq=False)
class _Cluster:
    """A node whose rows are being split, with the centres and the noisy sizes of both parts."""

    node: Node
    centres: Floats
    counts: Floats = field(default_factory=lambda: np.zeros(2))


@dataclass(frozen=True)
class Learner:
    """Grows networks over one table.

    Rows are points: an attribute's coordinate is ±½ for two codes, else the middle rank of the code
    in the released histogram of its column, less ½ (the paper's copula transform, from released
    ranks instead of the rows' own). A split sends a row to the nearer of two released centres.
    """

    fit: TableFit
    bins: Mapping[str, Bins]  # bins of every attribute, from released histograms
    measure: Measure  # takes a measurement of the session
    budget: Budget  # amounts
    column_chance: float  # chance that columns are split after a split of rows: 0, or 1 − α
    public: np.random.Generator  # for choices independent of rows: first centres, column splits
    # Looks up exact sizes of regions, in the paper's own accounting; None: released sizes are used.
    sizes: Callable[[Sequence[Region]], list[float]] | None = None
    # Mean point of every node so far, from released numbers, by the node's identity.
    means: dict[int, Floats] = field(default_factory=dict)

    def grow(self, roots: Sequence[Node]) -> None:
        """Grow a network below each of some disjoint regions, and measure all leaves."""
        for root in roots:
            masses = {name: self._mass(name, root.counts[name]) for name in root.scope}
            mean = [self.lines[name] @ mass / mass.sum() for name, mass in masses.items()]
            self.means[id(root)] = np.array(mean)
        frontier, unused = list(roots), 0.0
        for level in range(self.budget.levels):
            enough = 2 * self.budget.least
            chosen = [node for node in frontier if len(node.scope) > 1 and node.rows >= enough]
            if chosen:
                frontier = self._split_rows(chosen, level)
            else:
                unused += self.budget.rounds * self.budget.move
        # In the paper's accounting an amount that was not used is lost.
        self._measure_leaves(roots, self.budget.leaves + (0.0 if self.sizes else unused))

    @cached_property
    def lines(self) -> dict[str, Floats]:
        """Coordinate of every code of every attribute, within ±½."""
        lines = {}
        for name, bins in self.bins.items():
            mass = self._mass(name, bins.counts)
            line = (np.cumsum(mass) - mass / 2) / mass.sum() - 0.5
            lines[name] = np.linspace(-0.5, 0.5, 2) if len(line) == 2 else line
        return lines

    def _mass(self, name: str, counts: Floats) -> Floats:
        """Counts of an attribute's codes, above 0, from the counts of its bins."""
        return np.maximum(self.bins[name].spread(counts), 0.0) + 1e-9

    def _split_rows(self, nodes: Sequence[Node], level: int) -> list[Node]:
        """k-means with two released centres in every node; returns what may be split next."""
        clusters = []
        for node in nodes:
            # The first centres are a random direction's step to either side of the mean.
            mean, steps = self.means[id(node)], self.public.choice([-0.25, 0.25], len(node.scope))
            clusters.append(_Cluster(node, np.stack([mean - steps, mean + steps])))
        for step in range(self.budget.rounds):
            self._move(clusters, level, step)
        below = [node for cluster in clusters for node in self._divide(cluster)]
        if self.sizes is not None:
            regions = [node.region for node in below]
            for node, rows in zip(below, self.sizes(regions), strict=True):
                node.counts = {name: scaled(node.counts[name], rows) for name in node.scope}
        return below

    def _split(self, cluster: _Cluster) -> Split:
        distances = {}
        for at, name in enumerate(cluster.node.scope):
            squares = (self.lines[name][:, None] - cluster.centres[:, at]) ** 2
            distances[name] = np.rint(_STEP * squares).astype(np.int64)
        return Split.of(distances)

    def _move(self, clusters: Sequence[_Cluster], level: int, step: int) -> None:
        """Measure all parts' sizes and coordinate sums at once, and move the centres."""
        scopes = list(dict.fromkeys(cluster.node.scope for cluster in clusters))
        ordered = sorted(clusters, key=lambda cluster: scopes.index(cluster.node.scope))
        parts = []
        for cluster in ordered:
            node = cluster.node
            lines = [self.lines[name] for name in node.scope]
            split = self._split(cluster)
            parts.append(RegionMoments.of(self.fit.spec, node.scope, node.region, split, lines))
        query = Joint(tuple(parts))
        label = MOVE.format(step=step + 1, level=level + 1, table=self.fit.table)
        noisy, _ = self.measure(query, self.budget.move, label)
        for cluster, part, piece in zip(ordered, parts, query.split(noisy), strict=True):
            counts, means = part.means(piece)
            cluster.counts = np.maximum(counts, 0.0)
            cluster.centres = np.where(counts[:, None] < 1, cluster.centres, means)

    def _divide(self, cluster: _Cluster) -> list[Node]:
        """The nodes to split next: the two parts by the last centres, or the node itself.

        The node itself remains if one of its parts is too small.
        """
        node = cluster.node
        if cluster.counts.min() < _EMPTY * self.budget.least:
            node.split = None
            return [node]
        node.split = self._split(cluster)
        share = cluster.counts / cluster.counts.sum()
        below = []
        for at, region in enumerate(node.region.children(node.split)):
            counts = {name: node.counts[name] * share[at] for name in node.scope}
            child = Node(region, node.scope, counts)
            self.means[id(child)] = cluster.centres[at]
            node.children.append(child)
            below += self._split_columns(child)
        return below

    def _split_columns(self, node: Node) -> list[Node]:
        """A random split of columns, or the node itself; depends on no row."""
        width = len(node.scope)
        if width < 2 or self.public.random() >= self.column_chance:
            return [node]
        size = int(np.clip(round(width * self.public.beta(_BETA, _BETA)), 1, width - 1))
        first = np.sort(self.public.permutation(width)[:size])
        for at in (first, np.setdiff1d(np.arange(width), first)):
            scope = tuple(node.scope[i] for i in at)
            part = Node(node.region, scope, {name: node.counts[name] for name in scope})
            self.means[id(part)] = self.means[id(node)][at]
            node.parts.append(part)
        return node.parts

    def _measure_leaves(self, roots: Sequence[Node], amount: float) -> None:
        """Measure and estimate the counts of all leaves, by one joint histogram.

        Leaves of the same region share its budget, since one row may lie in all of them.
        """
        leaves = [leaf for root in roots for leaf in root.leaves()]
        spec, table = self.fit.spec, self.fit.table
        axes = {
            name: Column.of(spec, table, name, PublicArray(bins.of))
            for name, bins in self.bins.items()
        }
        query = region_histograms(table, axes, [(leaf.region, leaf.scope) for leaf in leaves])
        noisy, sd = self.measure(query, amount, LEAVES.format(table=table))
        pieces = iter(query.split(noisy))
        found = {id(leaf): {name: next(pieces) for name in leaf.scope} for leaf in leaves}
        self._estimate_roots(roots, found, sd)
        for root in roots:
            for leaf in root.leaves():
                leaf.prior = {name: scaled(root.counts[name], leaf.rows) for name in leaf.scope}
                leaf.observe(found[id(leaf)], sd)
        estimate(leaves, self.fit.noise)
        if self.sizes is not None:
            exact = self.sizes([leaf.region for leaf in leaves])
            for leaf, rows in zip(leaves, exact, strict=True):
                leaf.counts = {name: scaled(leaf.counts[name], rows) for name in leaf.scope}
        for root in roots:
            root.settle()

    def _estimate_roots(
        self, roots: Sequence[Node], found: Mapping[int, dict[str, Floats]], sd: float
    ) -> None:
        """Counts of the whole table, then of every root, from the sums of their leaves.

        Both are posterior means: of the table under a law of ratios to equal counts that is learned
        from the cells of all columns, of several roots under one of ratios to the table's.
        """
        sums = [
            {
                name: [found[id(leaf)][name] for leaf in root.leaves() if name in leaf.scope]
                for name in root.scope
            }
            for root in roots
        ]
        names = roots[0].scope
        rows = sum(root.rows for root in roots)
        means, deviations = [], []
        for name in names:
            leaves = [values for part in sums for values in part[name]]
            own, below = roots[0].precision, 1.0 / max(len(leaves) * sd * sd, 1e-18)
            mean = self.bins[name].counts * own + np.sum(leaves, axis=0) * below
            means.append(mean / (own + below))
            deviations.append(float((own + below) ** -0.5))
        even = [np.full(len(mean), rows / len(mean)) for mean in means]
        table = shrink_all(means, deviations, even, self.fit.noise)
        for root, part in zip(roots, sums, strict=True):
            laws = table
            if len(roots) > 1:
                guess = [scaled(law, root.rows) for law in table]
                own_sums = [np.sum(part[name], axis=0) for name in names]
                noise = [sd * len(part[name]) ** 0.5 for name in names]
                laws = shrink_all(own_sums, noise, guess, self.fit.noise)
            root.counts = {
                name: scaled(law, root.rows) for name, law in zip(names, laws, strict=True)
            }
