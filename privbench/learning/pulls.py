"""Which rows references lead to: what is known of targets beyond how often each is referred to.

A *pull* is the released law of one variable of the rows that are referred to, each counted once.
Targets are chosen so that every pull's law holds; then the more active of them, those with more
children, get the more references.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from privbench.domain import Codes
from privbench.errors import ModelError
from privbench.learning.denoise import Floats, Noise

Ints = NDArray[np.int64]
#: Correlations of ranks, and the belief about them before: rows with more children are referred to
#: more.
_GRID = np.array([0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 0.99])
BELIEF, _SPREAD = 0.92, 0.08
_SWEEPS = 20
#: One step of raking changes a weight at most by this factor.
_STEP = 50.0


@dataclass(frozen=True, slots=True, eq=False)
class Pull:
    """The law of one variable of the rows that a key refers to.

    Attributes:
        variable: Name of the variable in the law of the table that is referred to.
        of: Bin of every code, shape (codes,).
        shares: Share of the bins among the rows that are referred to, shape (bins,).
    """

    variable: str
    of: Ints
    shares: Floats

    def to_state(self) -> dict[str, Any]:
        """A JSON object that `from_state` reads back."""
        return {
            "variable": self.variable,
            "of": self.of.tolist(),
            "shares": self.shares.tolist(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The pull that `to_state` wrote.

        Raises:
            ModelError: Not a pull.
        """
        try:
            of = np.array(state["of"], np.int64)
            shares = np.array(state["shares"], np.float64)
            pull = cls(str(state["variable"]), of, shares)
            valid = of.ndim == shares.ndim == 1 and len(of) > 0
            valid = valid and bool(((of >= 0) & (of < len(shares))).all())
            valid = valid and bool((shares >= 0).all()) and bool(abs(shares.sum() - 1) < 1e-6)
        except (KeyError, TypeError, ValueError, OverflowError):
            valid = False
        if not valid:
            raise ModelError("a key in the model is damaged.")
        return pull


def attraction(pulls: Sequence[Pull], codes: Mapping[str, Codes], targets: int) -> Floats:
    """Weight of every target by which choosing targets gives every pull its law, shape (targets,).

    Args:
        pulls: What is known of targets; those whose variable is missing are left out.
        codes: Variables of the targets.
        targets: Number of targets.
    """
    weights = np.full(targets, 1.0 / max(targets, 1))
    known = [(pull, pull.of[codes[pull.variable]]) for pull in pulls if pull.variable in codes]
    for _ in range(_SWEEPS if len(known) > 1 else len(known)):
        for pull, bins in known:
            held = np.bincount(bins, weights, minlength=len(pull.shares))
            ratio = pull.shares / np.maximum(held, 1e-300)
            weights *= np.clip(ratio, 1 / _STEP, _STEP)[bins]
            weights /= max(weights.sum(), 1e-300)
    return weights


def popularity(
    counts: Ints, weights: Floats, activity: Ints, ranks: float, generator: np.random.Generator
) -> Floats:
    """Popularity of every target: counts of references, placed by weight and by activity.

    Args:
        counts: Numbers of references, in any order, shape (targets,).
        weights: Weight of every target (`attraction`), or ones.
        activity: Children of every target, or any number that grows with them.
        ranks: Correlation of the ranks of popularity and activity, below 1.
        generator: Source of randomness.
    """
    held = np.sort(counts[counts > 0])[::-1]
    out = np.zeros(len(counts))
    if not len(held):
        return out
    score = np.sqrt(1 - ranks**2) * generator.standard_normal(len(counts))
    if activity.max() > activity.min():
        order = np.argsort(activity + generator.random(len(counts)))
        score[order] += ranks * ndtri((np.arange(len(counts)) + 0.5) / len(counts))
    # The chance to be among the most popular is multiplied by the weight.
    chance = np.argsort(np.argsort(score)) + 0.5
    with np.errstate(divide="ignore", over="ignore"):
        race = -np.log(chance / len(counts)) / np.maximum(weights, 1e-300)
    out[np.argsort(race)[: len(held)]] = held
    return out


def rank_correlation(
    pull: Floats,
    sd: float,
    bins: Ints,
    activity: Ints,
    counts: Ints,
    generator: np.random.Generator,
    noise: Noise,
) -> float:
    """Posterior mean of the correlation of the ranks of popularity and activity.

    Post-processing: for every correlation on a grid, targets are drawn and their numbers by bins of
    activity compared with a noisy histogram of the targets, whose own sum is taken as it is.

    Args:
        pull: Noisy histogram of targets by bins of activity.
        sd: Standard deviation of its noise.
        bins: Bin of every synthetic target.
        activity: Activity of every synthetic target.
        counts: Drawn numbers of references, shape (targets,).
        generator: Source of randomness.
        noise: Law of the noise.
    """
    total = max(float(pull.sum()), sd)
    ones = np.ones(len(activity))
    logs = []
    for ranks in _GRID:
        chosen = popularity(counts, ones, activity, float(ranks), generator) > 0
        shares = np.bincount(bins[chosen], minlength=len(pull)) / max(chosen.sum(), 1)
        off = np.abs(pull - total * shares) / sd
        logs.append(-(np.sqrt(2.0) * off if noise == "laplace" else 0.5 * off**2).sum())
    prior = -0.5 * ((_GRID - BELIEF) / _SPREAD) ** 2
    weights = np.array(logs) + prior
    weights = np.exp(weights - weights.max())
    return float(weights @ _GRID / weights.sum())
