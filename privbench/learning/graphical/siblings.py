"""Correlation among the rows of one owner: rows are alike, differ, or rise in time, by column.

Groups of cells of two rows of each owner are measured (`Sibling`), the earlier row first. Then
columns are drawn as quantiles at random numbers that are correlated among rows of one owner. Each
number alone is uniform and independent of the owner, so that all other distributions stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import sqrt

import numpy as np

from privbench.arrays import Floats, Ints
from privbench.domain import Codes
from privbench.learning.answers import Measured
from privbench.learning.denoise import SURE
from privbench.learning.graphical.columns import ModelColumn, Variable
from privbench.learning.graphical.estimate import rake
from privbench.learning.graphical.table_model import Factor
from privbench.privacy import DatabaseSpec, KeySpec
from privbench.privacy.queries import Axis, Joined, PublicArray, Sibling
from privbench.rng import generator

#: Levels of the groups of a column, and of dates.
LEVEL, DATED = 1, 2
#: Most rows on which a likeness is found: a limit on time alone.
MOST_ROWS = 2**14


def date_of(spec: DatabaseSpec, table: str, columns: Sequence[Variable | ModelColumn]) -> int:
    """Return the position of the date on which an owned table's rows began, or -1."""
    item = spec.tables[table]
    named = (at for at, one in enumerate(columns) if item.own and one.name == item.created)
    return next(named, -1)


def pair_axis(key: KeySpec, variables: Sequence[Variable], place: int, date: int) -> Axis:
    """Return the axis of a pair of an owner's rows: pairs of groups, and a cell for all else.

    The row in the earlier group of dates is the first; for rows of the same group, the order is
    random.
    """
    size, axes = variables[place].groups(LEVEL), [variables[place].grouped(LEVEL)]
    cells = np.arange(size * size).reshape(size, size)
    cells = np.pad(cells, (0, 1), constant_values=size * size)
    if date not in (-1, place):
        time = variables[date]
        later = np.tri(time.groups(DATED) + 1, k=-1, dtype=np.bool_)[:, :, None, None]
        axes, cells = [time.grouped(DATED), *axes], np.where(later, cells.T, cells)
    both = (Sibling(key, axis, at) for axis in axes for at in (0, 1))
    return Joined(tuple(both), PublicArray(cells))


def with_siblings(
    factor: Factor,
    variables: Sequence[Variable],
    date: int,
    answer: Measured,
    codes: Mapping[int, Codes],
    owners: Ints,
    weights: Floats,
) -> Factor:
    """Return the factor with the correlation and the drift that best fit noisy pairs of rows.

    They stay 0 unless they are clear of noise. Pairs of synthetic rows are raked to the measured
    margins, since owners of several rows have another distribution than all owners.
    """
    (noisy, sd), owners = answer, owners[:MOST_ROWS]
    first = np.flatnonzero((owners[1:] == owners[:-1]) & (owners[1:] >= 0))
    if not len(first):
        return factor
    along = -1 if date == factor.column else date
    some = {place: codes[place][:MOST_ROWS] for place in {*factor.parents, along} - {-1}}
    variable = variables[factor.column]
    pairs, size = np.bincount(owners[first], minlength=len(weights)), variable.groups(LEVEL)
    each = (weights / np.maximum(pairs, 1))[owners[first]]
    later, observed = np.zeros(len(first), np.bool_), noisy[:-1].reshape(size, size)
    if along >= 0:
        later = np.diff(variables[along].levels[DATED][some[along]])[first] < 0
    one, other = np.where(later, first + 1, first), np.where(later, first, first + 1)
    margin = np.maximum((observed + observed.T).sum(axis=0) / 2, 1e-6)
    samples = 1.0 / margin.sum() + 1.0 / np.count_nonzero(pairs)
    variance = sd**2 + np.outer(margin, margin) * samples

    def alike(likeness: float, drift: float) -> Factor:
        ordered = variable.ordered > 0
        return replace(factor, likeness=likeness, ordered=ordered, drift=drift, along=along)

    def expected(likeness: float, drift: float) -> Floats:
        same = generator(0, "siblings")
        drawn = alike(likeness, drift).draw(some, len(owners), same, owners)
        cells = variable.levels[LEVEL][drawn]
        table = np.bincount(cells[one] * size + cells[other], each, size * size)
        table = table.reshape(size, size)
        both = (table + table.T) / 2
        raked = rake(both, margin, margin)
        return raked * table / np.maximum(both, 1e-9)

    def misfit(table: Floats) -> float:
        return float(((observed - table) ** 2 / variance).sum())

    def best(law: Callable[[float], Floats], old: float, signs: Floats) -> float:
        none = law(0.0)
        side = 1.0 if float((signs * (observed - none)).sum()) > 0 else -1.0
        value, least = _minimum(lambda size: misfit(law(side * size)))
        return side * value if least < misfit(law(old) if old else none) - SURE**2 else old

    scores, likeness, drift = variable.scores(LEVEL), 0.0, 0.0
    near = np.outer(scores, scores) if variable.ordered else np.eye(size)
    for _ in range(2 if along >= 0 else 1):
        likeness = best(partial(expected, drift=drift), likeness, near)
        if along >= 0:
            drift = best(partial(expected, likeness), drift, np.tri(size).T - np.tri(size))
    return alike(likeness, drift) if likeness or drift else factor


def _minimum(function: Callable[[float], float]) -> tuple[float, float]:
    """Where a function with one minimum between 0 and 1 has it, and its value there.

    By golden section search (Kiefer 1953), to 0.03.
    """
    low, high, part = 0.0, 1.0, (sqrt(5.0) - 1.0) / 2.0
    first, second = 1.0 - part, part
    at_first, at_second = function(first), function(second)
    while high - low > 0.06:
        if at_first < at_second:
            high, second, at_second = second, first, at_first
            first = high - part * (high - low)
            at_first = function(first)
        else:
            low, first, at_first = first, second, at_second
            second = low + part * (high - low)
            at_second = function(second)
    return (first, at_first) if at_first < at_second else (second, at_second)
