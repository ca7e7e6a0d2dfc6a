"""Rows from a junction tree: scrambled Sobol points through conditional inverse distributions.

Low-order margins of such rows are several times closer to the law than those of random rows. The
part of a coordinate that the choice of a bin leaves over chooses the code within the bin.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from privbench.circuit.draw import systematic
from privbench.learning.denoise import Floats
from privbench.learning.junction.given import BinRows
from privbench.learning.junction.structure import Pair
from privbench.learning.junction.tree import JunctionTree

Ints = NDArray[np.int64]
#: Filters of warnings are one for all threads.
_QUIET = Lock()
#: Most dimensions of SciPy's Sobol sequence.
_DIMENSIONS = 21_201
#: One raking step changes a weight at most by these factors.
_LEAST, _MOST, _NOTHING = 0.05, 20.0, 1e-9


@dataclass(frozen=True, slots=True)
class Pool:
    """Rows of bins, and what is left of their coordinates.

    Attributes:
        bins: Bins, shape (attributes, rows).
        rest: Numbers in [0, 1) that choose within bins, shape (attributes, rows).
    """

    bins: BinRows
    rest: Floats

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.bins.shape[1])


def draw_pool(
    tree: JunctionTree,
    rows: int,
    generator: np.random.Generator,
    given: BinRows | None = None,
    draws: int = 1,
) -> Pool:
    """Draw rows of bins.

    Args:
        tree: The law.
        rows: How many.
        generator: From `privbench.rng.generator`.
        given: Bins of the first attributes, shape (attributes, rows): they are kept.
        draws: How many draws for the same row the pool holds, one draw of all rows after the other.
    """
    fixed = 0 if given is None else len(given)
    rest = np.zeros((len(tree.sizes), rows))
    rest[fixed:] = _points(len(tree.sizes) - fixed, rows, generator, draws)
    bins = np.zeros(rest.shape, np.uint16)
    if given is not None:
        bins[:fixed] = given
    for name in tree.layout.order:
        if name < fixed:
            continue
        near = tree.layout.near[name]
        where = np.zeros(rows if near else 0, np.int64)
        for other in near:
            where *= tree.sizes[other]
            where += bins[other]
        bins[name] = invert(tree.flat(name), where if near else None, rest[name])
    return Pool(bins, rest)


def _points(columns: int, rows: int, generator: np.random.Generator, draws: int) -> Floats:
    """Points, shape (columns, rows).

    Draws for one row are points in sequence, which are far apart; points at a distance of a large
    power of two are nearly the same.
    """
    if columns > _DIMENSIONS or not columns:
        return generator.random((columns, rows))
    engine = qmc.Sobol(columns, scramble=True, rng=generator)
    with _QUIET, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # rows are rarely a power of two
        points = engine.random(rows).reshape(rows // draws, draws, columns)
    return np.ascontiguousarray(points.transpose(2, 1, 0)).reshape(columns, rows)


def invert(laws: Floats, where: Ints | None, numbers: Floats) -> Ints:
    """Inverse distribution functions, one law per row; ``numbers`` keep what is left over.

    Args:
        laws: Laws, shape (laws, outcomes); every law has mass.
        where: Law of every row, or None where there is one law.
        numbers: Numbers in [0, 1), shape (rows,); replaced by their place within the outcome.

    Returns:
        Outcomes, shape (rows,).
    """
    ends = np.cumsum(laws, axis=1)
    ends /= ends[:, -1:]
    ends[:, -1] = 1.0
    found = np.empty(len(numbers), np.int64)
    _invert(ends, np.zeros(0, np.int64) if where is None else where, numbers, found)
    return found


@numba.njit(cache=True, nogil=True)
def _first_above(ends, low, high, number):  # type: ignore[no-untyped-def]
    """The first outcome from ``low`` on whose end is above a number; ``high`` where none is."""
    while low < high:
        middle = (low + high) // 2
        if ends[middle] > number:
            high = middle
        else:
            low = middle + 1
    return low


@numba.njit(cache=True, nogil=True)
def _invert(ends, where, numbers, found):  # type: ignore[no-untyped-def]
    """The first outcome whose end is above a row's number, and the number's place within it."""
    for row in range(len(numbers)):
        law = ends[where[row] if len(where) else 0]
        number = numbers[row]
        low = _first_above(law, 0, len(law) - 1, number)
        start = law[low - 1] if low else 0.0
        place = (number - start) / max(law[low] - start, 1e-300)
        numbers[row] = min(max(place, 0.0), 1 - 1e-9)
        found[row] = low


def search(
    ends: Floats, first: Ints, last: Ints, chosen: NDArray[np.integer], numbers: Floats
) -> Ints:
    """Inverse distribution functions of parts of one law, one part per row.

    Args:
        ends: Sums of the law's shares up to each outcome, ascending.
        first: First outcome of every part.
        last: Last outcome of every part.
        chosen: Part of every row, shape (rows,).
        numbers: Numbers in [0, 1), shape (rows,).

    Returns:
        Outcomes, shape (rows,).
    """
    found = np.empty(len(numbers), np.int64)
    _search(ends, first, last, chosen, numbers, found)
    return found


@numba.njit(cache=True, nogil=True)
def _search(ends, first, last, chosen, numbers, found):  # type: ignore[no-untyped-def]
    for row in range(len(numbers)):
        low, high = first[chosen[row]], last[chosen[row]]
        base = ends[low - 1] if low else 0.0
        goal = base + numbers[row] * (ends[high] - base)
        found[row] = _first_above(ends, low, high, goal)


def cells_of(bins: BinRows, pair: Pair, sizes: Sequence[int]) -> NDArray[np.intp]:
    """Cell of every row in the table of a pair, shape (rows,)."""
    return np.asarray(bins[pair[0]].astype(np.intp) * sizes[pair[1]] + bins[pair[1]])


def fill_cells(bins: BinRows, pair: Pair, sizes: Sequence[int], cells: NDArray[np.uint16]) -> None:
    """Write what `cells_of` finds where there is room for it."""
    _cells(bins[pair[0]], bins[pair[1]], sizes[pair[1]], cells)


@numba.njit(cache=True, nogil=True)
def _cells(first, second, size, cells):  # type: ignore[no-untyped-def]
    for row in range(len(cells)):
        cells[row] = first[row] * size + second[row]


def rake_pool(
    cells: NDArray[np.uint16],
    targets: Sequence[Floats],
    sweeps: int,
    start: Floats | None = None,
) -> Floats:
    """Weights of rows that bring their tables to targets, by cyclic raking.

    Args:
        cells: For every target, the cell of every row, shape (targets, rows).
        targets: Counts per cell, each of the same total.
        sweeps: Passes over all targets.
        start: Weights to begin with, any total; missing means that all are alike.

    Returns:
        Weights, shape (rows,), summing to about the targets' total.
    """
    weights = np.ones(cells.shape[1]) if start is None else start.copy()
    weights *= float(targets[0].sum()) / weights.sum()
    ends = np.cumsum([0, *(len(target) for target in targets)])
    _rake(cells, np.concatenate(targets), ends, weights, sweeps)
    return weights


@numba.njit(cache=True, nogil=True)
def _rake(codes, targets, ends, weights, sweeps):  # type: ignore[no-untyped-def]
    """Scale the weights in place, one table after the other."""
    held, ratios = np.zeros(len(targets)), np.ones(len(targets))
    before = -1
    for turn in range(sweeps * len(codes)):
        table = turn % len(codes)
        start, end = ends[table], ends[table + 1]
        cell = codes[table]
        held[start:end] = 0.0
        if before < 0:
            for row in range(len(weights)):
                held[start + cell[row]] += weights[row]
        else:
            # One pass over the rows applies the last ratios and counts for the next.
            scaled, other = ratios[ends[before] : ends[before + 1]], codes[before]
            for row in range(len(weights)):
                weights[row] *= scaled[other[row]]
                held[start + cell[row]] += weights[row]
        for place in range(start, end):
            ratios[place] = 1.0
            if held[place] > _NOTHING:
                ratios[place] = min(max(targets[place] / held[place], _LEAST), _MOST)
        before = table
    if before >= 0:
        scaled, other = ratios[ends[before] : ends[before + 1]], codes[before]
        for row in range(len(weights)):
            weights[row] *= scaled[other[row]]


def resample(weights: Floats, rows: int, generator: np.random.Generator) -> Ints:
    """Systematic sample by weight: row numbers, shape (rows,), in random order."""
    order = generator.permutation(len(weights))
    found = systematic(weights[order], rows, generator)
    return np.asarray(order[found][generator.permutation(rows)])


def among(shares: Floats, numbers: Floats) -> Ints:
    """Draws by their shares within every row, as numbers into a pool of draws times rows.

    Args:
        shares: Share of every draw, shape (draws, rows); sums to 1 in every row.
        numbers: Numbers in [0, 1), shape (choices, rows).
    """
    rows = shares.shape[1]
    ends = np.cumsum(shares, axis=0)
    chosen = np.zeros(numbers.shape, np.int64)
    for end in ends[:-1]:
        chosen += numbers >= end
    return np.asarray(chosen * rows + np.arange(rows))
