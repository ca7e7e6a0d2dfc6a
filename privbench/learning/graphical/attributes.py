"""Models of a table's attributes by a learner of their own, which knows nothing of keys and owners.

Such a model, a circuit for one, gives the attributes of a row, and every degree and scope follows
its own one-way marginal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Codes, Domain

#: A JSON value and arrays, for the model file.
State = tuple[Any, dict[str, NDArray[Any]]]


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
