"""References between private tables: which rows are referred to, and how often.

See "References between private tables" in ``docs/method.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Floats, Ints, Mask, Rng
from privbench.domain import Codes
from privbench.errors import ModelError
from privbench.learning import portable
from privbench.learning.answers import Measured
from privbench.learning.denoise import Noise
from privbench.learning.graphical.associations import TargetAssociation
from privbench.learning.graphical.budget import (
    MOST_SCORES,
    Budget,
    targets_part,
)
from privbench.learning.graphical.columns import DETAIL, Variable, shown
from privbench.learning.graphical.estimate import COUNTED, RATIO_SD, cell_fits, posterior, shrink
from privbench.learning.graphical.sizes import MANY
from privbench.learning.information import uncertainty_coefficient
from privbench.privacy import KeySpec, Measurement
from privbench.privacy.queries import Axis, Joined, PublicArray, TargetHistogram, Whole

#: Parts of the amount for the marginals of targets; at most two are measured.
PARTS = (0.6, 0.4)
#: Columns form a score if the first eigenvalue of their correlations is at least this many times
#: the eigenvalue that independent columns have by chance.
TOGETHER = 1.2
#: Sweeps of fitting the factors, and the step size of each sweep. With 30 sweeps noise is fitted
#: (stats5 2.81 for 2.68).
SWEEPS, STEP = 10, 0.7
#: Largest logarithm of a factor, either way.
LARGEST = 9.0
#: Added to two shares before one is divided by the other, since shares from random orders are no
#: more precise than this.
COARSE = 0.003


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Bins of a target's total score, which is the sum of the scores of its cells."""

    columns: tuple[str, ...]  # columns of the target whose scores are added up
    scores: tuple[Ints, ...]  # for each of them, the score of every cell
    ends: Ints  # least sum of every bin but the first, ascending

    def total(self, codes: Mapping[str, Codes]) -> Ints:
        """Return the sum of the scores of every row."""
        columns_scores = zip(self.columns, self.scores, strict=True)
        return np.asarray(reduce(np.add, (scores[codes[name]] for name, scores in columns_scores)))

    def of(self, codes: Mapping[str, Codes]) -> Ints:
        """Return the bin of every row."""
        return np.searchsorted(self.ends, self.total(codes), side="right")

    @property
    def size(self) -> int:
        """The number of bins."""
        return len(self.ends) + 1


