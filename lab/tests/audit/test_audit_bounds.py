"""Bounds: true of mechanisms whose ε is known, and sharp enough to refute half the noise."""

import math

import numpy as np
import pytest

from privbench_lab.audit.bounds import allowed, epsilon_proved, lower_bound, p_value, true_positives


def answers(rng, coins, epsilon, delta=0.0):
    """Scores of randomised response, which tells all with probability δ."""
    keep = rng.random(len(coins)) < 1 / (1 + math.exp(-epsilon))
    said = np.where(keep, coins, ~coins).astype(float)
    return np.where(rng.random(len(coins)) < delta, 2.0 * coins - 0.5, said)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (3.0, 0.0), (1.0, 1e-3)])
def test_the_bound_of_a_known_mechanism_holds_in_95_of_100(epsilon, delta):
    rng = np.random.default_rng(5)
    found = []
    for _ in range(200):
        coins = rng.random(400) < 0.5
        found.append(lower_bound(answers(rng, coins, epsilon, delta), coins, delta).epsilon)
    # 200 draws of at most 5 %: more than 20 has a chance below one in a thousand.
    assert sum(bound > epsilon for bound in found) <= 20
    if epsilon and not delta:
        assert np.median(found) > 0.7 * epsilon


def test_half_the_noise_exceeds_the_bound():
    """Laplace noise on one count a canary: ε = 1 holds, and noise for ε = 2 is refuted."""
    rng = np.random.default_rng(7)
    coins = rng.random(4000) < 0.5
    bounds = {
        claim: lower_bound(coins + rng.laplace(scale=1 / real, size=4000), coins, 0.0).epsilon
        for claim, real in (("kept", 1.0), ("halved", 2.0))
    }
    assert 0.5 < bounds["kept"] <= 1.0 < bounds["halved"] <= 2.0


def test_delta_costs_the_proof_what_it_lets_through():
    assert p_value(60, 100, 100, 0.0, 0.0) < 0.05 < p_value(60, 100, 100, 0.0, 0.02)
    assert epsilon_proved(100, 100, 100, 1e-9) == pytest.approx(
        epsilon_proved(100, 100, 100, 0.0), abs=1e-3
    )
    assert lower_bound(np.zeros(1), np.ones(1, bool), 0.0).epsilon == 0.0


def test_what_a_guarantee_allows_is_the_best_of_all_tests():
    """The closed formulas against the strongest tests of the mechanism that all others follow."""
    for epsilon, delta in ((0.5, 0.0), (1.0, 1e-6), (3.2, 1e-2), (8.0, 0.0)):
        ratio = math.exp(epsilon)
        outside = np.array(
            [0.0, (1 - delta) / (1 + ratio), (1 - delta) * ratio / (1 + ratio), delta]
        )
        inside = outside[::-1]
        alphas, betas = np.cumsum([0, *outside]), np.cumsum([0, *inside])
        risk = allowed(epsilon, delta)
        assert risk.advantage == pytest.approx(float((betas - alphas).max()))
        for alpha in (0.0, 1e-3, 0.1, 0.5, 1.0):
            best = float(np.interp(alpha, alphas[1:], betas[1:]))
            assert true_positives(alpha, epsilon, delta) == pytest.approx(best)
        prior, posterior = risk.posteriors[0]
        odds = prior / (1 - prior) * ratio
        assert posterior == pytest.approx(odds / (1 + odds))
    assert allowed(1e4, 0.0).advantage == allowed(1e4, 0.0).tpr == 1.0
