"""Sets: which labels of a column come together among the rows of one owner (`PresencePairs`).

A column is drawn without them, then its cells are exchanged between rows of owners by Metropolis
steps. Their law is the column's factor times exp(λ) for each label and each two that an owner has;
the λ follow what is missing of released presences (Robbins and Monro 1951).
"""

from __future__ import annotations

import numpy as np

from privbench.arrays import Floats, Ints, Rng
from privbench.domain import Codes

#: Least and most sweeps, exchanges between; the first step of λ, and the largest.
LEAST, SWEEPS, EXCHANGES, STEP, MOST = 100, 600, 2**20, 0.15, 20.0

#: A column, whose first cells are labels; the power of its entries by which an owner counts; and
#: means over owners of what `PresencePairs` counts.
SetLaw = tuple[str, float, Floats]


def counted(cells: Codes, labels: int, sizes: Ints) -> tuple[Ints, Ints]:
    """Every row's label, one more for other cells; and rows by owner and label."""
    of_rows, owner = np.minimum(cells.astype(np.int64), labels), np.repeat(range(len(sizes)), sizes)
    found = np.zeros((len(sizes), labels + 1), int)
    np.add.at(found, (owner, of_rows[: len(owner)]), 1)
    return of_rows, found


def presences(counts: Ints, power: float) -> Floats:
    """What `PresencePairs` counts of `counted` rows, as a matrix."""
    present = counts[:, :-1] > 0
    labels = np.arange(counts.shape[1])
    weights = np.maximum(labels * (labels + 1) / 2, 1) ** power
    shares = present.astype(float)
    return np.asarray((shares * weights[present.sum(axis=1), None]).T @ shares)


def exchanged(
    cells: Codes, chances: Floats, index: Codes, owners: Ints, law: SetLaw, numbers: Rng
) -> Codes:
    """A column's cells after exchanges between rows of owners, who are in order.

    ``chances`` are those of cells, shape (configurations, cells), and ``index`` is every row's
    configuration: columns that are drawn later follow the cells that a row has then.
    """
    (_, power, wanted), cells = law, cells.copy()
    _, starts, sizes = np.unique(owners[owners >= 0], return_index=True, return_counts=True)
    labels, counts = counted(cells, len(wanted), sizes)
    lambdas, logs = np.zeros((len(wanted) + 1,) * 2), np.log(np.maximum(chances, 1e-9))
    half = min(len(sizes) // 2, int((sizes > 1).sum()))
    each, sweeps = np.arange(2 * half), min(SWEEPS, LEAST + EXCHANGES // max(half, 1))
    for sweep in range(sweeps if half else 0):
        # Of two owners one has several rows.
        chosen = numbers.permutation(len(sizes))
        chosen = chosen[np.argsort(sizes[chosen] < 2, kind="stable")][: 2 * half]
        place = starts[chosen] + (numbers.random(2 * half) * sizes[chosen]).astype(np.int64)
        other = np.roll(place, half)
        present = presences(counts, power)
        off = (wanted - present) / (np.maximum(wanted, present) + 1.0)
        lambdas[:-1, :-1] += STEP / (1 + 4 * sweep / sweeps) * off
        np.clip(lambdas, -MOST, MOST, out=lambdas)
        lost, won, owned = labels[place], labels[other], counts[chosen]
        joint = 2 * ((owned > 0) @ lambdas)
        comes, goes = owned[each, won] == 0, (owned[each, lost] == 1) & (lost != won)
        gain = comes * (lambdas[won, won] + joint[each, won])
        gain += goes * (lambdas[lost, lost] - joint[each, lost])
        gain -= 2 * comes * goes * lambdas[lost, won]
        gain += logs[index[place], cells[other]] - logs[index[place], cells[place]]
        taken = np.tile(np.log(numbers.random(half)) < gain[:half] + gain[half:], 2)
        counts[chosen[taken], lost[taken]] -= 1
        counts[chosen[taken], won[taken]] += 1
        cells[place[taken]], labels[place[taken]] = cells[other[taken]], labels[other[taken]]
    return cells
