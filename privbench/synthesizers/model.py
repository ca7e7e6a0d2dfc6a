"""What a fit releases: one circuit per table and the laws of the keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from numpy.typing import NDArray

from privbench.circuit import Circuit, from_arrays, sample, to_arrays
from privbench.domain import Codes
from privbench.errors import ModelError
from privbench.learning.assemble import TableModel, assemble, expected_units
from privbench.learning.fanlaw import Ints
from privbench.learning.keys import KeyModel
from privbench.learning.synthetic import SyntheticDatabase
from privbench.rng import generator

_SEPARATOR = "/"


@dataclass(frozen=True, slots=True)
class CircuitModel:
    """A fitted model whose tables are independent of each other but for their keys.

    Attributes:
        synthesizer: Name of the synthesizer that made it.
        tables: Released sizes and keys.
        circuits: One circuit per table; a table without attributes has the empty one.
        public_rows: Exact row counts of the public tables that keys point to.
    """

    synthesizer: str
    tables: dict[str, TableModel]
    circuits: dict[str, Circuit]
    public_rows: dict[str, int] = field(default_factory=dict)

    @property
    def units(self) -> Mapping[str, float]:
        """Units that are expected to have rows in every private table, at most."""
        return expected_units(self.tables)

    def sample(self, scale: float = 1.0, seed: int | None = None) -> SyntheticDatabase:
        """Draw a synthetic database.

        Args:
            scale: Factor on the number of units, above 0.
            seed: Public seed, or None for fresh entropy; free, since the model is public.

        Raises:
            ModelError: The model is damaged, or the scale asks for too many rows.
        """

        def draw(table: str, rows: int, owners: Ints | None) -> dict[str, Codes]:
            return sample(self.circuits[table], rows, generator(seed, "rows", table))

        return assemble(self.tables, self.public_rows, draw, scale, seed)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """A JSON object and arrays that `from_state` reads back."""
        header: dict[str, Any] = {"synthesizer": self.synthesizer, "tables": []}
        header["public_rows"] = dict(self.public_rows)
        arrays: dict[str, NDArray[Any]] = {}
        for index, (name, table) in enumerate(self.tables.items()):
            circuit, parts = to_arrays(self.circuits[name])
            store(arrays, parts, index, "circuit")
            state = table_to_state(name, table, arrays, index)
            header["tables"].append({**state, "circuit": circuit})
        return header, arrays

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model that `to_state` wrote.

        Raises:
            ModelError: Not such a model.
        """
        tables, circuits = {}, {}
        with damaged():
            for index, state in enumerate(header["tables"]):
                name, table = table_from_state(state, arrays, index)
                tables[name] = table
                circuits[name] = from_arrays(state["circuit"], load(arrays, index, "circuit"))
            name, public = str(header["synthesizer"]), public_from_state(header)
        return cls(name, tables, circuits, public)


@contextmanager
def damaged() -> Iterator[None]:
    """Turn the errors of reading a damaged header into `ModelError`."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
        raise ModelError("the model's header is damaged.") from error


def public_from_state(header: Mapping[str, Any]) -> dict[str, int]:
    """Exact row counts of the public tables, from a model's header."""
    return {str(name): int(rows) for name, rows in header["public_rows"].items()}


def table_to_state(
    name: str, table: TableModel, arrays: dict[str, NDArray[Any]], index: int
) -> dict[str, Any]:
    """A JSON object of a table's size and keys; their arrays are added to ``arrays``."""
    keys = []
    for position, key in enumerate(table.keys.values()):
        state, parts = key.to_state()
        store(arrays, parts, index, "key", position)
        keys.append(state)
    return {"name": name, "rows": table.rows, "keys": keys}


def table_from_state(
    state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], index: int
) -> tuple[str, TableModel]:
    """Name, size and keys that `table_to_state` wrote.

    Raises:
        ModelError: The size is no size.
    """
    name, rows = str(state["name"]), float(state["rows"])
    keys = [
        KeyModel.from_state(key, load(arrays, index, "key", position))
        for position, key in enumerate(state["keys"])
    ]
    if not 0 <= rows < 2**53:
        raise ModelError("a table's size in the model is damaged.", table=name)
    return name, TableModel(rows, {key.name: key for key in keys})


def store(
    arrays: dict[str, NDArray[Any]], parts: Mapping[str, NDArray[Any]], *place: str | int
) -> None:
    """Add arrays under the name of a place in the model."""
    prefix = _SEPARATOR.join(str(step) for step in place)
    arrays.update({f"{prefix}{_SEPARATOR}{name}": array for name, array in parts.items()})


def load(arrays: Mapping[str, NDArray[Any]], *place: str | int) -> dict[str, NDArray[Any]]:
    """The arrays that `store` put under a place."""
    prefix = _SEPARATOR.join(str(step) for step in place) + _SEPARATOR
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
