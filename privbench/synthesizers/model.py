"""What a fit releases: one circuit per table and the laws of the keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from numpy.typing import NDArray

from privbench.circuit import Circuit, from_arrays, sample, to_arrays
from privbench.domain import Codes
from privbench.errors import ModelError
from privbench.learning.assemble import TableModel, assemble
from privbench.learning.fanout import Ints
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

    def sample(self, scale: float = 1.0, seed: int | None = None) -> SyntheticDatabase:
        """Draw a synthetic database.

        Args:
            scale: Factor on the number of units, above 0.
            seed: Public seed, or None for fresh entropy; free, since the model is public.

        Raises:
            ModelError: The model is damaged, or the scale asks for too many rows.
        """
        if not scale > 0:
            raise ModelError("the scale must be above 0.")

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
            _store(arrays, parts, index, "circuit")
            keys = []
            for position, key in enumerate(table.keys.values()):
                state, parts = key.to_state()
                _store(arrays, parts, index, "key", position)
                keys.append(state)
            header["tables"].append(
                {"name": name, "rows": table.rows, "circuit": circuit, "keys": keys}
            )
        return header, arrays

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model that `to_state` wrote.

        Raises:
            ModelError: Not such a model.
        """
        tables, circuits = {}, {}
        try:
            for index, state in enumerate(header["tables"]):
                name, rows = str(state["name"]), float(state["rows"])
                circuits[name] = from_arrays(state["circuit"], _load(arrays, index, "circuit"))
                keys = [
                    KeyModel.from_state(key, _load(arrays, index, "key", position))
                    for position, key in enumerate(state["keys"])
                ]
                if not 0 <= rows < 2**53:
                    raise ModelError("a table's size in the model is damaged.", table=name)
                tables[name] = TableModel(rows, {key.name: key for key in keys})
            public = {str(name): int(rows) for name, rows in header["public_rows"].items()}
            return cls(str(header["synthesizer"]), tables, circuits, public)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ModelError("the model's header is damaged.") from error


def _store(
    arrays: dict[str, NDArray[Any]], parts: Mapping[str, NDArray[Any]], *place: str | int
) -> None:
    prefix = _SEPARATOR.join(str(step) for step in place)
    arrays.update({f"{prefix}{_SEPARATOR}{name}": array for name, array in parts.items()})


def _load(arrays: Mapping[str, NDArray[Any]], *place: str | int) -> dict[str, NDArray[Any]]:
    prefix = _SEPARATOR.join(str(step) for step in place) + _SEPARATOR
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
