"""The default synthesizer: a graphical model per table, given its owners."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from privbench.arrays import Ints
from privbench.errors import ConfigError
from privbench.learning.graphical.budget import TESTS
from privbench.learning.graphical.database import DatabaseFit
from privbench.learning.graphical.model import TableLaw
from privbench.privacy import DatabaseSpec, Session
from privbench.synthesizers.base import Options, PlanInput
from privbench.synthesizers.database import DatabaseSynthesizer
from privbench.synthesizers.model import DatabaseModel


class GraphicalOptions(Options):
    """The parameters of the graphical synthesizer."""

    # A column that is to be predicted from the others, as ``table.column`` or by its name: its
    # pairs with all other columns of its table are measured, and most of the budget is for pairs.
    # For training sets; other pairs and single columns are learned less precisely.
    target: str = ""


class GraphicalSynthesizer(DatabaseSynthesizer[GraphicalOptions]):
    """Graphical models of tables, conditioned on their owners."""

    name: ClassVar[str] = "privbench"
    options_type: ClassVar[type[Options]] = GraphicalOptions

    def refit(
        self,
        session: Session,
        totals: Mapping[str, float],
        amount: float,
        public_kinds: Mapping[str, Ints],
        old: Mapping[str, TableLaw],
    ) -> DatabaseModel:
        """Fit as `fit` does, but keep earlier models of tables in which a test sees no change."""
        start = PlanInput.of(session, totals, amount, public_kinds)
        budget = replace(self._budget(session.spec, start), tests=TESTS)
        return self._run(DatabaseFit(session, totals, budget, dict(public_kinds), old=old))

    def target(self, spec: DatabaseSpec) -> tuple[str, str] | None:
        """Return the target among the modelled columns, which has to be in one table alone."""
        target = self.options.target
        if not target:
            return None
        targets = [
            (table, name)
            for table, table_spec in spec.tables.items()
            for name, domain in table_spec.attributes.items()
            if target in (name, f"{table}.{name}") and not domain.filler
        ]
        if len(targets) != 1:
            how = "no modelled column" if not targets else "a column of several tables"
            raise ConfigError(f"the target {target!r} is {how}.", remedy="Give table.column.")
        return targets[0]
