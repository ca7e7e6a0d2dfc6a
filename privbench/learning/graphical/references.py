"""References between private tables: which rows are referred to, and how often.

The scope of a reference (nothing, another unit, the row's own unit) is a column of the row. Targets
in other units have a popularity: a quantile of the fan-in law, whose mean is known from sizes, at a
rank that follows a score over all columns of the target. The score is the logarithm of weights that
reproduce every released marginal of the targets' columns (exponential tilting, by raking), and its
correlation with the rank is what reproduces these marginals best on synthetic rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from privbench.domain import Codes
from privbench.errors import ModelError
from privbench.learning.graphical.budget import Budget, targets_part
from privbench.learning.graphical.columns import (
    HIDDEN,
    INSIDE,
    NULL_SCOPE,
    Variable,
    shown,
)
from privbench.learning.graphical.estimate import Floats, Ints, Law, shrink
from privbench.learning.graphical.sizes import MANY, MISFIT
from privbench.learning.synthetic import NULL
from privbench.privacy import KeySpec, Measurement
from privbench.privacy.queries import TargetHistogram, Whole

#: Level of the groups of a target's columns (a place in `columns.LEVELS`). One finer: worth nothing
#: on stats5 (2.63 against 2.75), since noise of a reference is large.
DETAIL = 0
#: Columns of a target that are measured, at most, in their order; degrees come before attributes,
#: since activity says most of popularity. Half or double: not measured.
MOST_COLUMNS = 8
#: Correlations that are tried, and the precision of their prior; 0 is no correlation.
CORRELATIONS, PRIOR = (*(step / 20 for step in range(20)), 0.98), 2.0
#: Prior sd of the power of a column's odds by which targets are tilted.
SLOPE_SD = 0.7
#: Most references that a target expects, in units of one or of the mean, where fan-in is random:
#: a product of eight noisy factors makes hubs of single rows. Double: more of them.
MOST_EACH, LEVELLING = 4.0, 8
#: Sweeps of raking over all columns of the targets.
RAKING = 8
#: Most weight that one target unit may count: chosen by noise against what lies beyond.
CAPS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceLaw:
    """What is released of a reference between private tables.

    Attributes:
        fan_in: Shares of targets per bucket of `MANY`.
        columns: Columns of the target that its score is made of.
        scores: For each of them, the score of every cell.
        correlation: Of a target's score with its rank in the fan-in law, 0 to 1.
        random: Whether fan-in is no wider than by chance: then a target's weight is the exponential
            of its score times the correlation.
    """

    fan_in: Floats
    columns: tuple[str, ...] = ()
    scores: tuple[Floats, ...] = ()
    correlation: float = 0.0
    random: bool = False

    def popularity(self, codes: Mapping[str, Codes], rows: int, ranks: Floats) -> Floats:
        """Weight of every target, shape (rows,); ``ranks`` are normal numbers of that shape."""
        score = np.zeros(rows)
        for name, scores in zip(self.columns, self.scores, strict=True):
            score += scores[codes[name]]
        if self.random:
            power = self.correlation * (score - score.max(initial=0.0))
            return np.asarray(np.exp(np.maximum(power, -50.0)))
        latent = ranks
        if self.correlation > 0:
            order = np.lexsort((ranks, score))
            place = np.empty(rows)
            place[order] = norm.ppf((np.arange(rows) + 0.5) / max(rows, 1))
            latent = self.correlation * place + np.sqrt(1 - self.correlation**2) * ranks
        sorted_places = np.argsort(latent)
        quantile = np.empty(rows)
        quantile[sorted_places] = (np.arange(rows) + 0.5) / max(rows, 1)
        steps = np.append(0.0, np.cumsum(self.fan_in))
        bucket = np.clip(np.searchsorted(steps, quantile, side="right") - 1, 0, MANY.size - 1)
        low, end = np.array(MANY.lower, np.float64)[bucket], (MANY.ends + 1.0)[bucket]
        part = (quantile - steps[bucket]) / np.maximum(self.fan_in[bucket], 1e-12)
        # Within a bucket log-linear; targets of bucket 0 keep a chance against rounding.
        inside = np.maximum(low, 0.5) * (end / np.maximum(low, 0.5)) ** np.clip(part, 0, 1)
        return np.where(bucket > 0, inside, 1e-3)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """A JSON object and arrays that `from_state` reads back."""
        arrays: dict[str, NDArray[Any]] = {"fan-in": self.fan_in}
        arrays |= {f"score{place}": scores for place, scores in enumerate(self.scores)}
        state = {"columns": list(self.columns), "correlation": self.correlation}
        return {**state, "random": self.random}, arrays

    @classmethod
    def from_state(cls, state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The law that `to_state` wrote.

        Raises:
            ModelError: Damaged or hostile input.
        """
        columns = tuple(str(name) for name in state["columns"])
        scores = tuple(arrays[f"score{place}"] for place in range(len(columns)))
        fan_in, correlation = arrays["fan-in"], float(state["correlation"])
        sound = fan_in.shape == (MANY.size,) and 0 <= correlation < 1
        for array in (fan_in, *scores):
            sound = sound and array.dtype == np.float64 and array.ndim == 1
            sound = sound and bool(np.isfinite(array).all())
        if not sound or (fan_in < 0).any() or abs(float(fan_in.sum()) - 1.0) > 1e-6:
            raise ModelError("a reference in the model is damaged.")
        return cls(fan_in, columns, scores, correlation, bool(state["random"]))

    def check(self, cells: Mapping[str, int]) -> None:
        """Refuse scores that do not fit the target's columns.

        Raises:
            ModelError: A column that is not there, or another number of cells.
        """
        for name, scores in zip(self.columns, self.scores, strict=True):
            if cells.get(name) != len(scores):
                raise ModelError("a reference in the model does not fit its targets.")


