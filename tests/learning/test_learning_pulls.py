"""Two fan-outs of one owner, which rows are referred to, and places within wide bins."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privbench.learning.junction.copulas import copula, expected, gumbel, joe
from privbench.learning.junction.fans import joint_law
from privbench.learning.junction.implied import blocks_of, implied
from privbench.learning.junction.pool import Pool
from privbench.learning.junction.ties import find_ties, tie
from privbench.learning.junction.tilts import Races, Seen, preferences

from privbench.errors import ModelError
from privbench.learning.fanlaw import constant
from privbench.learning.keys import KeyModel
from privbench.learning.pulls import Pull, Term, attraction, largest_first, popularity, winners
from privbench.rng import generator

NOISES = pytest.mark.parametrize("noise", ["laplace", "gaussian"])

# Joint laws of two fan-outs

FIRST = 5000 * 0.5 ** np.arange(9) / (0.5 ** np.arange(9)).sum()
SECOND = 5000 * 0.6 ** np.arange(7) / (0.6 ** np.arange(7)).sum()


def comonotone():
    """Counts of the law in which both grow together, shape (first, second)."""
    ends = [np.concatenate([[0.0], np.cumsum(part)]) for part in (FIRST, SECOND)]
    below = np.minimum(ends[0][:, None], ends[1])
    return np.diff(np.diff(below, axis=0), axis=1)


@pytest.mark.parametrize("law", [copula, gumbel, joe])
@pytest.mark.parametrize("strength", [0.0, 0.4, 0.9])
def test_copulas_have_their_margins(law, strength):
    table = law(FIRST, SECOND, strength if law is copula else 1 + 4 * strength)
    assert table.min() >= 0
    assert table.sum(axis=1) == pytest.approx(FIRST, rel=1e-6)
    assert table.sum(axis=0) == pytest.approx(SECOND, rel=0.01)


@pytest.mark.parametrize(
    ("law", "none", "most"), [(copula, 0.0, 0.9999), (gumbel, 1.0, 60.0), (joe, 1.0, 60.0)]
)
def test_copulas_reach_from_independence_to_growing_together(law, none, most):
    apart = np.outer(FIRST, SECOND) / 5000
    assert law(FIRST, SECOND, none) == pytest.approx(apart, abs=1e-6)
    assert np.abs(law(FIRST, SECOND, most) - comonotone()).sum() < 0.03 * 5000
    steps = np.linspace(none, most if law is copula else 6.0, 7)[:6]
    products = [np.arange(9) @ law(FIRST, SECOND, float(step)) @ np.arange(7) for step in steps]
    assert (np.diff(products) > 0).all()


def test_falling_copulas_turn_round():
    up, down = copula(FIRST, FIRST, 0.6), copula(FIRST, FIRST, -0.6)
    assert up[-1, -1] > 10 * np.outer(FIRST, FIRST)[-1, -1] / 5000 > 100 * down[-1, -1]


def test_largest_values_go_together_most_in_joes_copula_and_least_in_a_gaussian_one():
    """At the same mean product."""
    place = np.arange(9.0)

    def alike(law, strengths):
        goal = place @ gumbel(FIRST, FIRST, 1.7) @ place
        tables = [law(FIRST, FIRST, float(strength)) for strength in strengths]
        return min(tables, key=lambda table: abs(place @ table @ place - goal))[6:, 6:].sum()

    normal = alike(copula, np.linspace(0, 0.99, 200))
    steep = alike(joe, np.linspace(1, 4, 200))
    assert 1.2 * normal < gumbel(FIRST, FIRST, 1.7)[6:, 6:].sum() < steep / 1.02


@NOISES
@pytest.mark.parametrize("truth", [gumbel(FIRST, SECOND, 2.3), copula(FIRST, SECOND, 0.57)])
def test_joint_laws_beat_what_was_measured_and_independence(truth, noise):
    margins = truth.sum(axis=1), truth.sum(axis=0)
    heavy = np.outer(2.0 ** np.arange(9), 2.0 ** np.arange(7))
    mine, raw, apart = [], [], []
    for seed in range(4):
        g = generator(seed, "joint")
        seen = truth + (g.laplace if noise == "laplace" else g.normal)(0, 25.0, truth.shape)
        sd = 25.0 * np.sqrt(2.0) if noise == "laplace" else 25.0
        found = joint_law(seen, sd, *margins, noise)
        assert found.min() >= 0
        assert found.sum(axis=1) == pytest.approx(margins[0], rel=1e-3)
        assert found.sum(axis=0) == pytest.approx(margins[1], rel=1e-3)
        alone = np.outer(*margins) / 5000
        for errors, side in ((mine, found), (raw, np.maximum(seen, 0)), (apart, alone)):
            errors.append((np.abs(side - truth).sum(), abs((heavy * (side - truth)).sum())))
    (a, product), (b, _), (c, without) = (np.mean(side, axis=0) for side in (mine, raw, apart))
    assert a < 0.5 * b
    assert a < 0.5 * c
    # What joins count: products of both, ruled by the few who have many of both.
    assert product < 0.3 * without


def test_where_noise_rules_the_corner_is_that_of_the_likelier_copula():
    truth = gumbel(FIRST, SECOND, 2.3)
    margins = truth.sum(axis=1), truth.sum(axis=0)
    corners = []
    for seed in range(6):
        seen = truth + generator(seed, "corner").laplace(0, 30.0, truth.shape)
        corners.append(joint_law(seen, 30 * np.sqrt(2.0), *margins, "laplace")[6:, 5:].sum())
    place = np.arange(9.0), np.arange(7.0)
    best = min(
        (copula(*margins, float(rho)) for rho in np.linspace(0, 0.96, 60)),
        key=lambda table: np.abs(table - truth).sum(),
    )
    assert place[0] @ best @ place[1] < place[0] @ truth @ place[1]
    due, other = truth[6:, 5:].sum(), best[6:, 5:].sum()
    assert abs(np.mean(corners) - due) < 0.4 * abs(other - due)


def drawn(truth, scale, noise, seed):
    g = generator(seed, "table")
    return truth + (g.laplace if noise == "laplace" else g.normal)(0, scale, truth.shape)


@NOISES
@pytest.mark.parametrize(
    "truth", [gumbel(FIRST, SECOND, 2.3), copula(FIRST, SECOND, 0.6), copula(FIRST, SECOND, -0.6)]
)
def test_tables_of_a_copula_are_expected_nearer_than_independence(truth, noise):
    apart = np.outer(truth.sum(axis=1), truth.sum(axis=0)) / truth.sum()
    for seed in range(3):
        found = expected(drawn(truth, 25.0, noise, seed), apart, 25.0, noise, truth.shape)
        assert (found >= 1e-3 * apart).all()
        assert np.abs(found - truth).sum() < 0.4 * np.abs(apart - truth).sum()
        corner = np.s_[5:, 4:]
        assert abs(found[corner].sum() - truth[corner].sum()) < 0.6 * abs(
            apart[corner].sum() - truth[corner].sum()
        )


@NOISES
def test_a_prediction_that_explains_more_than_copulas_is_kept(noise):
    """A law with both signs at once is no copula of the family; a right prediction of it stays."""
    truth = (copula(FIRST, SECOND, 0.9) + copula(FIRST, SECOND, -0.9)) / 2
    found = expected(drawn(truth, 5.0, noise, 1), truth, 5.0, noise, truth.shape)
    assert found == pytest.approx(truth, rel=1e-3, abs=0.3 * 5.0)


def test_only_ordered_bins_are_drawn_toward_copulas():
    truth = gumbel(FIRST, SECOND, 2.3)
    apart = np.outer(truth.sum(axis=1), truth.sum(axis=0)) / truth.sum()
    assert expected(truth, apart, 1.0, "laplace", (2, 7)) is apart
    assert expected(truth, 0 * apart, 1.0, "laplace", (9, 7)) == pytest.approx(0)
    found = expected(truth, apart, 1.0, "laplace", (9, 5))
    assert np.array_equal(found[:, 5:], apart[:, 5:])
    assert np.abs(found - truth)[:, :5].sum() < 0.5 * np.abs(apart - truth)[:, :5].sum()


@given(st.integers(3, 8), st.integers(3, 8), st.integers(0, 10**6), st.floats(0.1, 1e4))
@settings(max_examples=25, deadline=None)
def test_expected_tables_keep_their_total(rows, columns, seed, scale):
    g = generator(seed, "any")
    predicted = g.gamma(0.5, 100.0, (rows, columns)) + 1e-3
    noisy = predicted + g.laplace(0, scale, predicted.shape)
    found = expected(noisy, predicted, scale, "laplace", (rows, columns))
    assert np.isfinite(found).all()
    assert (found > 0).all()
    assert found.sum() == pytest.approx(predicted.sum(), rel=0.02)
    assert found.sum(axis=1) == pytest.approx(predicted.sum(axis=1), rel=0.1, abs=1e-3)


# Which rows are referred to


def test_attraction_multiplies_factors():
    kind, age = np.array([0, 1, 2, 2], np.uint8), np.array([0, 5, 1, 4], np.uint8)
    codes = {"kind": kind, "age": age}
    pulls = [
        Pull.of("kind", np.arange(3), np.array([2.0, 6.0, 4.0])),
        Pull.of("age", np.array([0, 0, 0, 1, 1, 1]), np.array([1.0, 3.0])),
    ]
    assert attraction(pulls, codes, 4) == pytest.approx(np.array([2, 18, 4, 12]) / 18)
    unknown = attraction([Pull.of("gone", np.zeros(2, int), np.ones(1))], codes, 4)
    assert unknown.tolist() == [1.0] * 4
    assert attraction([Pull.of("kind", np.arange(3), np.array([0.0, 1, 1]))], codes, 4)[0] > 0
    assert attraction(pulls, {"kind": kind[:0], "age": age[:0]}, 0).shape == (0,)


def numbers_of(targets, seed):
    """Counts of references, most of them 0."""
    g = generator(seed, "numbers")
    return np.where(g.random(targets) < 0.2, 1 + g.geometric(0.2, targets), 0)


def test_popularity_goes_where_weights_are():
    counts = numbers_of(20_000, 2)
    races = generator(2, "p").exponential(size=20_000)
    weights = np.where(np.arange(20_000) % 4 == 0, 9.0, 1.0)
    out = popularity(counts, weights, races)
    assert sorted(out[out > 0].tolist()) == sorted(counts[counts > 0].tolist())
    # A fifth of all targets by races at rates 9 and 1: 1 − e^(−9t) and 1 − e^(−t), 0.2 on average.
    light = np.delete(out, np.s_[::4])
    assert (out[::4] > 0).mean() > 6 * (light > 0).mean()
    # Most hubs are among the first of a race, so weight speaks for them more than for others.
    assert out[::4][out[::4] > 0].mean() > light[light > 0].mean()
    assert not popularity(np.zeros(9, int), np.ones(9), races[:9]).any()


def test_hubs_follow_weights_more_sharply_only_beyond_what_was_counted():
    counts = numbers_of(20_000, 2)
    races = generator(2, "p").exponential(size=20_000)
    heavy = np.arange(20_000) % 4 == 0
    weights = np.where(heavy, 9.0, 1.0)
    plain = np.zeros(20_000)
    plain[winners(int((counts > 0).sum()), weights, races)] = largest_first(counts)
    assert np.array_equal(popularity(counts, weights, races, float(counts.max())), plain)
    means = [
        popularity(counts, weights, races, counted)[heavy].mean() for counted in (20.0, 8.0, 0.0)
    ]
    assert plain[heavy].mean() < means[0] < means[1] < means[2]


BINS, UNITS = 8, 3000


def race(factors, cap, scale, seed, noise="laplace", rest=0):
    """Targets of a variable, what races by known factors, and a noisy law of that."""
    g = generator(seed, "race")
    bins = np.minimum(g.geometric(0.45, 12_000) - 1, BINS - 1)
    if rest:
        bins[g.random(12_000) < 0.3] = BINS
    counts = np.where(g.random(12_000) < 0.15, g.geometric(0.3, 12_000), 0)
    counts[:20] = 200
    units = g.integers(0, UNITS, 12_000)
    races = Races(counts, units, 2500.0, cap, g.exponential(size=(2, 12_000)))
    truth = np.bincount(bins, races.mass(factors[bins]), minlength=BINS + rest)
    seen = truth + (g.laplace if noise == "laplace" else g.normal)(0, scale, len(truth))
    other = Races(counts, units, 2500.0, cap, g.exponential(size=(2, 12_000)))
    sd = scale * (np.sqrt(2.0) if noise == "laplace" else 1.0)
    return Seen.of(seen, sd, noise, bins, BINS, 0.0), other, truth


@NOISES
@pytest.mark.parametrize("slope", [-1.0, 0.0, 1.5])
def test_preferences_are_recovered_through_the_cap(slope, noise):
    factors = np.exp(slope * np.linspace(-1, 2, BINS))
    seen, races, truth = race(factors, 4.0, 10.0, 1, noise)
    (found,) = preferences([seen], races, noise)
    again = np.bincount(seen.bins, races.mass(found[seen.bins]), minlength=BINS)
    assert np.abs(again / again.sum() - truth / truth.sum()).sum() < 0.12
    uncapped = Races(races.counts, races.units, 2500.0, 1e9, races.numbers)
    due, got = (
        np.bincount(seen.bins, uncapped.mass(f[seen.bins]), minlength=BINS) / 2500.0
        for f in (factors, found)
    )
    assert np.abs(due - got).sum() < 0.25


def test_preferences_for_null_are_recovered():
    factors = np.append(np.ones(BINS), 0.004)
    seen, races, truth = race(factors, 4.0, 10.0, 2, rest=1)
    assert truth[-1] < 0.02 * truth.sum()
    (found,) = preferences([seen], races, "laplace")
    again = np.bincount(seen.bins, races.mass(found[seen.bins]), minlength=BINS + 1)
    assert again[-1] < 0.05 * again.sum()


def test_preferences_of_kinds_are_recovered():
    """Variables without an order have no tilt: their cells alone speak."""
    factors = np.array([1.0, 0.2, 5.0, 1.0, 20.0, 1.0, 0.5, 2.0])
    seen, races, _ = race(factors, 4.0, 2.0, 3)
    (found,) = preferences([Seen(seen.noisy, seen.scale, seen.bins, 0, 0.0)], races, "laplace")
    assert np.log(found[:5] / found[0]) == pytest.approx(np.log(factors[:5]), abs=0.5)


def test_bins_without_targets_are_like_their_neighbours():
    """Noise in a bin that no synthetic row is in must not make hubs of the clone's rare rows."""
    factors = np.exp(np.linspace(-1, 2, BINS))
    seen, races, _ = race(factors, 4.0, 10.0, 5)
    noisy = np.append(seen.noisy, 80.0)
    (found,) = preferences([Seen(noisy, seen.scale, seen.bins, BINS + 1, 0.0)], races, "laplace")
    assert found[-1] == found[-2]


