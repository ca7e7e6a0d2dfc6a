"""Sets: which labels of a column come together among the rows of one owner (`PresencePairs`).

Rows are drawn without them, then owners exchange labels by Metropolis steps, or rows that these
hang on. Their law is the table's model times exp(λ) for each label and each two that an owner has;
the λ follow what is missing of released presences (Robbins and Monro 1951).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from privbench.arrays import Floats, Ints, Rng
from privbench.domain import Codes
from privbench.learning.graphical.table_model import Factor

#: Least and most sweeps, exchanges between; first step of λ, and the largest; least taken.
LEAST, SWEEPS, EXCHANGES, STEP, MOST, FREE = 100, 600, 2**20, 0.15, 20.0, 0.05

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
    held = (counts[:, :-1] > 0).astype(float)
    labels = held.sum(axis=1, keepdims=True)
    return np.asarray((held * np.maximum(labels * (labels + 1) / 2, 1) ** power).T @ held)


def exchanged(
    laws: Sequence[SetLaw],
    factors: Sequence[Factor],
    codes: Mapping[str, Codes],
    context: Mapping[int, Codes],
    sizes: Ints,
    numbers: Rng,
) -> dict[str, Codes]:
    """A table's columns after exchanges between owners of these sizes."""
    columns = dict(enumerate(map(np.copy, codes.values()))) | {**context}
    moves = {list(codes).index(name) for name, *_ in laws}
    owners, sizes = len(sizes), sizes[sizes > 0]
    starts = np.cumsum(sizes) - sizes
    parts = [
        (power, owners * law, np.pad(0 * law, (0, 1)), *counted(codes[name], len(law), sizes))
        for name, power, law in laws
    ]
    half = min(len(sizes) // 2, int((sizes > 1).sum()))
    each, sweeps = np.arange(2 * half), min(SWEEPS, LEAST + EXCHANGES // max(half, 1))
    for sweep in range(sweeps if half else 0):
        # Of two owners one has several rows.
        chosen = numbers.permutation(len(sizes))
        chosen = chosen[np.argsort(sizes[chosen] < 2, kind="stable")][: 2 * half]
        mine = starts[chosen] + (numbers.random(2 * half) * sizes[chosen]).astype(np.int64)
        other, gain = np.roll(mine, half), np.zeros(2 * half)
        for power, wanted, lambdas, labels, counts in parts:
            present = presences(counts, power)
            off = (wanted - present) / (np.maximum(wanted, present) + 1.0)
            lambdas[:-1, :-1] += STEP / (1 + 4 * sweep / sweeps) * off
            np.clip(lambdas, -MOST, MOST, out=lambdas)
            held, lost, won = counts[chosen], labels[mine], labels[other]
            pull = 2 * ((held > 0) @ lambdas)
            comes, goes = held[each, won] == 0, (held[each, lost] == 1) & (lost != won)
            gain += comes * (lambdas[won, won] + pull[each, won])
            gain += goes * (lambdas[lost, lost] - pull[each, lost])
            gain -= 2 * comes * goes * lambdas[lost, won]
        for factor, (row, sign) in product(factors, ((other, 1.0), (mine, -1.0))):
            places = {factor.column, *factor.parents}
            if places & moves and places - moves:
                cells = {p: columns[p][row if p in moves else mine] for p in places}
                groups = factor.groups[cells[factor.column]]
                chances = factor.table[factor.index(cells, 2 * half), groups]
                gain += sign * np.log(np.maximum(chances, 1e-9))
        taken = np.tile(np.log(numbers.random(half)) < gain[:half] + gain[half:], 2)
        if not sweep and (taken & (lost != won)).mean() < FREE:
            moves = {*range(len(codes))}
        mine, other = mine[taken], other[taken]
        for *_, labels, counts in parts:
            counts[chosen[taken], labels[mine]] -= 1
            counts[chosen[taken], labels[other]] += 1
            labels[mine] = labels[other]
        for place in moves:
            columns[place][mine] = columns[place][other]
    return {name: columns[place] for place, name in enumerate(codes)}
