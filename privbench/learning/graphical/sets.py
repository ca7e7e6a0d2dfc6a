"""Sets: which labels of a column come together among the rows of one owner (`PresencePairs`).

A column is drawn without them, then its cells are exchanged between rows of owners by Metropolis
steps. Their law is the column's factor times exp(λ) for each label and each two that an owner has.
In a first block of owners the λ follow what is missing of released presences (Robbins and Monro
1951), until it is no more than a sample of owners would lack. Other blocks repeat these steps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Floats, Ints, Rng
from privbench.domain import Codes

#: Least and most sweeps, exchanges between; the first step of λ, and the largest; owners of a
#: block. Without blocks and the limit on deviations a sample of TPC-H took six times as long.
LEAST, SWEEPS, EXCHANGES, STEP, MOST, OWNERS = 100, 600, 2**20, 0.15, 20.0, 2**14

#: The power of its entries by which an owner counts, and means over owners of what `PresencePairs`
#: counts of a column, whose first cells are labels.
SetLaw = tuple[float, Floats]


def counted(cells: Codes, labels: int, sizes: Ints) -> NDArray[np.int32]:
    """Rows by owner and label, the last of which stands for other cells."""
    owner, found = np.repeat(range(len(sizes)), sizes), np.zeros((len(sizes), labels + 1), np.int32)
    np.add.at(found, (owner, np.minimum(cells[: len(owner)], labels)), 1)
    return found


def presences(counts: NDArray[np.int32], power: float) -> Floats:
    """What `PresencePairs` counts of `counted` rows, as a matrix."""
    present = counts[:, :-1] > 0
    labels = np.arange(counts.shape[1])
    weights = np.maximum(labels * (labels + 1) / 2, 1) ** power
    shares = present.astype(np.float32)
    weighted = shares * weights.astype(np.float32)[present.sum(axis=1), None]
    return np.asarray(weighted.T @ shares, float)


def exchanged(
    cells: Codes, chances: Floats, index: Codes, owners: Ints, law: SetLaw, numbers: Rng
) -> Codes:
    """A column's cells after exchanges between rows of owners, who are in order.

    ``chances`` are those of cells, shape (configurations, cells), and ``index`` is every row's
    configuration: columns that are drawn later follow the cells that a row has then.
    """
    (power, totals), cells = law, cells.copy()
    _, starts, sizes = np.unique(owners[owners >= 0], return_index=True, return_counts=True)
    logs, steps = np.log(np.maximum(chances, 1e-9)), list[Floats]()
    sweeps = min(SWEEPS, LEAST + EXCHANGES // (int((sizes > 1).sum()) + 1))
    blocks = np.array_split(numbers.permutation(len(sizes)), len(sizes) // OWNERS + 1)
    for number, block in enumerate(blocks):
        size, lambdas = sizes[block], np.zeros((len(totals) + 1,) * 2)
        rows = np.repeat(starts[block] + size - np.cumsum(size), size) + np.arange(size.sum())
        held, configurations = cells[rows], index[rows]
        wanted = np.maximum(totals, 0.0) * len(size) / len(sizes)
        counts = counted(held, len(totals), size)
        for sweep in range(len(steps) if number else sweeps):
            if not number:
                present = presences(counts, power)
                off = wanted - present
                near = np.triu(off**2 / (wanted + 1.0), 1)
                if near.sum() <= len(totals) * (len(totals) - 1) / 2:
                    break
                off *= STEP / (1 + 4 * sweep / sweeps) / (np.maximum(wanted, present) + 1.0)
                lambdas[:-1, :-1] = np.clip(lambdas[:-1, :-1] + off, -MOST, MOST)
                steps.append(lambdas.copy())
            _exchange(held, configurations, size, counts, logs, steps[sweep], numbers)
        cells[rows] = held
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
    """Offer an exchange to all owners of a block, in pairs of which one has several rows."""
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
    taken = np.tile(np.log(numbers.random(half)) < gain[:half] + gain[half:], 2)
    counts[chosen[taken], lost[taken]] -= 1
    counts[chosen[taken], won[taken]] += 1
    cells[place[taken]] = cells[other[taken]]
