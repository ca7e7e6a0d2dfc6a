"""Tables in which few of the units that may have rows do: what they need, and what is asked."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import psycopg
import pytest

from privbench.config import Config
from privbench.encoding import Bounds, BoundsNeed, CategoriesNeed
from privbench.pipeline.domain_modes import Mode, expected, is_clear, mode_epsilons
from privbench.pipeline.domain_shares import Shares
from privbench.pipeline.domain_weights import Count, Weights, weight_amounts, weight_questions
from privbench.pipeline.fit import STAGES, begin
from privbench.pipeline.planning import plan as plan_fit
from privbench.pipeline.progress import Reporter
from privbench.privacy import DatabaseSpec, Relation
from privbench.privacy.queries import Total
from privbench.privacy.spec import KeySpec, TableSpec

UNITS, WRITERS, EACH = 4000, 400, 6


def ranged(name):
    return BoundsNeed(name, np.arange(9), Bounds(0, 100, seen=False), dear=False)


def owned(name, parent, *, unique=False):
    return TableSpec(name, {}, (KeySpec("k", name, parent, "own", unique=unique),))


def planned(tables, needs):
    """What the rules read of a plan: the forest, and needs by table."""
    private = [
        SimpleNamespace(
            table=SimpleNamespace(key=name),
            readers={need.attribute: SimpleNamespace(needs=(need,)) for need in needs[name]},
        )
        for name in tables
    ]
    return SimpleNamespace(
        private=private, spec=DatabaseSpec(tables, Relation("add-remove", "owner"))
    )


@pytest.fixture
def forest():
    tables = {
        "user": TableSpec("user", {}, ()), "profile": owned("profile", "user", unique=True),
        "order": owned("order", "user"), "item": owned("item", "order"),
    }  # fmt: skip
    needs = {
        "user": [CategoriesNeed("kind", dear=True)], "profile": [ranged("age")],
        "order": [ranged("sum"), ranged("fee"), CategoriesNeed("state", dear=True)],
        "item": [ranged("price")],
    }  # fmt: skip
    return planned(tables, needs)


def test_units_of_owned_tables_are_counted_those_of_one_row_are_known(forest):
    totals = {"user": 2000.0, "profile": 700.0, "order": 5000.0, "item": 9000.0}
    amounts = weight_amounts(forest, totals, 0.6, "pure")
    assert list(amounts) == ["order", "item"]
    assert sum(amounts.values()) <= 0.06
    assert all(10.0 <= 2000.0 * amount <= 200.0 for amount in amounts.values())
    asked = [question.query for question in weight_questions(forest.spec, amounts)]
    assert asked == [Total("order", 2), Total("item", 2)]
    assert Weights.of(forest.spec, totals).weights["profile"] == 700.0


def test_few_units_are_not_counted_and_many_for_little(forest):
    few, many = dict.fromkeys(forest.spec.tables, 50.0), dict.fromkeys(forest.spec.tables, 1e6)
    assert weight_amounts(forest, few, 0.6, "pure") == {}
    assert sum(weight_amounts(forest, many, 0.6, "pure").values()) == pytest.approx(4e-4)
    # Where there is enough for one, the table of most columns is counted.
    some = dict.fromkeys(forest.spec.tables, 200.0)
    assert list(weight_amounts(forest, some, 0.6, "pure")) == ["order"]


def weighed(plan, found):
    totals = dict.fromkeys(plan.spec.tables, 2000.0)
    return Weights.of(plan.spec, totals).told(plan.spec, dict.fromkeys(found, 0.01), found)


def test_what_few_units_need_is_paid_or_left_out(forest):
    """Ranges of 200 units get ten times as much; a list that they cannot afford harms nobody."""
    weights = weighed(forest, {"order": Count(200.0, 40.0), "item": Count(20.0, 40.0)})
    assert weights.thin == {"order", "item"}
    assert weights.weights["item"] == 0.0
    shares = Shares.of(forest, weights, 0.4, "pure", 1e-9, {})
    seen = {name: weights.weights[name.split("\x1f")[0]] * e for name, e in shares.amounts.items()}
    assert set(seen) == {"user\x1fkind", "profile\x1fage", "order\x1fsum", "order\x1ffee"}
    assert all(scales >= 12.0 for scales in seen.values())
    # As before where all have rows.
    plain = Shares.of(forest, weighed(forest, {}), 0.4, "pure", 1e-9, {})
    assert 200.0 * plain.amounts["order\x1fsum"] < 12.0


def test_a_list_that_few_units_share_is_asked_if_there_is_room(forest):
    weights = weighed(forest, {"order": Count(400.0, 40.0)})
    modes = {"order\x1fstate": Mode(300.0, 40.0)}
    shares = Shares.of(forest, weights, 0.6, "pure", 1e-9, modes)
    assert "order\x1fstate" in shares.amounts


@pytest.mark.parametrize(("tau", "units"), [(1, 94.0), (2, 94.0), (8, 376.0), (64, 2000.0)])
def test_lists_count_units_whatever_their_rows_weigh(forest, tau, units):
    """Two rows each of 2,000 units weigh little where τ is large, and share labels all the same."""
    tables = {
        name: replace(table, tau=tau) if table.own else table
        for name, table in forest.spec.tables.items()
    }
    spec = replace(forest.spec, tables=tables)
    known = Weights.of(spec, dict.fromkeys(tables, 2000.0))
    weights = known.told(spec, {"order": 0.01}, {"order": Count(94.0, 20.0)})
    assert weights.weights["order"] == 94.0
    assert weights.units["order"] == units
    assert weights.units["user"] == 2000.0
    lists = {"order\x1fstate": ("order", CategoriesNeed("state", dear=True))}
    found = mode_epsilons(lists, spec, weights.units, 0.2)
    assert bool(found) == (units * 0.2 > 40.0)
    needs = {name: [lists["order\x1fstate"][1]] if name == "order" else [] for name in tables}
    wide = planned(tables, needs)
    shares = Shares.of(wide, weights, 0.5, "pure", 1e-9, {})
    assert bool(shares.amounts) == (units == 2000.0)


def test_labels_of_equal_share_are_seen_for_sure_where_there_is_plenty(forest):
    """Of 24 names that as many units bear each, none is shared by many; all are asked for."""
    lists = {"user\x1fname": ("user", CategoriesNeed("name", own=True))}
    units = {"user": 3000.0}
    (epsilon,) = mode_epsilons(lists, forest.spec, units, 100.0).values()
    mode = Mode(3000.0 / 24, 2**0.5 / epsilon)
    assert is_clear(mode)
    (little,) = mode_epsilons(lists, forest.spec, units, 0.2).values()
    assert little < epsilon < 0.3 * 100.0


def test_texts_that_are_seldom_shared_need_less_evidence_than_values():
    mode, doubtful = Mode(240.0, 100.0), Mode(200.0, 100.0)
    text, value = CategoriesNeed("name", own=True), CategoriesNeed("at", own=True, grid="at")
    assert expected(text, 3000.0, mode) == 190.0
    assert expected(text, 3000.0, doubtful) == 0.0
    assert expected(value, 3000.0, mode) == 0.0


@pytest.fixture(scope="module")
def source(make_database):
    dsn = make_database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE users (id int PRIMARY KEY, email text NOT NULL, plan text NOT NULL);"
            "CREATE TABLE orders (id int PRIMARY KEY, user_id int NOT NULL REFERENCES users,"
            " amount int NOT NULL, placed date NOT NULL);"
            "CREATE TABLE refunds (id int PRIMARY KEY, user_id int NOT NULL REFERENCES users,"
            " amount int NOT NULL, placed date NOT NULL);"
        )
        connection.execute(
            "INSERT INTO users SELECT i, 'u' || i || '@example.org',"
            f" (ARRAY['gold', 'silver', 'tin'])[1 + i % 3] FROM generate_series(1, {UNITS}) i"
        )
        connection.execute(
            f"INSERT INTO orders SELECT i, 1 + i % {WRITERS}, 1000 + i * 7 % 3000,"
            " date '2021-03-01' + i % 200"
            f" FROM generate_series(1, {WRITERS * EACH}) i"
        )
    return dsn


def test_ranges_of_few_owners_are_seen(source, tmp_path):
    """A tenth of the users has orders, none has refunds: their ranges, and no more, are asked."""
    privacy = {"epsilon": 3.0, "delta": 1e-9, "neighbours": "add-remove", "unit": "owner"}
    tables = {
        "public.users": {"own": []}, "public.orders": {"own": ["user_id"]},
        "public.refunds": {"own": ["user_id"]},
    }  # fmt: skip
    config = Config.model_validate(
        {"privacy": {**privacy, "seed": 3}, "tables": tables,
         "ledger": {"path": str(tmp_path / "ledger")}}
    )  # fmt: skip
    draft = begin(source, config, Reporter())
    for _, stage in STAGES[:4]:
        stage(draft)
    labels = {step.event.label for step in draft.session.trace}
    draft.session.close()
    assert {"units public.orders", "units public.refunds"} <= labels
    assert not any(label.startswith("range public.refunds") for label in labels)
    edges = draft.codecs["public.orders"]["amount"].recodings["amount"]
    core = edges.edges[edges.core[0]], edges.edges[edges.core[1]]
    assert 500 <= core[0] <= 1500
    assert 3000 <= core[1] <= 8192
    planned_labels = {event.label for event in plan_fit(config, source).events}
    assert "units public.orders" in planned_labels
