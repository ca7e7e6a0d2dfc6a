"""Forward and backward passes of a chain of cells, for all walks and spike rates at once.

A setting is one walk with one spike rate: in every cell, with the probability ``rate``, what is
seen says nothing of the state of the walk. The forward pass gives the likelihoods of all settings;
the backward pass, which costs as much again, is run only for those that count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from privbench.learning.denoise import Floats

Ints = NDArray[np.int64]
#: Sums may be taken in any order; infinities and NaN keep their meaning.
_FAST = {"reassoc", "contract"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is seen of a chain of cells.

    Attributes:
        seen: Likelihood of every state, shape (cells, states).
        alone: Likelihood of a cell that is a spike, shape (cells,).
        single: Posterior of a cell that is a spike, shape (cells, states).
    """

    seen: Floats
    alone: Floats
    single: Floats

    def take(self, chosen: Ints) -> Evidence:
        """Some of the cells, in order."""
        return Evidence(self.seen[chosen], self.alone[chosen], self.single[chosen])


@dataclass(frozen=True, slots=True)
class Walks:
    """Transition laws.

    Attributes:
        laws: Shape (laws, kernels, states, states); rows sum to 1.
        into: Which law leads into every cell, shape (cells,).
        start: Law of the first cell's state, shape (states,).
        rates: Probabilities of a spike, shape (rates,).
    """

    laws: Floats
    into: Ints
    start: Floats
    rates: Floats


@dataclass(frozen=True, slots=True)
class Passes:
    """A chain after its forward pass.

    Attributes:
        evidence: What is seen.
        walks: The settings.
        forward: Law of every state given the cells so far, (kernels, rates, cells, states).
        logs: Log-likelihood of every setting, shape (kernels·rates,).
    """

    evidence: Evidence
    walks: Walks
    forward: Floats
    logs: Floats

    @classmethod
    def run(cls, evidence: Evidence, walks: Walks) -> Passes:
        """The forward pass."""
        kernels = walks.laws.shape[1]
        forward = np.empty((kernels, len(walks.rates), *evidence.seen.shape))
        logs = np.zeros(forward.shape[:2])
        _forward(
            evidence.seen,
            evidence.alone,
            walks.laws,
            walks.into,
            walks.start,
            walks.rates,
            forward,
            logs,
        )
        return cls(evidence, walks, forward, logs.ravel())

    def mean(self, weights: Floats) -> Floats:
        """Weighted sum of the settings' posteriors, shape (cells, states).

        Args:
            weights: Weight of every setting, shape (kernels·rates,); those of 0 cost nothing.
        """
        found = np.zeros(self.evidence.seen.shape)
        _backward(
            self.evidence.seen,
            self.evidence.alone,
            self.evidence.single,
            self.walks.laws,
            self.walks.into,
            self.walks.rates,
            self.forward,
            weights.reshape(self.forward.shape[:2]),
            found,
        )
        return found


@numba.njit(cache=True, fastmath=_FAST)
def _step(law, before, after):  # type: ignore[no-untyped-def]
    """``after = before @ law``, four rows at a time."""
    states = len(before)
    after[:] = 0.0
    row = 0
    while row + 4 <= states:
        a, b, c, d = before[row], before[row + 1], before[row + 2], before[row + 3]
        first, second, third, fourth = law[row], law[row + 1], law[row + 2], law[row + 3]
        for state in range(states):
            after[state] += (
                a * first[state] + b * second[state] + c * third[state] + d * fourth[state]
            )
        row += 4
    while row < states:
        a, first = before[row], law[row]
        for state in range(states):
            after[state] += a * first[state]
        row += 1


@numba.njit(cache=True, fastmath=_FAST)
def _forward(seen, alone, laws, into, start, rates, forward, logs):  # type: ignore[no-untyped-def]
    kernels, many, cells, states = forward.shape
    for kernel in range(kernels):
        for cell in range(cells):
            law = laws[into[cell], kernel]
            for rate in range(many):
                value = forward[kernel, rate, cell]
                if cell:
                    _step(law, forward[kernel, rate, cell - 1], value)
                else:
                    value[:] = start
                clear, spike = 1.0 - rates[rate], rates[rate] * alone[cell]
                total = 0.0
                for state in range(states):
                    value[state] *= clear * seen[cell, state] + spike
                    total += value[state]
                for state in range(states):
                    value[state] /= total
                logs[kernel, rate] += np.log(total)


@numba.njit(cache=True, fastmath=_FAST)
def _backward(seen, alone, single, laws, into, rates, forward, weights, found):  # type: ignore[no-untyped-def]
    kernels, many, cells, states = forward.shape
    backward, held = np.empty(states), np.empty(states)
    for kernel in range(kernels):
        for rate in range(many):
            weight = weights[kernel, rate]
            if weight == 0.0:
                continue
            backward[:] = 1.0
            for cell in range(cells - 1, -1, -1):
                clear, spike = 1.0 - rates[rate], rates[rate] * alone[cell]
                value = forward[kernel, rate, cell]
                total = 0.0
                for state in range(states):
                    total += value[state] * backward[state]
                spiked = 0.0
                for state in range(states):
                    share = value[state] * backward[state] / total
                    mixed = clear * seen[cell, state] + spike
                    part = share * (spike / max(mixed, 1e-300))
                    spiked += part
                    found[cell, state] += weight * (share - part)
                    held[state] = mixed * backward[state]
                total = 0.0
                law = laws[into[cell], kernel]
                for state in range(states):
                    found[cell, state] += weight * spiked * single[cell, state]
                    into_state = 0.0
                    row = law[state]
                    for other in range(states):
                        into_state += row[other] * held[other]
                    backward[state] = into_state
                    total += into_state
                for state in range(states):
                    backward[state] /= total
