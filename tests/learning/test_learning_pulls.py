"""Two fan-outs of one owner, which rows are referred to, and places within wide bins."""

from __future__ import annotations

import json

import numpy as np
import pytest

from privbench.errors import ModelError
from privbench.learning.fanout import constant
from privbench.learning.junction.copulas import copula, gumbel
from privbench.learning.junction.fans import joint_law
from privbench.learning.junction.pool import Pool
from privbench.learning.junction.ratios import shrink, shrink_upwards
from privbench.learning.junction.ties import find_ties, tie
from privbench.learning.keys import KeyModel
from privbench.learning.pulls import Pull, attraction, popularity, rank_correlation
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


@pytest.mark.parametrize("law", [copula, gumbel])
@pytest.mark.parametrize("strength", [0.0, 0.4, 0.9])
def test_copulas_have_their_margins(law, strength):
    table = law(FIRST, SECOND, strength if law is copula else 1 + 4 * strength)
    assert table.min() >= 0
    assert table.sum(axis=1) == pytest.approx(FIRST, rel=1e-6)
    assert table.sum(axis=0) == pytest.approx(SECOND, rel=0.01)


@pytest.mark.parametrize(("law", "none", "most"), [(copula, 0.0, 0.9999), (gumbel, 1.0, 60.0)])
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


def test_largest_values_go_together_in_a_gumbel_copula():
    """At the same rank correlation, its corner of the largest holds more than a Gaussian one."""
    place = np.arange(9.0)
    one = gumbel(FIRST, FIRST, 1.7)
    rho = min(
        np.linspace(0, 0.99, 200),
        key=lambda r: abs(place @ (copula(FIRST, FIRST, r) - one) @ place),
    )
    two = copula(FIRST, FIRST, float(rho))
    assert one[6:, 6:].sum() > 1.2 * two[6:, 6:].sum()


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


@NOISES
def test_top_groups_are_drawn_toward_the_groups_below_them(noise):
    """Heavy owners are unlike the others: all of their groups err less than by everybody's law."""
    cells = np.arange(12)
    usual, heavy = (np.exp(-0.5 * ((cells - at) / 2) ** 2) for at in (3, 8))
    usual, heavy = usual / usual.sum(), heavy / heavy.sum()
    truth = np.array([4000, 900, 300, 90, 80, 70])[:, None] * np.array([usual] * 2 + [heavy] * 4)
    prediction = np.outer(truth.sum(axis=1), truth.sum(axis=0)) / truth.sum()
    errors = []
    for seed in range(12):
        g = generator(seed, "groups")
        seen = truth + (g.laplace if noise == "laplace" else g.normal)(0, 9.0, truth.shape)
        pair = [fit(seen, prediction, 9.0, noise) for fit in (shrink_upwards, shrink)]
        assert pair[0].shape == truth.shape
        assert min(side.min() for side in pair) >= 0
        errors.append([np.abs(side - truth)[3:].sum() for side in pair])
    upwards, plain = np.mean(errors, axis=0)
    assert upwards < 0.9 * plain


def test_without_noise_groups_stay_as_they_were_measured():
    g = generator(1, "groups")
    truth = g.integers(400, 900, (4, 5)).astype(float)
    prediction = np.outer(truth.sum(axis=1), truth.sum(axis=0)) / truth.sum()
    assert shrink_upwards(truth, prediction, 1e-3, "laplace")[:3] == pytest.approx(
        truth[:3], rel=0.02
    )


# Which rows are referred to


def test_attraction_gives_every_pull_its_shares():
    g = generator(1, "attraction")
    kind = g.choice(3, 4000, p=[0.7, 0.2, 0.1])
    age = np.minimum(kind + g.integers(0, 4, 4000), 5)
    codes = {"kind": kind.astype(np.uint8), "age": age.astype(np.uint8)}
    pulls = [
        Pull("kind", np.arange(3), np.array([0.1, 0.3, 0.6])),
        Pull("age", np.array([0, 0, 0, 1, 1, 1]), np.array([0.25, 0.75])),
    ]
    weights = attraction(pulls, codes, 4000)
    assert weights.sum() == pytest.approx(1)
    for pull in pulls:
        held = np.bincount(pull.of[codes[pull.variable]], weights)
        assert held == pytest.approx(pull.shares, abs=1e-3)
    alone = attraction(pulls[:1], codes, 4000)
    assert np.ptp(alone[kind == 2]) == pytest.approx(0, abs=1e-12)
    unknown = attraction([Pull("gone", np.zeros(2, int), np.ones(1))], codes, 4000)
    assert unknown == pytest.approx(np.full(4000, 1 / 4000))
    assert attraction(pulls, {"kind": kind[:0], "age": age[:0]}, 0).shape == (0,)


def rank(values):
    return np.argsort(np.argsort(values)).astype(float)