@dataclass(frozen=True, slots=True, eq=False)
class TargetMarginal:
    """A marginal of the targets' columns, counted over references."""

    bins: Bins
    axis: Axis  # the bins as an axis of the target's table
    ordered: int  # number of leading bins that follow an order


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceLaw:
    """The released distribution of a reference between private tables."""

    fan_in: Floats  # shares of targets per bucket of `MANY`
    bins: tuple[Bins, ...] = ()  # for every factor, bins of targets with the same factor
    logs: tuple[Floats, ...] = ()  # for each of them, the logarithm of the factor of every bin
    association: TargetAssociation | None = None  # of columns of the row and of its target

    def popularity(self, codes: Mapping[str, Codes], numbers: Floats) -> Ints:
        """Return relative numbers of references per target, from uniform random numbers."""
        logs = np.zeros(len(numbers))
        for bins, held in zip(self.bins, self.logs, strict=True):
            logs += held[bins.of(codes)]
        counts = numbers_of(self.fan_in, len(numbers))
        popularity = np.zeros(len(numbers), np.int64)
        popularity[_least(portable.log(-portable.log(numbers)) - logs, len(counts))] = counts
        return popularity

    def weights(
        self,
        codes: Mapping[str, Codes],
        units: Ints,
        weight: float,
        cap: int,
        numbers: Rng,
    ) -> Floats:
        """Return the weight of the references to every target, as `TargetHistogram` counts them.

        It is one random draw. ``units`` has the unit of every target; ``weight`` and ``cap`` are
        those of `fit_reference`.
        """
        counts = self.popularity(codes, numbers.random(len(units))).astype(np.float64)
        counts *= weight / max(float(counts.sum()), 1e-9)
        _, units = np.unique(units, return_inverse=True)
        unit_counts = np.bincount(units, counts)
        return np.asarray(counts * (cap / np.maximum(unit_counts, cap))[units])

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the distribution as a JSON object and arrays, which `from_state` reads."""
        arrays: dict[str, NDArray[Any]] = {"fan-in": self.fan_in}
        for place, (bins, logs) in enumerate(zip(self.bins, self.logs, strict=True)):
            arrays |= {f"ends{place}": bins.ends, f"logs{place}": logs}
            arrays |= {f"scores{place}.{at}": held for at, held in enumerate(bins.scores)}
        state: dict[str, Any] = {"columns": [list(bins.columns) for bins in self.bins]}
        if item := self.association:
            state["association"] = list(item.columns)
            arrays |= {"table": item.table, "groups0": item.groups[0], "groups1": item.groups[1]}
        return state, arrays

    @classmethod
    def from_state(cls, state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the distribution that a JSON object and arrays of `to_state` describe.

        Raises:
            ModelError: Damaged or hostile input.
        """
        bins_read, factors, fan_in = [], [], arrays["fan-in"]
        for place, names in enumerate(state["columns"]):
            columns = tuple(str(name) for name in names)
            scores = tuple(arrays[f"scores{place}.{at}"] for at in range(len(columns)))
            bins_read.append(Bins(columns, scores, arrays[f"ends{place}"]))
            factors.append(arrays[f"logs{place}"])
            for array in (*scores, bins_read[-1].ends):
                _require(array.dtype == np.int64 and array.ndim == 1 and np.abs(array) < 2**40)
            _require(bool(columns) and np.diff(bins_read[-1].ends) > 0)
            _require(factors[-1].shape == (bins_read[-1].size,))
        _require(fan_in.shape == (MANY.size,) and fan_in >= 0)
        _require(abs(float(fan_in.sum()) - 1.0) < 1e-6)
        for array in (fan_in, *factors):
            _require(array.dtype == np.float64 and np.abs(array) < 100.0)
        pair = None
        if names := state.get("association"):
            row, target = names
            groups = arrays["groups0"], arrays["groups1"]
            pair = TargetAssociation((str(row), str(target)), groups, arrays["table"])
        return cls(fan_in, tuple(bins_read), tuple(factors), pair)

    def check(self, cells: Mapping[str, int], of_rows: Mapping[str, int]) -> None:
        """Refuse scores that do not fit the target's columns, and associations that fit no columns.

        Raises:
            ModelError: A column that is not there, or another number of cells.
        """
        if self.association:
            self.association.check((of_rows, cells))
        for bins in self.bins:
            for name, scores in zip(bins.columns, bins.scores, strict=True):
                _require(cells.get(name) == len(scores))


def _require(condition: bool | Mask) -> None:
    if not np.all(condition):
        raise ModelError("a reference in the model is damaged, or does not fit its targets.")


def numbers_of(fan_in: Floats, targets: int) -> Ints:
    """Return positive numbers of references for targets, as descending quantiles of ``fan_in``."""
    law = MANY.law(fan_in) * np.repeat(fan_in, MANY.ends - np.array(MANY.lower) + 1)
    steps = np.cumsum(law)
    at = (np.arange(targets)[::-1] + 0.5) / max(targets, 1) * steps[-1]
    numbers = np.searchsorted(steps, at, side="right")
    return np.asarray(numbers[numbers > 0], np.int64)


def marginals(variables: Sequence[Variable], codes: Mapping[str, Codes]) -> list[TargetMarginal]:
    """Return the marginals to measure: a score over all ordered columns, and informative columns.

    ``codes`` are the cells of synthetic targets; if there are none, the first columns are taken.
    """
    usable = [item for item in variables if item.modelled and item.groups(DETAIL) > 1]
    if not codes:
        return [_single(item) for item in usable[: len(PARTS)]]
    whole = _score(usable, codes)
    chosen_marginals = [] if whole is None else [whole]
    chosen = _informative(usable, codes, len(PARTS) - len(chosen_marginals))
    return [*chosen_marginals, *(_single(item) for item in chosen)]


def _single(item: Variable) -> TargetMarginal:
    groups = item.levels[DETAIL]
    bins = Bins((item.name,), (groups,), np.arange(1, item.groups(DETAIL)))
    return TargetMarginal(bins, item.grouped(DETAIL), item.ordered_groups(DETAIL))


