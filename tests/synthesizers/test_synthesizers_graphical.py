"""The graphical synthesizer: what it finds, what it keeps through ownership, what it refuses."""

import json
from dataclasses import replace

import numpy as np
import pytest
from private_tables import private_database

from privbench.domain import Domain
from privbench.errors import ConfigError, ModelError
from privbench.learning.answers import Measured
from privbench.learning.graphical import herding
from privbench.learning.graphical.table_model import Factor, TableModel
from privbench.learning.graphical.tilting import EFFECTIVE, Tilt, tilts_for, weights_of
from privbench.learning.synthetic import Parts
from privbench.privacy import KeySpec
from privbench.privacy.data import PrivateDatabase
from privbench.synthesizers.base import PlanInput
from privbench.synthesizers.graphical import GraphicalSynthesizer

BIT = Domain(2)
PUBLIC = {"countries": np.zeros(12, np.int64)}


def fit(started, public=None):
    session, totals, amount = started
    return GraphicalSynthesizer().fit(session, totals, amount, public)


DAYS = Domain(60, True, edges=tuple(range(61)))


def under(table, parent, **more):
    return KeySpec(parent, table, parent, "own", **more)


def sets_of(owner, label):
    """How many owners have each of six labels, and each two of them, as a matrix."""
    held = np.zeros((owner.max() + 1, 6), np.int64)
    held[owner, label] = 1
    return held.T @ held


@pytest.mark.parametrize("accounting", ["zcdp", pytest.param("pure", marks=pytest.mark.slow)])
def test_labels_come_together_in_an_owner_as_before(sample, accounting):
    """Roles 0 and 1 exclude each other, as do 4 and 5; 2 and 3 come together.

    Rows keep their other columns (a grade goes with a role), and what they have to do with those of
    owners (staff have role 0 more often).
    """
    g = np.random.default_rng(1)
    staff, owner = g.integers(0, 2, 1500), np.repeat(np.arange(1500), 3)
    some, more = g.random(1500) < 0.8 * staff + 0.1, g.random(1500) < 0.5
    sets = np.where(more[:, None], [[2, 3]], [[4, 2]] + g.integers(0, 2, 1500)[:, None])
    role = np.column_stack([1 - some, sets]).ravel()
    grade = np.where(g.random(4500) < 0.9, role, 0)
    columns = {"role": (role, Domain(6)), "grade": (grade, Domain(6))}
    people = (1500, {"staff": (staff, BIT)}, {})
    data = {"people": people, "members": (4500, columns, {under("members", "people"): owner})}
    drawn = sample(private_database(data), {"zcdp": 3.2, "pure": 12.8}[accounting], accounting)
    after, whose = drawn["members"].codes, drawn["members"].parents["people"]
    assert np.abs(sets_of(whose, after["role"]) - sets_of(owner, role)).max() < 150
    alike = [
        np.mean(grades == roles)
        for grades, roles in ((grade, role), (after["grade"], after["role"]))
    ]
    assert alike[1] == pytest.approx(alike[0], abs=0.1)
    of_staff = drawn["people"].codes["staff"][whose] == 1
    roles = [np.mean(roles == 0) for roles in (role[staff[owner] == 1], after["role"][of_staff])]
    assert roles[1] == pytest.approx(roles[0], abs=0.06)


@pytest.mark.parametrize("children", [0, 2])
def test_labels_come_together_in_a_public_row_as_before(sample, children):
    """Of six genres, films have 0 and 1, 2 and 3, or 4 and 5; films and genres are public.

    Numbers of rows that two other tables have of each are drawn before.
    """
    film = np.repeat(np.arange(900), 2)
    genre = np.random.default_rng(1).integers(0, 3, 900)[film] * 2 + np.arange(1800) % 2
    edges = {"genres": genre, "films": film}
    keys = {KeySpec(name, "film_genres", name, "public"): rows for name, rows in edges.items()}
    tables = {"film_genres": (1800, {}, keys)}
    for name in ("notes", "votes")[:children]:
        tables[name] = (900, {}, {under(name, "film_genres"): np.arange(900) * 2})
    public = {"genres": np.arange(6), "films": np.arange(900)}
    drawn = sample(private_database(tables), public=public)["film_genres"].parents
    together = sets_of(drawn["films"], drawn["genres"])[[0, 2, 4], [1, 3, 5]]
    assert together.sum() > 500  # by lot 300


