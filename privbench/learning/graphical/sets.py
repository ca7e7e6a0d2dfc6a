"""Sets: which labels of a column come together among the rows of one owner (`PresencePairs`).

Rows are drawn without them, then exchanged between owners by Metropolis steps. Their law is the
table's model times exp(λ) for each label and each two that an owner has; the λ follow what is
missing of released presences (Robbins and Monro 1951).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from privbench.arrays import Floats, Ints, Rng
from privbench.domain import Codes
from privbench.learning.graphical.table_model import Factor

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
    factors = [factor for factor in factors if {*context} & {*factor.parents}]
    columns = dict(enumerate(codes.values())) | dict(context)
    owners, sizes = len(sizes), sizes[sizes > 0]
    starts = np.cumsum(sizes) - sizes
    parts = [
        (
            power,
            owners * law,
            np.zeros((len(law) + 1,) * 2),
            *counted(codes[name], len(law), sizes),
        )
        for name, power, law in laws
    ]
    half, at = min(len(sizes) // 2, int((sizes > 1).sum())), np.arange(len(columns[0]))
    each, sweeps = np.arange(2 * half), min(SWEEPS, LEAST + EXCHANGES // max(half, 1))
    for sweep in range(sweeps if half else 0):
        # Of two owners one has several rows.
        chosen = numbers.permutation(len(sizes))
        chosen = chosen[np.argsort(sizes[chosen] < 2, kind="stable")][: 2 * half]
        place = starts[chosen] + (numbers.random(2 * half) * sizes[chosen]).astype(np.int64)
        mine, other = at[place], np.roll(at[place], half)
        gain = np.zeros(2 * half)
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
            cells = {p: columns[p][place if p in context else row] for p in factor.parents}
            groups = factor.groups[columns[factor.column][row]]
            chances = factor.table[factor.index(cells, 2 * half), groups]
            gain += sign * np.log(np.maximum(chances, 1e-9))
        taken = np.tile(np.log(numbers.random(half)) < gain[:half] + gain[half:], 2)
        at[place[taken]] = other[taken]
        for *_, labels, counts in parts:
            counts[chosen[taken], labels[mine[taken]]] -= 1
            counts[chosen[taken], labels[other[taken]]] += 1
    return {name: held[at] for name, held in codes.items()}
