"""Models of rows: of all columns together, or of the attributes by a learner of their own.

A learner of attributes knows nothing of keys and owners: its model, a circuit for one, gives the
attributes of a row, and every degree and scope follows its own one-way marginal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from privbench.circuit import Circuit, from_arrays, sample, to_arrays
from privbench.domain import Codes, Domain
from privbench.errors import ModelError
from privbench.learning.graphical.table_model import Factor

#: A JSON value and arrays, for the model file.
State = tuple[Any, dict[str, NDArray[Any]]]


class RowModel(Protocol):
    """The law of a table's own columns, given its context."""

    @property
    def factors(self) -> Sequence[Factor]:
        """Factors of its columns, in the order in which they are drawn."""

    def sample(
        self, context: Mapping[int, Codes], rows: int, generator: np.random.Generator
    ) -> dict[int, Codes]:
        """Cells of all own columns, by place; see `table_model.TableModel.sample`."""

    def to_state(self) -> State:
        """What `from_state` reads back."""

    def check(self, cells: Sequence[int]) -> None:
        """Refuse parts that do not fit the cells of own columns and context.

        Raises:
            ModelError: They do not.
        """


class AttributeModel(Protocol):
    """The law of a table's attributes, whatever the row's keys are."""

    @property
    def domains(self) -> Mapping[str, Domain]:
        """The attributes, in order."""

    def sample(self, rows: int, generator: np.random.Generator) -> Mapping[str, Codes]:
        """Codes of rows by attribute."""

    def to_state(self) -> State:
        """What its synthesizer's `read_attributes` reads back."""


#: Learns the attributes of a table: (table, amount, weight of its rows).
AttributeLearner = Callable[[str, float, float], AttributeModel]


@dataclass(frozen=True, slots=True)
class CircuitModel:
    """A circuit over a table's attributes."""

    circuit: Circuit

    @property
    def domains(self) -> Mapping[str, Domain]:
        """See `AttributeModel`."""
        return self.circuit.domains

    def sample(self, rows: int, generator: np.random.Generator) -> Mapping[str, Codes]:
        """See `AttributeModel`."""
        return sample(self.circuit, rows, generator)

    def to_state(self) -> State:
        """See `AttributeModel`."""
        return to_arrays(self.circuit)

    @classmethod
    def from_state(cls, state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The circuit that `to_state` wrote.

        Raises:
            ModelError: Damaged or hostile input.
        """
        return cls(from_arrays(state, arrays))


@dataclass(frozen=True, slots=True, eq=False)
class AttributesFirst:
    """Attributes by a model of their own, then degrees and scopes.

    Attributes:
        attributes: The law of the attributes, which are the first columns.
        rest: The law of the other columns.
    """

    attributes: AttributeModel
    rest: RowModel

    @property
    def factors(self) -> Sequence[Factor]:
        """See `RowModel`."""
        return self.rest.factors

    def sample(
        self, context: Mapping[int, Codes], rows: int, generator: np.random.Generator
    ) -> dict[int, Codes]:
        """See `RowModel`."""
        drawn = self.attributes.sample(rows, generator)
        first = {place: drawn[name] for place, name in enumerate(self.attributes.domains)}
        return {**first, **self.rest.sample({**context, **first}, rows, generator)}

    def to_state(self) -> State:
        """The state of the other columns; that of the attributes stands beside it."""
        return self.rest.to_state()

    def check(self, cells: Sequence[int]) -> None:
        """See `RowModel`."""
        sizes = [domain.size for domain in self.attributes.domains.values()]
        if sizes != list(cells[: len(sizes)]):
            raise ModelError("the attributes in the model do not fit their table.")
        self.rest.check(cells)
