"""The default synthesizer: a thin junction-tree circuit per table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from privbench.learning.junction.budget import Budget, rule
from privbench.learning.junction.learner import Learner
from privbench.learning.junction.model import TableLaw
from privbench.learning.junction.planning import planned_queries
from privbench.learning.junction.structure import layout
from privbench.learning.junction.tree import fit_tree
from privbench.learning.shares import rows_item
from privbench.privacy import DatabaseSpec, Session, noise_sd
from privbench.privacy.queries import Histogram
from privbench.synthesizers.base import FittedModel, Options, PlanInput, PlannedEvent, Synthesizer
from privbench.synthesizers.common import Fitting, amounts, planned_keys
from privbench.synthesizers.junction_model import JunctionModel


class JunctionOptions(Options):
    """Parameters.

    Attributes:
        herding: Whether tables of up to about 200,000 rows are herded when rows are drawn.
    """

    herding: bool = True


class JunctionSynthesizer(Synthesizer):
    """Thin junction-tree circuits."""

    name: ClassVar[str] = "privbench"
    options_type: ClassVar[type[Options]] = JunctionOptions

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
        laws = {name: _fit_table(fitting, name) for name in names}
        tables = {name: fitting.table_model(name) for name in names}
        herding = bool(getattr(self.options, "herding", True))
        return JunctionModel(tables, laws, dict(fitting.start.public_rows), herding)

    def plan(self, spec: DatabaseSpec, plan: PlanInput) -> list[PlannedEvent]:
        """See `Synthesizer.plan`; pair tables are planned at their largest."""
        events: list[PlannedEvent] = []
        given = amounts(spec, plan)
        for name, table in spec.tables.items():
            if table.attributes:
                events += _planned_table(spec, name, given[rows_item(name)], plan)
        return [*events, *planned_keys(spec, plan)]

    @classmethod
    def load(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedModel:
        """See `Synthesizer.load`."""
        return JunctionModel.from_state(header, arrays)


def table_budget(spec: DatabaseSpec, table: str, amount: float, start: PlanInput) -> Budget:
    """The rule's decision for one table."""
    columns = len(spec.tables[table].attributes)
    noise = noise_sd(Histogram.of(spec, table, []), spec, amount / columns, start.accounting)
    return rule(units(spec, table, start), noise, columns)


def units(spec: DatabaseSpec, table: str, start: PlanInput) -> float:
    """Released weight of a table's rows: of an owned table, at most its owners' number."""
    top = (table, *spec.ancestors(table))[-1]
    return min(start.rows(table), start.rows(top))


def _fit_table(fitting: Fitting, table: str) -> TableLaw:
    spec = fitting.spec
    if not spec.tables[table].attributes:
        return TableLaw({}, (), fit_tree(layout([], [], []), [], {}), {}, fitting.start.rows(table))
    amount = fitting.rows_amount(table)
    learner = Learner(
        spec,
        table,
        amount,
        table_budget(spec, table, amount, fitting.start),
        fitting.start.accounting,
        fitting.noise,
        fitting.measure,
        fitting.session.select,
    )
    if spec.tables[table].own is not None:
        return learner.learn(None)
    law = learner.learn((fitting.start.rows(table), fitting.sizes().sd[table]))
    fitting.sums[table] = learner.sums
    return law


def _planned_table(
    spec: DatabaseSpec, table: str, amount: float, plan: PlanInput
) -> list[PlannedEvent]:
    budget = table_budget(spec, table, amount, plan)
    return [
        PlannedEvent.of(label, query, spec, amount * part, plan)
        for label, query, part in planned_queries(spec, table, budget)
    ]