@pytest.mark.parametrize(
    ("broken", "sign", "follows", "serial"),
    [(0.0, 1, True, 1), (0.125, -1, False, -1), (0.0, 0, True, 0)],
    ids=["as names say", "dirty and descending", "keys at random"],
)
def test_time_is_as_two_histograms_of_three_cells_say(sample, broken, sign, follows, serial):
    g = np.random.default_rng(1)
    born, owner = g.integers(0, 30, 2000), np.repeat(np.arange(2000), 3)
    day = born[owner] + g.integers(1, 30, 6000)
    day[g.random(6000) < broken] = 0
    key = g.permutation(6000) if not sign else np.argsort(np.argsort(sign * day))
    columns = {"since": (day, DAYS), "id": (key // 100, Domain(60, True, filler=True))}
    data = private_database(
        {
            "people": (2000, {"since": (born, DAYS)}, {}),
            "visits": (6000, columns, {under("visits", "people"): owner}),
        }
    )
    visits = replace(data.spec.tables["visits"], serial="id")
    spec = replace(data.spec, tables={**data.spec.tables, "visits": visits})
    drawn = sample(PrivateDatabase(spec, data._tables))
    assert (drawn["visits"].follows, drawn["visits"].serial) == (follows, serial)
    assert (drawn["people"].follows, drawn["people"].serial) == (False, 0)  # nothing was asked


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_effects_between_owners_and_what_they_own_are_kept(accounting, sample):
    """People of kind 1 own three times as many visits, and other ones."""
    g, owners = np.random.default_rng(1), 3000
    kind = g.integers(0, 2, owners)
    counts = g.poisson(np.where(kind == 1, 6.0, 2.0))
    owner = np.repeat(np.arange(owners), counts)
    state = (g.random(len(owner)) < np.where(kind[owner] == 1, 0.8, 0.3)).astype(int)
    people = {"kind": (kind, BIT), "x": (g.integers(0, 4, owners), Domain(4))}
    visits = len(owner), {"state": (state, BIT)}, {under("visits", "people"): owner}
    data = private_database({"people": (owners, people, {}), "visits": visits})
    made = sample(data, 3.2, accounting, seed=3)
    edges, state = made["visits"].parents["people"], made["visits"].codes["state"]
    kind, other = (made["people"].codes[name] for name in ("kind", "x"))
    shares = [state[kind[edges] == value].mean() for value in (0, 1)]
    assert shares[1] - shares[0] == pytest.approx(0.5, abs=0.15)
    numbers = np.bincount(edges, minlength=len(kind))
    ratio = numbers[kind == 1].mean() / numbers[kind == 0].mean()
    assert ratio == pytest.approx(3.0, rel=0.3)
    assert abs(state[other[edges] == 0].mean() - state[other[edges] == 3].mean()) < 0.06


def test_rows_differ_by_the_kind_of_the_public_row_that_they_refer_to(sample):
    g = np.random.default_rng(2)
    kinds, key = np.arange(300) % 4, KeySpec("product", "sales", "products", "public")
    product = np.minimum(g.exponential(90, 5_000), 299).astype(int)
    price = np.clip(10 + 2 * kinds[product] + g.normal(0, 4, 5_000), 0, 29).astype(int)
    columns = {"price": (price, Domain(30, ordered=True))}
    data = private_database({"sales": (5_000, columns, {key: product})})
    sales = sample(data, public={"products": kinds}, seed=3)["sales"]
    found, prices = kinds[sales.parents["product"]], sales.codes["price"]
    means = [prices[found == kind].mean() - prices.mean() for kind in (0, 3)]
    assert means == pytest.approx([-3.0, 3.0], abs=0.7)


def siblings(owners, seed=1):
    """People of two kinds whose jobs are alike, repel, rise in time, or do nothing of the kind."""
    g = np.random.default_rng(seed)
    degrees, kind = g.integers(1, 7, owners), g.integers(0, 2, owners)
    owner = np.repeat(np.arange(owners), degrees)
    rows, own = len(owner), g.standard_normal(owners)[owner]
    pay = np.clip(20 + 8 * (0.88 * own + 0.47 * g.standard_normal(rows)), 0, 39).astype(int)
    shop = np.where(g.random(rows) < 0.7, g.integers(0, 5, owners)[owner], g.integers(0, 5, rows))
    current = np.zeros(rows, int)  # one job of a person is
    current[np.cumsum(degrees) - 1 - (g.random(owners) * degrees).astype(int)] = 1
    since = g.integers(0, 60, rows)
    turn = np.argsort(np.lexsort((since, owner))) - (np.cumsum(degrees) - degrees)[owner]
    step = np.clip(12 + 4 * own + 2 * turn + g.integers(0, 2, rows), 0, 39).astype(int)
    columns = {
        "pay": (pay, Domain(40, ordered=True)),
        "shop": (shop, Domain(5)),
        "current": (current, BIT),
        "chance": (g.integers(0, 4, rows), Domain(4)),
        "rank": (pay // 8 + g.integers(0, 2, rows), Domain(6, ordered=True)),
        "place": (2 * kind[owner] + g.integers(0, 4, rows), Domain(6)),
        "since": (since, Domain(60, ordered=True)),
        "step": (step, Domain(40, ordered=True)),
    }
    jobs = rows, columns, {under("jobs", "people"): owner}
    return private_database({"people": (owners, {"kind": (kind, BIT)}, {}), "jobs": jobs})


def _alike(codes, owner, *, ordered=False):
    """Correlation of neighbours of one owner, or how much oftener than by chance they are one."""
    here, there = (codes[at].astype(float) for at in _neighbours(owner))
    if ordered:
        return float(np.corrcoef(here, there)[0, 1])
    chance = float((np.unique(here, return_counts=True)[1] ** 2).sum()) / len(here) ** 2
    return float(((here == there).mean() - chance) / (1 - chance))


def _falls(codes, name, owner):
    """How many of the neighbours in time of one owner that differ fall."""
    order = np.lexsort((codes["since"], owner))
    here, _ = _neighbours(owner[order])
    steps = np.diff(codes[name][order].astype(int))[here]
    return float((steps[steps != 0] < 0).mean())


def _neighbours(owner):
    first = np.flatnonzero(owner[1:] == owner[:-1])
    return first, first + 1


def test_rows_of_one_owner_are_as_alike_as_they_were(sample):
    data = siblings(5_000)
    made = sample(data, seed=3)
    owner, jobs = made["jobs"].parents["people"], made["jobs"].codes
    key = data.spec.tables["jobs"].key("people")
    for name, ordered in {"pay": True, "rank": True, "shop": False, "current": False}.items():
        real = _alike(data._codes("jobs", name)[0], data._parents(key), ordered=ordered)
        assert abs(real) > 0.1
        assert _alike(jobs[name], owner, ordered=ordered) / real > 2 / 3, name
    assert abs(_alike(jobs["chance"], owner)) < 0.03
    falls = {name: _falls(jobs, name, owner) for name in ("step", "pay", "chance")}
    assert falls["step"] < 0.25
    assert all(0.42 < falls[name] < 0.58 for name in ("pay", "chance")), falls
    # What columns have to do with each other, and with those of owners, stays.
    assert np.corrcoef(jobs["pay"], jobs["rank"])[0, 1] > 0.8
    assert np.corrcoef(made["people"].codes["kind"][owner], jobs["place"])[0, 1] > 0.6


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_degrees_of_one_owner_go_together_as_they_did(accounting, sample):
    """Few owners have rows in either of two tables, and those who have many have many of both."""
    owners, g = 5000, np.random.default_rng(1)
    shared, edges, tables = g.standard_normal(owners), {}, {}
    for name in ("visits", "orders"):
        logs = 0.95 * shared + np.sqrt(1 - 0.95**2) * g.standard_normal(owners)
        degrees = np.where(logs > 1.3, g.poisson(np.exp(2.5 * (logs - 1.0))), 0)
        edges[name] = np.repeat(np.arange(owners), degrees)
        bits = {"state": (np.arange(len(edges[name])) % 2, BIT)}
        tables[name] = len(edges[name]), bits, {under(name, "people"): edges[name]}
    tables["people"] = owners, {"x": (np.arange(owners) % 4, Domain(4))}, {}
    drawn = sample(private_database(tables), 3.2, accounting, seed=3)
    made = {name: drawn[name].parents["people"] for name in edges}
    found = []
    for owned in (edges, made):
        one, other = (np.bincount(owned[name], minlength=owners + 200) for name in edges)
        cosine = (one * other).sum() / np.sqrt(float((one**2).sum()) * float((other**2).sum()))
        found.append((cosine, ((one > 0) & (other > 0)).sum()))
    ratios = np.log(np.array(found[1]) / np.array(found[0]))
    assert (np.abs(ratios) < (0.35, 0.3)).all(), ratios


def _set(*path):
    """A change of the header: the last of the path is put where the others lead.

    A text leads to the table or the item of that name, or to a field.
    """
    *steps, last, value = path

    def change(head, held):
        for step in steps:
            if isinstance(head, list) and isinstance(step, str):
                head = next(item for item in head if item["name"] == step)
            else:
                head = head[step]
        head[last] = value(head) if callable(value) else value

    return change


def _array(name, change):
    return lambda head, held: held.update({name: change(held[name])})


def _first(value):
    return lambda array: np.append(value, array[1:])


def _many_groups(head, held):
    size = 10**6
    held["table/0/0/groups"] = np.arange(size)
    held["table/0/0/shares"] = np.full(size, 1 / size)
    held["table/0/0/table"] = np.full((1, size), 1 / size)


def _with_sets(column, scope):
    """Sets of a column (None: the first) of the first table, whose owners a column leads to."""

    def change(head, held):
        table = head["tables"][0]
        name = column or table["columns"][0]
        table["sets"] = [[name, -0.5, 2, scope]]
        held[f"table/0/sets/{name}"] = np.zeros((2, 2))

    return change


#: An OWN key of users into what they own.
_LOOP = {"name": "loop", "parent": "profiles", "role": "own", "nullable": False, "unique": True}

#: What is wrong with a model, and the change of its header or arrays that makes it so.
FAULTS = {
    "owners after what they own": lambda head, held: head["tables"].reverse(),
    "no numbers of children": _set("tables", "users", "columns", 2, "else"),
    "a column beyond the table": _set("tables", "orders", "factors", 0, "column", 99),
    "a likeness above 1": _set("tables", "orders", "factors", 0, "likeness", 1.5),
    "a drift along nothing": _set("tables", "orders", "factors", 0, "drift", 0.5),
    "a likeness that is no number": _set(
        "tables", "orders", "factors", 0, "likeness", float("nan")
    ),
    "a column twice": _set(
        "tables", "users", "factors", 0, lambda f: {**f[0], "column": f[1]["column"]}
    ),
    "a parent that comes later": _set(
        "tables", "users", "factors", 0, lambda f: {**f[0], "parents": [f[-1]["column"]]}
    ),
    "another number of cells": _set("tables", "users", "cells", 0, 4),
    "a table that owns its owner": _set("tables", "users", "keys", [_LOOP]),
    "a key to no table": _set("tables", "orders", "keys", 1, "parent", "x"),
    "a key without a parent": lambda head, held: head["tables"][0]["keys"].append({"name": "k"}),
    "an unknown role": _set("tables", "orders", "keys", 0, "role", "root"),
    "a size that is no number": _set("tables", "users", "rows", float("nan")),
    "no references": _set("references", []),
    "a column that no score has": _set("references", 0, "columns", 0, 0, "else"),
    "sets of no column": _with_sets("else", 0),
    "sets of owners that are drawn later": _with_sets(None, 99),
    "a negative share": _array("table/0/0/shares", _first(-1.0)),
    "shares that sum to more than 1": _array("table/0/0/shares", _first(5.0)),
    "a group beyond the table": _array("table/0/0/groups", _first(10**6)),
    "a million groups": _many_groups,
    "a text for a number": _array("table/0/0/table", lambda array: np.array([["x"]])),
    "shares that sum to 2": _array("reference/0/fan-in", lambda array: 2 * array),
    "ends that do not rise": _array("reference/0/ends0", lambda array: 0 * array),
    "an infinite factor": _array("reference/0/logs0", _first(np.inf)),
    "a correlation above 1": _array("table/2/degrees/sizes", _first(2.0)),
    "degrees that are joined twice": _array("table/2/degrees/columns", lambda array: 0 * array),
    "degrees beyond the table": _array("table/2/degrees/columns", lambda array: array + 99),
    "no matrix of correlations": lambda head, held: held.pop("table/2/degrees/presences"),
    "an array that is missing": lambda head, held: held.pop("table/0/0/shares"),
}


def test_damaged_models_and_endless_scales_are_refused(shop, begin):
    model = fit(begin(shop(300), 80.0), PUBLIC)
    header, arrays = model.to_state()
    text = json.dumps(header)
    assert GraphicalSynthesizer.load(json.loads(text), arrays).sample(1.0, 1)["users"].rows
    for fault, spoil in FAULTS.items():
        damaged, parts = json.loads(text), {name: held.copy() for name, held in arrays.items()}
        spoil(damaged, parts)
        with pytest.raises(ModelError):
            pytest.fail(f"{fault}: {GraphicalSynthesizer.load(damaged, parts)}")
    for scale in (1e15, 0.0, float("inf")):
        with pytest.raises(ModelError):
            model.sample(scale, 1)


def test_a_factor_of_more_cells_than_are_learned_is_refused():
    wide, pair = np.arange(256), np.arange(2)
    first, second = (Factor.alone(place, np.full(256, 1 / 256)) for place in range(2))
    large = Factor(2, (0, 1), (wide, wide), pair, np.full((256**2, 2), 0.5), np.full(2, 0.5))
    with pytest.raises(ModelError, match="more cells than any that is learned"):
        TableModel.from_state(*TableModel((first, second, large)).to_state(), 3)


def _joint(drawn, size):
    return np.bincount(drawn["x"] * size + drawn["y"], minlength=size * size) / len(drawn["x"])


def test_many_tilts_do_not_let_a_few_rows_stand_for_all_others():
    # Six columns that determine each other: the multipliers of one value add up to e¹⁸ : e⁻¹⁸.
    cells = np.arange(6_000) % 1_000
    tilts = [Tilt((place,), (np.arange(1_000),), np.linspace(-3, 3, 1_000)) for place in range(6)]
    few, many = (weights_of(tilts[:n], dict.fromkeys(range(6), cells), 6_000) for n in (1, 6))
    assert np.allclose(few / few[0], np.exp(tilts[0].multipliers[cells] + 3))
    assert many.sum() ** 2 >= EFFECTIVE * 6_000 * (many**2).sum()
    assert (np.diff(many[:1_000]) > 0).all()


def test_a_measured_pair_that_no_factor_holds_is_met_by_tilting():
    shares, groups = np.full(4, 0.25), np.arange(4)
    factors = tuple(Factor.alone(place, shares) for place in range(2))
    counts = 4_000 * (0.6 * np.eye(4) / 4 + 0.4 / 16)
    pair = Tilt((0, 1), (groups, groups), np.zeros((4, 4))), Measured(None, counts, 5.0)
    pool = TableModel(factors).sample({}, 8_000, np.random.default_rng(2))
    tilts = tilts_for([pair], pool, 8_000, 4_000.0)
    state = TableModel(factors, tilts=tilts).to_state()
    model = TableModel.from_state(*state, 2)
    drawn = herding.sample(model, [4, 4], 4_000, np.random.default_rng(3))
    held = _joint({"x": drawn[0], "y": drawn[1]}, 4).reshape(4, 4)
    assert held == pytest.approx(counts / 4_000, abs=0.02)
    for name, damage in (
        ("multipliers", lambda array: np.full_like(array, np.nan)),
        ("multipliers", lambda array: array + 1e3),
        ("multipliers", lambda array: array[1:]),
        ("groups0", lambda array: array + 300),
    ):
        broken = {**state[1], f"tilt0/{name}": damage(state[1][f"tilt0/{name}"])}
        with pytest.raises(ModelError, match="damaged"):
            TableModel.from_state(state[0], broken, 2)
    for columns in ([0], [0, 0], [0, 2], [0, 1, 1]):
        with pytest.raises((ModelError, KeyError)):
            TableModel.from_state({**state[0], "tilts": [{"columns": columns}]}, state[1], 2)


def test_many_rows_that_own_nothing_are_drawn_later_and_follow_their_owners(begin):
    kind = np.arange(2_000) % 2
    owners = np.append(np.repeat(np.arange(2_000), 6), np.full(1_000, -1))
    size = np.where(owners < 0, 2, kind[owners])
    key = KeySpec("of", "b", "a", "own", nullable=True)
    tables = {
        "a": (len(kind), {"kind": (kind, BIT)}, {}),
        "b": (len(owners), {"size": (size, Domain(3, True))}, {key: owners}),
    }
    model = fit(begin(private_database(tables), noise="none"))
    drawn = model.sample(50.0, 7)
    found = drawn["b"].codes
    assert isinstance(found, Parts)
    for rows, part in found.parts():
        edges = drawn["b"].parents["of"][rows]
        expected = np.where(edges < 0, 2, drawn["a"].codes["kind"][np.maximum(edges, 0)])
        assert (part["size"] == expected).mean() > 0.97
    again = model.sample(50.0, 7)["b"].codes["size"]
    assert (again == found["size"]).all()


@pytest.mark.parametrize("target", ["orders.state", "kind"])
@pytest.mark.parametrize("epsilon", [2.0, 8.0])
def test_a_targets_pairs_with_all_other_columns_are_measured(target, epsilon, shop, begin):
    session, totals, amount = begin(shop(3000), epsilon)
    learner, before = GraphicalSynthesizer({"target": target}), len(session.trace)
    spec, name = session.spec, target.split(".")[-1]
    table = next(key for key, held in spec.tables.items() if name in held.attributes)
    start = PlanInput.of(session, totals, amount, PUBLIC)
    planned = {event.label for event in learner.plan(spec, start)}
    model = learner.fit(session, totals, amount, PUBLIC)
    events = [step.event for step in session.trace[before:]]
    assert {event.label for event in events} <= planned
    pairs = {event.columns for event in events if event.label == f"pair of {table}"}
    others = {
        other
        for other, domain in spec.tables[table].attributes.items()
        if other != name and not domain.filler
    }
    assert others <= {other for pair in pairs if name in pair for other in pair}
    assert session.spent <= session.amount_total
    assert model.sample(0.1, 1)["orders"].rows > 0


def test_a_target_that_is_nowhere_costs_nothing(shop, begin):
    session, totals, amount = begin(shop(200), 1.0)
    spent, learner = session.spent, GraphicalSynthesizer({"target": "salary"})
    with pytest.raises(ConfigError, match="no modelled column"):
        learner.fit(session, totals, amount, PUBLIC)
    with pytest.raises(ConfigError, match="no modelled column"):
        learner.plan(session.spec, PlanInput(amount, "pure", totals))
    assert session.spent == spent


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("roots", [0, 1])
def test_a_target_of_a_table_without_rows_ends_no_fit(roots, nullable, begin):
    key = KeySpec("k", "b", "a", "own", nullable)
    none = np.zeros(0, np.int64)
    columns = {"c": (none, Domain(2)), "d": (none, Domain(3))}
    tables = {"a": (roots, {}, {}), "b": (0, columns, {key: none})}
    session, totals, amount = begin(private_database(tables), 1e4, "zcdp")
    model = GraphicalSynthesizer({"target": "b.c"}).fit(session, totals, amount)
    assert model.sample(1.0, 1)["b"].rows == 0
