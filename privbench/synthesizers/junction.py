"""The default synthesizer: a thin junction-tree circuit per table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from privbench.learning.shares import rows_item
from privbench.privacy import DatabaseSpec, Session
from privbench.synthesizers.base import FittedModel, Options, PlanInput, PlannedEvent, Synthesizer
from privbench.synthesizers.common import Fitting, amounts
from privbench.synthesizers.junction_fit import DatabaseFit
from privbench.synthesizers.junction_model import JunctionModel
from privbench.synthesizers.junction_plan import planned_links, planned_table
from privbench.synthesizers.junction_rules import check_target


class JunctionOptions(Options):
    """Parameters.

    Attributes:
        herding: Whether tables of up to about 200,000 rows are herded when rows are drawn.
        target: A column that rows shall tell from the others, as ``table.column`` or by its name:
            its pairs with all other columns of its table are measured, and most of the budget is
            for pairs. For training sets; of other pairs and of single columns less is known.
    """

    herding: bool = True
    target: str = ""


class JunctionSynthesizer(Synthesizer[JunctionOptions]):
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
        """See `Synthesizer.fit`.

        Raises:
            ConfigError: The target is no column; nothing was spent.
        """
        check_target(session.spec, self.options.target)
        fitting = Fitting.open(session, totals, amount, public_rows)
        fit = DatabaseFit(fitting, self.options.target)
        tables = fit.run()
        public = dict(fit.fitting.start.public_rows)
        return JunctionModel(tables, fit.laws, public, self.options.herding)

    def plan(self, spec: DatabaseSpec, plan: PlanInput) -> list[PlannedEvent]:
        """See `Synthesizer.plan`; pair tables are planned at their largest."""
        target = self.options.target
        check_target(spec, target)
        events: list[PlannedEvent] = []
        given = amounts(spec, plan)
        for name, table in spec.tables.items():
            if table.attributes:
                events += planned_table(spec, name, given[rows_item(name)], plan, target)
        return [*events, *planned_links(spec, plan)]

    @classmethod
    def load(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedModel:
        """See `Synthesizer.load`."""
        return JunctionModel.from_state(header, arrays)
