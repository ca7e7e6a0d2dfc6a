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


def in_double(evidence, walks):
    """Log-likelihoods and posteriors of all settings, in double precision."""
    logs, found = [], []
    for law, rate in itertools.product(walks.laws[0], walks.rates):
        seen = (1 - rate) * evidence.seen + rate * evidence.alone[:, None]
        forward, backward, log = [], np.ones_like(seen), 0.0
        for cell, likelihood in enumerate(seen):
            value = likelihood * (forward[-1] @ law if cell else walks.start)
            log += np.log(value.sum())
            forward.append(value / value.sum())
        for cell in range(len(seen) - 2, -1, -1):
            back = law @ (seen[cell + 1] * backward[cell + 1])
            backward[cell] = back / back.sum()
        share = np.array(forward) * backward
        share /= share.sum(axis=1, keepdims=True)
        spike = share * rate * evidence.alone[:, None] / seen
        lone = spike.sum(axis=1, keepdims=True) * evidence.single
        logs.append(log)
        found.append(share - spike + lone)
    return np.array(logs), np.array(found)


@pytest.mark.parametrize("width", [1.0, 0.02])
def test_single_precision_is_enough_for_long_chains_of_peaked_likelihoods(width):
    """Likelihoods down to nothing, states that walks hardly leave, thousands of cells."""
    g = np.random.default_rng(3)
    states, cells = 80, 2000
    place = np.linspace(0.0, 1.0, states)
    truth = 0.5 + 0.4 * np.sin(np.arange(cells) / 60)
    seen = np.exp(
        -0.5 * ((truth[:, None] + width * g.normal(size=(cells, 1)) - place) / width) ** 2
    )
    seen /= seen.max(axis=1, keepdims=True)
    prior = np.full(states, 1 / states)
    alone = (seen * prior).sum(axis=1)
    evidence = Evidence(seen, alone, seen * prior / alone[:, None])
    laws = np.exp(-0.5 * ((place[:, None] - place) / np.array([0.01, 0.1])[:, None, None]) ** 2)
    laws = (laws / laws.sum(axis=2, keepdims=True))[None]
    walks = Walks(laws, np.zeros(cells, np.int64), prior, np.array([0.02, 0.3]))
    logs, found = in_double(evidence, walks)
    passes = Passes.run(evidence, walks)
    assert passes.logs == pytest.approx(logs, abs=1e-2)
    for setting in range(4):
        weights = np.eye(4)[setting]
        mean = passes.mean(weights)
        assert mean.min() >= 0
        assert np.abs(mean - found[setting]).sum(axis=1).max() < 1e-4
