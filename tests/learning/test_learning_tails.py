"""The corner of the largest values of two variables."""

from __future__ import annotations

import numpy as np
import pytest

from privbench.learning.denoise import scale_of
from privbench.learning.junction import pairs
from privbench.learning.junction.copulas import copula, gumbel
from privbench.learning.junction.implied import blocks_of
from privbench.learning.junction.ratios import rake
from privbench.learning.junction.tails import bent
from privbench.rng import generator

FALLING = 30_000 * 0.5 ** np.arange(1, 12)


def corner(counts, bins=4):
    return counts[-bins:, -bins:].sum()


def crowd(seed):
    """Users of whom few do most of everything, by number of posts and of badges in octaves."""
    g = generator(seed, "crowd")
    zeal = g.standard_t(3, 30_000)
    first, second = (
        np.clip(np.floor(zeal + g.normal(0, 0.8, len(zeal)) + 1.0), 0, 11).astype(int)
        for _ in range(2)
    )
    return np.bincount(first * 12 + second, minlength=144).reshape(12, 12).astype(np.float64)


def test_values_that_go_together_do_so_more_in_the_corner():
    table = copula(FALLING, FALLING, 0.5)
    out = bent(table, 60.0, (11, 11))
    assert corner(out) > 1.5 * corner(table)
    np.testing.assert_allclose(out.sum(axis=0), FALLING, rtol=1e-2)
    np.testing.assert_allclose(out.sum(axis=1), FALLING, rtol=1e-2)


@pytest.mark.parametrize("rho", [0.0, -0.5])
def test_values_that_do_not_go_together_stay(rho):
    table = copula(FALLING, FALLING, rho)
    np.testing.assert_allclose(bent(table, 60.0, (11, 11)), table, rtol=1e-6)


def test_bins_without_an_order_and_short_tables_stay():
    table = gumbel(FALLING, FALLING, 2.0) + 1e-9
    out = bent(table, 60.0, (10, 9))
    assert (out[10:] == table[10:]).all()
    assert (out[:, 9:] == table[:, 9:]).all()
    assert out[:10, :9].sum() == pytest.approx(table[:10, :9].sum())
    assert bent(table, 60.0, (2, 11)) is table
    assert bent(np.zeros((4, 4)), 60.0, (4, 4)).sum() == 0


def found(truth, sd, seed):
    noise = generator(seed, "noise").laplace(0, scale_of(sd, "laplace"), truth.shape)
    margins = truth.sum(axis=1), truth.sum(axis=0)
    even = np.outer(*margins) / truth.sum() + 1e-6
    blocks = blocks_of(12, 12), blocks_of(12, 12)
    table = pairs.related(
        truth + noise, even, margins, scale_of(sd, "laplace"), "laplace", blocks, (12, 12)
    )
    return rake(table, *margins, 8)


def test_few_owners_of_most_are_not_lost_in_noise(monkeypatch):
    """Seventy users in a corner of sixteen cells with noise of sixty each."""

    def off():
        logs = []
        for seed in range(12):
            truth = crowd(seed)
            logs.append(np.log(corner(found(truth, 60.0, seed)) / corner(truth)))
        return abs(float(np.mean(logs)))

    now = off()
    monkeypatch.setattr(pairs, "bent", lambda table, scale, ordered: table)
    assert now < 0.4
    assert off() > 1.25 * now


@pytest.mark.parametrize("seed", range(3, 8))
def test_what_stands_out_from_noise_is_followed(seed):
    truth = crowd(seed)
    table = found(truth, 0.5, seed)
    assert corner(table) == pytest.approx(corner(truth), rel=0.1)


@pytest.mark.parametrize("sd", [5.0, 20.0, 60.0])
def test_even_values_that_noise_does_not_hide_are_not_bent(sd, monkeypatch):
    """Dates and other values in bins of equal mass: cells tell how their largest go together."""
    truth = copula(np.full(12, 2500.0), np.full(12, 2500.0), 0.5)

    def off():
        return np.mean([abs(found(truth, sd, seed) - truth).sum() for seed in range(6)])

    now = off()
    monkeypatch.setattr(pairs, "bent", lambda table, scale, ordered: table)
    assert now < 1.02 * off()
