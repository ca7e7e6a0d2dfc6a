"""Estimates from noisy counts: near the truth where it stands out, near what is expected else."""

import numpy as np
import pytest

from privbench.domain import Domain
from privbench.learning.draw import draw
from privbench.learning.graphical.estimate import associate, conditional, lowered, rake, shrink
from privbench.learning.graphical.one_way import one_way
from privbench.learning.graphical.sizes import MANY, references_per_target, rows_per_unit, with_mean


def test_what_clear_cells_leave_of_a_total_bounds_all_others_in_sum():
    """An estimate of 2 in each of 49 cells: all of it is too much, or true."""
    noise, estimate = np.random.default_rng(5).normal(0, 8, (40, 50)), np.full(50, 2.0)
    estimate[0] = 900.0
    sums = {}
    for each in (0.0, 2.0):
        exact = np.append(900.0, np.full(49, each))
        found = [lowered(estimate, exact + part, 8.0, "gaussian", exact.sum()) for part in noise]
        assert (np.array(found)[:, 0] == 900.0).all()
        sums[each] = np.mean([counts[1:].sum() for counts in found])
    assert sums[0.0] < 10.0
    assert sums[2.0] > 80.0
    # What the total shows to be there is not lowered, though no cell of it is clear.
    exact = np.append(900.0, np.full(49, 12.0))
    assert (lowered(exact, exact, 8.0, "gaussian", exact.sum()) == exact).all()
    # Where no cell is clear of the noise nothing is known of the others.
    assert (lowered(estimate[1:], noise[0, 1:], 8.0, "gaussian", 0.0) == 2.0).all()


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_shrinkage_is_nearer_than_the_noisy_counts_and_than_the_prediction(law):
    g = np.random.default_rng(1)
    prediction = g.exponential(30.0, (24, 24))
    counts = prediction * np.exp(g.normal(0, 0.5, prediction.shape))
    noise = g.laplace(0, 12 / 2**0.5, (24, 24)) if law == "laplace" else g.normal(0, 12, (24, 24))
    found = shrink(counts + noise, 12.0, prediction, law)
    assert np.abs(found - counts).sum() < 0.8 * np.abs(noise).sum()
    assert np.abs(found - counts).sum() < 0.8 * np.abs(prediction - counts).sum()
    assert (found > 0).all()


def test_shrinkage_of_nothing_but_noise_goes_to_the_prediction():
    prediction = np.full(500, 5.0)
    noise = np.random.default_rng(2).normal(0, 50, 500)
    assert np.abs(shrink(prediction + noise, 50.0, prediction, "gaussian") - 5.0).max() < 15
    far = shrink(np.array([400.0, 5.0]), 10.0, np.array([0.01, 5.0]), "gaussian")
    assert far[0] == pytest.approx(400.0)


def test_a_conditional_keeps_its_targets_and_the_parents():
    joint = np.random.default_rng(3).random((3, 4, 5))
    joint /= joint.sum()
    coarse = np.array([0, 0, 1, 1, 2])
    second = joint.sum(axis=0) @ np.eye(3)[coarse]
    parents, targets = joint.sum(axis=2), [joint.sum(axis=1), second]
    found = conditional(parents, joint.sum(axis=(0, 1)), targets, [np.arange(5), coarse])
    made = parents[..., None] * found
    assert np.allclose(found.sum(axis=-1), 1.0)
    assert np.abs(made.sum(axis=1) - targets[0]).max() < 2e-3
    assert np.abs(made.sum(axis=0) @ np.eye(3)[coarse] - second).max() < 2e-3


def test_draws_are_off_by_less_than_one_row():
    g = np.random.default_rng(4)
    table = rake(g.random((6, 9)), np.ones(6), np.full(9, 6 / 9))
    table /= table.sum(axis=1, keepdims=True)
    rows = g.integers(0, 6, 5000)
    counts = np.zeros((6, 9))
    np.add.at(counts, (rows, draw(table, rows, g)), 1)
    assert np.abs(counts - table * np.bincount(rows, minlength=6)[:, None]).max() < 2


@pytest.mark.parametrize("power", [-1.0, 0.0, 2.0])
def test_the_corner_of_two_tails_follows_from_the_rest_of_a_pair(power):
    """The corner of two tails lies below the noise: a copula finds it, independence does not."""
    scores = np.linspace(-2.5, 2.5, 12)
    margin = np.exp(-(scores**2) / 2)
    flat = 20_000 * np.outer(margin, margin) / margin.sum() ** 2
    margins = flat.sum(axis=1), flat.sum(axis=0)
    exact = rake(flat * np.exp(power * np.outer(scores, scores)), *margins)
    corners = []
    for seed in range(5):
        noise = np.random.default_rng(seed).normal(0, 30, exact.shape)
        found = associate(exact + noise, 30.0, flat, scores, scores)
        assert np.allclose(found.sum(axis=1), margins[0], rtol=0.05)
        corners.append(float(found[-3:, -3:].sum()))
    assert np.mean(corners) == pytest.approx(exact[-3:, -3:].sum(), rel=0.25, abs=3.0)