def test_a_part_of_the_targets_gives_the_same_preferences():
    factors = np.exp(np.linspace(-1, 2, BINS))
    seen, races, _ = race(factors, 4.0, 10.0, 6)
    part = np.arange(12_000) < 6000
    half = Races(races.counts[part], races.units[part], 1250.0, 4.0, races.numbers[:, part])
    some = Seen(seen.noisy / 2, seen.scale / 2, seen.bins[part], BINS, 0.0)
    (one,), (two,) = preferences([seen], races, "laplace"), preferences([some], half, "laplace")
    assert np.log(one / one[0])[:6] == pytest.approx(np.log(two / two[0])[:6], abs=0.5)


def test_preferences_follow_noise_less_than_its_cells_do():
    errors, raw = [], []
    factors = np.exp(np.linspace(-1, 2, BINS))
    for seed in range(6):
        seen, races, truth = race(factors, 4.0, 80.0, seed)
        (found,) = preferences([seen], races, "laplace")
        again = np.bincount(seen.bins, races.mass(found[seen.bins]), minlength=BINS)
        clipped = np.maximum(seen.noisy, 0)
        errors.append(np.abs(again / again.sum() - truth / truth.sum()).sum())
        raw.append(np.abs(clipped / clipped.sum() - truth / truth.sum()).sum())
    assert np.mean(errors) < 0.85 * np.mean(raw)


