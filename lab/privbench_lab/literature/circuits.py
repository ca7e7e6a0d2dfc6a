"""Synthesizers that learn the attributes of every table as a circuit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from privbench.synthesizers.base import OptionsT
from privbench.synthesizers.database import TableSynthesizer
from privbench_lab.circuit import Circuit


class CircuitSynthesizer(TableSynthesizer[OptionsT]):
    """A synthesizer whose models of attributes are circuits."""

    @classmethod
    def read_attributes(cls, state: Any, arrays: Mapping[str, NDArray[Any]]) -> Circuit:
        """See `TableSynthesizer.read_attributes`."""
        return Circuit.from_state(state, arrays)