def _score(usable: Sequence[Variable], codes: Mapping[str, Codes]) -> TargetMarginal | None:
    """The first principal component of the normal scores of ordered columns, in bins.

    A cell without an order lies one standard deviation below the mean. None where columns have too
    little to do with each other: independent ones have eigenvalues up to (1 + √(columns/rows))²
    (Marchenko and Pastur 1967).
    """
    items, values, rows = [], [], []
    for item in usable:
        value = item.scores(DETAIL)
        value[item.ordered_groups(DETAIL) :] = -1.0
        scores_by_cell = value[item.levels[DETAIL][codes[item.name][:COUNTED]]]
        if item.ordered and scores_by_cell.std() > 1e-6:
            items.append(item)
            values.append(value / scores_by_cell.std())
            rows.append(scores_by_cell / scores_by_cell.std())
    if len(items) < 2:
        return None
    eigenvalues, vectors = np.linalg.eigh(np.corrcoef(np.array(rows)))
    chance = (1.0 + np.sqrt(len(items) / len(rows[0]))) ** 2
    if eigenvalues[-1] < TOGETHER * chance:
        return None
    loadings = np.round(vectors[:, -1], 6)
    usable_places: list[int] = []
    for place in np.argsort(-np.abs(loadings), kind="stable").tolist():
        if prod(items[k].groups(DETAIL) for k in [*usable_places, place]) <= MOST_SCORES:
            usable_places.append(place)
    degrees = sum(loadings[k] for k in usable_places if shown(items[k].name).startswith("#"))
    loadings = loadings * np.sign(degrees or loadings[usable_places[0]])
    # Whole numbers, so that sums and bins are the same on every machine.
    scores = [np.rint(100.0 * loadings[k] * values[k]).astype(np.int64) for k in usable_places]
    names = tuple(items[k].name for k in usable_places)
    cells = tuple(
        scores_by_cell[items[k].levels[DETAIL]]
        for k, scores_by_cell in zip(usable_places, scores, strict=True)
    )
    bins = Bins(names, cells, np.zeros(0, np.int64))
    total = np.sort(bins.total(codes))
    # Hubs are a few in a thousand.
    beyond = (0.75, 0.5, 0.25, 0.1, 0.04, 0.015, 0.005, 0.0015)
    ends = np.unique(total[[int((1.0 - part) * len(total)) for part in beyond]])
    ends = ends[ends > total[0]]
    if len(usable_places) < 2 or not len(ends):
        return None
    groups = np.searchsorted(ends, reduce(np.add.outer, scores), side="right")
    axis = Joined(tuple(items[k].grouped(DETAIL) for k in usable_places), PublicArray(groups))
    return TargetMarginal(replace(bins, ends=ends), axis, len(ends) + 1)


def _informative(
    usable: Sequence[Variable], codes: Mapping[str, Codes], most: int
) -> list[Variable]:
    """Columns with most information on all others (mutual information over entropy)."""
    codes_of = [item.levels[DETAIL][codes[item.name][:COUNTED]] for item in usable]
    information = [
        sum(uncertainty_coefficient(one, other) for other in codes_of if other is not one)
        for one in codes_of
    ]
    return [usable[place] for place in np.argsort(-np.array(information), kind="stable")[:most]]


def target_questions(
    key: KeySpec, measured: Sequence[TargetMarginal], budget: Budget, columns: int, inside: bool
) -> list[Measurement]:
    """Return the measurements of marginals of targets among the references of a key.

    ``columns`` is the number of columns of the targets; ``inside`` says whether references into the
    row's own unit are left out.
    """
    cap = budget.cap(key, columns)
    amount = budget.references[key.table, key.name] * targets_part(columns)
    parts = PARTS[: len(measured)]
    return [
        Measurement(
            TargetHistogram(key, (Whole(),), (item.axis,), cap, inside),
            amount * part / sum(parts),
            f"columns of targets of {key.table}.{key.name}",
        )
        for item, part in zip(measured, parts, strict=False)
    ]


def shares_of_the_upper(
    measured: Sequence[TargetMarginal], answers: Sequence[Measured], codes: Mapping[str, Codes]
) -> list[tuple[float, float, float]]:
    """Return the share of all targets that lies in each ordered bin or above, with its references.

    Each is a triple: the share of targets, the share of references that lead to them, and the
    standard deviation of the latter.
    """
    shares = []
    for item, (noisy, sd) in zip(measured, answers, strict=True):
        counts = np.bincount(item.bins.of(codes), minlength=item.bins.size)
        total = max(float(noisy.sum()), sd)
        for first in range(1, item.ordered):
            upper = slice(first, item.ordered)
            error = sd * float(np.sqrt(item.ordered - first)) / total
            part = float(counts[upper].sum()) / max(int(counts.sum()), 1)
            shares.append((part, float(noisy.ravel()[upper].sum()) / total, error))
    return shares