def test_believed_slopes_hold_where_noise_rules():
    g = generator(4, "belief")
    bins = np.minimum(g.geometric(0.45, 4000) - 1, BINS - 1)
    counts = numbers_of(4000, 4)
    races = Races(counts, np.arange(4000), 800.0, 4.0, g.exponential(size=(2, 4000)))
    noisy = g.laplace(0, 1e6, BINS)
    slopes = {}
    for belief in (0.0, 1.5):
        (found,) = preferences([Seen(noisy, 1e6, bins, BINS, belief)], races, "laplace")
        slopes[belief] = np.log(found[-1] / found[0])
    assert abs(slopes[0.0]) < 0.7 < 2.0 < slopes[1.5]


# Values that rule each other out


def excluding(rows=15_000):
    """A pair table in which NULL in one column means NULL in the other, and its independent law."""
    g = generator(1, "excluding")
    truth = np.zeros((11, 9))
    truth[:10, :8] = g.gamma(2.0, 1.0, (10, 8))
    truth *= 0.7 * rows / truth.sum()
    truth[10, 8] = 0.3 * rows
    apart = np.outer(truth.sum(axis=1), truth.sum(axis=0)) / rows
    return truth, apart


@NOISES
def test_blocks_that_are_empty_are_told_from_noise(noise):
    truth, apart = excluding()
    blocks = blocks_of(11, 10), blocks_of(9, 8)
    for seed in range(3):
        found = implied(drawn(truth, 50.0, noise, seed), apart, 50.0, noise, blocks)
        assert found.sum(axis=1) == pytest.approx(apart.sum(axis=1), rel=0.05)
        wrong = found[10, :8].sum() + found[:10, 8].sum()
        assert wrong < 0.02 * found.sum() < 0.2 * (apart[10, :8].sum() + apart[:10, 8].sum())


