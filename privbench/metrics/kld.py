"""The λ-way KLD and TVD: how far the clone's joint distributions are from the source's."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import AnyInts, Ints
from privbench.domain import Codes
from privbench.metrics.base import Metric, Part
from privbench.rng import generator

#: Added to the probability of each observed cell.
C = 1e-10
# Combinations are counted in an array of at most 8 cells per row, and at most 2^25 cells, which are
# 256 MiB for both tables with 4 bytes a cell.
_CELLS_A_ROW, _MOST_CELLS = 8, 1 << 25
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Coded:
    """One column of both tables, in codes that both share."""

    real: NDArray[np.unsignedinteger[Any]]  # codes of the source's rows, shape (n,)
    clone: NDArray[np.unsignedinteger[Any]]  # codes of the clone's rows, shape (m,)
    size: int  # codes lie in [0, size)


def distance(columns: Sequence[Coded]) -> tuple[float, float]:
    """Return KLD and TVD of the combinations of some columns; the source must have a row.

    KLD is Σ (p + c)·ln((p + c)/(q + c)) over the combinations observed in either table, TVD is
    ½·Σ|p − q|. No array here is as large as the rows times the columns: rows are encoded a block at
    a time. They are counted in an array if there are few combinations, else sorted and merged.
    """
    cells = math.prod(column.size for column in columns)
    if cells >= 1 << 63:
        raise ValueError("too many combinations to number")
    sizes = [column.size for column in columns]
    sides = [column.real for column in columns], [column.clone for column in columns]
    rows = [len(side[0]) for side in sides]
    if cells <= min(_CELLS_A_ROW * sum(rows), _MOST_CELLS):
        counts, one = np.zeros((2, cells), dtype=np.uint32), np.uint32(1)
        for counted, side in zip(counts, sides, strict=True):
            for begin in range(0, len(side[0]), _BLOCK):
                np.add.at(counted, _block(side, sizes, begin), one)
        kld, tvd = _summed(counts[0], counts[1], rows[0], max(rows[1], 1))
    else:
        kind = np.uint32 if cells <= 1 << 32 else np.uint64
        real, clone = (_joint(side, sizes, kind) for side in sides)
        real.sort()
        clone.sort()
        kld, tvd = _merged(real, clone)
    return kld, tvd


def _joint(columns: Sequence[Codes], sizes: Sequence[int], kind: type[Any]) -> Codes:
    """Numbers of the rows' combinations, shape (rows,)."""
    rows = len(columns[0])
    numbers = np.empty(rows, dtype=kind)
    for begin in range(0, rows, _BLOCK):
        numbers[begin : begin + _BLOCK] = _block(columns, sizes, begin)
    return numbers


def _block(columns: Sequence[Codes], sizes: Sequence[int], begin: int) -> Ints:
    """Numbers of the combinations of one block of rows."""
    codes = columns[0][begin : begin + _BLOCK].astype(np.int64)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        codes *= size
        codes += column[begin : begin + _BLOCK]
    return codes


def _summed(real: AnyInts, clone: AnyInts, n: int, m: int) -> tuple[float, float]:
    """The sums over the cells of two arrays of counts, a block at a time."""
    kld = tvd = 0.0
    for begin in range(0, len(real), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        observed = (real[block] > 0) | (clone[block] > 0)
        p = real[block][observed] / n
        q = clone[block][observed] / m
        kld += float(np.sum((p + C) * np.log((p + C) / (q + C))))
        tvd += 0.5 * float(np.sum(np.abs(p - q)))
    return kld, tvd


def _merged(real: Codes, clone: Codes) -> tuple[float, float]:
    """The sums over two sorted arrays of numbers of combinations."""
    observed = [_runs(side) for side in (real, clone)]
    # A stable sort merges two sorted halves; `np.union1d` would hash them, for ten times as long.
    cells, _ = _runs(np.sort(np.concatenate([numbers for numbers, _ in observed]), kind="stable"))
    counts = np.zeros((2, cells.size), dtype=np.int64)
    for counted, (numbers, lengths) in zip(counts, observed, strict=True):
        counted[np.searchsorted(cells, numbers)] = lengths
    return _summed(counts[0], counts[1], len(real), max(len(clone), 1))


def _runs(numbers: Codes) -> tuple[Codes, Ints]:
    """The distinct numbers of a sorted array, and how often each occurs."""
    first = np.ones(len(numbers), dtype=np.bool_)
    first[1:] = numbers[1:] != numbers[:-1]
    starts = np.flatnonzero(first)
    return numbers[starts], np.diff(starts, append=len(numbers))


KLD = Metric(
    name="kld",
    title="λ-way KLD",
    meaning="How far the joint distributions of 2, 3 or 4 columns are apart (Kullback-Leibler "
    "divergence): 0 is the same distribution.",
    headline="kld.2",
    good=0.1,
    fair=0.4,
)

TVD = Metric(
    name="tvd",
    title="λ-way total variation distance",
    high=1.0,
    meaning="The share of rows that would have to change for the clone's combinations of columns "
    "to match the source's: 0 is the same distribution, 1 has nothing in common.",
    headline="tvd.2",
    good=0.05,
    fair=0.15,
)

#: Most sets of columns over which a divergence is averaged; if there are more, they are sampled.
MOST_SETS = 1001
SEED = 20240229


class DivergencePart(Part):
    """Mean divergences over sets of λ columns; ``sets`` of all ``of`` sets were used."""

    kld: float  # natural logarithm
    tvd: float  # in [0, 1]
    sets: int
    of: int


def divergence(columns: Sequence[Coded], ways: int) -> DivergencePart | None:
    """Return the mean KLD and TVD over the sets of λ columns, as DESIGN section 5 defines them.

    For a set, p and q are the shares of the source's and the clone's rows in each cell observed in
    either; KLD is Σ (p + c)·ln((p + c)/(q + c)) with c = 10⁻¹⁰, not renormalised; TVD ½·Σ|p − q|.
    An empty clone has share 0 everywhere. The result is None if there are fewer columns than λ or
    no rows in the source.
    """
    if len(columns) < ways or len(columns[0].real) == 0:
        return None
    sets = column_sets(len(columns), ways)
    figures = np.array([distance([columns[i] for i in chosen]) for chosen in sets])
    kld, tvd = figures.mean(axis=0)
    of = math.comb(len(columns), ways)
    return DivergencePart(kld=kld, tvd=tvd, sets=len(sets), of=of)


def column_sets(columns: int, ways: int) -> list[tuple[int, ...]]:
    """Return the sets of columns, sorted; if more than `MOST_SETS`, a sample by a fixed seed."""
    if math.comb(columns, ways) <= MOST_SETS:
        return list(itertools.combinations(range(columns), ways))
    rng = generator(SEED + ways)
    drawn: set[tuple[int, ...]] = set()
    while len(drawn) < MOST_SETS:
        drawn.add(tuple(sorted(rng.choice(columns, ways, replace=False).tolist())))
    return sorted(drawn)
