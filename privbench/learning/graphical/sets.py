"""Correlate labels among the rows of one owner: which labels occur together (`PresencePairs`).

A column is first drawn without these correlations; then its cells are exchanged between rows of
different owners by Metropolis steps. The target distribution is the column's factor times exp(λ)
for each label and each pair of labels that an owner has. In a first block of owners the λ are
adapted to the released numbers of owners with each pair (Robbins and Monro 1951), until the
difference is within a sample's error. Other blocks repeat these steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Floats, Ints, Rng
from privbench.domain import Codes
from privbench.learning import portable

#: The least and the largest number of sweeps, and the exchanges tried in each.
LEAST, SWEEPS, EXCHANGES = 100, 600, 2**20
#: The first and the largest step of λ.
STEP, MOST = 0.15, 20.0
#: How many owners are exchanged at a time.
OWNERS = 2**14


@dataclass(frozen=True, slots=True, eq=False)
class SetLaw:
    """The distribution of labels among the rows of an owner; a column's first cells are labels."""

    power: float  # of its entries, by which an owner counts
    presences: Floats  # means over owners of what `PresencePairs` counts
    public: int = 0  # number of owners, if they are public rows
    scope: int = 0  # then the place of the column that leads to them

    def owners(self, codes: Mapping[int, Codes], owners: Ints | None) -> Ints:
        """Return the owner of every row, below 0 for rows without one."""
        if owners is not None:
            return owners
        cells = codes[self.scope].astype(np.int64)
        return np.where(cells < self.public, cells, -1)


def counted(cells: Codes, labels: int, owners: Ints) -> NDArray[np.int32]:
    """Count rows by owner and label; the last column counts all other cells."""
    distinct_owners, place = np.unique(owners[owners >= 0], return_inverse=True)
    counts = np.zeros((len(distinct_owners), labels + 1), np.int32)
    np.add.at(counts, (place, np.minimum(cells[owners >= 0], labels)), 1)
    return counts


def presences(counts: NDArray[np.int32], power: float) -> Floats:
    """Return from `counted` rows in how many owners each label, and each pair of labels, occurs.

    It is the matrix that `PresencePairs` measures.
    """
    present = counts[:, :-1] > 0
    labels = np.arange(counts.shape[1])
    weights = portable.exp(power * portable.log(np.maximum(labels * (labels + 1) / 2, 1)))
    shares = present.astype(np.float64)
    return np.asarray((shares * portable.on_grid(weights)[present.sum(axis=1), None]).T @ shares)


def exchanged(
    cells: Codes, chances: Floats, index: Codes, owners: Ints, law: SetLaw, numbers: Rng
) -> Codes:
    """Return a column's cells after exchanging them between owners to correlate labels.

    ``chances`` are the probabilities of cells, of shape (configurations, cells), and ``index`` is
    every row's configuration of parent columns. The total number of rows per cell stays the same;
    ``law`` states how often labels occur together among an owner's rows.
    """
    totals, cells = law.presences, cells.copy()
    owned = np.flatnonzero(owners >= 0)
    if not len(owned):
        return cells
    _, place = np.unique(owners[owned], return_inverse=True)
    rank = numbers.permutation(place.max(initial=-1) + 1)[place]
    order, sizes = owned[np.argsort(rank, kind="stable")], np.bincount(rank)
    logs, steps = portable.log(np.maximum(chances, 1e-9)), list[Floats]()
    sweeps = min(SWEEPS, LEAST + EXCHANGES // (int((sizes > 1).sum()) + 1))
    for number, size in enumerate(np.array_split(sizes, len(sizes) // OWNERS + 1)):
        rows, order = np.split(order, [size.sum()])
        owned_cells, owned_index, lambdas = (
            cells[rows],
            index[rows],
            np.zeros((len(totals) + 1,) * 2),
        )
        block_totals = np.maximum(totals, 0.0) * len(size) / len(sizes)
        counts = counted(owned_cells, len(totals), np.repeat(range(len(size)), size))
        for sweep in range(len(steps) if number else sweeps):
            if not number:
                present = presences(counts, law.power)
                off = block_totals - present
                if np.triu(off**2 - block_totals, 1).sum() <= 0:
                    break
                off *= STEP / (1 + 4 * sweep / sweeps) / (np.maximum(block_totals, present) + 1.0)
                moved = portable.on_grid(lambdas[:-1, :-1] + off)
                lambdas[:-1, :-1] = np.clip(moved, -MOST, MOST)
                steps.append(lambdas.copy())
            _exchange(owned_cells, owned_index, size, counts, logs, steps[sweep], numbers)
        cells[rows] = owned_cells
    return cells


def _exchange(
    cells: Codes,
    index: Codes,
    sizes: Ints,
    counts: NDArray[np.int32],
    logs: Floats,
    lambdas: Floats,
    numbers: Rng,
) -> None:
    """Offer exchanges to all owners of a block, in pairs of which one has several rows."""
    half = min(len(sizes) // 2, int((sizes > 1).sum()))
    chosen, each = numbers.permutation(len(sizes)), np.arange(2 * half)
    chosen = chosen[np.argsort(sizes[chosen] < 2, kind="stable")][: 2 * half]
    place = (np.cumsum(sizes) - sizes)[chosen]
    place += (numbers.random(2 * half) * sizes[chosen]).astype(np.int64)
    other, owned = np.roll(place, half), counts[chosen]
    lost, won = (np.minimum(cells[rows], len(lambdas) - 1) for rows in (place, other))
    joint = 2 * ((owned > 0) @ lambdas)
    comes, goes = owned[each, won] == 0, (owned[each, lost] == 1) & (lost != won)
    gain = comes * (lambdas[won, won] + joint[each, won])
    gain += goes * (lambdas[lost, lost] - joint[each, lost])
    gain -= 2 * comes * goes * lambdas[lost, won]
    gain += logs[index[place], cells[other]] - logs[index[place], cells[place]]
    accepted = np.tile(portable.log(numbers.random(half)) < gain[:half] + gain[half:], 2)
    counts[chosen[accepted], lost[accepted]] -= 1
    counts[chosen[accepted], won[accepted]] += 1
    cells[place[accepted]] = cells[other[accepted]]