def test_where_blocks_tell_nothing_a_prediction_stays():
    truth, apart = excluding(300)
    blocks = blocks_of(11, 10), blocks_of(9, 8)
    found = implied(drawn(truth, 1e5, "laplace", 1), apart, 1e5, "laplace", blocks)
    assert found == pytest.approx(apart, rel=0.01)
    one = np.zeros(11, np.int64), np.zeros(9, np.int64)
    assert implied(truth, apart, 1.0, "laplace", one) is apart


# Places within bins


def rank(values):
    return np.argsort(np.argsort(values)).astype(float)


def ordered_pair(rho, rows=400_000):
    """Bins of two attributes of a Gaussian copula: narrow below, one wide bin in the tail."""
    g = generator(1, "ties")
    x = g.standard_normal(rows)
    y = rho * x + np.sqrt(1 - rho**2) * g.standard_normal(rows)
    edges = np.linspace(-2, 1, 40)
    first, second = np.searchsorted(edges, x), np.searchsorted(edges, y)
    table = np.bincount(first * 41 + second, minlength=41**2).reshape(41, 41).astype(float)
    return table, x, y, first == 40, second == 40


@pytest.mark.parametrize("rho", [0.8, -0.8])
def test_places_go_together_in_the_tail_and_not_in_narrow_bins(rho):
    table, x, y, *_ = ordered_pair(rho)
    whole = np.ones(41, bool)
    found = find_ties({(0, 1): table}, {0: whole, 1: whole}, [0, 1])
    assert found.keys() == {1}
    assert found[1].other == 0
    cells = found[1].correlations
    corner = (40, 40) if rho > 0 else (40, 0)
    assert cells[1:40, 1:40] == pytest.approx(0.0)
    assert np.sign(cells[corner]) == np.sign(rho)
    assert np.abs(cells[corner]) > 0.95 * np.abs(cells).max()
    inside = (x > 1) & ((y > 1) if rho > 0 else (y < -2))
    real = np.corrcoef(rank(x[inside]), rank(y[inside]))[0, 1]
    assert cells[corner] == pytest.approx(real, abs=0.12)


