"""Assembling databases: every key valid, whatever the laws say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.errors import ModelError
from privbench.learning.assemble import TableModel, assemble, ownership_levels
from privbench.learning.attach import Places, attach
from privbench.learning.fanlaw import constant, law_from_counts
from privbench.learning.keys import INSIDE, OUTSIDE, KeyModel
from privbench.learning.pulls import Pull
from privbench.learning.shares import shares
from privbench.privacy import DatabaseSpec, KeySpec, TableSpec
from privbench.rng import generator

FEW = law_from_counts(np.array([2.0, 1.0, 1.0]), np.array([0, 1, 2]), np.array([0, 1, 9]))


def key(name, parent, role, nullable=False, unique=False, **facts):
    return KeyModel(name, parent, role, nullable, unique, **facts)


def build(tables, public=None, scale=1.0, seed=1):
    return assemble(tables, public or {}, lambda t, n, o: {}, scale, seed).tables


@st.composite
def models(draw):
    names = [f"t{i}" for i in range(draw(st.integers(1, 5)))]
    tables = {}
    for i, name in enumerate(names):
        keys = []
        flags = st.booleans()
        if i and draw(flags):
            parent = draw(st.sampled_from(names[:i]))
            law = draw(st.sampled_from([FEW, constant(0), constant(1), constant(3)]))
            null = draw(st.floats(0, 5))
            keys.append(key("own", parent, "own", draw(flags), draw(flags), law=law, null=null))
        for r in range(draw(st.integers(0, 2))):
            target = draw(st.sampled_from(names))
            law = draw(st.sampled_from([FEW, constant(0), None]))
            null = draw(st.floats(0, 1))
            keys.append(key(f"r{r}", target, "ref", draw(flags), draw(flags), law=law, null=null))
        if draw(flags):
            weights = np.array(draw(st.lists(st.floats(0, 9), max_size=4)))
            keys.append(
                key(
                    "p",
                    f"public{len(weights)}",
                    "public",
                    draw(flags),
                    draw(flags),
                    targets=weights,
                )
            )
        rows = draw(st.floats(0, 12))
        tables[name] = TableModel(rows, {k.name: k for k in keys})
    return tables


@settings(max_examples=150, deadline=None)
@given(models(), st.sampled_from([0.3, 1.0, 2.5]), st.integers(0, 99))
def test_every_key_is_valid(tables, scale, seed):
    public = {f"public{n}": n for n in range(5)}
    made = build(tables, public, scale, seed)
    for name, model in tables.items():
        for k in model.keys.values():
            edges = made[name].parents[k.name]
            targets = public[k.parent] if k.role == "public" else made[k.parent].rows
            assert edges.shape == (made[name].rows,)
            assert (edges < targets).all()
            assert (edges >= (-1 if k.nullable else 0)).all()
            if k.unique:
                used = edges[edges >= 0]
                assert len(np.unique(used)) == len(used)


def test_sizes_follow_totals_and_laws():
    tables = {
        "a": TableModel(100.4),
        "b": TableModel(5.0, {"own": key("own", "a", "own", True, law=constant(3), null=7.0)}),
    }
    made = build(tables, scale=2.0)
    assert made["a"].rows == 201
    assert made["b"].rows == 3 * 201 + 14
    edges = made["b"].parents["own"]
    assert (np.bincount(edges[edges >= 0]) == 3).all()


def test_references_follow_popularity():
    skewed = law_from_counts(np.array([90.0, 10.0]), np.array([0, 100]), np.array([0, 100]))
    edges = attach(key("r", "t", "ref", True, law=skewed, null=0.25), 4000, 200, generator(3))
    assert (edges < 0).sum() == 1000
    counts = np.bincount(edges[edges >= 0], minlength=200)
    assert (counts > 0).sum() == 20
    assert counts.max() <= 3000 / 20 + 1


def test_public_targets_follow_their_frequency():
    weights = np.array([0.0, 1.0, 3.0])
    edges = attach(key("p", "c", "public", targets=weights), 400, 3, generator(3))
    assert np.bincount(edges, minlength=3).tolist() == [0, 100, 300]


def test_rows_that_cannot_refer_are_left_out_with_what_they_own():
    tables = {
        "empty": TableModel(0.0),
        "a": TableModel(10.0, {"r": key("r", "empty", "ref", law=FEW)}),
        "b": TableModel(1.0, {"own": key("own", "a", "own", law=constant(2))}),
        "c": TableModel(4.0),
        "d": TableModel(9.0, {"one": key("one", "c", "ref", unique=True)}),
    }
    made = build(tables)
    assert [made[name].rows for name in tables] == [0, 0, 0, 4, 4]
    assert sorted(made["d"].parents["one"].tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("unique", [True, False])
def test_tables_that_need_each_other_do_not_shrink_by_turns(unique):
    """A person needs a passport, and passports are owned: nine in ten have one by the law."""
    most = law_from_counts(np.array([1.0, 9.0]), np.array([0, 1]), np.array([0, 1]))
    tables = {
        "person": TableModel(1000.0, {"p": key("p", "passport", "ref", unique=True)}),
        "passport": TableModel(1.0, {"own": key("own", "person", "own", False, unique, law=most)}),
    }
    made = build(tables)
    assert made["person"].rows == made["passport"].rows >= (1000 if unique else 895)
    assert sorted(made["person"].parents["p"]) == list(range(made["person"].rows))


def test_the_only_row_of_a_unit_is_referred_to_from_within():
    units = np.arange(50)
    links = np.where(units < 40, INSIDE, OUTSIDE)
    places = Places(units, units[::-1].copy(), links)
    edges = attach(key("r", "t", "ref", unique=True), 50, 50, generator(3), places)
    assert (edges[:40] == 49 - units[:40]).all()
    assert sorted(edges) == list(range(50))


def test_cycles_of_ownership_are_refused():
    tables = {
        "a": TableModel(1.0, {"own": key("own", "b", "own", law=FEW)}),
        "b": TableModel(1.0, {"own": key("own", "a", "own", law=FEW)}),
    }
    with pytest.raises(ModelError, match="cyclic"):
        ownership_levels(tables)


def test_the_same_seed_gives_the_same_rows():
    tables = {"a": TableModel(50.0, {"r": key("r", "a", "ref", True, law=FEW, null=0.3)})}
    first, second, other = (build(tables, seed=s)["a"].parents["r"] for s in (4, 4, 5))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_shares_follow_the_rule():
    from privbench.domain import Domain

    two = {"x": Domain(3), "y": Domain(3)}
    spec = DatabaseSpec(
        {
            "u": TableSpec("u", two),
            "o": TableSpec("o", two, (KeySpec("own", "o", "u", "own"),)),
            "tag": TableSpec("tag", two),
        }
    )
    items = shares(spec, {"u": 100.0, "o": 400.0, "tag": 10.0})
    assert items["key o own"] == (18.0, frozenset({"u"}))
    assert items["rows tag"] == (70.5, frozenset({"tag"}))
    assert items["rows o"][0] == pytest.approx(2 * items["rows u"][0])
    assert items["rows o"][0] + items["rows u"][0] == pytest.approx(70.5)
    # Noise of a total takes no table's share away.
    items = shares(spec, {"u": 100.0, "o": -900.0, "tag": 10.0})
    assert items["rows o"][0] == pytest.approx(items["rows u"][0])


def test_all_rows_of_a_unit_refer_to_rows_of_their_own_each_to_another():
    units = np.repeat(np.arange(1000), 3)
    links = np.full(3000, INSIDE)
    links[::3] = OUTSIDE
    places = Places(units, units, links)
    pick = key("k", "t", "ref", unique=True)
    edges = attach(pick, 3000, 3000, generator(4), places)
    assert len(np.unique(edges)) == 3000
    inside = links == INSIDE
    assert (units[edges[inside]] == units[inside]).all()


def test_rows_of_the_own_unit_that_are_never_referred_to_are_not_taken():
    units = np.repeat(np.arange(500), 20)
    codes = np.tile(np.repeat([0, 1, 2], [1, 1, 18]), 500)
    pull = Pull.of("kind", np.arange(3), np.array([1.0, 0.25, 1e-9]))
    pick = replace(key("k", "t", "ref", law=FEW), pulls=(pull,))
    places = Places(units, units, np.full(10_000, INSIDE), {"kind": codes})
    edges = attach(pick, 10_000, 10_000, generator(4), places)
    assert (units[edges] == units).all()
    taken = np.bincount(codes[edges], minlength=3)
    assert taken[2] < 10
    assert taken[0] == pytest.approx(2 * taken[1], rel=0.1)


def test_a_unit_without_rows_is_left_for_one_elsewhere():
    units, targets = np.array([0, 0, 7, 3]), np.array([3, 3, 0])
    places = Places(units, targets, np.full(4, INSIDE))
    edges = attach(key("k", "t", "ref", law=constant(1)), 4, 3, generator(4), places)
    assert (targets[edges[[0, 1, 3]]] == [0, 0, 3]).all()
    assert edges[2] >= 0