def numbers_of(targets, seed):
    """Counts of references, most of them 0, and activity."""
    g = generator(seed, "numbers")
    counts = np.where(g.random(targets) < 0.2, 1 + g.geometric(0.2, targets), 0)
    return counts, g.geometric(0.02, targets)


@pytest.mark.parametrize("ranks", [0.0, 0.6, 0.95])
def test_popular_targets_are_as_active_as_ranks_say(ranks):
    counts, activity = numbers_of(20_000, 1)
    # Where all are referred to, ranks of both are those of a Gaussian copula.
    full = counts + 1 + generator(1, "full").permutation(20_000)
    out = popularity(full, np.ones(20_000), activity, ranks, generator(2, "p"))
    assert sorted(out.tolist()) == sorted(full.tolist())
    found = np.corrcoef(rank(out), rank(activity + generator(3, "t").random(20_000)))[0, 1]
    assert found == pytest.approx(6 / np.pi * np.arcsin(ranks / 2), abs=0.03)


def test_popularity_goes_where_weights_are():
    counts, _ = numbers_of(20_000, 2)
    weights = np.where(np.arange(20_000) % 4 == 0, 9.0, 1.0)
    flat = np.zeros(20_000, np.int64)
    out = popularity(counts, weights, flat, 0.5, generator(2, "p"))
    assert sorted(out[out > 0].tolist()) == sorted(counts[counts > 0].tolist())
    # A fifth of all targets by races at rates 9 and 1: 1 − e^(−9t) and 1 − e^(−t), 0.2 on average.
    assert (out[::4] > 0).mean() > 6 * (np.delete(out, np.s_[::4]) > 0).mean()
    nothing = popularity(counts, np.where(weights > 1, 1.0, 0.0), flat, 0.0, generator(2, "p"))
    assert (nothing[weights == 1] > 0).sum() == 0
    assert not popularity(np.zeros(9, int), np.ones(9), np.arange(9), 0.5, generator(1, "p")).any()


@pytest.mark.parametrize("truth", [0.2, 0.6, 0.96])
def test_correlations_of_ranks_are_recovered(truth):
    counts, activity = numbers_of(20_000, 3)
    bins = np.minimum(np.log2(activity), 6).astype(int)
    chosen = popularity(counts, np.ones(20_000), activity, truth, generator(5, "truth")) > 0
    pull = np.bincount(bins[chosen], minlength=7) + generator(6, "noise").laplace(0, 10.0, 7)
    found = rank_correlation(
        pull, 10 * np.sqrt(2), bins, activity, counts, generator(7, "fit"), "laplace"
    )
    assert found == pytest.approx(truth, abs=0.08)


def test_noise_leaves_the_belief():
    counts, activity = numbers_of(2000, 3)
    bins = np.minimum(np.log2(activity), 6).astype(int)
    found = rank_correlation(
        np.full(7, 60.0), 1e6, bins, activity, counts, generator(7, "fit"), "laplace"
    )
    assert 0.7 < found < 0.95


# Places within bins


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


def key_model(role="ref"):
    pulls = (Pull("kind", np.array([0, 1, 1]), np.array([0.25, 0.75])),)
    targets = np.array([1.0, 2.0]) if role == "public" else None
    return KeyModel("k", "t", role, True, False, 0.2, constant(2), targets, pulls, 0.6)


@pytest.mark.parametrize("role", ["ref", "own", "public"])
def test_keys_round_trip(role):
    state, arrays = key_model(role).to_state()
    again = KeyModel.from_state(json.loads(json.dumps(state)), arrays)
    assert again.to_state()[0] == state
    assert again.pulls[0].of.tolist() == [0, 1, 1]
    assert again.ranks == 0.6
    assert (again.targets is not None) == (role == "public")


PULL_FAULTS = {
    "variable gone": lambda s: s.pop("variable"),
    "of gone": lambda s: s.pop("of"),
    "of empty": lambda s: s.update(of=[]),
    "of far": lambda s: s.update(of=[0, 1, 2]),
    "of below": lambda s: s.update(of=[0, -1, 1]),
    "of text": lambda s: s.update(of="all"),
    "of table": lambda s: s.update(of=[[0, 1]]),
    "of ragged": lambda s: s.update(of=[[0], [0, 1]]),
    "of huge": lambda s: s.update(of=[2**70]),
    "no shares": lambda s: s.update(shares=[]),
    "shares sum": lambda s: s.update(shares=[0.5, 0.6]),
    "shares below": lambda s: s.update(shares=[-0.5, 1.5]),
    "shares nan": lambda s: s.update(shares=[float("nan"), 1.0]),
    "shares number": lambda s: s.update(shares=1.0),
}
KEY_FAULTS = {
    "ranks 1": lambda s: s.update(ranks=1.0),
    "ranks below": lambda s: s.update(ranks=-0.1),
    "ranks nan": lambda s: s.update(ranks=float("nan")),
    "ranks gone": lambda s: s.pop("ranks"),
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
