"""Synthesizers that learn one circuit per table, and every key by itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from privbench.circuit import Circuit
from privbench.learning.shares import rows_item
from privbench.privacy import DatabaseSpec, Session
from privbench.synthesizers.base import (
    FittedModel,
    OptionsT,
    PlanInput,
    PlannedEvent,
    Synthesizer,
)
from privbench.synthesizers.common import Fitting, amounts, planned_keys
from privbench.synthesizers.model import CircuitModel


class TableSynthesizer(Synthesizer[OptionsT]):
    """Tables are independent but for their keys; a subclass says how one is learned."""

    @abstractmethod
    def fit_table(self, fitting: Fitting, table: str) -> Circuit:
        """Measure and learn one table; the empty circuit for a table without attributes."""

    @abstractmethod
    def plan_table(
        self, spec: DatabaseSpec, table: str, amount: float, plan: PlanInput
    ) -> list[PlannedEvent]:
        """The events of `fit_table` for a table with attributes that may spend so much, ε or ρ."""

    def check(self, session: Session) -> type[Fitting]:
        """Refuse what cannot be fitted, before anything is spent; what kind of fit it is."""
        return Fitting

    def fit(
        self,
        session: Session,
        totals: Mapping[str, float],
        amount: float,
        public_rows: Mapping[str, int] | None = None,
    ) -> FittedModel:
        """See `Synthesizer.fit`."""
        fitting = self.check(session).open(session, totals, amount, public_rows)
        names = session.spec.order()
        circuits = {name: self.fit_table(fitting, name) for name in names}
        tables = fitting.drawn_tables({name: fitting.table_model(name) for name in names})
        return CircuitModel(self.name, tables, circuits, dict(fitting.start.public_rows))

    def plan(self, spec: DatabaseSpec, plan: PlanInput) -> list[PlannedEvent]:
        """See `Synthesizer.plan`."""
        given = amounts(spec, plan)
        events = [
            event
            for name, table in spec.tables.items()
            if table.attributes
            for event in self.plan_table(spec, name, given[rows_item(name)], plan)
        ]
        return [*events, *planned_keys(spec, plan)]

    @classmethod
    def load(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedModel:
        """See `Synthesizer.load`."""
        return CircuitModel.from_state(header, arrays)
