"""Synthesizers on whole databases: rows, keys, budgets, claims, files.

Tests of other packages' synthesizers call these functions with names and options of their own.
"""

import json
from itertools import product

import numpy as np
import pytest
from harness import check
from market import some_slow

from privbench.domain import Domain
from privbench.errors import ConfigError, ModelError
from privbench.privacy import noise_sd
from privbench.synthesizers import PlanInput, get, names, roots_of

PUBLIC = {"countries": np.zeros(12, np.int64)}
BIT = Domain(2)
ALL = pytest.mark.parametrize("name", ["independent", "privbench"])


@pytest.fixture
def options():
    """Options of the synthesizer."""
    return None


@pytest.fixture
def kinds():
    """Kinds of queries that its fit asks at least."""
    return frozenset()


@pytest.fixture
def damages():
    """What is done to its models, which are then refused."""
    return ()


def fit(name, started, options=None):
    session, totals, amount = started
    return get(name)(options).fit(session, totals, amount, PUBLIC)


def assert_valid(database, spec, public=PUBLIC):
    """Codes within domains, parents within tables, NOT NULL and unique keys kept."""
    assert set(database) == set(spec.tables)
    for name, table in database.items():
        assert set(table.codes) == set(spec.tables[name].attributes)
        for attribute, domain in spec.tables[name].attributes.items():
            assert table.codes[attribute].shape == (table.rows,)
            assert table.codes[attribute].dtype == domain.dtype
            assert not table.rows or table.codes[attribute].max() < domain.size
        for key in spec.tables[name].keys:
            edges = table.parents[key.name]
            size = len(public[key.parent]) if key.role == "public" else database[key.parent].rows
            assert edges.shape == (table.rows,)
            assert np.issubdtype(edges.dtype, np.signedinteger)
            assert (edges < size).all()
            assert (edges >= (-1 if key.nullable else 0)).all()
            if key.unique:
                used = edges[edges >= 0]
                assert len(np.unique(used)) == len(used)


@pytest.mark.parametrize(
    ("name", "accounting"),
    some_slow(
        product(("independent", "privbench"), ("pure", "zcdp")),
        [("independent", "pure"), ("privbench", "zcdp")],
    ),
)
def test_a_whole_database(name, accounting, shop, begin):
    data = shop(2000)
    started = begin(data, 8.0, accounting)
    model = fit(name, started)
    session = started[0]
    assert session.spent <= session.amount_total
    assert session.spent > 0.95 * session.amount_total
    synthetic = model.sample(1.0, 7)
    assert_valid(synthetic, session.spec)
    for table in ("users", "profiles", "orders", "items", "products"):
        real, made = data._rows(table), synthetic[table].rows
        assert made == pytest.approx(real, rel=0.35, abs=30), table
    orders = synthetic["orders"].parents
    assert 20 < (orders["user"] < 0).sum() < 250
    real = np.bincount(data._parents(session.spec.tables["orders"].key("product")), minlength=200)
    made = np.bincount(orders["product"], minlength=200)
    top = [np.sort(counts)[::-1][:20].sum() / counts.sum() for counts in (real, made)]
    assert top[1] > 0.4 * top[0] > 0.18  # 0.1 if all products were alike
    country = np.bincount(synthetic["users"].parents["country"], minlength=12)
    assert country[-4:].sum() > 2 * country[:4].sum()
    # Fan-outs keep heavy owners, and owners of nothing.
    owners = data._parents(session.spec.tables["orders"].key("user"))
    real = np.bincount(owners[owners >= 0], minlength=2000)
    edges = orders["user"]
    made = np.bincount(edges[edges >= 0], minlength=synthetic["users"].rows)
    assert (made == 0).mean() == pytest.approx((real == 0).mean(), abs=0.05)
    assert (made >= 9).mean() == pytest.approx((real >= 9).mean(), rel=0.4)
    assert made.max() > 20


@ALL
@pytest.mark.parametrize(
    ("unit", "neighbours"), [("owner", "add-remove"), ("owner", "replace"), ("row", "replace")]
)
def test_every_claim_of_a_fit_holds(name, unit, neighbours, shop, begin, options, kinds):
    data = shop(120, 2, unit, neighbours)
    session, totals, amount = begin(data, 400.0)
    assert_valid(
        get(name)(options).fit(session, totals, amount, PUBLIC).sample(1.0, 1), session.spec
    )
    asked = [step.query for step in session.trace]
    assert kinds <= {query.kind for query in asked}
    report = check(asked, data)
    assert report.ok, report.violations[:5]
    assert report.worst_ratio > 0.3