def fit_reference(
    fan_in: Floats,
    measured: Sequence[TargetMarginal],
    answers: Sequence[Measured],
    codes: Mapping[str, Codes],
    units: Ints,
    weight: float,
    cap: int,
    law: Noise,
    numbers: Rng,
) -> ReferenceLaw:
    """Fit the distribution of a reference to the noisy answers to `target_questions`.

    ``codes`` are the cells of synthetic targets, ``units`` the unit of each, ``weight`` that of the
    references into other units, ``cap`` that of `Budget.cap`, and ``fan_in`` the shares of targets
    per bucket of their number of references.
    """
    rows = len(units)
    if not answers or not rows:
        return ReferenceLaw(fan_in)
    bins_of_targets = [item.bins.of(codes) for item in measured]
    draws = np.log(numbers.exponential(size=(2, rows)))
    counts = numbers_of(fan_in, rows).astype(np.float64)
    counts *= weight / max(float(counts.sum()), 1e-9)
    _, units = np.unique(units, return_inverse=True)
    logs = [np.zeros(item.bins.size) for item in measured]

    def margin(place: int) -> Floats:
        weights = reduce(
            np.add, (one[bins] for one, bins in zip(logs, bins_of_targets, strict=True))
        )
        mass = _expected(weights, draws, counts, units, cap)
        margin_shares = np.bincount(bins_of_targets[place], mass, minlength=len(logs[place]))
        return np.asarray(margin_shares / max(float(mass.sum()), 1e-9))

    targets_wanted: list[Floats] = []
    for place, (item, (noisy, sd)) in enumerate(zip(measured, answers, strict=True)):
        # Each marginal is predicted from those before it, so that noise does not make two marginals
        # contradict each other.
        alone = np.bincount(bins_of_targets[place], minlength=item.bins.size) / rows
        shares = alone if not place else (1.0 - COARSE) * margin(place) + COARSE * alone
        mean = shrink(noisy.ravel(), sd, _trend(noisy.ravel(), sd, shares, item.ordered), law)
        mean[alone <= 0] = 0.0
        targets_wanted.append(mean / max(float(mean.sum()), 1e-9))
        for _ in range(SWEEPS):
            for at, want in enumerate(targets_wanted):
                moved = logs[at] + STEP * np.log((want + COARSE) / (margin(at) + COARSE))
                logs[at] = np.clip(moved - moved.mean(), -LARGEST, LARGEST)
    return ReferenceLaw(fan_in, tuple(item.bins for item in measured), tuple(logs))


def _expected(logs: Floats, draws: Floats, counts: Floats, units: Ints, cap: float) -> Floats:
    """Expected weight of references to every target, capped per target unit; mean over draws.

    In each draw targets are ordered by ``draws`` - ``logs``: logarithms of exponential numbers,
    shape (draws, targets), less logarithms of the targets' weights. This is sampling without
    replacement. The first targets in that order get the numbers of references in ``counts``, which
    fall.
    """
    expected = np.zeros(len(logs))
    for draw in draws:
        first = _least(draw - logs, len(counts))
        unit_counts = np.bincount(units[first], counts)
        expected[first] += counts * (cap / np.maximum(unit_counts, cap))[units[first]]
    return expected / len(draws)


def _least(keys: Floats, count: int) -> Ints:
    """Positions of the ``count`` smallest keys, ascending by key; no others are sorted."""
    smallest = np.sort(np.argpartition(keys, count - 1)[:count])
    return np.asarray(smallest[np.argsort(keys[smallest], kind="stable")])


def _trend(noisy: Floats, sd: float, shares: Floats, ordered: int) -> Floats:
    """Posterior mean of a marginal, modelled as the targets' shares times a power of the odds.

    The odds are F/(1 - F), with F the distribution function over ordered bins; bins without an
    order keep their shares. So a tail of few targets is estimated from all bins.
    """
    total = max(float(noisy.sum()), sd)
    trend = np.asarray(shares * total)
    ordered_share = float(shares[:ordered].sum())
    if ordered >= 3 and ordered_share > 0:
        middle = (np.cumsum(shares[:ordered]) - shares[:ordered] / 2) / ordered_share
        odds = np.log(np.clip(middle, 1e-6, 1.0)) - np.log(np.clip(1.0 - middle, 1e-6, 1.0))
        slopes = np.linspace(-2.0, 2.0, 41)
        grown = shares[:ordered] * np.exp(slopes[:, None] * odds)
        grown *= max(float(noisy[:ordered].sum()), sd) / grown.sum(axis=1, keepdims=True)
        fit = cell_fits(noisy[:ordered], grown, sd).sum(axis=1) - 0.5 * (slopes / RATIO_SD) ** 2
        trend[:ordered] = posterior(fit) @ grown
    return np.maximum(trend, 0.02 * sd)
