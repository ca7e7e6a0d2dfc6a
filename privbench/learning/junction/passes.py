"""Forward and backward passes of a chain of cells, for all walks and spike rates at once.

A setting is one walk with one spike rate: in every cell, with the probability ``rate``, what is
seen says nothing of the state of the walk. The forward pass gives the likelihoods of all settings;
the backward pass, which costs as much again, is run only for those that count. Both take single
precision: laws are normalised at every cell, and twice as many states fit a register.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from privbench.learning.denoise import Floats

Ints = NDArray[np.int64]
Singles = NDArray[np.float32]
#: Sums may be taken in any order; infinities and NaN keep their meaning.
_FAST = {"reassoc", "contract"}
#: Rounds of expectation maximisation, and the cells that every state gets beside.
_ROUNDS, _LEFT = 60, 0.02
_ZERO, _ONE, _LEAST = np.float32(0.0), np.float32(1.0), np.float32(1e-30)


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


def _single(values: Floats) -> Singles:
    return np.ascontiguousarray(values, np.float32)


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
    forward: Singles
    logs: Floats

    @classmethod
    def run(cls, evidence: Evidence, walks: Walks) -> Passes:
        """The forward pass."""
        kernels = walks.laws.shape[1]
        forward = np.empty((kernels, len(walks.rates), *evidence.seen.shape), np.float32)
        logs = np.zeros(forward.shape[:2])
        _forward(
            _single(evidence.seen),
            _single(evidence.alone),
            _single(walks.laws),
            walks.into,
            _single(walks.start),
            _single(walks.rates),
            forward,
            logs,
        )
        return cls(evidence, walks, forward, logs.ravel())

    def mean(self, weights: Floats) -> Floats:
        """Weighted sum of the settings' posteriors, shape (cells, states).

        Args:
            weights: Weight of every setting, shape (kernels·rates,); those of 0 cost nothing.
        """
        found = np.zeros(self.evidence.seen.shape, np.float32)
        _backward(
            _single(self.evidence.seen),
            _single(self.evidence.alone),
            _single(self.evidence.single),
            _single(self.walks.laws.swapaxes(2, 3)),
            self.walks.into,
            _single(self.walks.rates),
            self.forward,
            _single(weights).reshape(self.forward.shape[:2]),
            found,
        )
        # Rounding may leave a difference of equal parts below 0.
        return np.maximum(found, 0.0, dtype=np.float64)


@numba.njit(cache=True, fastmath=_FAST)
def likely(seen):  # type: ignore[no-untyped-def]
    """The likeliest law of the states of cells that are alone, by expectation maximisation.

    Args:
        seen: Likelihood of every state, float64, shape (cells, states).

    Returns:
        Masses of the states, none of them 0, which sum to 1.
    """
    cells, states = seen.shape
    prior, share = np.full(states, 1.0 / states), np.empty(states)
    for _ in range(_ROUNDS):
        share[:] = 0.0
        for cell in range(cells):
            mass = 0.0
            for state in range(states):
                mass += prior[state] * seen[cell, state]
            part = 1.0 / mass
            for state in range(states):
                share[state] += part * seen[cell, state]
        total = 0.0
        for state in range(states):
            prior[state] = prior[state] * share[state] + _LEFT
            total += prior[state]
        prior /= total
    return prior


@numba.njit(cache=True, fastmath=_FAST)
def _step(law, before, after):  # type: ignore[no-untyped-def]
    """``after = before @ law``, four rows at a time."""
    states = len(before)
    after[:] = _ZERO
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
                    # Assigning the array at once takes half a cold start to compile.
                    for state in range(states):
                        value[state] = start[state]
                clear, spike = _ONE - rates[rate], rates[rate] * alone[cell]
                total = _ZERO
                for state in range(states):
                    value[state] *= clear * seen[cell, state] + spike
                    total += value[state]
                for state in range(states):
                    value[state] /= total
                logs[kernel, rate] += np.log(total)


@numba.njit(cache=True, fastmath=_FAST)
def _backward(seen, alone, single, turned, into, rates, forward, weights, found):  # type: ignore[no-untyped-def]
    kernels, many, cells, states = forward.shape
    backward, held = np.empty(states, np.float32), np.empty(states, np.float32)
    for kernel in range(kernels):
        for rate in range(many):
            weight = weights[kernel, rate]
            if weight == 0.0:
                continue
            backward[:] = _ONE
            for cell in range(cells - 1, -1, -1):
                clear, spike = _ONE - rates[rate], rates[rate] * alone[cell]
                value = forward[kernel, rate, cell]
                total = _ZERO
                for state in range(states):
                    total += value[state] * backward[state]
                spiked = _ZERO
                for state in range(states):
                    share = value[state] * backward[state] / total
                    mixed = clear * seen[cell, state] + spike
                    part = share * (spike / max(mixed, _LEAST))
                    spiked += part
                    found[cell, state] += weight * (share - part)
                    held[state] = mixed * backward[state]
                for state in range(states):
                    found[cell, state] += weight * spiked * single[cell, state]
                _step(turned[into[cell], kernel], held, backward)
                total = _ZERO
                for state in range(states):
                    total += backward[state]
                for state in range(states):
                    backward[state] /= total
