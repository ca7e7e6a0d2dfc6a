"""Bounds: the most that an attacker can achieve under (ε, δ), and the ε that an attack proves.

Both directions of one inequality: `allowed` turns a guarantee into rates of an attack, and
`lower_bound` turns rates of an attack into an ε that the guarantee cannot be below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from privbench.rng import generator

#: Confidence of a lower bound, as is usual in the literature.
CONFIDENCE = 0.95
#: Shares of all examples that are guessed. Few guesses suit an attack that recognises a few
#: canaries with certainty, many suit one that has weak evidence on each. Each share takes a third
#: of the error, which costs the bound about log(3) / r of its exponent, for r guesses.
SHARES = (1.0, 0.5, 0.2)
#: The largest ε that is tried; no attack of fewer than some million guesses could prove more.
_MOST = 30.0


@dataclass(frozen=True, slots=True)
class Allowed:
    """The most that an attacker who knows all but one unit can achieve.

    ``advantage`` is the largest difference of true and false positive rate, ``tpr`` the largest
    true positive rate at a false positive rate of .1 %. ``posteriors`` are pairs of beliefs in
    [0, 1] that a unit is among the rows: the one before the release, and the largest one after it,
    if the guarantee did not fail, which it does with a probability of at most δ.
    """

    epsilon: float
    delta: float
    advantage: float
    tpr: float
    posteriors: tuple[tuple[float, float], ...]


def allowed(epsilon: float, delta: float, priors: Sequence[float] = (0.1, 0.001)) -> Allowed:
    """The attack risk that a guarantee leaves, in closed form.

    A test of "the unit is in" with false positive rate α has a true positive rate of at most
    1 − f(α), where f(α) = max(0, 1 − δ − e^ε·α, e^−ε·(1 − δ − α)) is the trade-off function of
    (ε, δ)-DP: Wasserman and Zhou (2010), Dong, Roth and Su (2022), Proposition 3. Its largest
    distance from α is (e^ε − 1 + 2δ)/(e^ε + 1), at α = (1 − δ)/(e^ε + 1). Any such mechanism is
    post-processing of one that tells all with probability δ and is ε-DP otherwise (Kairouz, Oh and
    Viswanath 2015). Where it does not tell all, Bayes' rule turns odds into at most e^ε times the
    odds. (A release need not show which was the case, so that a belief may pass that line by about
    δ with a larger probability.) ε is at least 0, δ in [0, 1); beliefs before the release, the
    ``priors``, are in (0, 1).

    >>> risk = allowed(math.log(3), 0.0)
    >>> round(risk.advantage, 3), round(risk.tpr, 4), [round(p, 4) for _, p in risk.posteriors]
    (0.5, 0.003, [0.25, 0.003])
    """
    ratio = math.exp(-epsilon)
    advantage = (1.0 - ratio + 2.0 * delta * ratio) / (1.0 + ratio)
    posteriors = [(prior, prior / (prior + (1.0 - prior) * ratio)) for prior in priors]
    return Allowed(epsilon, delta, advantage, true_positives(0.001, epsilon, delta),
                   tuple(posteriors))  # fmt: skip


def true_positives(alpha: float, epsilon: float, delta: float) -> float:
    """The largest true positive rate at a false positive rate; see `allowed`."""
    first = math.inf if epsilon > 700 else delta + math.exp(epsilon) * alpha
    return min(1.0, first, 1.0 - math.exp(-epsilon) * (1.0 - delta - alpha))


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound from guesses: with `CONFIDENCE`, ε is at least ``epsilon``; 0 proves nothing.

    There were ``examples`` canaries, each in or out by an independent coin. In the split that
    proves most, ``guesses`` of them were guessed, ``correct`` of these correctly; if all had been
    correct, the bound would have been ``possible``.
    """

    epsilon: float
    examples: int
    guesses: int
    correct: int
    possible: float


def p_value(correct: int, guesses: int, examples: int, epsilon: float, delta: float) -> float:
    """An upper bound on the probability of so many correct guesses under an (ε, δ)-DP mechanism.

    Steinke, Nasr and Jagielski (2023), "Privacy auditing with one (1) training run", Theorem 5.2:
    every canary is in or out by a fair coin of its own, and an attacker who sees the output guesses
    some of the coins and abstains on the rest. The number of right guesses is then, up to δ, no
    larger than a binomial variable with success probability e^ε/(1 + e^ε), whatever the canaries
    do to each other.

    Canaries of several fits may be counted together: the fits as one mechanism are (ε, δ)-DP for
    each of them, since each is in the data of one fit alone. With one canary a fit this is auditing
    with many runs. The number of guesses has to be fixed in advance; ``examples`` are all canaries.
    """
    chance = 1.0 / (1.0 + math.exp(-epsilon))
    tail = float(binom.sf(correct - 1, guesses, chance))
    if delta and correct:
        steps = np.arange(1, correct + 1)
        below: NDArray[Any] = (binom.sf(correct - steps - 1, guesses, chance) - tail) / steps
        tail += 2.0 * examples * delta * float(below.max())
    return min(tail, 1.0)


def epsilon_proved(
    correct: int, guesses: int, examples: int, delta: float, error: float = 1.0 - CONFIDENCE
) -> float:
    """The largest ε at which so many correct guesses are still less likely than ``error``.

    >>> round(epsilon_proved(100, 100, 100, 0.0), 2), epsilon_proved(50, 100, 100, 0.0)
    (3.49, 0.0)
    """
    proved, step = 0.0, _MOST / 2
    while step > 1e-6:
        if p_value(correct, guesses, examples, proved + step, delta) < error:
            proved += step
        step /= 2
    return proved


def lower_bound(scores: NDArray[np.float64], coins: NDArray[np.bool_], delta: float) -> Bound:
    """The lower bound on ε that an attack's scores give, with `CONFIDENCE`.

    For each of `SHARES`, the canaries with the highest scores are guessed as in and those with the
    lowest as out. The result is the largest bound; each share takes its part of the error (a union
    bound). Equal scores are ordered at random, never by the order in which canaries were planted.
    ``scores`` has a score for every canary, computed from released values alone and higher if the
    canary seems to be in; ``coins`` are true for canaries that were in; ``delta`` is δ of the fit.
    """
    order = generator(None).permutation(len(scores))
    order = order[np.argsort(scores[order], kind="stable")]
    error, found = (1.0 - CONFIDENCE) / len(SHARES), []
    for share in SHARES:
        half = int(len(scores) * share) // 2
        if half:
            ins, outs = order[-half:], order[:half]
            right = int(coins[ins].sum() + (~coins[outs]).sum())
            proved = epsilon_proved(right, 2 * half, len(scores), delta, error)
            most = epsilon_proved(2 * half, 2 * half, len(scores), delta, error)
            found.append(Bound(proved, len(scores), 2 * half, right, most))
    return max(found, key=lambda bound: bound.epsilon, default=Bound(0.0, len(scores), 0, 0, 0.0))
