"""What a key's noisy answers become."""

import numpy as np
import pytest

from privbench.learning.attach import attach
from privbench.learning.denoise import noise_law
from privbench.learning.keyasks import NULLS, measure_key
from privbench.learning.keyfit import Sizes, fit_key, measured_null, parents_of
from privbench.privacy import DatabaseSpec, KeySpec, Relation, TableSpec
from privbench.rng import generator


def fitted(spec, key, amount, measure, sizes, public_rows, noise):
    answers = measure_key(key, amount, measure, public_rows)
    return fit_key(spec, key, answers, sizes, noise)


@pytest.mark.parametrize(
    ("missing", "present", "share"),
    [
        (30.0, 90.0, 0.25),
        (900.0, 4.0, 1.0),
        (4.0, 900.0, 0.0),
        (-7.0, 900.0, 0.0),
        (4.0, -7.0, 0.0),
    ],
)
def test_a_null_share_within_its_noise_is_none(missing, present, share):
    key = KeySpec("k", "child", "parent", "ref", True, True)
    tables = {"parent": TableSpec("parent", {}), "child": TableSpec("child", {}, (key,))}
    spec = DatabaseSpec(tables, Relation())
    sizes = Sizes({"parent": 100.0, "child": 100.0})
    answer = np.array([missing, present]), 5.0
    model = fitted(spec, key, 1.0, lambda *ask: answer, sizes, {}, noise_law("pure"))
    assert model.null == pytest.approx(share)


@pytest.mark.parametrize(
    ("missing", "present", "rows"),
    [
        (110.0, 30.0, 0.0),
        (110.0, 900.0, 3520.0),
        (160.0, 30.0, 5120.0),
        (30.0, 900.0, 0.0),
    ],
)
def test_rows_without_an_owner_have_to_be_clear_where_they_are_most_of_a_table(
    missing, present, rows
):
    key = KeySpec("k", "child", "parent", "own", True)
    tables = {"parent": TableSpec("parent", {}), "child": TableSpec("child", {}, (key,), tau=32)}
    spec = DatabaseSpec(tables, Relation())
    nulls = {NULLS: (None, np.array([missing, present]), 40.0)}
    assert measured_null(spec, key, nulls) == rows


@pytest.mark.parametrize("seed", range(6))
def test_no_target_is_referred_to_more_often_than_there_are_references(seed):
    """A bucket of more, however unlikely, would take most references once it is drawn."""
    key = KeySpec("k", "child", "parent", "ref")
    tables = {"parent": TableSpec("parent", {}), "child": TableSpec("child", {}, (key,))}
    spec = DatabaseSpec(tables, Relation())
    sizes = Sizes({"parent": 300.0, "child": 3000.0}, {"parent": 3.0, "child": 20.0})

    def measure(query, amount, label):
        counts = np.zeros(query.shape)
        counts[0], counts[3:5] = 130.0, (20.0, 58.0)
        return counts + generator(seed, label).laplace(0, 0.3, query.shape), 0.3 * np.sqrt(2.0)

    law = fitted(spec, key, 1.0, measure, sizes, {}, noise_law("pure")).law
    assert law.mass.sum() == pytest.approx(1)
    assert law.starts[law.mass > 0].max() <= 3000


def test_noise_alone_makes_no_hub_that_takes_most_references():
    """Fifty rooms and noise of forty: what is drawn stays within what is usual."""
    key = KeySpec("k", "child", "parent", "ref")
    tables = {"parent": TableSpec("parent", {}), "child": TableSpec("child", {}, (key,))}
    spec = DatabaseSpec(tables, Relation())
    sizes = Sizes({"parent": 50.0, "child": 2000.0}, {"parent": 3.0, "child": 60.0})
    tops = []
    for seed in range(20):

        def measure(query, amount, label, seed=seed):
            return generator(seed, label).laplace(0, 29.0, query.shape), 41.0

        model = fitted(spec, key, 1.0, measure, sizes, {}, noise_law("pure"))
        edges = attach(model, 2000, 50, generator(seed, "draw"))
        tops.append(np.bincount(edges, minlength=50).max())
    assert np.median(tops) < 450
    assert max(tops) < 800


def test_a_fan_out_tells_how_many_owners_there_are():
    own, ref = KeySpec("k", "child", "parent", "own"), KeySpec("k", "child", "parent", "ref")

    def measure(query, amount, label):
        return np.full(query.shape, 5.0), 2.0

    answers = measure_key(own, 1.0, measure, {})
    buckets = answers["fan-out"][1].size
    assert parents_of(own, answers) == (5.0 * buckets, pytest.approx(4.0 * buckets))
    assert parents_of(ref, measure_key(ref, 1.0, measure, {})) is None
