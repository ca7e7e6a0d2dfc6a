"""Which rows references lead to: what is known of targets beyond how often each is referred to.

A *pull* says how much more often than others rows with certain values are referred to. A target's
weight is the product of its factors; targets race by weight for the numbers of references that the
fan-in law gives, so that the heaviest are likely to become the hubs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Codes
from privbench.errors import ModelError
from privbench.learning.denoise import Floats

Ints = NDArray[np.int64]
#: Weights of targets are cut at this part of the largest.
_LEAST = 1e-12
#: Power that large differences of weights are raised to, beyond 1, in the race of those that are
#: referred to for the largest numbers; part of all references that is beyond what weights explain
#: from which on they are raised to all of it.
_SHARP, _BEYOND = 3.0, 1 / 3


@dataclass(frozen=True, slots=True, eq=False)
class Pull:
    """How much a variable of the rows that a key refers to speaks for them.

    Attributes:
        variable: Name of the variable in the law of the table that is referred to.
        of: Bin of every code, shape (codes,).
        factors: Factor of every bin on the weight of a target, shape (bins,).
    """

    variable: str
    of: Ints
    factors: Floats

    def to_state(self) -> dict[str, Any]:
        """A JSON object that `from_state` reads back."""
        return {
            "variable": self.variable,
            "of": self.of.tolist(),
            "factors": self.factors.tolist(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The pull that `to_state` wrote.

        Raises:
            ModelError: Not a pull.
        """
        try:
            of = np.array(state["of"], np.int64)
            factors = np.array(state["factors"], np.float64)
            pull = cls(str(state["variable"]), of, factors)
            valid = of.ndim == factors.ndim == 1 and len(of) > 0
            valid = valid and bool(((of >= 0) & (of < len(factors))).all())
            valid = valid and bool((np.isfinite(factors) & (factors >= 0)).all())
            valid = valid and bool(factors.max() > 0)
        except (KeyError, TypeError, ValueError, OverflowError):
            valid = False
        if not valid:
            raise ModelError("a key in the model is damaged.")
        return pull


def attraction(pulls: Sequence[Pull], codes: Mapping[str, Codes], targets: int) -> Floats:
    """Weight of every target, the largest 1, shape (targets,).

    Args:
        pulls: What is known of targets; those whose variable is missing are left out.
        codes: Variables of the targets.
        targets: Number of targets.
    """
    bins = [pull.of[codes[pull.variable]] for pull in pulls if pull.variable in codes]
    factors = [pull.factors for pull in pulls if pull.variable in codes]
    return product(factors, bins, targets)


def product(factors: Sequence[Floats], bins: Sequence[Ints], targets: int) -> Floats:
    """Products of factors by bins, the largest 1 and none 0, shape (targets,)."""
    logs = np.zeros(targets)
    for factor, held in zip(factors, bins, strict=True):
        logs += np.log(np.maximum(factor / factor.max(), _LEAST))[held]
    return np.asarray(np.maximum(np.exp(logs - logs.max(initial=-np.inf)), _LEAST))


def popularity(counts: Ints, weights: Floats, races: Floats, counted: float = 0.0) -> Floats:
    """Popularity of every target: numbers of references, the largest to who wins the race.

    Weights come from counts of units up to a cap: they say who is referred to, and too little of
    how often where much lies beyond the cap. So who is among the first is a race by weight, and
    which of them are the hubs is one by weights that are sharper the more lies beyond: popularity
    and what goes with it nearly have one order. Differences that are small, as those that noise
    makes, are hardly sharpened.

    Args:
        counts: Numbers of references, in any order, shape (targets,).
        weights: Weight of every target, above 0, shape (targets,).
        races: Standard exponential numbers, shape (targets,).
        counted: Number of references of a target up to which weights explain it.
    """
    out = np.zeros(len(counts))
    held = largest_first(counts)
    if not len(held):
        return out
    beyond = float(np.maximum(held - counted, 0.0).sum() / held.sum())
    first = winners(len(held), weights, races)
    logs = np.log(weights[first])
    off = logs - logs.mean()
    sharp = _SHARP * min(beyond / _BEYOND, 1.0)
    times = np.log(races[first]) - off * (1.0 + sharp * off**2 / (1.0 + off**2))
    out[first[np.argsort(times, kind="stable")]] = held
    return out


def largest_first(counts: Ints) -> Ints:
    """Numbers of references above 0, in falling order."""
    return np.asarray(np.sort(counts[counts > 0])[::-1])


def winners(many: int, weights: Floats, races: Floats) -> Ints:
    """The first targets of a race, shape (many,), in order."""
    if not many:
        return np.zeros(0, np.int64)
    times = races / weights
    first = np.argpartition(times, many - 1)[:many]
    return np.asarray(first[np.argsort(times[first], kind="stable")])
