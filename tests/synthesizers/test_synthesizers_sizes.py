"""Sizes of sampled tables and numbers of references, of several fits each."""

import numpy as np
import pytest
from private_tables import private_database

from privbench.domain import Domain
from privbench.errors import ModelError
from privbench.learning.graphical.associations import TargetAssociation
from privbench.learning.graphical.references import ReferenceLaw
from privbench.learning.graphical.sizes import MANY
from privbench.privacy import KeySpec
from privbench.synthesizers.independent import IndependentSynthesizer


def under(table, parent, *, nullable=False):
    return KeySpec(f"{table}_{parent}", table, parent, "own", nullable=nullable)


UNITS = 150
KEYS = {
    "boards": (under("boards", "teams"),),
    "cards": (under("cards", "boards"),),
    "labels": (under("labels", "cards"),),
    "members": (under("members", "teams"),),
    "notes": (under("notes", "members"),),
    "files": (under("files", "notes", nullable=True),),
}


def make_work():
    """Every team has 3 boards of 5 cards with 2 labels; of its members one writes all 18 notes.

    Of 450 files two thirds have no note; the others belong to few.
    """
    g = np.random.default_rng(4)
    members = np.sort(np.append(np.arange(UNITS), g.integers(0, UNITS, 6 * UNITS)))
    owners = {
        "boards": np.repeat(np.arange(UNITS), 3),
        "cards": np.repeat(np.arange(3 * UNITS), 5),
        "labels": np.repeat(np.arange(15 * UNITS), 2),
        "members": members,
        "notes": np.repeat(np.searchsorted(members, np.arange(UNITS)), 18),
        "files": np.append(np.arange(150), np.full(300, -1)),
    }
    return tables({"teams": UNITS}, owners, KEYS)


def tables(roots, owners, keys, kinds=3):
    """Root tables of so many rows, and owned ones by the owner of every row; each has a kind."""
    g = np.random.default_rng(4)
    rows = {**roots, **{name: len(edges) for name, edges in owners.items()}}
    return private_database(
        {
            name: (
                count,
                {"kind": (g.integers(0, kinds, count), Domain(kinds))},
                {key: owners[name] for key in keys.get(name, ())},
            )
            for name, count in rows.items()
        }
    )


REAL = {
    "boards": 450, "cards": 2250, "labels": 4500, "members": 1050, "notes": 2700, "files": 450,
}  # fmt: skip


@pytest.mark.slow
def test_levels_do_not_multiply_what_is_off(sample):
    """Where fan-outs and first totals alone told sizes, each seed was off by 2 or more somewhere.

    Two seeds in six may be off still: noise like units where there are none is not told from them.
    In half of the seeds noise hides the 300 files without a note, so their size may be half.
    """
    off = []
    for seed in range(1, 7):
        made = sample(make_work(), 3.0, "pure", seed, seed=seed)
        off.append([abs(np.log((made[name].rows + 20) / (n + 20))) for name, n in REAL.items()])
    middle = dict(zip(REAL, np.median(off, axis=0), strict=True))
    assert middle.pop("files") < np.log(2.0), off
    assert max(middle.values()) < np.log(1.4), off
    assert (np.max(np.array(off)[:, :-1], axis=1) < np.log(2.0)).sum() >= 4, off


def test_sizes_are_the_models_whatever_the_seed_draws(begin):
    """A few owners have most rows; how many such there are is a matter of luck in each sample."""
    degrees = np.sort((np.random.default_rng(3).pareto(0.7, 400) * 2).astype(int))[:-2]
    keys = {"results": (under("results", "drivers"),), "laps": (under("laps", "results"),)}
    results = np.repeat(np.arange(398), degrees)
    owners = {"results": results, "laps": np.repeat(np.arange(0, len(results), 9), 7)}
    session, totals, amount = begin(tables({"drivers": 398}, owners, keys), 3.0, noise=1)
    model = IndependentSynthesizer().fit(session, totals, amount)
    for scale in (1.0, 0.1):
        made = [model.sample(scale, seed) for seed in range(5)]
        for table in keys:
            assert np.ptp([item[table].rows for item in made]) <= 1, table


USERS, RELEASES = 2000, 8
OWNED = {"none": 0, "few": 150}


@pytest.fixture(scope="module")
def emptied():
    """Users of whom 150 have rows in one table and nobody in another; a root table is empty too."""
    owners = {name: np.repeat(np.arange(units), 4) for name, units in OWNED.items()}
    keys = {name: (under(name, "users"),) for name in OWNED}
    return tables({"users": USERS, "alone": 0}, owners, keys)


