"""Independent columns: noisy one-way histograms, one product node per table.

The baseline that every learner of dependence has to beat. Each attribute's histogram is measured
once; within a table the amount is split in proportion to min(m, 1000)^⅓ for m cells.
"""

from __future__ import annotations

from typing import ClassVar

from privbench.circuit import Builder, Circuit
from privbench.learning.denoise import denoise
from privbench.learning.guard import guard
from privbench.learning.shares import column_shares
from privbench.privacy import DatabaseSpec
from privbench.privacy.queries import Histogram
from privbench.synthesizers.base import Options, PlanInput, PlannedEvent
from privbench.synthesizers.by_table import TableSynthesizer
from privbench.synthesizers.common import Fitting


class IndependentSynthesizer(TableSynthesizer[Options]):
    """Independent columns."""

    name: ClassVar[str] = "independent"

    def fit_table(self, fitting: Fitting, table: str) -> Circuit:
        """See `TableSynthesizer.fit_table`."""
        spec = fitting.spec
        attributes = spec.tables[table].attributes
        builder = Builder(attributes)
        leaves = []
        for name, share in _shares(spec, table).items():
            amount = fitting.rows_amount(table) * share
            noisy, sd = fitting.one_way(table, name, amount)
            total = fitting.start.rows(table) if spec.tables[table].own is None else noisy.sum()
            counts = denoise(noisy, sd, max(total, 1.0), fitting.noise)
            leaves.append(builder.leaf(name, guard(counts, noisy, sd, attributes[name])))
        builder.product(leaves)
        return builder.build()

    def plan_table(
        self, spec: DatabaseSpec, table: str, amount: float, plan: PlanInput
    ) -> list[PlannedEvent]:
        """See `TableSynthesizer.plan_table`."""
        return [
            PlannedEvent.of(
                f"one-way of {table}.{name}",
                Histogram.of(spec, table, [name]),
                spec,
                amount * share,
                plan,
            )
            for name, share in _shares(spec, table).items()
        ]


def _shares(spec: DatabaseSpec, table: str) -> dict[str, float]:
    attributes = spec.tables[table].attributes
    return column_shares({name: domain.size for name, domain in attributes.items()})
