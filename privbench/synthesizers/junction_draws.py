"""Synthetic rows that are drawn during a fit: those that others hang on, as soon as they can be."""

from __future__ import annotations

import numpy as np

from privbench.domain import Codes
from privbench.learning.attach import own_edges
from privbench.learning.fanlaw import FanLaw
from privbench.learning.junction.given import Ints
from privbench.learning.junction.model import TableLaw
from privbench.learning.junction.population import Population, given_rows
from privbench.learning.keys import KeyModel, fan_variable
from privbench.privacy import DatabaseSpec, KeySpec
from privbench.privacy.units import bound
from privbench.rng import generator
from privbench.synthesizers.base import PlanInput

#: Rows of the largest table of owners or targets that are drawn during a fit, and rows of a table
#: that is neither whose owners are looked at.
MOST_ROWS, MOST_EDGES = 200_000, 1_000_000


class Draws:
    """Rows drawn so far, a part of what the clone will hold.

    Args:
        spec: What is public.
        start: Released rows of the tables.

    Attributes:
        people: The rows.
        scale: Part of the clone's rows that are drawn.
    """

    def __init__(self, spec: DatabaseSpec, start: PlanInput) -> None:
        parents = {name: None if t.own is None else t.own.parent for name, t in spec.tables.items()}
        self._spec = spec
        self._taus = {name: bound(spec, name) for name in spec.tables}
        self.people = Population(parents, self._taus)
        every = [key for table in spec.tables.values() for key in table.keys]
        self._held = {key.parent for key in every if key.role in ("own", "ref")}
        largest = max((start.rows(name) for name in self._held), default=1.0)
        self.scale = min(1.0, MOST_ROWS / largest)
        self._part: dict[str, float] = {}

    def holds(self, table: str) -> bool:
        """Whether rows of a table are kept: others hang on them."""
        return table in self._held

    def sampled(self, table: str) -> float:
        """Part of the whole table that its synthetic rows are."""
        return self.scale * self._part.get(table, 1.0)

    def count(self, rows: float) -> int:
        """How many rows are drawn of a table without owners that has so many."""
        return round(rows * self.scale)

    def owners(self, key: KeySpec, model: KeyModel, law: FanLaw) -> Ints:
        """Owner of every synthetic row of an OWN key's table; of some, where they are too many."""
        buckets = self.people.codes(key.parent, fan_variable(key.table, key.name))
        draws = generator(0, "fit", "own", key.table)
        buckets = self._some(key, law, buckets, draws)
        return own_edges(model, len(buckets), self.scale, draws, buckets)

    def _some(self, own: KeySpec, law: FanLaw, buckets: Codes, draws: np.random.Generator) -> Codes:
        """Buckets of the owners, 0 for all but some where their rows would be too many to hold."""
        if self.holds(own.table):
            return buckets
        rows = float(law.means()[buckets].sum())
        self._part[own.table] = part = min(1.0, MOST_EDGES / max(rows, 1.0))
        return np.where(draws.random(len(buckets)) < part, buckets, 0).astype(buckets.dtype)

    def weight(self, table: str, owners: Ints) -> float:
        """Weight of an owned table's rows, from the synthetic owners; at least 1."""
        total = float(self.people.weights(table, owners).sum()) / self.sampled(table)
        whole = self._spec.tables[table].bound == "truncation"
        return max(total if whole else total / self._taus[table], 1.0)

    def crowd(self, table: str, units: Ints) -> tuple[Ints, float, int]:
        """Units of a table's rows with the part that is drawn, and its bound."""
        return units, self.scale, self._taus[table]

    def sample(
        self,
        law: TableLaw,
        table: str,
        owners: Ints | None,
        rows: int,
        some: slice = slice(None),
    ) -> dict[str, Codes]:
        """Draw the rows of a table, or some of them."""
        given = given_rows(law, self.people, table, owners)
        draws = generator(0, "fit", "rows", table)
        given = None if given is None else given.part(some)
        return law.sample(len(range(rows)[some]), draws, herded=False, given=given)
