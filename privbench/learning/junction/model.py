"""What a fit of one table releases, and rows drawn from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privbench.circuit import Circuit
from privbench.domain import Codes, Domain
from privbench.learning.bins import Bins
from privbench.learning.denoise import Floats
from privbench.learning.junction.byrows import Heavy, RowLaw, tilt
from privbench.learning.junction.given import Given, GivenColumn
from privbench.learning.junction.herd import CANDIDATES, affordable, herd
from privbench.learning.junction.pool import (
    Pool,
    among,
    draw_pool,
    fill_cells,
    invert,
    rake_pool,
    resample,
    search,
)
from privbench.learning.junction.structure import Pair
from privbench.learning.junction.ties import Tie, find_ties, tie
from privbench.learning.junction.tree import JunctionTree, compile_circuit
from privbench.learning.synthetic import PART

#: Draws for every row with given attributes that is not herded; the same with laws by rows.
_FEW, _SOME = 4, 8
#: Most attributes whose bins a fine law looks at.
_BESIDE = 2
#: Passes of raking, and of those the last ones, with laws by rows.
_SWEEPS, _TILTS = 6, 4

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TableLaw:
    """Released law of one table's rows.

    Attributes are numbered: the given ones first, then the others in the order of ``domains``.

    Attributes:
        domains: Attributes that are not given, in order.
        bins: Bins of each of them with the laws inside them.
        tree: The junction tree over bins.
        tables: Denoised pair tables, those too wide for the tree included.
        rows: Released weight of the rows; the total of every pair table.
        given: Attributes that follow from a row's owners.
        tau: τ of the table: weights of a unit's n rows are proportional to min(n, τ)/n.
        fine: Joint laws of the codes of two attributes, by their places in ``domains``, which say
            how codes within bins go together.
        by_rows: Laws of some attributes by rows.
        clip: τ of those.
    """

    domains: dict[str, Domain]
    bins: tuple[Bins, ...]
    tree: JunctionTree
    tables: dict[Pair, Floats]
    rows: float
    given: tuple[GivenColumn, ...] = ()
    tau: int = 1
    fine: dict[Pair, Floats] = field(default_factory=dict)
    by_rows: tuple[RowLaw, ...] = ()
    clip: int = 1

    def trimmed(self) -> TableLaw:
        """The law without given attributes that stand in no table."""
        fixed = len(self.given)
        used = {name for pair in self.tables for name in pair}
        kept = [name for name in range(len(self.tree.sizes)) if name >= fixed or name in used]
        place = {name: position for position, name in enumerate(kept)}
        tables = {(place[i], place[j]): table for (i, j), table in self.tables.items()}
        given = tuple(self.given[name] for name in kept if name < fixed)
        return replace(self, tree=self.tree.kept(kept), tables=tables, given=given)

    @cached_property
    def ties(self) -> dict[int, Tie]:
        """Ordered attributes whose place within a bin follows that of another."""
        domains = list(self.domains.values())
        fixed = len(self.given)
        ordinary: dict[int, NDArray[np.bool_]] = {}
        for column, (domain, bins) in enumerate(zip(domains, self.bins, strict=True)):
            if domain.ordered and domain.values:
                ordinary[fixed + column] = np.arange(bins.size) <= bins.of[domain.values - 1]
        return find_ties(self.tables, ordinary, self.tree.layout.order)

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
        self,
        rows: int,
        generator: np.random.Generator,
        *,
        herded: bool = True,
        given: Given | None = None,
    ) -> dict[str, Codes]:
        """Draw rows.

        Args:
            rows: How many.
            generator: From `privbench.rng.generator`.
            herded: Whether rows are herded where that is affordable.
            given: What is given for every row, where the law has given attributes.

        Returns:
            Codes per attribute, shape (rows,), in the narrowest type.
        """
        sizes = [domain.size for domain in self.domains.values()]
        if not sizes:
            return {}
        if herded and affordable(
            rows, [*self.tree.sizes[: len(self.given)], *sizes], len(self.given)
        ):
            return self._typed(self._herded(rows, sizes, generator, given))
        out = self._typed(np.zeros((rows, len(sizes)), np.int64))
        for first in range(0, rows, PART):
            part = slice(first, min(first + PART, rows))
            drawn = self.part(part.stop - first, generator, given and given.part(part))
            for name, codes in drawn.items():
                out[name][part] = codes
        return out

    def part(
        self, rows: int, generator: np.random.Generator, given: Given | None
    ) -> dict[str, Codes]:
        """Draw rows that are not herded, all at once; see `sample`."""
        return self._typed(self._plain(rows, generator, given))

    def _typed(self, values: Ints) -> dict[str, Codes]:
        return {
            name: values[:, column].astype(domain.dtype)
            for column, (name, domain) in enumerate(self.domains.items())
        }

    def _herded(
        self, rows: int, sizes: list[int], generator: np.random.Generator, given: Given | None
    ) -> Ints:
        if given is None:
            pool = draw_pool(self.tree, CANDIDATES * rows, generator)
            weights = self._weights(pool)
            candidates = resample(weights, CANDIDATES * rows, generator).reshape(CANDIDATES, rows)
            values = self._expand(pool)
            return values[herd(values, weights, candidates, sizes)]
        pool, shares = self._choices(CANDIDATES, rows, generator, given)
        numbers = (np.arange(CANDIDATES)[:, None] + generator.random(rows)) / CANDIDATES
        candidates = among(shares, numbers)
        values = self._expand(pool)
        whole = np.hstack([pool.bins[: given.count].T.astype(np.int64), values])
        widths = [*given.sizes, *sizes]
        return values[herd(whole, shares.ravel(), candidates, widths, given.count)]

    def _plain(self, rows: int, generator: np.random.Generator, given: Given | None) -> Ints:
        if not self.wide and not (self.by_rows and given):
            fixed = None if given is None else given.bins
            return self._expand(draw_pool(self.tree, rows, generator, fixed))
        if given is None:
            pool = draw_pool(self.tree, rows, generator)
            chosen = resample(self._weights(pool), rows, generator)
        else:
            count = _SOME if self.by_rows else _FEW
            pool, shares = self._choices(count, rows, generator, given)
            chosen = among(shares, generator.random((1, rows)))[0]
        return self._expand(Pool(pool.bins[:, chosen], generator.random((len(pool.rest), rows))))

    def _choices(
        self, count: int, rows: int, generator: np.random.Generator, given: Given
    ) -> tuple[Pool, Floats]:
        """Several draws for every row, and their shares within it, shape (count, rows)."""
        bins = np.tile(given.bins, (1, count))
        pool = draw_pool(self.tree, count * rows, generator, bins, count)
        start = np.tile(given.weights, count)
        heavy = None
        if self.by_rows and given.units is not None:
            heavy = Heavy.of(given.units, self.tau, self.clip)
        weights = self._weights(pool, start, heavy)
        shares = (weights / np.maximum(start, 1e-300)).reshape(count, rows)
        return pool, shares / np.maximum(shares.sum(axis=0), 1e-300)

    def _weights(
        self, pool: Pool, start: Floats | None = None, heavy: Heavy | None = None
    ) -> Floats:
        """Weights that rake the pool to all pair tables, then to the bins of every attribute."""
        own = pool.bins[len(self.given) :]
        cells = np.empty((len(self.tables) + len(own), pool.rows), np.uint16)
        for place, pair in enumerate(self.tables):
            fill_cells(pool.bins, pair, self.tree.sizes, cells[place])
        cells[len(self.tables) :] = own
        targets = [table.ravel() for table in self.tables.values()]
        targets += [bins.counts * (self.rows / bins.counts.sum()) for bins in self.bins]
        if heavy is None:
            return rake_pool(cells, targets, _SWEEPS, start)
        start = rake_pool(cells, targets, _SWEEPS - _TILTS, start)
        for _ in range(_TILTS):
            start = rake_pool(cells, targets, 1, start)
            for law in self.by_rows:
                groups = law.of.astype(np.uint16)[own[law.place]]
                start = tilt(start, groups, law.shares, heavy)
        return np.asarray(start)

    def _before(self, pool: Pool, column: int, others: Sequence[int]) -> Ints:
        """Codes of an attribute given the bins of those that share a fine law with it."""
        bins, fixed = self.bins[column], len(self.given)
        laws = np.where(_member(bins), bins.inside, 0.0)
        where = pool.bins[fixed + column].astype(np.int64)
        for other in others:
            near = self.bins[other]
            joint = self.fine[column, other] @ _member(near).T
            shares = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300) + 1e-9
            laws = (laws[:, None, :] * shares.T).reshape(-1, laws.shape[-1])
            where = where * near.size + pool.bins[fixed + other]
        return invert(laws, where, pool.rest[fixed + column].copy())

    def _expand(self, pool: Pool) -> Ints:
        """Codes of rows of bins, shape (rows, attributes); uses up ``pool.rest``."""
        tie(pool, self.ties, self.tree.layout.order)
        values = np.empty((pool.rows, len(self.bins)), np.int64)
        for column, bins in enumerate(self.bins):
            name = len(self.given) + column
            before = [pair for pair in self.fine if pair[1] == column]
            after = [pair[1] for pair in self.fine if pair[0] == column]
            if before:
                joint, other = self.fine[before[0]], values[:, before[0][0]]
                values[:, column] = _beside(bins, joint, pool.bins[name], other, pool.rest[name])
            elif after:
                values[:, column] = self._before(pool, column, after[:_BESIDE])
            else:
                values[:, column] = _within(bins, pool.bins[name], pool.rest[name])
        return values


def _member(bins: Bins) -> NDArray[np.bool_]:
    """Which codes are in which bin, shape (bins, codes)."""
    return np.asarray(bins.of == np.arange(bins.size)[:, None])


def _beside(
    bins: Bins, joint: Floats, chosen: NDArray[np.integer], other: Ints, numbers: Floats
) -> Ints:
    """A code in every row's bin, by a joint law with an attribute whose code is known."""
    mask = _member(bins)
    inside = np.where(mask, bins.inside, 0.0)
    laws = joint[:, None, :] * mask + 1e-9 * inside + 1e-300 * mask
    flat = laws.reshape(-1, joint.shape[1])
    return invert(flat, other * bins.size + chosen, numbers.copy())


def _within(bins: Bins, chosen: NDArray[np.integer], numbers: Floats) -> Ints:
    """A code in every row's bin, by the law inside the bin."""
    order = np.argsort(bins.of, kind="stable")
    if bins.size == len(order):
        return np.asarray(order[chosen])
    sizes = np.bincount(bins.of)
    last = np.cumsum(sizes) - 1
    ends = np.cumsum(bins.inside[order])
    return np.asarray(order[search(ends, last - sizes + 1, last, chosen, numbers)])
