"""Synthesizers that learn sizes, keys and one-way marginals by `learning.graphical`."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from numpy.typing import NDArray

from privbench.arrays import Ints
from privbench.errors import ModelError
from privbench.learning.answers import Measured, measured
from privbench.learning.denoise import Noise, noise_law
from privbench.learning.graphical.budget import Budget
from privbench.learning.graphical.database import DatabaseFit
from privbench.learning.graphical.plan import planned
from privbench.learning.graphical.table_model import AttributeModel
from privbench.privacy import DatabaseSpec, Measurement, Query, Question, Session
from privbench.synthesizers.base import FittedModel, OptionsT, PlanInput, Synthesizer
from privbench.synthesizers.model import DatabaseModel


class DatabaseSynthesizer(Synthesizer[OptionsT]):
    """Learns graphical models of tables; a subclass says how their columns are learned."""

    learns: ClassVar[Literal["pairs", "columns", "attributes"]] = "pairs"  # see `Budget`

    def target(self, spec: DatabaseSpec) -> tuple[str, str] | None:
        """Return the table and attribute to be predicted from the others, or None."""
        return None

    def fit(
        self,
        session: Session,
        totals: Mapping[str, float],
        amount: float,
        public_kinds: Mapping[str, Ints] | None = None,
    ) -> FittedModel:
        """Measure and learn the whole database; see `Synthesizer.fit`."""
        start = PlanInput.of(session, totals, amount, public_kinds)
        budget, learner = self._budget(session.spec, start), self._learner(session, start)
        return self._run(DatabaseFit(session, totals, budget, dict(start.public_kinds), learner))

    def _run(self, fit: DatabaseFit) -> DatabaseModel:
        references = fit.run()
        public = {name: len(rows) for name, rows in fit.public_kinds.items()}
        return DatabaseModel(self.name, fit.laws, references, public)

    def plan(self, spec: DatabaseSpec, plan: PlanInput) -> Sequence[Question]:
        """Return the questions of a fit; see `Synthesizer.plan`."""
        budget = self._budget(spec, plan)
        questions: list[Question] = [*planned(budget, plan.totals, dict(plan.public_kinds))]
        for table, amount in budget.attributes.items():
            questions += self.plan_table(spec, table, amount, plan)
        return questions

    def plan_table(
        self, spec: DatabaseSpec, table: str, amount: float, plan: PlanInput
    ) -> list[Measurement]:
        """Return the measurements for learning a table's attributes, with so much ε or ρ."""
        return []

    @classmethod
    def read_attributes(cls, state: Any, arrays: Mapping[str, NDArray[Any]]) -> AttributeModel:
        """Return the model of a table's attributes from its state, which may be hostile."""
        raise ModelError("the model has a model of attributes, which its synthesizer never makes.")

    @classmethod
    def load(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedModel:
        """Return the model of a model file; see `Synthesizer.load`."""
        return DatabaseModel.from_state(header, arrays, cls.read_attributes)

    def _budget(self, spec: DatabaseSpec, start: PlanInput) -> Budget:
        amounts = start.accounting, start.total, start.spare, start.counted
        return Budget(spec, *amounts, self.target(spec), self.learns)

    def _learner(
        self, session: Session, start: PlanInput
    ) -> Callable[[str, float, float], AttributeModel] | None:
        return None


@dataclass(frozen=True, slots=True)
class TableFit:
    """The fit of the attributes of one table."""

    session: Session  # the door to the private rows
    start: PlanInput  # released or public input of the whole fit
    table: str
    amount: float  # ε or ρ that may be spent
    weight: float  # released weight of the table's rows, at least 1

    @property
    def spec(self) -> DatabaseSpec:
        """The public description of the database."""
        return self.session.spec

    @property
    def noise(self) -> Noise:
        """The distribution of the noise, Laplace or Gaussian."""
        return noise_law(self.session.accounting)

    def measure(self, query: Query, amount: float, label: str) -> Measured:
        """Measure a query; the result unpacks to its counts and their standard deviation."""
        (result,) = measured(self.session, [Measurement(query, amount, label)])
        return result


class TableSynthesizer(DatabaseSynthesizer[OptionsT]):
    """A synthesizer whose subclass learns a separate model of each table's attributes.

    Keys are not part of that model.
    """

    learns = "attributes"

    @abstractmethod
    def fit_table(self, fit: TableFit) -> AttributeModel:
        """Measure and learn the attributes of a table, at least one of which varies."""

    @abstractmethod
    def plan_table(
        self, spec: DatabaseSpec, table: str, amount: float, plan: PlanInput
    ) -> list[Measurement]:
        """Return the measurements that `fit_table` takes of a table for ``amount`` of ε or ρ."""

    @classmethod
    @abstractmethod
    def read_attributes(cls, state: Any, arrays: Mapping[str, NDArray[Any]]) -> AttributeModel:
        """Return the model of a table's attributes that its `to_state` wrote.

        State and arrays may be hostile: invalid ones are refused by a ModelError.
        """

    def check(self, session: Session) -> None:
        """Refuse, before anything is spent, a fit that this synthesizer cannot do."""

    def _learner(
        self, session: Session, start: PlanInput
    ) -> Callable[[str, float, float], AttributeModel] | None:
        self.check(session)
        return lambda table, amount, weight: self.fit_table(
            TableFit(session, start, table, amount, weight)
        )
