"""Rows of one owner: whether they are alike, differ, or are as any others, column by column.

Groups of cells of two rows of each owner are measured (`Sibling`). Then
columns are drawn by quantiles at numbers that go together among rows of one owner. Each number by
itself is uniform and tells nothing of the row or its owner: all other laws stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from privbench.arrays import Floats, Ints
from privbench.domain import Codes
from privbench.learning.answers import Measured
from privbench.learning.denoise import SURE
from privbench.learning.graphical.columns import Variable
from privbench.learning.graphical.estimate import rake
from privbench.learning.graphical.table_model import Factor
from privbench.privacy import KeySpec
from privbench.privacy.queries import Axis, Joined, PublicArray, Sibling
from privbench.rng import generator

#: Most rows on which a likeness is found: a limit on time alone.
MOST_ROWS = 2**14


def pair_axis(key: KeySpec, variable: Variable) -> Axis:
    """The axis of an owner's two rows: unordered pairs of groups, and a cell for all else."""
    cells, axis = _cells(variable.groups(0)), variable.grouped(0)
    groups = PublicArray(np.pad(cells, (0, 1), constant_values=cells.max() + 1))
    return Joined((Sibling(key, axis, 0), Sibling(key, axis, 1)), groups)


def _cells(size: int) -> Ints:
    upper, cells = np.triu_indices(size), np.zeros((size, size), np.int64)
    cells[upper] = cells.T[upper] = np.arange(len(upper[0]))
    return cells


def with_siblings(
    factor: Factor,
    variable: Variable,
    answer: Measured,
    codes: Mapping[int, Codes],
    owners: Ints,
    weights: Floats,
) -> Factor:
    """The factor with the likeness that fits noisy pairs best, if that is clear of their noise.

    Pairs of synthetic rows are raked to their margins: owners of several have another law.
    """
    (noisy, sd), owners = answer, owners[:MOST_ROWS]
    first = np.flatnonzero((owners[1:] == owners[:-1]) & (owners[1:] >= 0))
    if not len(first):
        return factor
    some = {place: codes[place][:MOST_ROWS] for place in factor.parents}
    pairs, size = np.bincount(owners[first], minlength=len(weights)), variable.groups(0)
    each = (weights / np.maximum(pairs, 1))[owners[first]]
    half = (1.0 + np.eye(size)) / 2
    observed = noisy[_cells(size)] * half
    margin = np.maximum(observed.sum(axis=0), 1e-6)
    samples = 1.0 / margin.sum() + 1.0 / np.count_nonzero(pairs)
    variance = sd**2 * half + np.outer(margin, margin) * samples

    def alike(likeness: float) -> Factor:
        return replace(factor, likeness=likeness, ordered=variable.ordered > 0)

    def expected(likeness: float) -> Floats:
        same = generator(0, "siblings")
        drawn = alike(likeness).draw(some, len(owners), same, owners)
        cells, table = variable.levels[0][drawn], np.zeros((size, size))
        np.add.at(table, (cells[first], cells[first + 1]), each)
        return rake(table + table.T, margin, margin)

    def misfit(table: Floats) -> float:
        return float(((observed - table) ** 2 / variance).sum())

    from scipy.optimize import minimize_scalar  # many commands need none of it

    apart = expected(0.0)
    most = misfit(apart) - SURE**2
    if most <= 0:
        return factor
    best = minimize_scalar(
        lambda likeness: misfit(expected(likeness)),
        bounds=(0, 1) if np.trace(observed - apart) > 0 else (-1, 0),
        method="bounded",
        options={"xatol": 0.03},
    )
    return alike(float(best.x)) if best.fun < most else factor