@pytest.mark.parametrize("accounting", ["zcdp", pytest.param("pure", marks=pytest.mark.slow)])
def test_empty_tables_stay_empty_and_others_keep_their_rows(begin, emptied, accounting):
    sizes, asked = [], set()
    for seed in range(RELEASES):
        session, totals, amount = begin(emptied, 1.5, accounting, seed + 1)
        model = IndependentSynthesizer().fit(session, totals, amount)
        sizes.append({name: table.rows for name, table in model.sample(1.0, seed).items()})
        asked.add(tuple(step.event.label for step in session.trace))
    filled = {name: sum(size[name] > 0 for size in sizes) for name in sizes[0]}
    # Half of the empty tables may come out with rows, but with few.
    assert filled["none"] + filled["alone"] <= 11
    assert np.median([size["none"] + size["alone"] for size in sizes]) < USERS / 10
    assert filled["users"] == filled["few"] == RELEASES
    # What is asked does not depend on it.
    assert len(asked) == 1


@pytest.mark.parametrize("power", [1.5, pytest.param(2.0, marks=pytest.mark.slow)])
def test_the_tail_of_a_degree_goes_on_as_its_clear_buckets_end(sample, power):
    users = 20_000
    numbers = np.floor(3 * np.random.default_rng(5).pareto(power, users)).astype(int)
    numbers = np.minimum(numbers, 2_000)
    owners = {"posts": np.repeat(np.arange(users), numbers)}
    data = tables({"users": users}, owners, {"posts": (under("posts", "users"),)})
    off = []
    for seed in (1, 2, 3):
        made = sample(data, 1.0, "pure", seed, seed=seed)["posts"].parents["posts_users"]
        off.append(np.log((np.bincount(made) ** 2).sum() / (numbers**2).sum()))
    assert abs(np.median(off)) < 0.4, off


def make_matches(effect):
    """Matches of 4,000 players in 1,200 cups; an age is higher by so much per level of its cup."""
    g = np.random.default_rng(5)
    rows, cups = 20_000, 1_200
    cup, level = np.floor(cups * g.random(rows) ** 1.3).astype(int), g.integers(0, 4, cups)
    age = 10 + 3 * (g.normal(size=rows) + effect * (level[cup] - 1.5))
    keys = {
        under("matches", "players"): g.integers(0, 4_000, rows),
        KeySpec("cup", "matches", "cups", "ref"): cup,
    }
    columns = {
        "age": (np.clip(age, 0, 19).astype(int), Domain(20, ordered=True)),
        "hand": (g.integers(0, 2, rows), Domain(2)),
    }
    kinds = {"level": (level, Domain(4)), "surface": (g.integers(0, 3, cups), Domain(3))}
    tables = {
        "players": (4_000, {}, {}),
        "cups": (cups, kinds, {}),
        "matches": (rows, columns, keys),
    }
    return private_database(tables)


@pytest.mark.parametrize("effect", [0.5, 0.0])
def test_rows_go_with_columns_of_the_rows_that_they_refer_to(sample, effect):
    tables = sample(make_matches(effect), 3.2, "pure", 1)
    matches, level = tables["matches"], np.asarray(tables["cups"].codes["level"])
    edges, age = np.asarray(matches.parents["cup"]), np.asarray(matches.codes["age"])
    means = np.array([age[level[edges] == k].mean() for k in range(4)])
    # An age by lot would be off by 2.25 at the larger effect.
    assert np.abs(means - age.mean() - 3 * effect * (np.arange(4) - 1.5)).max() < 0.9


TABLE, GROUPS = np.full((2, 2), 0.25), np.array([0, 1, 1])


@pytest.mark.parametrize(
    "part",
    [
        {},
        {"groups0": np.array([0, 1, 2])},
        {"groups1": np.array([0, 1])},
        {"groups1": np.array([0.0, 1.0, 1.0])},
        {"table": np.full((2, 2), np.nan)},
        {"table": np.full(4, 0.25)},
        {"table": np.full((40, 2), 0.01)},
    ],
    ids=str,
)
def test_associations_of_a_damaged_model_are_refused(part):
    law = ReferenceLaw(
        np.eye(MANY.size)[1],
        (),
        (),
        TargetAssociation(("age", "level"), (GROUPS, GROUPS), TABLE),
    )
    state, arrays = law.to_state()
    read = ReferenceLaw.from_state(state, {**arrays, **part})
    if not part:
        read.check({"level": 3}, {"age": 3})
        assert read.association.columns == ("age", "level")
    with pytest.raises(ModelError, match="fit"):
        read.check({"level": 3}, {"age": 3 if part else 4})
