"""The curve by which counts fall off: as good as a general solver's, on any noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import least_squares

from privbench.learning.falloff import CURVE_ERROR, concave


def price(curve, tail, sd):
    weights = 1.0 / np.sqrt(sd * sd + (CURVE_ERROR * np.maximum(tail, 0)) ** 2)
    return float((np.sqrt(1.0 + ((tail - curve) * weights) ** 2) - 1.0).sum())


def by_library(tail, sd):
    place = np.arange(len(tail)) / (len(tail) - 1)
    first = np.log(max(tail[0], sd, 1.0))
    weights = 1.0 / np.sqrt(sd * sd + (CURVE_ERROR * np.maximum(tail, 0)) ** 2)

    def curve(at):
        return np.exp(np.clip(at[0] + at[1] * place - at[2] * place**2, -50, 50))

    found = least_squares(
        lambda at: (tail - curve(at)) * weights,
        [first, -3.0, 1.0],
        bounds=([-5.0, -60.0, 0.0], [first + 5, 5.0, 60.0]),
        loss="soft_l1",
        max_nfev=500,
    )
    return curve(found.x)


SHAPES = {
    "exponential": lambda x: 400 * np.exp(-5 * x),
    "bell": lambda x: 400 * np.exp(-6 * x**2),
    "step": lambda x: np.where(x < 0.3, 90.0, 0.0),
    "nothing": lambda x: 0 * x,
    "rising": lambda x: 50 + 100 * x,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sd", [0.5, 5.0, 60.0])
def test_the_fit_is_as_good_as_a_general_solvers(shape, sd):
    for seed in range(6):
        draws = np.random.default_rng(seed)
        place = np.linspace(0, 1, int(draws.integers(8, 70)))
        tail = SHAPES[shape](place) + draws.laplace(0, sd / np.sqrt(2), len(place))
        found, known = concave(tail, sd), by_library(tail, sd)
        assert price(found, tail, sd) <= 1.03 * price(known, tail, sd) + 0.01
        assert (found > 0).all()
        shown = np.log(found[found > 1e-20])
        assert (np.diff(shown, 2) <= 1e-6).all()


def test_without_noise_the_curve_itself_is_found():
    place = np.linspace(0, 1, 20)
    true = np.exp(5.0 - 2.0 * place - 3.0 * place**2)
    assert concave(true, 0.5) == pytest.approx(true, rel=1e-3)


def test_one_cell_and_huge_counts_are_no_trouble():
    assert np.isfinite(concave(np.array([7.0]), 1.0)).all()
    assert np.isfinite(concave(np.array([1e12, -1e12, 1e9, 0.0]), 1e-3)).all()
