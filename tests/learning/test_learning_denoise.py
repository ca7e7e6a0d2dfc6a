"""Denoising: what comes out could be counts, and is nearer to the truth than clipping."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.domain import Domain
from privbench.learning.bins import make_bins
from privbench.learning.denoise import by_precision, denoise, denoise_toward, project

COUNTS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


def truth_and_noise(seed, cells=200, sd=20.0, noise="laplace"):
    g = np.random.default_rng(seed)
    truth = np.floor(30_000 * g.dirichlet(np.full(cells, 0.15)))
    drawn = g.laplace(0, sd / np.sqrt(2), cells) if noise == "laplace" else g.normal(0, sd, cells)
    return truth, truth + drawn


def divergence(truth, found):
    p, q = truth / truth.sum(), found / found.sum()
    return (p * np.log((p + 1e-10) / (q + 1e-10))).sum()


@given(COUNTS, st.floats(0, 1e6))
def test_projection_is_the_nearest_point_of_the_simplex(values, total):
    noisy = np.array(values)
    found = project(noisy, total)
    scale = 1e-9 * max(np.abs(noisy).max(), total, 1.0) * len(noisy)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total, abs=scale + 1e-9)
    # Optimality: what is moved is the same for all positive cells and at most that for zeros.
    moved = found - noisy
    positive = found > scale
    if positive.any():
        level = moved[positive].mean()
        assert moved[positive] == pytest.approx(np.full(positive.sum(), level), abs=10 * scale)
        assert (moved[~positive] >= level - 10 * scale).all()


@settings(deadline=None)
@given(COUNTS, st.floats(1e-3, 1e5), st.floats(1, 1e6), st.sampled_from(["laplace", "gaussian"]))
def test_denoised_counts_are_counts(values, sd, total, noise):
    found = denoise(np.array(values), sd, total, noise)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("seed", range(3))
def test_denoising_beats_clipping_and_projection(seed, noise):
    truth, noisy = truth_and_noise(seed, noise=noise)
    clipped = np.maximum(noisy, 0)
    found = denoise(noisy, 20.0, truth.sum(), noise)
    assert divergence(truth, found) < 0.75 * divergence(truth, clipped)
    assert divergence(truth, found) < 0.75 * divergence(truth, project(noisy, truth.sum()))


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_good_prediction_helps_and_a_bad_one_is_overruled(noise):
    truth, noisy = truth_and_noise(5, noise=noise)
    near = truth * np.random.default_rng(1).lognormal(0, 0.2, len(truth)) + 0.1
    helped = denoise_toward(noisy, near, np.full(len(truth), 20.0), noise)
    assert np.abs(helped - truth).sum() < 0.7 * np.abs(noisy - truth).sum()
    assert (helped >= 0).all()
    wrong = np.full(len(truth), 0.5)
    found = denoise_toward(noisy, wrong, np.full(len(truth), 20.0), noise)
    heavy = truth > 1000
    assert found[heavy] == pytest.approx(truth[heavy], rel=0.15)


def test_combining_weighs_by_precision():
    assert by_precision([(0.0, 1.0), (10.0, 9.0)]) == pytest.approx((1.0, 0.9))


@given(
    st.lists(st.floats(0, 1000), min_size=1, max_size=60),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
    st.integers(1, 20),
    st.floats(0, 200),
)
def test_bins_partition_the_codes(values, specials, nullable, ordered, most, least):
    names = ("other", "nan", "below")[:specials]
    domain = Domain(len(values), ordered, names, nullable)
    counts = np.concatenate([values, np.full(domain.size - len(values), 5.0)])
    bins = make_bins(counts, domain, most, least)
    assert set(bins.of.tolist()) == set(range(bins.size))
    assert bins.size <= 2 * most + domain.size - domain.values + 1
    assert bins.counts.sum() == pytest.approx(counts.sum())
    inside = np.bincount(bins.of, bins.inside)
    assert inside == pytest.approx(np.ones(bins.size))
    assert bins.spread(bins.counts) == pytest.approx(counts, abs=1e-9)
    if ordered:
        assert (np.diff(bins.of[: domain.values]) >= 0).all()


def test_heavy_codes_stand_alone():
    counts = np.ones(100)
    counts[37] = 200.0
    for ordered in (True, False):
        bins = make_bins(counts, Domain(100, ordered), 10, 1.0)
        assert (bins.of == bins.of[37]).sum() == 1