def test_special_bins_and_independent_attributes_have_no_ties():
    table, *_ = ordered_pair(0.8, 50_000)
    whole, inner = np.ones(41, bool), np.arange(41) < 40
    cells = find_ties({(0, 1): table}, {0: inner, 1: whole}, [1, 0])[0].correlations
    assert cells.shape == (41, 41)
    assert not cells[:, 40].any()
    apart = np.outer(table.sum(axis=1), table.sum(axis=0))
    assert not find_ties({(0, 1): apart}, {0: whole, 1: whole}, [0, 1])
    assert not find_ties({(0, 1): table}, {0: whole}, [0, 1])


def test_tied_places_are_correlated_and_uniform():
    table, *_ = ordered_pair(0.8)
    whole = np.ones(41, bool)
    ties = find_ties({(0, 1): table}, {0: whole, 1: whole}, [0, 1])
    rows = 20_000
    bins = np.full((2, rows), 40, np.uint16)
    bins[:, rows // 2 :] = 20
    pool = Pool(bins, generator(2, "places").random((2, rows)))
    before = pool.rest.copy()
    tie(pool, ties, [0, 1])
    assert np.array_equal(pool.rest[0], before[0])
    assert np.array_equal(pool.rest[:, rows // 2 :], before[:, rows // 2 :])
    tail = pool.rest[:, : rows // 2]
    due = ties[1].correlations[40, 40]
    assert np.corrcoef(tail)[0, 1] == pytest.approx(6 / np.pi * np.arcsin(due / 2), abs=0.03)
    assert np.abs(np.histogram(tail[1], 10, (0, 1))[0] / (rows // 2) - 0.1).max() < 0.02


# Stored keys


def test_sums_of_many_variables_take_little_memory():
    """Clones have tables of many millions of rows: scores of all variables are not kept at once."""
    codes = {f"v{number}": np.zeros(1_000_000, np.uint8) for number in range(7)}
    terms = tuple(Term(name, np.arange(3)) for name in codes)
    pull = Pull(terms, np.array([1]), np.ones(2))
    tracemalloc.start()
    try:
        assert not pull.bins(codes).any()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4.5 * 8_000_000


def key_model(role="ref"):
    pulls = (Pull.of("kind", np.array([0, 1, 1]), np.array([1.0, 0.75])),)
    targets = np.array([1.0, 2.0]) if role == "public" else None
    return KeyModel("k", "t", role, True, False, 0.2, constant(2), targets, pulls)


@pytest.mark.parametrize("role", ["ref", "own", "public"])
def test_keys_round_trip(role):
    state, arrays = key_model(role).to_state()
    again = KeyModel.from_state(json.loads(json.dumps(state)), arrays)
    assert again.to_state()[0] == state
    assert again.pulls[0].terms[0].scores.tolist() == [0, 1, 1]
    assert again.pulls[0].factors.tolist() == [1.0, 0.75]
    assert (again.targets is not None) == (role == "public")


PULL_FAULTS = {
    "terms gone": lambda s: s.pop("terms"),
    "ends gone": lambda s: s.pop("ends"),
    "no terms": lambda s: s.update(terms=[]),
    "terms number": lambda s: s.update(terms=3),
    "terms single": lambda s: s.update(terms=[["kind"]]),
    "scores empty": lambda s: s.update(terms=[["kind", []]]),
    "scores text": lambda s: s.update(terms=[["kind", "all"]]),
    "scores table": lambda s: s.update(terms=[["kind", [[0, 1]]]]),
    "scores ragged": lambda s: s.update(terms=[["kind", [[0], [0, 1]]]]),
    "scores huge": lambda s: s.update(terms=[["kind", [2**70]]]),
    "scores large": lambda s: s.update(terms=[["kind", [2**50]]]),
    "scores least": lambda s: s.update(terms=[["kind", [-(2**63)]]]),
    "ends too many": lambda s: s.update(ends=[1, 2]),
    "ends falling": lambda s: s.update(ends=[2, 1], factors=[1.0, 1.0, 1.0]),
    "ends wrap": lambda s: s.update(ends=[2**63 - 1, -(2**63)], factors=[1.0, 1.0, 1.0]),
    "ends table": lambda s: s.update(ends=[[1]]),
    "no factors": lambda s: s.update(factors=[]),
    "factors 0": lambda s: s.update(factors=[0.0, 0.0]),
    "factors below": lambda s: s.update(factors=[-0.5, 1.5]),
    "factors nan": lambda s: s.update(factors=[float("nan"), 1.0]),
    "factors number": lambda s: s.update(factors=1.0),
}
KEY_FAULTS = {
    "pulls gone": lambda s: s.pop("pulls"),
    "pulls number": lambda s: s.update(pulls=3),
    "pulls text": lambda s: s.update(pulls=["kind"]),
    "role": lambda s: s.update(role="owner"),
    "null": lambda s: s.update(null=float("inf")),
    "law": lambda s: s.update(law={"mass": [1.0]}),
    "targets gone": lambda s: s.update(role="public"),
}


@pytest.mark.parametrize("fault", PULL_FAULTS)
def test_damaged_pulls_are_refused(fault):
    state, arrays = key_model().to_state()
    PULL_FAULTS[fault](state["pulls"][0])
    with pytest.raises(ModelError):
        KeyModel.from_state(state, arrays)


@pytest.mark.parametrize("fault", KEY_FAULTS)
def test_damaged_keys_are_refused(fault):
    state, arrays = key_model().to_state()
    KEY_FAULTS[fault](state)
    with pytest.raises(ModelError):
        KeyModel.from_state(state, arrays)
