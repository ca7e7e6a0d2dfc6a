"""Proposals of categories for a threshold release (P19), and how often the most frequent occurs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from privbench.errors import PrivbenchError, SchemaError
from privbench.privacy.data import NEG_INF, POS_INF, Grid, Labels, PrivateDatabase
from privbench.privacy.queries.raw import RawQuery
from privbench.privacy.query import Integers, Sensitivity
from privbench.privacy.spec import DatabaseSpec
from privbench.privacy.units import single


@dataclass(frozen=True, slots=True)
class _Proposals(RawQuery):
    """Values that units propose.

    Attributes:
        per_unit: k, the most distinct values of one unit.
    """

    per_unit: int = 1
    unit = 1

    def __post_init__(self) -> None:
        if self.per_unit < 1:
            raise SchemaError("a unit proposes at least one value.", column=self.attribute)

    def _most(self, spec: DatabaseSpec) -> int:
        return 1 if single(spec, self.source) else self.per_unit

    def _beside_the_first(
        self, data: PrivateDatabase
    ) -> tuple[Integers, Callable[[NDArray[np.integer[Any]]], list[str]]]:
        """Units that propose each value, less 1, shape (values,), and values' names by number."""
        held = data._raw(self.source, self.attribute)
        values: NDArray[np.int64]
        codes: NDArray[np.integer[Any]]
        if isinstance(held, Labels):
            known = np.flatnonzero(held._codes >= 0)
            codes, size = held._codes[known], len(held._labels)
        elif isinstance(held, Grid):
            known = np.flatnonzero((held._values > NEG_INF) & (held._values < POS_INF))
            values, codes = np.unique(held._values[known], return_inverse=True)
            size = len(values)
        else:
            raise SchemaError(
                "its domain is settled already.", table=self.source, column=self.attribute
            )
        if data.spec.tables[self.source].own is not None:
            ranks = data._units.ranks(self.source)[known]
            identity = data._units.identity(self.source)[known]
            codes = proposals(identity, codes, ranks, self._most(data.spec))
        counts = np.bincount(codes, minlength=size).astype(np.int64) - 1

        def names(numbers: NDArray[np.integer[Any]]) -> list[str]:
            if isinstance(held, Labels):
                found: list[str] = held._labels.take(numbers).to_pylist()
                return found
            return [str(value) for value in values[numbers].tolist()]

        return counts, names


@dataclass(frozen=True, slots=True)
class LabelCounts(_Proposals):
    """How many units beside the first propose each value: a text, or a point of a grid.

    Statistic: a map from value (a grid point in digits) to the number of units that propose it,
    less 1; values with 0 left are not in the map. A unit proposes at most k of the distinct values
    of its rows, NULL excluded: those whose first row comes first in the unit's random order of rows
    (`Units.ranks`), so frequent values are proposed more often.

    Sensitivity: what a unit proposes follows from its own rows and their random order alone. Its
    removal lowers the number of proposals of at most k values by 1 each and touches no other, and
    max(x − 1, 0) moves no more than x does: L0 = L1 = k, L∞ = 1, L2 = √k. Under replace at most 2k
    values change by 1: L0 = L1 = 2k, L∞ = 1, L2 = √(2k). Where a unit has one row only, k is 1.
    Plain counts, never weights: a threshold on weights would let a single unit's rows decide.
    Source: P19; why less 1: docs/adr/labels-of-one-unit.md.

    Attributes:
        source: The table.
        attribute: An attribute that is still `Labels` or a `Grid`.
        per_unit: k.
    """

    kind = "label counts"

    @property
    def shape(self) -> tuple[int, ...]:
        """Empty: which values there are is private until they pass the threshold."""
        return ()

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
        counts, names = self._beside_the_first(data)
        proposed = np.flatnonzero(counts > 0)
        return dict(zip(names(proposed), counts[proposed].tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class LargestCount(_Proposals):
    """How many units beside the first propose the value that most units propose.

    Tells whether a list of values is worth being asked for: of free text no value is shared.

    Statistic: the largest count of `LabelCounts`, 0 where there is none.

    Sensitivity: by the proof there, a unit more or less changes the number of proposals of every
    value by at most 1; so it is where a unit is replaced, since a unit proposes a value once at
    most. The largest of numbers moves no more than the one that moves most, and max(x − 1, 0) no
    more than x: 1 in L1, L2 and L∞ under either relation, whatever k.
    Source: P19; docs/adr/largest-counts.md.

    Attributes:
        source: The table.
        attribute: An attribute that is still `Labels` or a `Grid`.
        per_unit: k.
    """

    kind = "largest label count"

    @property
    def shape(self) -> tuple[int, ...]:
        """One number."""
        return (1,)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        """See the class's docstring."""
        return Sensitivity(1, 1.0, 1)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        """The largest number of units that propose one value, less 1."""
        counts, _ = self._beside_the_first(data)
        return np.array([max(int(counts.max(initial=0)), 0)], dtype=np.int64)


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
