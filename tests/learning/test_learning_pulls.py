"""Two fan-outs of one owner, which rows are referred to, and places within wide bins."""

from __future__ import annotations

import json

import numpy as np
import pytest

from privbench.errors import ModelError
from privbench.learning.fanlaw import constant
from privbench.learning.keys import KeyModel
from privbench.learning.pulls import Pull, attraction, largest_first, popularity, winners
from privbench.rng import generator

NOISES = pytest.mark.parametrize("noise", ["laplace", "gaussian"])

# Joint laws of two fan-outs

FIRST = 5000 * 0.5 ** np.arange(9) / (0.5 ** np.arange(9)).sum()
SECOND = 5000 * 0.6 ** np.arange(7) / (0.6 ** np.arange(7)).sum()


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


# Values that rule each other out


# Places within bins


# Stored keys


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
