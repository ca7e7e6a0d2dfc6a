"""The graphical synthesizer: what it finds, what it keeps through ownership, what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from private_tables import private_database

from privbench.circuit import marginal, probabilities
from privbench.circuit.draw import draw
from privbench.domain import Domain
from privbench.errors import ModelError
from privbench.learning.graphical.estimate import (
    associate,
    conditional,
    rake,
    shrink,
)
from privbench.learning.graphical.one_way import one_way
from privbench.learning.graphical.sizes import (
    MANY,
    references_per_target,
    rows_per_unit,
    with_mean,
)
from privbench.learning.synthetic import Parts
from privbench.privacy import KeySpec
from privbench.privacy.data import PrivateDatabase
from privbench.synthesizers.graphical import GraphicalSynthesizer

BIT = Domain(2)
PUBLIC = {"countries": 12}


def fit(started, public=None):
    session, totals, amount = started
    return GraphicalSynthesizer().fit(session, totals, amount, public)


# estimation --------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_shrinkage_is_nearer_than_the_noisy_counts_and_than_the_prediction(law):
    g = np.random.default_rng(1)
    prediction = g.exponential(30.0, (24, 24))
    counts = prediction * np.exp(g.normal(0, 0.5, prediction.shape))
    noise = (
        g.laplace(0, 12 / 2**0.5, counts.shape) if law == "laplace" else g.normal(0, 12, (24, 24))
    )
    found = shrink(counts + noise, 12.0, prediction, law)
    error = np.abs(found - counts).sum()
    assert error < 0.8 * np.abs(noise).sum()
    assert error < 0.8 * np.abs(prediction - counts).sum()
    assert (found > 0).all()


def test_shrinkage_of_nothing_but_noise_goes_to_the_prediction():
    g = np.random.default_rng(2)
    prediction = np.full(500, 5.0)
    found = shrink(prediction + g.normal(0, 50, 500), 50.0, prediction, "gaussian")
    assert np.abs(found - prediction).max() < 15
    far = shrink(np.array([400.0, 5.0]), 10.0, np.array([0.01, 5.0]), "gaussian")
    assert far[0] == pytest.approx(400.0)


def test_the_noise_of_empty_cells_does_not_outweigh_a_single_value():
    """What a hundred shrunken cells hold is bounded where the sum is known."""
    domain, held = Domain(120, ordered=True, core=(20, 100)), []
    for seed in range(8):
        noisy = np.random.default_rng(seed).normal(0, 20, 120)
        noisy[50] += 600
        held.append([one_way(noisy, 20.0, domain, "gaussian", sum_)[50] for sum_ in (600.0, None)])
    known, unknown = np.mean(held, axis=0)
    assert known > 0.85
    assert known > unknown + 0.15


def test_a_conditional_keeps_its_targets_and_the_parents():
    g = np.random.default_rng(3)
    joint = g.random((3, 4, 5))
    joint /= joint.sum()
    parents, own = joint.sum(axis=2), joint.sum(axis=(0, 1))
    coarse = np.array([0, 0, 1, 1, 2])
    second = joint.sum(axis=0) @ np.eye(3)[coarse]
    found = conditional(parents, own, [joint.sum(axis=1), second], [np.arange(5), coarse])
    made = parents[..., None] * found
    assert np.allclose(found.sum(axis=-1), 1.0)
    assert np.abs(made.sum(axis=1) - joint.sum(axis=1)).max() < 2e-3
    assert np.abs(made.sum(axis=0) @ np.eye(3)[coarse] - second).max() < 2e-3


def test_draws_are_off_by_less_than_one_row():
    g = np.random.default_rng(4)
    table = rake(g.random((6, 9)), np.ones(6), np.full(9, 6 / 9))
    table /= table.sum(axis=1, keepdims=True)
    rows = g.integers(0, 6, 5000)
    counts = np.zeros((6, 9))
    np.add.at(counts, (rows, draw(table, rows, g)), 1)
    expected = table * np.bincount(rows, minlength=6)[:, None]
    assert np.abs(counts - expected).max() < 2


@pytest.mark.parametrize("mean", [0.01, 0.9, 3.0, 40.0])
def test_shares_with_a_mean_have_the_mean_that_is_known(mean):
    shares = np.append(0.4, 0.6 * np.arange(MANY.size - 1, 0, -1.0) ** 6)
    shares[1:] *= 0.6 / shares[1:].sum()
    means = MANY.means(shares)
    found = with_mean(shares, means, mean)
    assert found @ means == pytest.approx(mean, rel=1e-6)
    assert found.sum() == pytest.approx(1.0)
    assert (found >= 0).all()


def test_rows_of_few_units_are_not_giants():
    """A heavy tail is found at many units; at noise alone there is next to nothing."""
    g = np.random.default_rng(5)
    rows = np.floor(g.pareto(1.5, 5000) * 3).astype(int)
    exact = np.bincount(np.searchsorted(MANY.lower, rows, side="right") - 1, minlength=MANY.size)
    found = rows_per_unit(exact + g.normal(0, 10, MANY.size), 10.0, 5000.0, "gaussian", [])
    assert found.rows == pytest.approx(rows.sum(), rel=0.35)
    empty = rows_per_unit(g.normal(0, 10, MANY.size), 10.0, 300.0, "gaussian", [])
    assert empty.rows < 300


@pytest.mark.parametrize("power", [-1.0, 0.0, 2.0])
def test_the_corner_of_two_tails_follows_from_the_rest_of_a_pair(power):
    """The corner of two tails lies below the noise: a copula finds it, independence does not."""
    scores = np.linspace(-2.5, 2.5, 12)
    margin = np.exp(-(scores**2) / 2)
    flat = 20_000 * np.outer(margin, margin) / margin.sum() ** 2
    exact = rake(
        flat * np.exp(power * np.outer(scores, scores)), flat.sum(axis=1), flat.sum(axis=0)
    )
    corners = []
    for seed in range(5):
        noise = np.random.default_rng(seed).normal(0, 30, exact.shape)
        found = associate(exact + noise, 30.0, flat, scores, scores)
        assert np.allclose(found.sum(axis=1), flat.sum(axis=1), rtol=0.05)
        corners.append(float(found[-3:, -3:].sum()))
    assert np.mean(corners) == pytest.approx(exact[-3:, -3:].sum(), rel=0.25, abs=3.0)


# databases ---------------------------------------------------------------------------------------


def planted(owners: int, seed: int = 1) -> PrivateDatabase:
    """People of two kinds; those of kind 1 own three times as many visits, and other ones."""
    g = np.random.default_rng(seed)
    kind = g.integers(0, 2, owners)
    counts = g.poisson(np.where(kind == 1, 6.0, 2.0))
    owner = np.repeat(np.arange(owners), counts)
    state = (g.random(len(owner)) < np.where(kind[owner] == 1, 0.8, 0.3)).astype(int)
    other = g.integers(0, 4, owners)
    key = KeySpec("person", "visits", "people", "own")
    return private_database(
        {
            "people": (owners, {"kind": (kind, BIT), "x": (other, Domain(4))}, {}),
            "visits": (len(owner), {"state": (state, BIT)}, {key: owner}),
        }
    )


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_effects_between_owners_and_what_they_own_are_kept(accounting, begin):
    made = fit(begin(planted(3000), 3.2, accounting)).sample(1.0, 3)
    edges, state = made.tables["visits"].parents["person"], made.tables["visits"].codes["state"]
    kind = made.tables["people"].codes["kind"]
    shares = [state[kind[edges] == value].mean() for value in (0, 1)]
    assert shares[1] - shares[0] == pytest.approx(0.5, abs=0.15)
    numbers = np.bincount(edges, minlength=len(kind))
    ratio = numbers[kind == 1].mean() / numbers[kind == 0].mean()
    assert ratio == pytest.approx(3.0, rel=0.3)
    other = made.tables["people"].codes["x"][edges]
    assert abs(state[other == 0].mean() - state[other == 3].mean()) < 0.06


def hubs(writers: int) -> PrivateDatabase:
    """One writer in fifty writes forty notes of kind 1, others two of kind 0 and refer to them."""
    g = np.random.default_rng(9)
    heavy = g.random(writers) < 0.02
    owner = np.repeat(np.arange(writers), np.where(heavy, 40, 2))
    editor = np.where(g.random(len(owner)) < 0.9, g.choice(np.flatnonzero(heavy), len(owner)), -1)
    fame = np.where(heavy, 9, g.integers(0, 9, writers))
    keys = {
        KeySpec("w", "notes", "writers", "own"): owner,
        KeySpec("e", "notes", "writers", "ref", nullable=True): editor,
    }
    return private_database(
        {
            "writers": (writers, {"fame": (fame, Domain(10, ordered=True))}, {}),
            "notes": (len(owner), {"kind": (heavy[owner].astype(int), BIT)}, keys),
        }
    )


def test_few_units_that_own_much_keep_what_is_theirs_and_are_referred_to(begin):
    made = fit(begin(hubs(4000), 10.0, "zcdp")).sample(1.0, 3)
    notes, writers = made.tables["notes"], made.tables["writers"].rows
    counts = np.bincount(notes.parents["w"], minlength=writers)
    kinds = [notes.codes["kind"][counts[notes.parents["w"]] > most].mean() for most in (20, 0)]
    assert kinds[0] > 0.6
    assert kinds[1] == pytest.approx(0.29, abs=0.15)
    edges = notes.parents["e"]
    assert (counts[edges[edges >= 0]] > 20).mean() > 0.6


def test_a_law_of_references_has_room_for_what_few_targets_hold():
    """One target in a hundred holds a third, which numbers of references below 16 do not show."""
    noisy = np.append(9000.0, np.random.default_rng(1).normal(0, 40, 10))
    most = []
    for parts in ([], [(0.01, 0.33, 0.04)]):
        shares = references_per_target(noisy, 40.0, 0.1, 9000.0, 1.0, 16, False, parts)
        held = np.cumsum((shares * MANY.means(shares))[::-1])
        most.append(np.interp(0.01, np.cumsum(shares[::-1]), held / held[-1]))
    assert most[1] > 0.27
    assert most[1] > most[0] + 0.05


def test_a_tail_below_the_noise_of_its_cells_is_kept():
    """No cell of it does, but the last cells of the range say how it goes on."""
    domain = Domain(60, ordered=True, core=(0, 30))
    exact = 300.0 * 0.93 ** np.arange(60)
    kept = []
    for seed in range(20):
        noisy = exact + np.random.default_rng(seed).normal(0, 25, 60)
        kept.append(float(one_way(noisy, 25.0, domain, "gaussian")[30:].sum()) * exact.sum())
    assert np.mean(kept) == pytest.approx(exact[30:].sum(), rel=0.4)
    assert np.mean(np.array(kept) > 0.3 * exact[30:].sum()) > 0.7


@pytest.mark.parametrize(("sd", "most"), [(1.0, 0.03), (10.0, 0.08)])
def test_a_wide_column_keeps_its_shape_and_its_heavy_values(sd, most):
    """Noise hides each of 20,000 cells; their sums and single values of many rows it does not."""
    g = np.random.default_rng(1)
    values = np.append(np.minimum(g.exponential(300.0, 5000), 19_999), np.full(500, 15_000))
    true = np.bincount(values.astype(int), minlength=20_000).astype(float)
    shares = one_way(
        true + g.normal(0, sd, 20_000), sd, Domain(20_000, ordered=True), "gaussian", 5500.0
    )
    assert shares.sum() == pytest.approx(1.0)
    assert shares.min() >= 0
    assert np.abs(shares.cumsum() - true.cumsum() / 5500).max() < most
    assert shares[15_000] == pytest.approx(500 / 5500, rel=0.2)


def test_the_same_noise_gives_the_same_model_and_the_same_seed_the_same_rows(shop, begin):
    models = [fit(begin(shop(800), 8.0, "zcdp", noise=5), PUBLIC) for _ in range(2)]
    arrays = [model.to_state()[1] for model in models]
    assert arrays[0].keys() == arrays[1].keys()
    # Which rows of a unit count for references is drawn anew with every database.
    kept = [name for name in arrays[0] if name.startswith("table")]
    assert all(np.array_equal(arrays[0][name], arrays[1][name]) for name in kept)
    drawn = [models[0].sample(1.0, seed) for seed in (4, 4, 5)]
    codes = [database.tables["users"].codes["age"] for database in drawn]
    assert np.array_equal(codes[0], codes[1])
    assert not np.array_equal(codes[0], codes[2])


def test_outlines_branch_on_what_depends_and_keep_the_law_of_the_rows(shop, begin):
    model = fit(begin(shop(2000), 20.0), PUBLIC)
    assert set(model.circuits) == set(shop(1).spec.tables)
    assert set(model.circuits["orders"].domains) == {"state"}
    users, made = model.outlines["users"], model.sample(1.0, 1).tables["users"].codes
    assert set(users.above.values()) == {None, "kind"} or set(users.above.values()) == {None, "age"}
    for name, size in (("kind", 3), ("age", 60)):
        counts = np.bincount(made[name], minlength=size) / len(made[name])
        assert marginal(users.circuit, name) == pytest.approx(counts, abs=0.02)
    old = np.tile(np.arange(60) >= 40, (3, 1))
    joint = probabilities(users.circuit, {"kind": np.eye(3), "age": old.astype(float)})
    assert (joint / joint.sum())[2] > 0.9


# damaged models ----------------------------------------------------------------------------------


def _table(head, name):
    return next(item for item in head["tables"] if item["name"] == name)


def _put(where, place, value):
    where[place] = value


def _many_groups(head, held):
    size = 10**6
    held["table/0/0/groups"] = np.arange(size)
    held["table/0/0/shares"] = np.full(size, 1 / size)
    held["table/0/0/table"] = np.full((1, size), 1 / size)


#: What is wrong with a model, and the change of its header or arrays that makes it so.
FAULTS = {
    "owners after what they own": lambda head, held: head["tables"].reverse(),
    "no numbers of children": lambda head, held: _put(_table(head, "users")["columns"], 2, "else"),
    "a column beyond the table": lambda head, held: _put(
        _table(head, "orders")["factors"][0], "column", 99
    ),
    "a column twice": lambda head, held: _put(
        _table(head, "users")["factors"][0],
        "column",
        _table(head, "users")["factors"][1]["column"],
    ),
    "a parent that comes later": lambda head, held: _put(
        _table(head, "users")["factors"][0],
        "parents",
        [_table(head, "users")["factors"][-1]["column"]],
    ),
    "another number of cells": lambda head, held: _put(_table(head, "users")["cells"], 0, 4),
    "a table that owns its owner": lambda head, held: _table(head, "users")["keys"].append(
        {**_table(head, "profiles")["keys"][0], "name": "loop", "parent": "profiles"}
    ),
    "a key to no table": lambda head, held: _put(_table(head, "orders")["keys"][1], "parent", "x"),
    "a key without a parent": lambda head, held: head["tables"][0]["keys"].append({"name": "k"}),
    "an unknown role": lambda head, held: _put(_table(head, "orders")["keys"][0], "role", "root"),
    "a size that is no number": lambda head, held: _put(
        _table(head, "users"), "rows", float("nan")
    ),
    "no references": lambda head, held: head["references"].clear(),
    "a column that no score has": lambda head, held: _put(
        head["references"][0]["columns"][0], 0, "else"
    ),
    "a negative share": lambda head, held: _put(held["table/0/0/shares"], 0, -1.0),
    "shares that sum to more than 1": lambda head, held: _put(held["table/0/0/shares"], 0, 5.0),
    "a group beyond the table": lambda head, held: _put(held["table/0/0/groups"], 0, 10**6),
    "a million groups": _many_groups,
    "a text for a number": lambda head, held: _put(held, "table/0/0/table", np.array([["x"]])),
    "shares that sum to 2": lambda head, held: _put(
        held, "reference/0/fan-in", 2 * held["reference/0/fan-in"]
    ),
    "ends that do not rise": lambda head, held: _put(
        held, "reference/0/ends0", 0 * held["reference/0/ends0"]
    ),
    "an infinite factor": lambda head, held: _put(held["reference/0/logs0"], 0, np.inf),
    "an array that is missing": lambda head, held: held.pop("table/0/0/shares"),
}


def test_damaged_models_are_refused(shop, begin):
    header, arrays = fit(begin(shop(300), 80.0), PUBLIC).to_state()
    text = json.dumps(header)
    assert GraphicalSynthesizer.load(json.loads(text), arrays).sample(1.0, 1).tables["users"].rows
    for spoil in FAULTS.values():
        damaged, parts = json.loads(text), {name: held.copy() for name, held in arrays.items()}
        spoil(damaged, parts)
        with pytest.raises(ModelError):
            GraphicalSynthesizer.load(damaged, parts)


def test_a_scale_beyond_this_machine_is_refused(shop, begin):
    model = fit(begin(shop(50)), PUBLIC)
    for scale in (1e15, 0.0, float("inf")):
        with pytest.raises(ModelError):
            model.sample(scale, 1)


def test_tails_and_special_cells_are_empty_unless_they_stand_above_noise():
    """A row far out moves an average more than all others do."""
    g = np.random.default_rng(6)
    domain = Domain(60, ordered=True, specials=("above",), core=(10, 40))
    exact = np.zeros(61)
    exact[10:40] = 300.0
    far = []
    for seed in range(20):
        noisy = exact + np.random.default_rng(seed).normal(0, 20, 61)
        far.append(float(one_way(noisy, 20.0, domain, "gaussian")[45:].sum()))
    # Two standard deviations: one cell or octave in forty is made of noise.
    assert np.mean(np.array(far) > 1e-3) < 0.2
    exact[40:44] = 200.0
    exact[60] = 400.0
    found = one_way(exact + g.normal(0, 20, 61), 20.0, domain, "gaussian") * exact.sum()
    assert found[40:60].sum() == pytest.approx(800, rel=0.3)
    assert found[60] == pytest.approx(400, rel=0.2)


@pytest.mark.parametrize("mean", [1e-6, 0.3, 20.0, 1e5, 1e9])
def test_references_to_any_number_of_targets_have_a_law(mean):
    noisy = np.random.default_rng(7).normal(0, 5, 16)
    shares = references_per_target(noisy, 5.0, mean, 3.0, 1.0, 1, False, [])
    assert np.isfinite(shares).all()
    assert shares.sum() == pytest.approx(1.0)


# rows drawn later ---------------------------------------------------------------------------------


def test_many_rows_that_own_nothing_are_drawn_later_and_follow_their_owners(begin):
    kind = np.arange(2_000) % 2
    owners = np.append(np.repeat(np.arange(2_000), 6), np.full(1_000, -1))
    size = np.where(owners < 0, 2, kind[owners])
    key = KeySpec("of", "b", "a", "own", nullable=True)
    tables = {
        "a": (len(kind), {"kind": (kind, BIT)}, {}),
        "b": (len(owners), {"size": (size, Domain(3))}, {key: owners}),
    }
    model = fit(begin(private_database(tables), noise="none"))
    drawn = model.sample(50.0, 7).tables
    found = drawn["b"].codes
    assert isinstance(found, Parts)
    for rows, part in found.parts():
        edges = drawn["b"].parents["of"][rows]
        expected = np.where(edges < 0, 2, drawn["a"].codes["kind"][np.maximum(edges, 0)])
        assert (part["size"] == expected).mean() > 0.97
    again = model.sample(50.0, 7).tables["b"].codes["size"]
    assert (again == found["size"]).all()
