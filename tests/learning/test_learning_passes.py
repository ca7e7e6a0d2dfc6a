"""Passes over a chain of cells, against the sum over all paths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from privbench.learning.junction.passes import Evidence, Passes, Walks

STATES, CELLS = 6, 4
RATES = np.array([0.1, 0.5])


def chain(seed):
    g = np.random.default_rng(seed)
    prior = g.dirichlet(np.ones(STATES))
    seen = g.random((CELLS, STATES)) ** 4
    single = seen * prior
    alone = single.sum(axis=1)
    evidence = Evidence(seen, alone, single / alone[:, None])
    laws = g.dirichlet(np.ones(STATES), (3, 2, STATES))
    return evidence, Walks(laws, np.array([0, 2, 1, 2]), g.dirichlet(np.ones(STATES)), RATES)


def by_paths(evidence, walks, kernel, rate):
    """Likelihood and posterior means, by enumeration of states and spikes."""
    likelihood, found = 0.0, np.zeros((CELLS, STATES))
    for path in itertools.product(range(STATES), repeat=CELLS):
        chance = walks.start[path[0]]
        for cell in range(1, CELLS):
            chance *= walks.laws[walks.into[cell], kernel, path[cell - 1], path[cell]]
        for spikes in itertools.product((False, True), repeat=CELLS):
            weight = chance
            for cell, spike in enumerate(spikes):
                clear = (1 - rate) * evidence.seen[cell, path[cell]]
                weight *= rate * evidence.alone[cell] if spike else clear
            likelihood += weight
            for cell, spike in enumerate(spikes):
                found[cell] += weight * (evidence.single[cell] if spike else 0.0)
                found[cell, path[cell]] += 0.0 if spike else weight
    return likelihood, found / likelihood


@pytest.mark.parametrize("seed", range(2))
def test_passes_are_the_sum_over_all_paths(seed):
    evidence, walks = chain(seed)
    passes = Passes.run(evidence, walks)
    weights = np.array([0.2, 0.0, 0.5, 0.3])
    expected = np.zeros((CELLS, STATES))
    for number, (kernel, rate) in enumerate(itertools.product(range(2), RATES)):
        likelihood, posterior = by_paths(evidence, walks, kernel, rate)
        assert passes.logs[number] == pytest.approx(np.log(likelihood), abs=1e-6)
        expected += weights[number] * posterior
    assert passes.mean(weights) == pytest.approx(expected, abs=1e-6)