# One-ways.


def means(exact, sd, domain, total=None, seeds=20):
    """One-ways of the same counts with the noise of several seeds."""
    noise = (np.random.default_rng(seed).normal(0, sd, len(exact)) for seed in range(seeds))
    return np.array([one_way(exact + part, sd, domain, "gaussian", total) for part in noise])


def test_the_noise_of_empty_cells_does_not_outweigh_a_single_value():
    """What a hundred shrunken cells hold is bounded where the sum is known."""
    domain, exact = Domain(120, ordered=True, core=(20, 100)), np.zeros(120)
    exact[50] = 600.0
    known, unknown = (means(exact, 20.0, domain, s)[:, 50].mean() for s in (600.0, None))
    # Without a sum, too, the value says nothing about its neighbours, so little is left to gain.
    assert known > max(0.98, unknown)
    # Most releases of a constant among whole numbers have no other number at all, and a column of
    # 0 to 9 in a range of 0 to 39 has mostly nothing at 20 or more.
    for exact, part in (
        (np.eye(1, 300, 150)[0] * 600.0, 0.7),
        (np.repeat([90.0, 0.0], (10, 30)), 0.6),
    ):
        found = means(exact, 12.0, Domain(len(exact), ordered=True), exact.sum())
        far = found[:, 20:] if len(exact) == 40 else np.delete(found, 150, axis=1)
        assert (far.max(axis=1) == 0).mean() >= part
    # Norms hide the other rows of units whose rows are mostly of one value; and of few units a
    # third may have other values, though no cell shows it.
    noise, exact = np.random.default_rng(2).normal(0, 5, (40, 20)), np.append(600.0, np.full(19, 4))
    laws = {
        norms: [one_way(exact + x, 5.0, Domain(20), "gaussian", 600.0, norms=norms) for x in noise]
        for norms in (False, True)
    }
    found = {norms: np.array(some)[:, 1:].sum(axis=1) for norms, some in laws.items()}
    assert (found[False] < 0.03).all()
    assert (found[True] > 0.02).mean() > 0.9
    few, exact = Domain(20), np.append(45.0, np.ones(19))
    assert (means(exact, 8.0, few, exact.sum())[:, 1:].sum(axis=1) > 0.02).mean() > 0.9
    # A boolean of one value, a list of labels, and one value that most rows share with NULL.
    for domain in (Domain(2), Domain(60), Domain(60, ordered=True, core=(0, 40), nullable=True)):
        exact = np.zeros(domain.size)
        exact[[0, -1]] = 4000.0, 16_000.0
        found = means(exact, 12.0, domain, 20_000.0)
        assert found[:, 1:-1].sum(axis=1).mean() < 1e-3


def test_one_way_keeps_rare_labels_neighbours_of_spikes_and_equal_counts():
    """Forty labels that noise hides share what the head leaves, and none of them is lost."""
    exact = np.append(9000.0, np.full(40, 50.0))
    found = means(exact, 150.0, Domain(41), 11_000.0) * 11_000
    assert found[:, 1:].sum(axis=1).mean() == pytest.approx(2000.0, rel=0.2)
    assert np.median(found[:, 1:]) == pytest.approx(50.0, rel=0.4)
    assert (found[:, 1:] > 5.0).mean() > 0.98
    # A local mean of a spike and its neighbours expects too much of these.
    exact = np.full(99, 20.0)
    exact[4::5] = 600.0
    found = means(exact, 40.0, Domain(99, ordered=True), exact.sum()) * exact.sum()
    assert found[:, 4::5].mean() == pytest.approx(600.0, rel=0.05)
    assert np.abs(np.delete(found, np.s_[4::5], axis=1) - 20.0).mean() < 10.0
    # Of 500 cells one in six hundred exceeds four deviations of Laplace noise.
    g, exact = np.random.default_rng(7), np.full(500, 4.0)
    noisy = exact + g.laplace(0, 20 / 2**0.5, (40, 500))
    found = np.array([one_way(row, 20.0, Domain(500), "laplace", 2000.0) for row in noisy]) * 2000
    assert (found.max(axis=1) > 60).mean() < 0.2
    assert np.median(found.max(axis=1)) < 10


def test_months_without_rows_stay_empty_where_cells_follow_a_calendar():
    """Of three years of days with noise of half a day's rows, the first has none."""
    exact = np.append(np.repeat([0.0, 12.0], [365, 730]), 0.0)
    noisy = exact + np.random.default_rng(3).laplace(0, 6 / 2**0.5, exact.size)
    empty = [
        one_way(noisy, 6.0, Domain(exact.size), "laplace", exact.sum(), ordered=ordered)[:365].sum()
        for ordered in (False, True)
    ]
    assert empty[1] < 0.05 < 0.15 < empty[0]


