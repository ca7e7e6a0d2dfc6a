"""Whole fits of rows that own rows: which of them do is learned from these among themselves."""

from __future__ import annotations

import numpy as np
import pytest
from privbench.synthesizers.junction import JunctionSynthesizer
from privbench.synthesizers.junction_parents import parents_part

from privbench.domain import Domain
from privbench.privacy import DatabaseSpec, KeySpec, TableSpec
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable
from privbench.synthesizers.base import PlanInput

USERS = 3000


def forum() -> PrivateDatabase:
    """Notes of five kinds; links hang on every tenth note of the last kind, and on no other."""
    g = np.random.default_rng(2)
    owners = np.repeat(np.arange(USERS), g.integers(1, 12, USERS))
    kind = g.choice(5, len(owners), p=[0.4, 0.2, 0.1, 0.1, 0.2])
    owning = np.flatnonzero((kind == 4) & (g.random(len(owners)) < 0.1))
    notes = {
        "kind": Cells(kind, Domain(5)),
        "mood": Cells(g.integers(0, 4, len(owners)), Domain(4)),
        "size": Cells(np.minimum(kind + g.integers(0, 3, len(owners)), 6), Domain(7, True)),
    }
    tables = {
        "users": PrivateTable(USERS, {"age": Cells(g.integers(0, 4, USERS), Domain(4))}, {}),
        "notes": PrivateTable(len(owners), notes, {"user": owners}),
        "links": PrivateTable(2 * len(owning), {}, {"note": np.repeat(owning, 2)}),
    }
    keys = {
        "notes": (KeySpec("user", "notes", "users", "own"),),
        "links": (KeySpec("note", "links", "notes", "own"),),
    }
    specs = {name: TableSpec(name, {}, keys.get(name, ())) for name in tables}
    return PrivateDatabase(DatabaseSpec(specs), tables)


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_rows_that_own_rows_are_of_the_right_kind(accounting, begin):
    right = []
    for seed in (1, 2, 3, 4, 5):
        session, totals, amount = begin(forum(), 3.0, accounting, noise=seed)
        made = JunctionSynthesizer().fit(session, totals, amount).sample(1.0, seed).tables
        asked = [step.query for step in session.trace if step.event.label.startswith("parents")]
        assert len(asked) == 3
        assert all(query.region is not None and query.tau == 1 for query in asked)
        right.append(np.mean(made["notes"].codes["kind"][made["links"].parents["note"]] == 4))
    assert np.median(right) > 0.7


def test_plan_names_them_where_a_unit_may_own_several():
    data = forum()
    assert parents_part(data.spec, "notes") > 0
    assert parents_part(data.spec, "users") == parents_part(data.spec, "links") == 0
    totals = {"users": 3000.0, "notes": 18_000.0, "links": 700.0}
    planned = JunctionSynthesizer().plan(data.spec, PlanInput(3.0, "pure", totals, {}, {}))
    labels = [event.label for event in planned if event.label.startswith("parents")]
    assert labels == [f"parents {number} of links.note" for number in (1, 2, 3)]


def shop(tables: int = 1, *, all_own: bool = False) -> PrivateDatabase:
    """Orders of two pairs of attributes, one of each nearly the other's copy, and what they own.

    In each of ``tables`` tables a fifth of the orders have a row; or all have some, those of the
    last two kinds six and others one.
    """
    g = np.random.default_rng(3)
    owners = np.repeat(np.arange(1000), g.integers(1, 6, 1000))
    orders = len(owners)
    codes = {}
    for name in ("kind", "mood"):
        codes[name] = g.integers(0, 4, orders)
        other = g.integers(0, 4, orders)
        codes[f"{name}2"] = np.where(g.random(orders) < 0.85, codes[name], other)
    held = {
        "users": PrivateTable(1000, {"age": Cells(g.integers(0, 4, 1000), Domain(4))}, {}),
        "orders": PrivateTable(
            orders, {name: Cells(of, Domain(4)) for name, of in codes.items()}, {"user": owners}
        ),
    }
    keys = {"orders": (KeySpec("user", "orders", "users", "own"),)}
    for number in range(tables):
        name = f"items{number}"
        some = np.flatnonzero(g.random(orders) < 0.2)
        if all_own:
            some = np.repeat(np.arange(orders), np.where(codes["kind"] > 1, 6, 1))
        held[name] = PrivateTable(len(some), {}, {"order": some})
        keys[name] = (KeySpec("order", name, "orders", "own"),)
    specs = {name: TableSpec(name, {}, keys.get(name, ())) for name in held}
    return PrivateDatabase(DatabaseSpec(specs), held)


def test_pairs_of_attributes_are_found_whatever_the_rows_own(begin):
    same = []
    for seed in (1, 2, 3):
        session, totals, amount = begin(shop(4), 10.0, noise=seed)
        tables = JunctionSynthesizer().fit(session, totals, amount).sample(1.0, seed).tables
        made = tables["orders"].codes
        same += [np.mean(made[name] == made[f"{name}2"]) for name in ("kind", "mood")]
    assert np.median(same) > 0.7


def test_where_all_rows_own_some_it_is_told_how_many(begin):
    means = []
    for seed in (1, 2, 3):
        session, totals, amount = begin(shop(1, all_own=True), 10.0, noise=seed)
        made = JunctionSynthesizer().fit(session, totals, amount).sample(1.0, seed).tables
        orders = made["orders"].codes["kind"]
        children = np.bincount(made["items0"].parents["order"], minlength=len(orders))
        means.append([children[orders < 2].mean(), children[orders > 1].mean()])
        assert not [step for step in session.trace if step.event.label.startswith("parents")]
        assert 0.95 * session.amount_total < session.spent <= (1 + 1e-9) * session.amount_total
    few, many = np.median(means, axis=0)
    assert many > 3.0 * few


def test_numbers_of_children_come_out_however_many_attributes_there_are(begin):
    g = np.random.default_rng(1)
    owners = np.repeat(np.arange(4000), g.integers(0, 8, 4000))
    notes = len(owners)
    sizes = [(12, 4)[number % 2] for number in range(60)]
    codes = {
        f"a{number}": Cells(g.integers(0, size, notes), Domain(size, size == 12))
        for number, size in enumerate(sizes)
    }
    users = {"u": Cells(g.integers(0, 4, 4000), Domain(4))}
    tables = {
        "users": PrivateTable(4000, users, {}),
        "notes": PrivateTable(notes, codes, {"user": owners}),
    }
    keys = {"notes": (KeySpec("user", "notes", "users", "own"),)}
    for name in (f"items{number}" for number in range(8)):
        some = np.repeat(np.flatnonzero(g.random(notes) < 0.1), 2)
        tables[name] = PrivateTable(len(some), {}, {"note": some})
        keys[name] = (KeySpec("note", name, "notes", "own"),)
    specs = {name: TableSpec(name, {}, keys.get(name, ())) for name in tables}
    session, totals, amount = begin(PrivateDatabase(DatabaseSpec(specs), tables), 30.0, noise=3)
    made = JunctionSynthesizer().fit(session, totals, amount).sample(1.0, 1).tables
    found = [made[name].rows / totals[name] for name in keys if name != "notes"]
    assert sorted(found)[1] > 0.5
