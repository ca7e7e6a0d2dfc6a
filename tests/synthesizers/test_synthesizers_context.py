"""Whole fits of tables that hang together: what owners, siblings and targets tell of a row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from privbench.domain import Domain
from privbench.errors import ModelError
from privbench.learning.fanlaw import Ints
from privbench.learning.synthetic import SyntheticDatabase
from privbench.privacy import (
    Accountant,
    DatabaseSpec,
    KeySpec,
    Relation,
    SeededNoise,
    TableSpec,
    open_session,
)
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable
from privbench.privacy.queries import Total
from privbench.privacy.stability import check
from privbench.synthesizers.junction import JunctionSynthesizer
from privbench.synthesizers.junction_model import JunctionModel

USERS = 1500
#: Orders without a user have a state of their own.
ALONE = 3


@dataclass(frozen=True)
class Rows:
    """Rows of all tables: codes and edges by table and name."""

    counts: Mapping[str, int]
    codes: Mapping[tuple[str, str], Ints]
    edges: Mapping[tuple[str, str], Ints]


def copied(g, values, share, size):
    """Values, exchanged at random but for a share."""
    return np.where(g.random(len(values)) < share, values, g.integers(0, size, len(values)))


def make_rows(users: int, seed: int = 1) -> Rows:
    """Users own orders and visits, orders own items; what they own copies them.

    Users of kind 2 own nothing. Users of many orders are in a rush. A user's numbers of orders and
    visits grow together. Orders refer to orders, most of them in their own unit; visits to
    products, nearly always of kind 2.
    """
    g = np.random.default_rng(seed)
    kind = g.choice(3, users, p=[0.4, 0.35, 0.25])
    busy = np.where(kind == 2, 0.0, g.lognormal(0.0, 0.8, users))
    owners = np.repeat(np.arange(users), g.poisson(2.0 * busy))
    orphans = users // 5
    owners = np.concatenate([owners, np.full(orphans, -1)])
    orders = len(owners)
    state = np.where(owners >= 0, copied(g, kind[owners], 0.9, 2), ALONE)
    siblings = np.where(owners >= 0, np.bincount(owners[owners >= 0], minlength=users)[owners], 0)
    order = np.repeat(np.arange(orders), g.integers(0, 4, orders))
    visitor = np.repeat(np.arange(users), g.poisson(2.0 * busy))
    products = max(users, 4)
    sort = np.arange(products) % 4
    wanted = np.flatnonzero(sort == 2)
    visits = len(visitor)
    to = np.where(g.random(visits) < 0.9, g.choice(wanted, visits), g.integers(0, products, visits))
    counts = {"users": users, "orders": orders, "items": len(order), "visits": visits}
    return Rows(
        {**counts, "products": products},
        {
            ("users", "kind"): kind,
            ("users", "age"): kind * 10 + g.integers(0, 10, users),
            ("orders", "state"): state,
            ("orders", "rush"): np.where(g.random(orders) < np.where(siblings > 3, 0.9, 0.2), 1, 0),
            ("items", "size"): copied(g, state[order], 0.9, 4),
            ("visits", "page"): copied(g, kind[visitor], 0.5, 3),
            ("products", "sort"): sort,
        },
        {
            ("orders", "user"): owners,
            ("orders", "reply"): replies(g, owners),
            ("items", "order"): order,
            ("visits", "user"): visitor,
            ("visits", "product"): to,
        },
    )


def replies(g, owners) -> Ints:
    """References of orders: 0.4 none, 0.4 to an order of the same unit, 0.2 to any."""
    orders = len(owners)
    key = np.where(owners >= 0, owners, orders + np.arange(orders))
    sorting = np.argsort(key, kind="stable")
    first = np.searchsorted(key[sorting], key, side="left")
    size = np.searchsorted(key[sorting], key, side="right") - first
    inside = sorting[first + np.floor(g.random(orders) * size).astype(int)]
    way = g.choice(3, orders, p=[0.4, 0.4, 0.2])
    return np.where(way == 0, -1, np.where(way == 1, inside, g.integers(0, orders, orders)))


DOMAINS = {
    ("users", "kind"): Domain(3),
    ("users", "age"): Domain(30, ordered=True),
    ("orders", "state"): Domain(4),
    ("orders", "rush"): Domain(2),
    ("items", "size"): Domain(4),
    ("visits", "page"): Domain(3),
    ("products", "sort"): Domain(4),
}
KEYS = {
    "users": (),
    "products": (),
    "orders": (
        KeySpec("user", "orders", "users", "own", nullable=True),
        KeySpec("reply", "orders", "orders", "ref", nullable=True),
    ),
    "items": (KeySpec("order", "items", "orders", "own"),),
    "visits": (
        KeySpec("user", "visits", "users", "own"),
        KeySpec("product", "visits", "products", "ref"),
    ),
}


def database(rows: Rows, neighbours="add-remove", truncated=()) -> PrivateDatabase:
    specs = {
        name: TableSpec(name, {}, keys, "truncation" if name in truncated else "weights", tau=3)
        for name, keys in KEYS.items()
    }
    tables = {
        name: PrivateTable(
            rows.counts[name],
            {at[1]: Cells(held, DOMAINS[at]) for at, held in rows.codes.items() if at[0] == name},
            {at[1]: held for at, held in rows.edges.items() if at[0] == name},
        )
        for name in KEYS
    }
    return PrivateDatabase(DatabaseSpec(specs, Relation(neighbours)), tables)


def fit(data, folder, epsilon, accounting="pure"):
    accountant = Accountant(accounting, epsilon, 1e-9 if accounting == "zcdp" else 0.0)
    session = open_session(data, accountant, folder, "shop", noise=SeededNoise(1))
    each = 0.05 * session.amount_total / len(KEYS)
    totals = {
        name: max(float(session.measure(Total(name), each, f"total of {name}")[0]), 1.0)
        for name in KEYS
    }
    return JunctionSynthesizer().fit(session, totals, 0.95 * session.amount_total), session


def rows_of(made: SyntheticDatabase) -> Rows:
    return Rows(
        {name: table.rows for name, table in made.tables.items()},
        {at: made.tables[at[0]].codes[at[1]].astype(int) for at in DOMAINS},
        {
            (name, key.name): made.tables[name].parents[key.name]
            for name, keys in KEYS.items()
            for key in keys
        },
    )


@pytest.fixture(scope="module")
def real() -> Rows:
    return make_rows(USERS)


@pytest.fixture(scope="module")
def model(real, tmp_path_factory):
    return fit(database(real), tmp_path_factory.mktemp("fit"), 300.0)[0]


@pytest.fixture(scope="module")
def made(model) -> Rows:
    return rows_of(model.sample(1.0, 7))


def given_owner(rows: Rows, child, key, parent) -> np.ndarray:
    """Law of a child's attribute given its owner's, shape (parent's codes, child's codes)."""
    edges = rows.edges[child[0], key]
    owned = edges >= 0
    table = np.zeros((DOMAINS[parent].size, DOMAINS[child].size))
    np.add.at(table, (rows.codes[parent][edges[owned]], rows.codes[child][owned]), 1)
    return table


def fans(rows: Rows, table, key, parent):
    edges = rows.edges[table, key]
    return np.bincount(edges[edges >= 0], minlength=rows.counts[parent])


def rank(values):
    return np.argsort(np.argsort(values, kind="stable"), kind="stable")


@pytest.mark.parametrize(
    ("child", "key", "parent"),
    [
        (("orders", "state"), "user", ("users", "kind")),
        (("visits", "page"), "user", ("users", "kind")),
        (("items", "size"), "order", ("orders", "state")),
    ],
    ids=str,
)
def test_rows_copy_what_their_owners_are(child, key, parent, real, made):
    before, after = (given_owner(side, child, key, parent) for side in (real, made))
    before, after = before / before.sum(), after / after.sum()
    apart = np.outer(before.sum(axis=1), before.sum(axis=0))
    assert np.abs(before - apart).sum() > 0.2
    assert np.abs(after - before).sum() < 0.25 * np.abs(before - apart).sum()


def test_grandchildren_follow_their_owners_owner(real, made):
    shares = []
    for rows in (real, made):
        user = rows.edges["orders", "user"][rows.edges["items", "order"]]
        owned = user >= 0
        kind = rows.codes["users", "kind"][user[owned]]
        shares.append(np.mean(rows.codes["items", "size"][owned] == kind))
    assert shares[0] > 0.7
    assert shares[1] == pytest.approx(shares[0], abs=0.06)


def test_rows_of_heavy_owners_are_unlike_others(real, made):
    for rows, off in ((real, 0.05), (made, 0.12)):
        owners = rows.edges["orders", "user"]
        siblings = fans(rows, "orders", "user", "users")[owners]
        rush = rows.codes["orders", "rush"]
        assert rush[(owners >= 0) & (siblings > 4)].mean() == pytest.approx(0.9, abs=off)
        assert rush[(owners >= 0) & (siblings < 3)].mean() == pytest.approx(0.2, abs=off)


def test_owners_without_children_own_nothing(real, made):
    """Users of kind 2 are no owners, though they are a quarter of all."""
    assert (real.codes["users", "kind"] == 2).mean() == pytest.approx(0.25, abs=0.05)
    for table in ("orders", "visits"):
        for rows, most in ((real, 0.0), (made, 0.02)):
            children = fans(rows, table, "user", "users")
            idle = rows.codes["users", "kind"] == 2
            assert (children[idle] > 0).mean() <= most
        none = [(fans(rows, table, "user", "users") == 0).mean() for rows in (real, made)]
        assert none[1] == pytest.approx(none[0], abs=0.05)


def together(rows: Rows) -> tuple[float, float]:
    """Correlation of numbers of orders and visits of users with some, and the sum of products."""
    orders, visits = (fans(rows, table, "user", "users") for table in ("orders", "visits"))
    busy = orders + visits > 0
    return float(np.corrcoef(orders[busy], visits[busy])[0, 1]), float((orders * visits).sum())


def test_numbers_of_two_kinds_of_children_stay_correlated(real, model):
    before, joined = together(real)
    draws = [together(rows_of(model.sample(1.0, seed))) for seed in range(7, 12)]
    after, rejoined = np.mean(draws, axis=0)
    assert before > 0.4
    assert after == pytest.approx(before, abs=0.12)
    assert rejoined == pytest.approx(joined, rel=0.15)


def reply_shares(rows: Rows):
    """Shares of orders that refer to none, to one of their own unit, and elsewhere."""
    owners, edges = rows.edges["orders", "user"], rows.edges["orders", "reply"]
    unit = np.where(owners >= 0, owners, rows.counts["users"] + np.arange(len(owners)))
    inside = (edges >= 0) & (unit[edges] == unit)
    return np.array([(edges < 0).mean(), inside.mean(), ((edges >= 0) & ~inside).mean()])


def test_references_stay_in_their_unit_as_often_as_they_did(real, made):
    before, after = reply_shares(real), reply_shares(made)
    assert before == pytest.approx([0.4, 0.4, 0.2], abs=0.03)
    assert after == pytest.approx(before, abs=0.05)


def test_references_prefer_the_right_kind_of_target(real, model, made):
    pull = model.tables["visits"].keys["product"].pulls[0]
    (term,) = pull.terms
    assert term.variable == "sort"
    assert pull.factors[term.scores[2]] == pull.factors.max()
    laws = []
    for rows in (real, made):
        sort, edges = rows.codes["products", "sort"], rows.edges["visits", "product"]
        laws.append((np.mean(sort[np.unique(edges)] == 2), np.mean(sort[edges] == 2)))
    # A quarter of all products are of this sort.
    assert laws[0][0] > 0.6
    assert laws[0][1] > 0.9
    assert laws[1][0] > 0.38
    assert laws[1][1] > 0.5


def test_rows_without_an_owner_are_units_of_their_own(real, made):
    for rows in (real, made):
        alone = rows.edges["orders", "user"] < 0
        state = rows.codes["orders", "state"]
        assert alone.sum() == pytest.approx(USERS // 5, rel=0.1)
        assert (state[alone] == ALONE).mean() > 0.95
        assert (state[~alone] == ALONE).mean() < 0.02
        order = rows.edges["items", "order"]
        size = rows.codes["items", "size"][alone[order]]
        assert (size == ALONE).mean() > 0.8
        assert fans(rows, "items", "order", "orders")[alone].mean() == pytest.approx(1.5, abs=0.25)


def test_larger_databases_keep_the_law_of_every_unit(model, made):
    large = rows_of(model.sample(3.0, 8))
    assert large.counts["users"] == pytest.approx(3 * made.counts["users"], abs=2)
    for table, key, parent in (
        ("orders", "user", "users"),
        ("visits", "user", "users"),
        ("items", "order", "orders"),
    ):
        laws = [
            np.bincount(np.minimum(fans(rows, table, key, parent), 12), minlength=13)
            / rows.counts[parent]
            for rows in (made, large)
        ]
        assert np.abs(laws[0] - laws[1]).sum() < 0.08, table
    alone = [(rows.edges["orders", "user"] < 0).sum() for rows in (made, large)]
    assert alone[1] == pytest.approx(3 * alone[0], rel=0.02)


def test_models_round_trip(model, made):
    header, arrays = model.to_state()
    again = JunctionModel.from_state(json.loads(json.dumps(header)), arrays)
    other = rows_of(again.sample(1.0, 7))
    assert all(np.array_equal(held, other.codes[at]) for at, held in made.codes.items())
    assert all(np.array_equal(held, other.edges[at]) for at, held in made.edges.items())


def part(header, table):
    return next(state for state in header["tables"] if state["name"] == table)


def given_of(header):
    """What is given to items: level, name and number of codes of every column."""
    return part(header, "items")["law"]["given"]


def key_of(header, table, name):
    return next(key for key in part(header, table)["keys"] if key["name"] == name)


def other_domain(header):
    """Pulls that know two kinds of products, of which there are four."""
    key = key_of(header, "visits", "product")
    key["pulls"][0].update(of=[0, 1], factors=[0.5, 0.5])


TWO = {"starts": [0, 1], "ends": [0, 1], "mass": [0.5, 0.5], "exponents": [0.0, 0.0]}
FAULTS = {
    "unknown variable": lambda h: given_of(h)[0].__setitem__(1, "nothing"),
    "variable of another table": lambda h: given_of(h)[0].__setitem__(1, "sort"),
    "variable of another level": lambda h: given_of(h)[0].__setitem__(1, "kind"),
    "variable of other codes": lambda h: given_of(h)[0].__setitem__(1, given_of(h)[1][1]),
    "no such level": lambda h: part(h, "items")["keys"][0].update(parent="products"),
    "no owner": lambda h: part(h, "items")["keys"].clear(),
    "pull of other codes": other_domain,
    "fan-out of other buckets": lambda h: key_of(h, "orders", "user").update(law=TWO),
    "unknown owner": lambda h: key_of(h, "orders", "user").update(parent="nobody"),
    "cycle": lambda h: key_of(h, "orders", "user").update(parent="items"),
    "itself": lambda h: key_of(h, "orders", "user").update(parent="orders"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_models_whose_parts_do_not_fit_are_refused(fault, model):
    header, arrays = model.to_state()
    header = json.loads(json.dumps(header))
    FAULTS[fault](header)
    with pytest.raises(ModelError):
        JunctionModel.from_state(header, arrays)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("truncated", [(), ("visits", "items")], ids=["weights", "truncation"])
def test_every_claim_of_a_fit_holds_on_every_neighbour(neighbours, truncated, tmp_path):
    data = database(make_rows(60), neighbours, truncated)
    _, session = fit(data, tmp_path, 3000.0)
    asked = [step.query for step in session.trace]
    kinds = {query.kind for query in asked}
    assert {"pair scores", "histogram", "fan-out", "fan-in"} <= kinds
    labels = [step.event.label for step in session.trace]
    assert any("fan-outs" in label for label in labels)
    assert any("targets" in label for label in labels)
    assert any("items" in label and "pair" in label for label in labels)
    report = check(asked, data, every=True)
    assert report.ok, report.violations[:5]
    assert report.neighbours > 60
    assert report.worst_ratio > 0.9
