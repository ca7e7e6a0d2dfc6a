"""Which rows references lead to: what is known of targets beyond how often each is referred to.

A *pull* says how much more often than others rows with certain values are referred to, or rows with
much of everything. A target's weight is the product of its factors; targets
race by weight for the numbers of references that the fan-in law gives, so that the heaviest are
likely to become the hubs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Codes
from privbench.errors import ModelError
from privbench.learning.denoise import Floats

Ints = NDArray[np.int64]
#: Weights of targets are cut at this part of the largest.
_LEAST = 1e-12
#: Largest score of a code, either way.
_LARGEST = 2**40
#: Power that large differences of weights are raised to, beyond 1, in the race of those that are
#: referred to for the largest numbers; part of all references that is beyond what weights explain
#: from which on they are raised to all of it.
_SHARP, _BEYOND = 3.0, 1 / 3


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """What a variable adds to the score of a row.

    Attributes:
        variable: Name of the variable in the law of the table that is referred to.
        scores: Score of every code, shape (codes,).
    """

    variable: str
    scores: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Pull:
    """How much variables of the rows that a key refers to speak for them.

    Attributes:
        terms: Variables whose scores are added up; mostly a single one, with its bins as scores.
        ends: Least sum of scores of every bin but the first, ascending, shape (bins - 1,).
        factors: Factor of every bin on the weight of a target, shape (bins,).
    """

    terms: tuple[Term, ...]
    ends: Ints
    factors: Floats

    @classmethod
    def of(cls, variable: str, bins: Ints, factors: Floats) -> Self:
        """The pull of one variable, from the bin of every code."""
        return cls((Term(variable, bins),), np.arange(1, len(factors)), factors)

    def is_told(self, codes: Mapping[str, Codes]) -> bool:
        """Whether no variable is missing."""
        return all(term.variable in codes for term in self.terms)

    def bins(self, codes: Mapping[str, Codes]) -> Ints:
        """Bin of every row, shape (rows,)."""
        return binned_sums((term.scores[codes[term.variable]] for term in self.terms), self.ends)

    def to_state(self) -> dict[str, Any]:
        """A JSON object that `from_state` reads back."""
        terms = [[term.variable, term.scores.tolist()] for term in self.terms]
        return {"terms": terms, "ends": self.ends.tolist(), "factors": self.factors.tolist()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The pull that `to_state` wrote.

        Raises:
            ModelError: Not a pull.
        """
        try:
            terms = tuple(
                Term(str(name), np.array(scores, np.int64)) for name, scores in state["terms"]
            )
            ends = np.array(state["ends"], np.int64)
            pull = cls(terms, ends, np.array(state["factors"], np.float64))
            valid = pull._is_valid()
        except (KeyError, TypeError, ValueError, OverflowError):
            valid = False
        if not valid:
            raise ModelError("a key in the model is damaged.")
        return pull

    def _is_valid(self) -> bool:
        scores = [term.scores for term in self.terms]
        plain = bool(scores) and all(part.ndim == 1 and len(part) > 0 for part in scores)
        plain = plain and all(part.min() >= -_LARGEST and part.max() <= _LARGEST for part in scores)
        # Compared, not subtracted: differences of far ends wrap around.
        plain = plain and self.ends.ndim == 1 and bool((self.ends[1:] > self.ends[:-1]).all())
        plain = plain and self.factors.shape == (len(self.ends) + 1,)
        good = np.isfinite(self.factors) & (self.factors >= 0)
        return bool(plain and good.all() and self.factors.max() > 0)


def summed(scores: Iterable[Ints]) -> Ints:
    """Sum of scores, one array after the other: a clone's tables are long, so none are stacked."""
    return np.asarray(reduce(np.add, scores), np.int64)


def binned_sums(scores: Iterable[Ints], ends: Ints) -> Ints:
    """Bin of sums of scores, by the least sum of every bin but the first.

    >>> binned_sums([np.array([0, 5, 2]), np.array([1, 1, 0])], np.array([2, 6])).tolist()
    [0, 2, 1]
    """
    return np.asarray(np.searchsorted(ends, summed(scores), side="right"), np.int64)


def attraction(pulls: Sequence[Pull], codes: Mapping[str, Codes], targets: int) -> Floats:
    """Weight of every target, the largest 1, shape (targets,).

    Args:
        pulls: What is known of targets; those of which a variable is missing are left out.
        codes: Variables of the targets.
        targets: Number of targets.
    """
    known = [pull for pull in pulls if pull.is_told(codes)]
    return product([pull.factors for pull in known], [pull.bins(codes) for pull in known], targets)


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
