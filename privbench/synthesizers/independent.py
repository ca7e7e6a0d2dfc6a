"""Independent columns: noisy one-way histograms, one product node per table.

The baseline that every learner of dependence has to beat. Each attribute's histogram is measured
once; within a table the amount is split in proportion to min(m, 1000)^⅓ for m cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from privbench.circuit import Builder, Circuit
from privbench.learning.denoise import denoise
from privbench.learning.guard import guard
from privbench.learning.shares import column_shares, rows_item
from privbench.privacy import DatabaseSpec, Session
from privbench.privacy.queries import Histogram
from privbench.synthesizers.base import FittedModel, PlanInput, PlannedEvent, Synthesizer
from privbench.synthesizers.common import Fitting, amounts, planned_keys
from privbench.synthesizers.model import CircuitModel


class IndependentSynthesizer(Synthesizer):
    """Independent columns."""

    name: ClassVar[str] = "independent"

    def fit(
        self,
        session: Session,
        totals: Mapping[str, float],
        amount: float,
        public_rows: Mapping[str, int] | None = None,
    ) -> FittedModel:
        """See `Synthesizer.fit`."""
        fitting = Fitting.open(session, totals, amount, public_rows)
        names = session.spec.order()
        circuits = {name: _fit_table(fitting, name) for name in names}
        tables = fitting.drawn_tables({name: fitting.table_model(name) for name in names})
        return CircuitModel(self.name, tables, circuits, dict(fitting.start.public_rows))

    def plan(self, spec: DatabaseSpec, plan: PlanInput) -> list[PlannedEvent]:
        """See `Synthesizer.plan`."""
        events = []
        given = amounts(spec, plan)
        for name in spec.tables:
            for attribute, share in _shares(spec, name).items():
                query = Histogram.of(spec, name, [attribute])
                amount = given[rows_item(name)] * share
                label = f"one-way of {name}.{attribute}"
                events.append(PlannedEvent.of(label, query, spec, amount, plan))
        return [*events, *planned_keys(spec, plan)]

    @classmethod
    def load(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedModel:
        """See `Synthesizer.load`."""
        return CircuitModel.from_state(header, arrays)


def _shares(spec: DatabaseSpec, table: str) -> dict[str, float]:
    attributes = spec.tables[table].attributes
    return column_shares({name: domain.size for name, domain in attributes.items()})


def _fit_table(fitting: Fitting, table: str) -> Circuit:
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