@ALL
def test_models_come_back_from_their_files_and_damaged_ones_are_refused(name, shop, begin, damages):
    model = fit(name, begin(shop(500)))
    header, arrays = model.to_state()
    text = json.dumps(header)

    def load(change=None):
        head, held = json.loads(text), {key: array.copy() for key, array in arrays.items()}
        if change is not None:
            change(head, held)
        return get(name).load(head, held)

    first, second = model.sample(0.5, 11), load().sample(0.5, 11)
    for table in first:
        for column, codes in first[table].codes.items():
            assert np.array_equal(codes, second[table].codes[column])
        for key, edges in first[table].parents.items():
            assert np.array_equal(edges, second[table].parents[key])
    for change in damages:
        with pytest.raises(ModelError):
            load(change)


@ALL
def test_plans_name_the_events_of_a_fit(name, shop, begin, options):
    data = shop(3000)
    session, totals, amount = begin(data, 8.0)
    learner = get(name)(options)
    before = len(session.trace)
    left = {root: session.remaining(root) for root in roots_of(session.spec)}
    start = PlanInput.of(session, totals, amount, PUBLIC)
    planned = learner.plan(session.spec, start)
    learner.fit(session, totals, amount, PUBLIC)
    made = [step.event for step in session.trace[before:]]
    assert {e.label for e in made} <= {e.label for e in planned}
    by_label = {event.label: event for event in planned}
    for event in made:
        plan = by_label[event.label]
        assert plan.query.roots(session.spec) == frozenset(event.roots)
        assert plan.query.kind == event.kind
        # What rows get follows from weights that a fit learns on the way; keys get what is planned.
        if event.label.startswith(("fan-", "NULL", "targets", "rows of ")):
            assert plan.amount == pytest.approx(event.amount)
    load = {}
    for question in planned:
        assert 0 < question.amount <= max(left.values())
        assert noise_sd(question.query, session.spec, question.amount, start.accounting) > 0
        for root in question.query.roots(session.spec):
            load[root] = load.get(root, 0.0) + question.amount
    assert all(spent <= left[root] for root, spent in load.items())
    # What earlier stages left is used.
    assert max(load[root] - amount for root in load) > 0


@pytest.mark.parametrize(
    ("name", "users", "epsilon"),
    [("privbench", 0, 0.001), ("independent", 0, 3.2), ("privbench", 1, 3.2),
     ("independent", 2, 0.001)],
)  # fmt: skip
def test_tiny_databases(name, users, epsilon, shop, begin):
    started = begin(shop(users), epsilon, noise=users + 1)
    model = fit(name, started)
    for seed, scale in enumerate((1.0, 3.0)):
        synthetic = model.sample(scale * min(10 * epsilon, 1.0), seed)
        assert_valid(synthetic, started[0].spec)
        assert sum(table.rows for table in synthetic.values()) < 10**6


@ALL
def test_events_do_not_depend_on_rows(name, shop, begin):
    """Given the same totals and noise so strong that rows drown, the labels are the same."""
    labels = []
    for users in (0, 40):
        session, _, amount = begin(shop(users), 0.001, noise=5)
        before = len(session.trace)
        get(name)().fit(session, dict.fromkeys(session.spec.tables, 5.0), amount, PUBLIC)
        labels.append([(s.event.label, s.event.shape) for s in session.trace[before:]])
    assert labels[0] == labels[1]


def many(columns):
    return {f"c{i}": ((np.arange(50) + i) % 4, Domain(4)) for i in range(columns)}


ODD = {
    "no columns": {},
    "one column": {"only": (np.arange(50) % 3, Domain(3))},
    "constants": {"one": (np.zeros(50, int), Domain(1)), "two": (np.zeros(50, int), BIT)},
    "all NULL": {
        "null": (np.full(50, 2), Domain(2, nullable=True)), "x": (np.zeros(50, int), BIT)
    },
    "40 columns": many(40),
    "wide domain": {
        "wide": (np.arange(50), Domain(20_000, ordered=True)), "x": (np.arange(50) % 2, BIT)
    },
    "200 columns": many(200),
}  # fmt: skip


@ALL
@pytest.mark.parametrize("odd", [*list(ODD)[:-1], pytest.param([*ODD][-1], marks=pytest.mark.slow)])
@pytest.mark.parametrize("epsilon", [0.001, 1000.0])
def test_odd_tables(name, odd, epsilon, table, begin, options):
    started = begin(table(ODD[odd]), epsilon)
    assert_valid(fit(name, started, options).sample(1.0, 1), started[0].spec)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("nothing", {}, "no synthesizer 'nothing'"),
        ("privbench", {"nonsense": 1}, "privbench"),
        ("independent", {"alpha": 0.1}, "independent"),
    ],
)
def test_names_and_options_are_checked(name, options, said):
    assert {"independent", "privbench"} <= set(names())
    with pytest.raises(ConfigError, match=said):
        get(name)(options)