def scored_columns(variables: Sequence[Variable]) -> list[Variable]:
    """Columns of the target whose marginal among references is measured."""
    usable = [item for item in variables if item.modelled and item.groups(DETAIL) > 1]
    usable.sort(key=lambda item: not item.name.startswith(f"{HIDDEN}#"))
    return usable[:MOST_COLUMNS]


def target_questions(
    key: KeySpec, variables: Sequence[Variable], budget: Budget, cap: int, inside: bool
) -> list[Measurement]:
    """Marginals of the targets' columns among references, an equal amount for each."""
    scored = scored_columns(variables)
    amount = budget.references[key.table, key.name] * targets_part(len(variables))
    return [
        Measurement(
            TargetHistogram(key, (Whole(),), (item.grouped(DETAIL),), cap, inside),
            amount / len(scored),
            f"{shown(item.name)} of targets of {key.table}.{key.name}",
        )
        for item in scored
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Synthetic rows of the table that is referred to.

    Attributes:
        variables: Its own columns.
        codes: Cells of its own columns by name.
        rows: Number of rows.
        weight: Weight of the references into other units.
        cap: Most weight that one target unit counts.
    """

    variables: Sequence[Variable]
    codes: Mapping[str, Codes]
    rows: int
    weight: float
    cap: int


def fit_reference(
    fan_in: Floats,
    random: bool,
    answers: Sequence[tuple[Floats, float]],
    targets: Targets,
    law: Law,
    numbers: np.random.Generator,
) -> ReferenceLaw:
    """The law of a reference.

    Args:
        fan_in: Shares of targets per bucket.
        random: Whether that is what chance makes of its mean.
        answers: Noisy marginals of `target_questions` with the standard deviations of their noise.
        targets: Synthetic targets.
        law: Law of the noise.
        numbers: Source of randomness.
    """
    scored = scored_columns(targets.variables)
    if not answers or not targets.rows:
        return ReferenceLaw(fan_in, random=random and not answers)
    ranks = numbers.normal(size=targets.rows)
    groups = [item.levels[DETAIL][targets.codes[item.name]] for item in scored]
    wanted = []
    for item, (noisy, sd) in zip(scored, answers, strict=True):
        noisy = noisy.ravel()
        counts = shrink(noisy, sd, _trend(noisy, sd, item), law)
        wanted.append(counts / counts.sum())
    scores = _tilt(groups, wanted)
    cells = tuple(held[item.levels[DETAIL]] for item, held in zip(scored, scores, strict=True))
    names = tuple(item.name for item in scored)
    tried = [ReferenceLaw(fan_in, names, cells, rho, random) for rho in CORRELATIONS]
    fits = np.array([_evidence(one, targets, groups, answers, ranks) for one in tried])
    fits -= PRIOR * np.array(CORRELATIONS) ** 2
    weight = np.exp(fits - fits.max())
    correlation = float(weight @ np.array(CORRELATIONS) / weight.sum())
    return ReferenceLaw(fan_in, names, cells, correlation, random)


def _trend(noisy: Floats, sd: float, item: Variable) -> Floats:
    """Posterior mean of a marginal that tilts a column's shares by a power of its odds F/(1 - F).

    Groups without an order keep their shares. So the few targets of a tail lean on all others.
    """
    shares = item.mass(DETAIL)
    total = max(float(noisy.sum()), sd)
    groups = item.levels[DETAIL]
    ordinary = np.zeros(len(shares), bool)
    ordinary[groups[: item.ordered]] = True
    ordinary[groups[item.ordered :]] = False
    held = float(shares[ordinary].sum())
    if ordinary.sum() < 3 or held <= 0:
        return np.asarray(np.maximum(shares * total, 0.02 * sd))
    middle = (np.cumsum(shares[ordinary]) - shares[ordinary] / 2) / held
    odds = np.log(np.clip(middle, 1e-6, 1 - 1e-6)) - np.log(np.clip(1 - middle, 1e-6, 1.0))
    slopes = np.linspace(-2.0, 2.0, 41)
    tilted = shares[ordinary] * np.exp(slopes[:, None] * odds)
    tilted *= max(float(noisy[ordinary].sum()), sd) / tilted.sum(axis=1, keepdims=True)
    variance = sd * sd + (MISFIT * tilted) ** 2
    fit = -0.5 * ((noisy[ordinary] - tilted) ** 2 / variance + np.log(variance)).sum(axis=1)
    fit -= 0.5 * (slopes / SLOPE_SD) ** 2
    weight = np.exp(fit - fit.max())
    found = shares * total
    found[ordinary] = weight @ tilted / weight.sum()
    return np.asarray(np.maximum(found, 0.02 * sd))


def _tilt(groups: Sequence[Ints], wanted: Sequence[Floats]) -> list[Floats]:
    """Log factors per column and group whose product over a row's groups has the wanted margins."""
    weights = np.ones(len(groups[0]))
    scores = [np.zeros(len(want)) for want in wanted]
    for _ in range(RAKING):
        for score, held, want in zip(scores, groups, wanted, strict=True):
            margin = np.bincount(held, weights, minlength=len(want)) / weights.sum()
            ratio = np.clip((want + 1e-6) / (margin + 1e-6), 0.05, 20.0)
            ratio[margin <= 0] = 1.0
            score += np.log(ratio)
            weights *= ratio[held]
    return scores


def _evidence(
    law: ReferenceLaw,
    targets: Targets,
    groups: Sequence[Ints],
    answers: Sequence[tuple[Floats, float]],
    ranks: Floats,
) -> float:
    """Log likelihood of the noisy marginals under the popularity of synthetic targets.

    Targets count up to the cap, as they did when the marginals were measured.
    """
    popularity = law.popularity(targets.codes, targets.rows, ranks)
    popularity = np.minimum(popularity * (targets.weight / popularity.sum()), targets.cap)
    found = 0.0
    for held, (noisy, sd) in zip(groups, answers, strict=True):
        noisy = noisy.ravel()
        expected = np.bincount(held, popularity, minlength=len(noisy)).astype(np.float64)
        expected = expected * (max(float(noisy.sum()), sd) / max(float(expected.sum()), 1e-9))
        variance = sd * sd + (MISFIT * expected) ** 2
        found -= 0.5 * float(((noisy - expected) ** 2 / variance).sum())
    return found


def attach(
    law: ReferenceLaw,
    key: KeySpec,
    scope: Ints,
    units: tuple[Ints, Ints],
    codes: Mapping[str, Mapping[str, Codes]],
    numbers: np.random.Generator,
) -> Ints:
    """Target of every row, or `NULL`.

    Rows that refer into their own unit take its rows in turn; all others hit targets in proportion
    to their popularity, by systematic sampling in random order.

    Args:
        law: The law of the reference.
        key: The key.
        scope: Scope of every row.
        units: Units of the rows of both ends.
        codes: Cells of the columns of every table.
        numbers: Source of randomness.
    """
    rows, targets = units
    edges = np.full(len(rows), NULL, np.int64)
    if not len(targets):
        return edges
    inside = np.flatnonzero(scope == INSIDE)
    edges[inside] = _within(rows[inside], targets, numbers)
    rest = np.flatnonzero((scope != NULL_SCOPE) & (edges == NULL))
    if not key.nullable:
        rest = np.flatnonzero(edges == NULL)
    if len(rest):
        ranks = numbers.normal(size=len(targets))
        popularity = law.popularity(codes[key.parent], len(targets), ranks)
        if law.random:
            popularity = _level(popularity, MOST_EACH * max(1.0 / len(rest), 1.0 / len(targets)))
        steps = np.cumsum(popularity)
        at = (np.arange(len(rest)) + numbers.random()) / len(rest) * steps[-1]
        found = np.minimum(np.searchsorted(steps, at, side="right"), len(targets) - 1)
        edges[numbers.permutation(rest)] = found
    return edges


def _level(weights: Floats, most: float) -> Floats:
    """Shares by weight, none above ``most`` where that leaves room for all."""
    shares = weights / weights.sum()
    for _ in range(LEVELLING):
        shares = np.minimum(shares, most)
        shares /= shares.sum()
    return np.asarray(shares)


def _within(units: Ints, targets: Ints, numbers: np.random.Generator) -> Ints:
    """A row of the same unit for each row, in turn, or `NULL` where there is none."""
    shuffled = numbers.permutation(len(targets))
    order = shuffled[np.argsort(targets[shuffled], kind="stable")]
    held = targets[order]
    first, last = (np.searchsorted(held, units, side=side) for side in ("left", "right"))
    rows = np.argsort(units, kind="stable")
    turn = np.empty(len(units), np.int64)
    turn[rows] = np.arange(len(units)) - np.searchsorted(units[rows], units[rows], side="left")
    there = last > first
    found = order[np.minimum(first + turn % np.maximum(last - first, 1), len(order) - 1)]
    return np.where(there, found, NULL)