def test_tails_and_special_cells_are_kept_where_they_stand_above_noise_or_go_on():
    """No cell of it does, but the last cells of the range say how it goes on."""
    exact = 300.0 * 0.93 ** np.arange(60)
    kept = means(exact, 25.0, Domain(60, ordered=True, core=(0, 30)))[:, 30:].sum(axis=1)
    assert kept.mean() == pytest.approx(exact[30:].sum() / exact.sum(), rel=0.4)
    # A row far out moves an average more than all others do.
    domain = Domain(60, ordered=True, specials=("above",), core=(10, 40))
    exact = np.zeros(61)
    exact[10:40] = 300.0
    # Two standard deviations: one cell or octave in forty is made of noise.
    assert (means(exact, 20.0, domain)[:, 45:].sum(axis=1) > 1e-3).mean() < 0.2
    exact[40:44], exact[60] = 200.0, 400.0
    (found,) = means(exact, 20.0, domain, seeds=1) * exact.sum()
    assert found[40:60].sum() == pytest.approx(800, rel=0.3)
    assert found[60] == pytest.approx(400, rel=0.2)


@pytest.mark.parametrize(("exact", "cells"), [(400.0, 1), (40_000.0, 20)])
def test_a_tail_ends_where_less_than_a_unit_is_expected_beyond(exact, cells):
    counts = exact * 0.7 ** np.arange(60)
    domain = Domain(60, ordered=True, core=(5, 10))
    found = means(counts, 3.0, domain, counts.sum())
    assert (found[:, -1] == 0).all()
    assert (found[:, 10 : 10 + cells] > 0).mean() > 0.9


# Numbers of children and of references.


@pytest.mark.parametrize("mean", [0.01, 0.9, 3.0, 40.0])
def test_shares_with_a_mean_have_the_mean_that_is_known(mean):
    shares = np.append(0.4, 0.6 * np.arange(MANY.size - 1, 0, -1.0) ** 6)
    shares[1:] *= 0.6 / shares[1:].sum()
    found = with_mean(shares, MANY.means(shares), mean)
    assert found @ MANY.means(shares) == pytest.approx(mean, rel=1e-6)
    assert found.sum() == pytest.approx(1.0)
    assert (found >= 0).all()


def test_rows_of_few_units_are_not_giants():
    """A heavy tail is found at many units; at noise alone there is next to nothing."""
    g = np.random.default_rng(5)
    rows = np.floor(g.pareto(1.5, 5000) * 3).astype(int)
    exact = np.bincount(np.searchsorted(MANY.lower, rows, side="right") - 1, minlength=MANY.size)
    _, found, _ = rows_per_unit(exact + g.normal(0, 10, MANY.size), 10.0, 5000.0, "gaussian", [])
    assert found == pytest.approx(rows.sum(), rel=0.35)
    _, empty, _ = rows_per_unit(g.normal(0, 10, MANY.size), 10.0, 300.0, "gaussian", [])
    assert empty < 300


def test_a_law_of_references_has_room_for_what_few_targets_hold():
    """One target in a hundred holds a third, which numbers of references below 16 do not show."""
    noisy = np.append(9000.0, np.random.default_rng(1).normal(0, 40, 10))
    most = []
    for parts in ([], [(0.01, 0.33, 0.04)]):
        shares = references_per_target(noisy, 40.0, 0.1, 9000.0, 1.0, 16, False, parts)
        held = np.cumsum((shares * MANY.means(shares))[::-1])
        most.append(np.interp(0.01, np.cumsum(shares[::-1]), held / held[-1]))
    assert most[1] > max(0.27, most[0] + 0.05)


@pytest.mark.parametrize("mean", [1e-6, 0.3, 20.0, 1e5, 1e9])
def test_references_to_any_number_of_targets_have_a_law(mean):
    noisy = np.random.default_rng(7).normal(0, 5, 16)
    shares = references_per_target(noisy, 5.0, mean, 3.0, 1.0, 1, False, [])
    assert np.isfinite(shares).all()
    assert shares.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("sd", "most"), [(1.0, 0.02), (10.0, 0.2)])
def test_a_wide_column_keeps_its_shape_and_its_heavy_values(sd, most):
    """Noise hides each of 20,000 cells; their sums and single values of many rows it does not."""
    values = np.random.default_rng(1).exponential(300.0, 5000).astype(int).clip(0, 19_999)
    true = np.bincount(values, minlength=20_000).astype(float)
    true[15_000] += 500.0
    shares = means(true, sd, Domain(20_000, ordered=True), 5500.0, 15)
    assert shares.sum(axis=1) == pytest.approx(1.0)
    assert shares.min() >= 0
    assert np.median(np.abs(shares.cumsum(axis=1) - true.cumsum() / 5500).max(axis=1)) < most
    assert shares[:, 15_000] == pytest.approx(500 / 5500, rel=0.2)
