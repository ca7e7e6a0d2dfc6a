"""Proposals of categories for a threshold release (P19)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from privbench.errors import PrivbenchError, SchemaError
from privbench.privacy.data import Labels, PrivateDatabase
from privbench.privacy.query import Query, Sensitivity
from privbench.privacy.spec import DatabaseSpec
from privbench.privacy.units import single


@dataclass(frozen=True, slots=True)
class LabelCounts(Query):
    """How many units beside the first propose each text value.

    Statistic: a map from value to the number of units that propose it, less 1; values with 0 left
    are not in the map. A unit proposes at most k of the distinct values of its rows, NULL excluded:
    those whose first row comes first in the unit's random order of rows (`Units.ranks`), so
    frequent values are proposed more often.

    Sensitivity: what a unit proposes follows from its own rows and their random order alone. Its
    removal lowers the number of proposals of at most k values by 1 each and touches no other, and
    max(x − 1, 0) moves no more than x does: L0 = L1 = k, L∞ = 1, L2 = √k. Under replace at most 2k
    values change by 1: L0 = L1 = 2k, L∞ = 1, L2 = √(2k). Where a unit has one row only, k is 1.
    Plain counts, never weights: a threshold on weights would let a single unit's rows decide.
    Source: P19; why less 1: docs/adr/labels-of-one-unit.md.

    Attributes:
        source: The table.
        attribute: An attribute that is still `Labels`.
        per_unit: k.
    """

    source: str
    attribute: str
    per_unit: int = 1
    kind = "label counts"
    #: The stability harness evaluates it before any recoding.
    reads_raw = True
    unit = 1

    def __post_init__(self) -> None:
        if self.per_unit < 1:
            raise SchemaError("a unit proposes at least one value.", column=self.attribute)

    @property
    def table(self) -> str:
        """See `Query.table`."""
        return self.source

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Query.columns`."""
        return (self.attribute,)

    @property
    def shape(self) -> tuple[int, ...]:
        """Empty: which values there are is private until they pass the threshold."""
        return ()

    def _most(self, spec: DatabaseSpec) -> int:
        return 1 if single(spec, self.source) else self.per_unit

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        """See the class's docstring."""
        k = self._most(spec)
        if spec.relation.neighbours == "replace":
            k *= 2
        return Sensitivity(k, math.sqrt(k), 1, k)

    def evaluate(self, data: PrivateDatabase) -> NoReturn:
        """Refused: its cells are private. Use `evaluate_labels`.

        Raises:
            PrivbenchError: Always.
        """
        raise PrivbenchError("label counts have no public cells; release them by a threshold.")

    def evaluate_labels(self, data: PrivateDatabase) -> dict[str, int]:
        """Number of units that propose each value, less 1; values with none left are left out."""
        held = data._raw(self.source, self.attribute)
        if not isinstance(held, Labels):
            raise SchemaError("it is not text.", table=self.source, column=self.attribute)
        known = np.flatnonzero(held._codes >= 0)
        chosen: NDArray[np.integer[Any]] = held._codes[known]
        if data.spec.tables[self.source].own is not None:
            ranks = data._units.ranks(self.source)[known]
            identity = data._units.identity(self.source)[known]
            chosen = proposals(identity, chosen, ranks, self._most(data.spec))
        counts = np.bincount(chosen, minlength=len(held._labels)) - 1
        proposed = np.flatnonzero(counts > 0)
        names = held._labels.take(proposed).to_pylist()
        return dict(zip(names, counts[proposed].tolist(), strict=True))


def proposals(
    identity: NDArray[np.integer[Any]],
    codes: NDArray[np.integer[Any]],
    ranks: NDArray[np.integer[Any]],
    k: int,
) -> NDArray[np.integer[Any]]:
    """Codes proposed by all units, one entry for each unit and proposed value.

    Args:
        identity: Unit of every row, shape (rows,).
        codes: Value of every row.
        ranks: Random rank of every row within its unit.
        k: Most distinct values of one unit.
    """
    order = np.lexsort((ranks, codes, identity))
    unit, code = identity[order], codes[order]
    first = np.ones(order.size, dtype=bool)
    first[1:] = (unit[1:] != unit[:-1]) | (code[1:] != code[:-1])
    best = order[first]
    best = best[np.lexsort((ranks[best], identity[best]))]
    owner = identity[best]
    starts = np.flatnonzero(np.append(True, owner[1:] != owner[:-1])) if best.size else best
    lengths = np.diff(np.append(starts, best.size))
    place = np.arange(best.size) - np.repeat(starts, lengths)
    return codes[best[place < k]]
