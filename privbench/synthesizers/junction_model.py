"""What a fit of the junction-tree synthesizer releases: laws of rows and of keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from numpy.typing import NDArray

from privbench.circuit import Circuit
from privbench.domain import Codes
from privbench.learning.assemble import TableModel, assemble, expected_units
from privbench.learning.fanlaw import Ints
from privbench.learning.junction.model import TableLaw
from privbench.learning.junction.population import Population, given_rows
from privbench.learning.junction.storage import law_from_arrays, law_to_arrays
from privbench.learning.keys import HIDDEN
from privbench.learning.synthetic import PART, Parts, SyntheticDatabase
from privbench.rng import generator
from privbench.synthesizers.junction_check import check_model
from privbench.synthesizers.model import (
    damaged,
    load,
    public_from_state,
    store,
    table_from_state,
    table_to_state,
)


@dataclass(frozen=True)
class JunctionModel:
    """A fitted model of junction trees.

    Attributes:
        tables: Released sizes and keys.
        laws: Released law of every table's rows.
        public_rows: Exact row counts of the public tables that keys point to.
        herding: Whether tables are herded where that is affordable.
    """

    tables: dict[str, TableModel]
    laws: dict[str, TableLaw]
    public_rows: dict[str, int] = field(default_factory=dict)
    herding: bool = True

    @property
    def units(self) -> Mapping[str, float]:
        """Units that are expected to have rows in every private table, at most."""
        return expected_units(self.tables)

    @cached_property
    def circuits(self) -> Mapping[str, Circuit]:
        """One circuit per private table, for exact inference; compiled when first asked for."""
        return {name: law.circuit() for name, law in self.laws.items()}

    def sample(self, scale: float = 1.0, seed: int | None = None) -> SyntheticDatabase:
        """Draw a synthetic database.

        Args:
            scale: Factor on the number of units, above 0.
            seed: Public seed, or None for fresh entropy; free, since the model is public.

        Raises:
            ModelError: The model is damaged, or the scale asks for too many rows.
        """
        people = self._population()
        referred = {key.parent for table in self.tables.values() for key in table.keys.values()}

        def draw(table: str, rows: int, owners: Ints | None) -> Mapping[str, Codes]:
            law = self.laws[table]
            hidden = any(name.startswith(HIDDEN) for name in law.domains)
            if rows > PART and law.domains and table not in referred and not hidden:
                return self._later(people, table, rows, owners, seed)
            given = given_rows(law, people, table, owners)
            numbers = generator(seed, "rows", table)
            codes = law.sample(rows, numbers, herded=self.herding, given=given)
            people.add(table, codes, owners, rows)
            return codes

        return assemble(self.tables, self.public_rows, draw, scale, seed)

    def _later(
        self, people: Population, table: str, rows: int, owners: Ints | None, seed: int | None
    ) -> Parts:
        """Rows that no others depend on, to be drawn when they are written."""
        law = self.laws[table]
        counted = None if owners is None else people.counted(table, owners)

        def draw(some: slice) -> dict[str, Codes]:
            number = some.start // PART
            numbers = generator(seed, "rows", table, *([number] if number else []))
            held = None if owners is None else owners[some]
            given = given_rows(law, people, table, held, counted)
            return law.part(some.stop - some.start, numbers, given)

        return Parts(law.domains, rows, draw)

    def _population(self) -> Population:
        owns = {name: table.own for name, table in self.tables.items()}
        parents = {name: None if own is None else own.parent for name, own in owns.items()}
        return Population(parents, {name: law.tau for name, law in self.laws.items()})

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """A JSON object and arrays that `from_state` reads back."""
        header: dict[str, Any] = {"synthesizer": "privbench", "tables": []}
        header |= {"public_rows": dict(self.public_rows), "herding": self.herding}
        arrays: dict[str, NDArray[Any]] = {}
        for index, (name, table) in enumerate(self.tables.items()):
            law, parts = law_to_arrays(self.laws[name])
            store(arrays, parts, index, "law")
            state = table_to_state(name, table, arrays, index)
            header["tables"].append({**state, "law": law})
        return header, arrays

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model that `to_state` wrote.

        Raises:
            ModelError: Not such a model.
        """
        tables: dict[str, TableModel] = {}
        laws: dict[str, TableLaw] = {}
        with damaged():
            for index, state in enumerate(header["tables"]):
                name, table = table_from_state(state, arrays, index)
                tables[name] = table
                laws[name] = law_from_arrays(state["law"], load(arrays, index, "law"))
            public, herding = public_from_state(header), bool(header["herding"])
        check_model(tables, laws)
        return cls(tables, laws, public, herding)
