"""What a fit of one table releases, and rows drawn from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbench.circuit import Circuit
from privbench.domain import Codes, Domain
from privbench.learning.bins import Bins
from privbench.learning.denoise import Floats
from privbench.learning.junction.herd import CANDIDATES, affordable, herd
from privbench.learning.junction.pool import (
    Pool,
    cells_of,
    draw_pool,
    rake_pool,
    resample,
)
from privbench.learning.junction.structure import Pair
from privbench.learning.junction.tree import JunctionTree, compile_circuit

#: Rows drawn at once where rows are not herded.
CHUNK = 2**18
_SWEEPS = 6

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TableLaw:
    """Released law of one table's rows.

    Attributes:
        domains: Attributes in order.
        bins: Bins of every attribute with the laws inside them.
        tree: The junction tree over bins.
        tables: Denoised pair tables, those too wide for the tree included.
        rows: Released weight of the rows; the total of every pair table.
    """

    domains: dict[str, Domain]
    bins: tuple[Bins, ...]
    tree: JunctionTree
    tables: dict[Pair, Floats]
    rows: float

    @property
    def wide(self) -> bool:
        """Whether some pair tables are not in the tree, so that rows have to be raked to them."""
        near = self.tree.layout.near
        return any(i not in near[j] and j not in near[i] for i, j in self.tables)

    def circuit(self) -> Circuit:
        """The circuit of the junction tree, for exact inference."""
        leaves = []
        for bins in self.bins:
            laws = np.zeros((bins.size, len(bins.of)))
            laws[bins.of, np.arange(len(bins.of))] = bins.inside
            leaves.append(laws)
        return compile_circuit(self.tree, self.domains, leaves)

    def sample(
        self, rows: int, generator: np.random.Generator, *, herded: bool = True
    ) -> dict[str, Codes]:
        """Draw rows.

        Args:
            rows: How many.
            generator: From `privbench.rng.generator`.
            herded: Whether rows are herded where that is affordable.

        Returns:
            Codes per attribute, shape (rows,), in the narrowest type.
        """
        sizes = [domain.size for domain in self.domains.values()]
        if not sizes:
            return {}
        if herded and affordable(rows, sizes):
            return self._typed(self._herded(rows, sizes, generator))
        out = self._typed(np.zeros((rows, len(sizes)), np.int64))
        for first in range(0, rows, CHUNK):
            last = min(first + CHUNK, rows)
            values = self._plain(last - first, generator)
            for name, codes in self._typed(values).items():
                out[name][first:last] = codes
        return out

    def _typed(self, values: Ints) -> dict[str, Codes]:
        return {
            name: values[:, column].astype(domain.dtype)
            for column, (name, domain) in enumerate(self.domains.items())
        }

    def _herded(self, rows: int, sizes: list[int], generator: np.random.Generator) -> Ints:
        pool = draw_pool(self.tree, CANDIDATES * rows, generator)
        weights = self._weights(pool)
        values = self._expand(pool)
        return values[herd(values, weights, rows, sizes, generator)]

    def _plain(self, rows: int, generator: np.random.Generator) -> Ints:
        pool = draw_pool(self.tree, rows, generator)
        if not self.wide:
            return self._expand(pool)
        chosen = resample(self._weights(pool), rows, generator)
        return self._expand(Pool(pool.bins[:, chosen], generator.random(pool.rest.shape)))

    def _weights(self, pool: Pool) -> Floats:
        """Weights that rake the pool to all pair tables, then to the bins of every attribute."""
        cells = [
            cells_of(pool.bins, pair, self.tree.sizes).astype(np.uint16) for pair in self.tables
        ]
        cells += list(pool.bins)
        targets = [table.ravel() for table in self.tables.values()]
        targets += [bins.counts * (self.rows / bins.counts.sum()) for bins in self.bins]
        return rake_pool(cells, targets, _SWEEPS)

    def _expand(self, pool: Pool) -> Ints:
        """Codes of rows of bins, shape (rows, attributes); uses up ``pool.rest``."""
        values = np.empty((pool.rows, len(self.bins)), np.int64)
        for column, bins in enumerate(self.bins):
            values[:, column] = _within(bins, pool.bins[column], pool.rest[column])
        return values


def _within(bins: Bins, chosen: NDArray[np.integer], numbers: Floats) -> Ints:
    """A code in every row's bin, by the law inside the bin."""
    order = np.argsort(bins.of, kind="stable")
    if bins.size == len(order):
        return np.asarray(order[chosen])
    ends = np.cumsum(bins.inside[order])
    sizes = np.bincount(bins.of)
    last = np.cumsum(sizes) - 1
    base = np.concatenate([[0.0], ends[last[:-1]]])
    mass = ends[last] - base
    found = np.searchsorted(ends, base[chosen] + numbers * mass[chosen], side="right")
    return np.asarray(order[np.clip(found, (last - sizes + 1)[chosen], last[chosen])])
