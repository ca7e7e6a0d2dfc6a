"""The interface of synthesizers: plan and fit a model, and load it from a model file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, cast

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from privbench.arrays import Ints
from privbench.errors import ConfigError
from privbench.learning.answers import counted_units
from privbench.learning.synthetic import SyntheticTable
from privbench.limits import faults
from privbench.privacy import Accounting, DatabaseSpec, Question, Session


class Options(BaseModel):
    """The parameters of a synthesizer; public, from the config's ``[synthesizer.options]``."""

    model_config = ConfigDict(extra="forbid", frozen=True)


OptionsT = TypeVar("OptionsT", bound=Options)


@dataclass(frozen=True, slots=True)
class PlanInput:
    """The input of a plan or a fit; all of it is public or released."""

    total: float  # amount that the synthesizer may spend per root table, ε or ρ
    accounting: Accounting  # ``pure`` or ``zcdp``
    # Rows per private table: noisy (fit) or guessed (plan); missing means 1.
    totals: Mapping[str, float] = field(default_factory=dict)
    # For each row of a public table, a number that rows share whose columns make them alike.
    public_kinds: Mapping[str, Ints] = field(default_factory=dict)
    # Amount per root table beyond ``total`` that earlier stages left; missing means none.
    spare: Mapping[str, float] = field(default_factory=dict)
    # Noisy numbers of units with rows in owned tables, if counted; each at least its noise.
    counted: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        session: Session,
        totals: Mapping[str, float],
        amount: float,
        public_kinds: Mapping[str, Ints] | None,
    ) -> Self:
        """Return the input of a fit; see `Synthesizer.fit`."""
        left = {root: session.remaining(root) for root in roots_of(session.spec)}
        spare = {root: max(rest - amount, 0.0) for root, rest in left.items()}
        counted = counted_units(session)
        return cls(amount, session.accounting, totals, public_kinds or {}, spare, counted)

    def rows(self, table: str) -> float:
        """Return the noisy rows of a table, at least 1."""
        return max(float(self.totals.get(table, 1.0)), 1.0)


def roots_of(spec: DatabaseSpec) -> frozenset[str]:
    """Return all root tables."""
    return frozenset().union(*(spec.roots(name) for name in spec.tables))


class FittedModel(Protocol):
    """The result of a fit: released arrays only."""

    @property
    def units(self) -> Mapping[str, float]:
        """Return for every private table the most units that are expected to have rows in it."""

    def sample(self, scale: float = 1.0, seed: int | None = None) -> dict[str, SyntheticTable]:
        """Draw synthetic rows of every private table, with ``scale`` times the units."""

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the model as a JSON object and arrays, for the model file."""


class Synthesizer(ABC, Generic[OptionsT]):
    """Requests measurements from a session and learns a model from the answers."""

    name: ClassVar[str]  # its name in configs and models
    options_type: ClassVar[type[Options]] = Options  # the type of its parameters
    options: OptionsT  # its parameters, checked

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        """Check the options; a ConfigError names one that is unknown or out of range."""
        try:
            self.options = cast(OptionsT, self.options_type.model_validate(dict(options or {})))
        except ValidationError as error:
            raise ConfigError(f"synthesizer {self.name!r}: {'; '.join(faults(error))}.") from error

    @abstractmethod
    def fit(
        self,
        session: Session,
        totals: Mapping[str, float],
        amount: float,
        public_kinds: Mapping[str, Ints] | None = None,
    ) -> FittedModel:
        """Measure and learn, for ``amount`` of ε or ρ per root table.

        Every attribute of the session's spec has a public domain. ``totals`` are noisy rows per
        table, released before (P17), never exact counts; ``public_kinds`` are those of `PlanInput`.
        A ConfigError names an option that does not fit the tables, before anything is spent.
        """

    @abstractmethod
    def plan(self, spec: DatabaseSpec, plan: PlanInput) -> Sequence[Question]:
        """Return the questions of a fit, adaptive ones at their largest; reads no rows."""

    @classmethod
    @abstractmethod
    def load(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedModel:
        """Return the model that ``to_state`` wrote; raise a ModelError for damaged input."""
