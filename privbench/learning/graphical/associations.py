"""The association between a row's columns and the columns of the row that it refers to.

See "References between private tables" in ``docs/method.md``. A candidate is a pair of a column of
the referring table and a column of the referenced table, each in groups of cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import pi, prod, sqrt

import numpy as np

from privbench.arrays import Floats, Ints, Rng
from privbench.domain import Codes
from privbench.errors import ModelError
from privbench.learning.answers import measured
from privbench.learning.denoise import SIGNIFICANT, Noise
from privbench.learning.draw import draw
from privbench.learning.graphical.budget import MOST_OFFERED, PairBudget, cap_of
from privbench.learning.graphical.columns import DETAIL, HIDDEN, Variable
from privbench.learning.graphical.estimate import cell_fits, posterior, rake, shrink
from privbench.privacy import GRID, DatabaseSpec, KeySpec, Measurement, Selection, Session
from privbench.privacy.queries import PublicArray, TargetHistogram, TargetScores
from privbench.privacy.queries.references import SHARES

#: Groups of equal mass of an ordered column; and levels (places in `LEVELS`) at which other columns
#: of the row and of its target are grouped. An average by a category needs the category's cells,
#: and few of the column that is averaged.
STEPS, ROW_LEVEL, TARGET_LEVEL = 4, 0, DETAIL
#: Most groups of a column of the row and of its target; special cells may add some to those of a
#: level.
MOST_GROUPS = 12, 16
#: Least share of the special cells of an ordered column that are a group of their own.
SPECIAL = 0.01
#: Part of the gap that noise alone would cause, which the gap of a pair must exceed.
PRICE = 0.25
#: Powers of the association of an ordered column with a group of targets, and what their prior
#: standard deviation may be; which one, all groups say together.
POWERS = np.sinh(np.linspace(-1.5, 1.5, 61))
SPREADS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


@dataclass(frozen=True, slots=True, eq=False)
class TargetAssociation:
    """The released joint distribution of a referring row's column and its target's column."""

    columns: tuple[str, str]  # of the row, of its target
    groups: tuple[Ints, Ints]  # group of every cell of each of them
    table: Floats  # share of the references in every pair of groups

    def check(self, cells: Sequence[Mapping[str, int]]) -> None:
        """Refuse groups of cells that do not fit the columns of the two tables.

        Raises:
            ModelError: A column that is not there, or another number of cells or groups.
        """
        shape = self.table.shape
        fits = len(shape) == 2 and self.table.dtype == np.float64
        fits &= bool(np.all((self.table > 0) & (self.table <= 1)))
        for axis, (name, groups) in enumerate(zip(self.columns, self.groups, strict=True)):
            fits = fits and 1 <= shape[axis] <= MOST_GROUPS[axis] and groups.dtype == np.int64
            fits = fits and groups.shape == (cells[axis].get(name),)
            fits = fits and bool(np.all((groups >= 0) & (groups < shape[axis])))
        if not fits:
            raise ModelError("a reference in the model does not fit the columns of its ends.")


@dataclass(frozen=True, slots=True, eq=False)
class End:
    """The columns of one end of a reference in synthetic rows, weighted by references."""

    variables: Sequence[Variable]
    codes: Mapping[str, Codes]
    weights: Floats

    def shares(self, item: Variable) -> Floats:
        """Return the share of the references in every group of a column of `grouped`."""
        groups = item.levels[0][self.codes[item.name]]
        counts = np.bincount(groups, self.weights, minlength=item.groups(0)) + 1e-9
        return np.asarray(counts / counts.sum())


def grouped(variables: Sequence[Variable], level: int) -> list[Variable]:
    """Return the attributes of one end whose number of groups is usable, at two levels of detail.

    Ordered cells are in groups of equal mass, with special cells in a group of their own; other
    cells are grouped as at a level of `LEVELS`. The coarse level comes first.
    """
    usable = [item for item in variables if item.modelled and not item.name.startswith(HIDDEN)]
    candidates = [
        replace(item, levels=(_steps(item, STEPS), _steps(item, 2 * STEPS)))
        if item.ordered > 2 * STEPS
        else replace(item, levels=(item.levels[level],) * 2)
        for item in usable
    ]
    most = MOST_GROUPS[0 if level == ROW_LEVEL else 1]
    return [item for item in candidates if item.groups(0) > 1 and item.groups(1) <= most]


def _steps(item: Variable, count: int) -> Ints:
    mass = item.shares[: item.ordered]
    middle = (np.cumsum(mass) - mass / 2) / max(float(mass.sum()), 1e-9)
    steps = np.minimum((count * middle).astype(np.int64), count - 1)
    _, groups = np.unique(steps, return_inverse=True)
    apart = float(item.shares[item.ordered :].sum()) >= SPECIAL
    special = np.full(len(item.shares) - item.ordered, groups[-1] + 1 if apart else 0)
    return np.append(groups, special).astype(np.int64)


def offered(row: Sequence[Variable], target: Sequence[Variable]) -> list[tuple[Variable, Variable]]:
    """Return all pairs of a column of the row and a column of its target.

    Every k-th if too many.
    """
    every = [(one, other) for one in row for other in target]
    return every[:: max(-(-len(every) // MOST_OFFERED), 1)]


def histogram(
    spec: DatabaseSpec, key: KeySpec, pair: tuple[Variable, Variable], inside: bool
) -> TargetHistogram:
    """Return the query that counts references by the groups of a candidate pair."""
    axes = pair[0].grouped(0), pair[1].grouped(0)
    return TargetHistogram(key, axes[:1], axes[1:], cap_of(spec, key), inside)


def choice(
    among: Sequence[TargetHistogram],
    shares: Sequence[Floats],
    penalties: Floats,
    budget: PairBudget,
) -> Selection:
    """Return the selection of a candidate by its score, given predicted shares and penalties."""
    public = tuple(PublicArray(np.floor(item * SHARES).astype(np.int64)) for item in shares)
    costs = PublicArray.rounded(penalties, 2 * GRID)
    key = among[0].key
    label = f"choice of columns of {key.table} and targets of {key.name}"
    return Selection(TargetScores(key, tuple(among), public, costs), budget.select, label)


def measurement(pair: TargetHistogram, budget: PairBudget) -> Measurement:
    """Return the measurement of the selected pair."""
    key = pair.key
    label = f"columns of {key.table} and targets of {key.name}"
    return Measurement(pair, budget.first, label)


def planned(
    spec: DatabaseSpec,
    key: KeySpec,
    inside: bool,
    row: Sequence[Variable],
    target: Sequence[Variable],
    budget: PairBudget,
) -> Iterator[Selection | Measurement]:
    """Yield the questions of `learn` without data, with measurements at their largest size."""
    among = offered(grouped(row, ROW_LEVEL), grouped(target, TARGET_LEVEL))
    if budget.picks and among:
        pairs = [histogram(spec, key, pair, inside) for pair in among]
        shares = [np.zeros(pair.shape[0]) for pair in pairs]
        yield choice(pairs, shares, np.zeros(len(pairs)), budget)
        yield measurement(max(pairs, key=lambda pair: prod(pair.shape)), budget)


def learn(
    session: Session,
    key: KeySpec,
    inside: bool,
    ends: tuple[End, End],
    budget: PairBudget,
    spread: float,
    law: Noise,
) -> TargetAssociation | None:
    """Select a pair of columns, measure it and estimate its joint distribution.

    ``inside`` says whether references into the row's own unit are left out; ``spread`` is the
    variance of a cell's sampling error over its count.
    """
    row, target = ends
    among = offered(grouped(row.variables, ROW_LEVEL), grouped(target.variables, TARGET_LEVEL))
    weight = float(target.weights.sum())
    if not among or weight <= 0:
        return None
    pairs = [histogram(session.spec, key, pair, inside) for pair in among]
    shapes = [np.outer(row.shares(one), target.shares(other)) for one, other in among]
    sd = session.noise_scale(pairs[0], budget.first)
    costs = [
        float(np.sqrt(item * weight * spread).sum()) / sqrt(2 * pi)
        + PRICE * sd * item.size / sqrt(2 * pi)
        for item in shapes
    ]
    question = choice(pairs, [item.sum(axis=1) for item in shapes], np.array(costs), budget)
    place = session.select(question.query, question.amount, question.label)
    ((noisy, sd),) = measured(session, [measurement(pairs[place], budget)])
    one, other = among[place]
    table = estimated(noisy, sd, shapes[place], one, spread, law)
    return TargetAssociation((one.name, other.name), (one.levels[1], other.levels[0]), table)


def estimated(
    noisy: Floats, sd: float, shape: Floats, row: Variable, spread: float, law: Noise
) -> Floats:
    """Return the joint shares of groups of the row's column and groups of its target's column.

    They are estimated from noisy counts of coarse groups and the shares under independence. Within
    each group of targets the shares are the overall shares times exp(λ·score), if the column has an
    order. All λ have one normal prior, whose variance is estimated from all groups (empirical
    Bayes), so that noise alone gives independence. Where a chi-squared test rejects that form,
    single cells are estimated by `shrink`.
    """
    total = max(float(noisy.sum()), sd)
    columns = shrink(noisy.sum(axis=0), sd * sqrt(len(noisy)), shape.sum(axis=0) * total, law)
    margins = shape.sum(axis=1) * float(columns.sum()), columns
    expected = np.outer(shape.sum(axis=1), columns)
    powers, scores = np.zeros(len(columns)), row.scores(0)
    if np.count_nonzero(scores) > 1:
        powers = _powers(noisy, sd, expected, scores)
        expected = rake(expected * np.exp(np.outer(scores, powers)), *margins)
    off = (noisy - expected) ** 2 / (sd * sd + expected * spread)
    free = prod(size - 1 for size in noisy.shape)
    if off.sum() > free + SIGNIFICANT * sqrt((5.0 if law == "laplace" else 2.0) * free):
        expected = rake(shrink(noisy, sd, expected, law), *margins)
    fine = row.mass(1)[:, None] * np.exp(np.outer(row.scores(1), powers)) + 1e-12
    coarser = row.coarser(1, 0)
    sums = np.array([np.bincount(coarser, part, minlength=len(noisy)) for part in fine.T]).T
    joint = fine * (np.maximum(expected, 1e-9) / sums)[coarser]
    return np.asarray(np.clip(joint / joint.sum(), 1e-12, 1.0))


def _powers(noisy: Floats, sd: float, expected: Floats, scores: Floats) -> Floats:
    """The posterior mean of λ in every group of targets."""
    grown = expected * np.exp(np.outer(POWERS, scores))[:, :, None]
    grown *= expected.sum(axis=0) / grown.sum(axis=1, keepdims=True)
    fits = cell_fits(noisy, grown, sd).sum(axis=1)
    likelihoods = np.exp(fits - fits.max(axis=0))
    means, evidence = [], []
    for spread in SPREADS:
        prior = np.gradient(POWERS) * np.exp(-0.5 * (POWERS / max(spread, 1e-9)) ** 2)
        joint = likelihoods * (prior / prior.sum())[:, None]
        means.append(POWERS @ joint / joint.sum(axis=0))
        evidence.append(float(np.log(joint.sum(axis=0)).sum()))
    return np.asarray(posterior(np.array(evidence)) @ np.array(means))


def arranged(law: TargetAssociation, rows: Codes, targets: Codes, numbers: Rng) -> Ints:
    """Return a permutation of targets over rows with which their columns have the joint shares.

    Every position is used once. Rows draw groups by systematic samples, so that nearly as many rows
    draw each group as it has positions.
    """
    first, second = law.groups[0][rows], law.groups[1][targets]
    row, target = (
        np.bincount(column_codes, minlength=size) / len(rows)
        for column_codes, size in zip((first, second), law.table.shape, strict=True)
    )
    drawn = draw(rake(law.table, row, target) + 1e-12, first, numbers)
    waiting, places = (numbers.permutation(len(rows)) for _ in range(2))
    positions = np.empty(len(rows), np.int64)
    positions[waiting[np.argsort(drawn[waiting], kind="stable")]] = places[
        np.argsort(second[places], kind="stable")
    ]
    return positions
