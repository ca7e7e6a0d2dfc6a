"""Attributes that are given before a row is drawn: released facts about its owners.

A row of an owned table is drawn given bins of its owner's attributes, of the number of rows that
its owner has in each table, and the like for the owner's owner. Their joint law is not measured:
it is that of the synthetic owners, which are drawn first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbench.circuit.draw import systematic
from privbench.learning.denoise import Floats

Ints = NDArray[np.int64]
#: Bins of rows, shape (attributes, rows).
BinRows = NDArray[np.uint16]


@dataclass(frozen=True, slots=True, eq=False)
class GivenColumn:
    """How a given attribute follows from an owner.

    Attributes:
        levels: 1 for the owner, 2 for the owner's owner, and so on.
        name: Name of the variable in that owner's law.
        of: Bin of every code of that variable, shape (codes,).
    """

    levels: int
    name: str
    of: Ints

    @property
    def size(self) -> int:
        """Number of bins: those of codes, then one for rows whose owners end at each level."""
        return int(self.of.max()) + 1 + self.levels

    def bins(self, codes: NDArray[np.integer], index: Ints) -> BinRows:
        """Bins of rows.

        Args:
            codes: Codes of the variable, shape (owner's rows,).
            index: Row number of the owner at that level, or −m where owners end at level m.
        """
        known = np.concatenate([self.of[codes], np.arange(self.size - self.levels, self.size)])
        return known.astype(np.uint16)[index]


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Synthetic rows of given attributes, numbered 0, 1, … in a table's law.

    Attributes:
        sizes: Bins of every given attribute.
        bins: Bins of the rows, shape (attributes, rows).
        weights: Weight of every row as the measurements weigh rows, shape (rows,).
        units: Number of rows of every row's unit, shape (rows,); missing means 1.
    """

    sizes: tuple[int, ...]
    bins: BinRows
    weights: Floats
    units: Ints | None = None

    @property
    def count(self) -> int:
        """Number of given attributes."""
        return len(self.sizes)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.bins.shape[1])

    def resampled(self, rows: int, generator: np.random.Generator) -> BinRows:
        """Bins of a systematic sample of the rows by weight, shape (attributes, rows)."""
        return self.bins[:, systematic(self.weights, rows, generator)]

    def part(self, rows: slice) -> Given:
        """Some of the rows."""
        units = None if self.units is None else self.units[rows]
        return Given(self.sizes, self.bins[:, rows], self.weights[rows], units)

    def table(self, names: Sequence[int]) -> Floats:
        """Joint law of some given attributes, shape of their bins."""
        shape = tuple(self.sizes[name] for name in names)
        cells = np.zeros(self.rows, np.int64)
        for name in names:
            cells *= self.sizes[name]
            cells += self.bins[name]
        held = np.bincount(cells, self.weights, minlength=int(np.prod(shape)))
        return np.asarray(held.reshape(shape) / max(held.sum(), 1e-300))
