"""Sum-product networks after Heilmann, Cerrato and Althaus (ICML 2024), with a proof that holds.

LearnDPSPN splits rows by k-means and columns at random, and ends in histograms. The paper pays once
for the N histograms of a product over N columns, although all of them count the same rows, and
takes sizes of clusters, bins, bounds and stopping rules from exact data. Here:

* bins and coordinates follow from a released histogram of every column;
* a level of row splits is one `Joint` per iteration of k-means: a row is sent to the nearer
  of two released centres, so that no other row moves when one goes;
* all leaves are one `Joint`, whose sensitivity counts every column of a region;
* weights of sum nodes are the noisy counts of the leaves below;
* the number of levels follows from the noisy size of the table, before the first split;
* with a label, the classes are disjoint regions that share one budget, and the list of classes is
  the column's public domain.

All queries are the session's own, with their proofs in their docstrings; sensitivities are those of
add/remove or replace as the spec says. Source: the paper's Algorithms 1 and 2.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from privbench.domain import Domain
from privbench.privacy import DatabaseSpec, Measurement, Session
from privbench.privacy.queries import Histogram, Joint
from privbench.rng import generator
from privbench.synthesizers.base import Options, PlanInput
from privbench.synthesizers.database import TableFit
from privbench_lab.circuit import Builder, Circuit
from privbench_lab.literature.circuits import CircuitSynthesizer
from privbench_lab.literature.dpspn_grow import Learner
from privbench_lab.literature.dpspn_plan import CLASSES, LEAVES, MOVE, Budget, DpspnOptions, divide
from privbench_lab.literature.dpspn_published import claims, exact_sizes, exactly, refuse_private
from privbench_lab.literature.paper import one_way_bins, one_way_events
from privbench_lab.literature.proofs import PROOFS, Proof
from privbench_lab.queries import Region, RegionMoments, Split
from privbench_lab.spn.node import Bins, Node, bins_of, scaled
from privbench_lab.spn.splits import planned_histograms, planned_regions

#: Inverse variance of a count that is exact.
_EXACT = 1e12


class DpspnSynthesizer(CircuitSynthesizer[DpspnOptions]):
    """Differentially private sum-product networks."""

    name: ClassVar[str] = "dpspn"
    options_type: ClassVar[type[Options]] = DpspnOptions

    @property
    def proof(self) -> Proof:
        """Whether the privacy proof holds."""
        return PROOFS["dpspn-as-published" if self.options.as_published else "dpspn"]

    def check(self, session: Session) -> None:
        """Refuse ``as_published`` in a fit that is not stamped NOT PRIVATE."""
        if self.options.as_published:
            refuse_private(session)

    def fit_table(self, fit: TableFit) -> Circuit:
        """See `TableSynthesizer.fit_table`."""
        spec, table, options = fit.spec, fit.table, self.options
        domains = spec.tables[table].attributes
        budget = divide(spec, table, fit.amount, fit.start, options)
        published = options.as_published
        measure = exactly(fit.measure) if published else fit.measure
        bins = one_way_bins(fit, measure, budget.one_ways, options.bins)
        # A column of few codes is not binned, however strong the noise: leaves have less noise.
        for name, found in bins.items():
            if domains[name].size <= options.bins:
                bins[name] = bins_of(np.arange(domains[name].size), found.spread(found.counts))
        label = options.label if budget.label and len(domains) > 1 else ""
        roots = self._roots(fit, bins, budget, label)
        learner = Learner(
            fit,
            bins,
            claims(fit.measure, len(domains) - bool(label)) if published else fit.measure,
            budget,
            0.0 if options.columns == "none" else 1.0 - options.alpha,
            # A resumed fit must repeat its measurements: the release's name is the public seed.
            generator(zlib.crc32(fit.session.release_id.encode()), "dpspn", table),
            exact_sizes(fit, budget.one_ways) if published else None,
        )
        if budget.leaves:
            learner.grow(roots)
        return _circuit(roots, bins, domains, label, options.smoothing)

    def plan_table(
        self, spec: DatabaseSpec, table: str, amount: float, plan: PlanInput
    ) -> list[Measurement]:
        """See `TableSynthesizer.plan_table`; plans a full tree of regions, no splits of columns."""
        options, domains = self.options, spec.tables[table].attributes
        budget = divide(spec, table, amount, plan, options)
        events = one_way_events(spec, table, budget.one_ways)
        if budget.label:
            classes = Histogram.of(spec, table, [options.label])
            events.append(Measurement(classes, budget.label, CLASSES.format(table=table)))
        names = [name for name in domains if not (budget.label and name == options.label)]
        for level in range(budget.levels):
            regions = planned_regions(spec, table, level)
            below = planned_regions(spec, table, level + 1)
            splits = [region.path[-1][0] for region in below[::2]]
            moments = Joint(
                tuple(
                    RegionMoments.of(spec, names, region, split)
                    for region, split in zip(regions, splits, strict=True)
                )
            )
            for step in range(budget.rounds):
                label = MOVE.format(step=step + 1, level=level + 1, table=table)
                events.append(Measurement(moments, budget.move, label))
        if budget.leaves:
            leaves = planned_histograms(spec, table, budget.levels, options.bins)
            events.append(Measurement(leaves, budget.leaves, LEAVES.format(table=table)))
        return events

    def _roots(
        self, fit: TableFit, bins: Mapping[str, Bins], budget: Budget, label: str
    ) -> list[Node]:
        """One root over all columns, or one per class over all others."""
        spec, table, rows = fit.spec, fit.table, fit.weight
        names = tuple(name for name in bins if name != label)
        whole = Region(table)
        if not label:
            counts = {name: scaled(bins[name].counts, rows) for name in names}
            trust = _EXACT if self.options.as_published else _precision(bins, budget, fit)
            return [Node(whole, names, counts, precision=trust)]
        query = Histogram.of(spec, table, [label])
        noisy, _ = fit.measure(query, budget.label, CLASSES.format(table=table))
        sizes = np.maximum(scaled(noisy, max(rows, 1.0)), 1.0)
        split = Split.by_code(label, np.arange(len(sizes)))
        regions = whole.children(split) if len(sizes) > 1 else (whole,)
        return [
            Node(region, names, {name: scaled(bins[name].counts, size) for name in names})
            for region, size in zip(regions, sizes, strict=True)
        ]


def _precision(bins: Mapping[str, Bins], budget: Budget, fit: TableFit) -> float:
    """Inverse variance of a bin in the one-way histogram of an average column."""
    cells = float(np.mean([len(part.of) / part.size for part in bins.values()]))
    query = Histogram.of(fit.spec, fit.table, [next(iter(bins))])
    sd = fit.session.noise_scale(query, budget.one_ways / len(bins))
    return 1.0 / max(cells * sd * sd, 1e-18)


def _circuit(
    roots: list[Node],
    bins: Mapping[str, Bins],
    domains: Mapping[str, Domain],
    label: str,
    smoothing: float,
) -> Circuit:
    """Join the networks to one circuit.

    With a label, the root is a sum over the classes; below it, each class is a product of a leaf
    for the label and the network of that class.
    """
    builder = Builder(domains)
    for root in roots:
        for leaf in root.leaves():
            for name in leaf.scope:
                leaf.counts[name] = leaf.counts[name] + smoothing / bins[name].size
    if not label:
        roots[0].add_to(builder, bins)
        return builder.build()
    classes = np.eye(len(roots), domains[label].size)
    networks = [root.add_to(builder, bins) for root in roots]
    leaves = builder.leaves(label, classes)
    both = builder.products(np.stack([leaves, np.array(networks)], axis=1))
    builder.sum([int(node) for node in both], [root.rows for root in roots])
    return builder.build()
