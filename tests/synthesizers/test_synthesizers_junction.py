"""The synthesizer `privbench`: claims, resuming, odd tables, and what it is for: dependence."""

from __future__ import annotations

import numpy as np
import pytest

from privbench.domain import Domain
from privbench.errors import ConfigError
from privbench.metrics.kld import Coded, divergence
from privbench.privacy import (
    Accountant,
    DatabaseSpec,
    Relation,
    SeededNoise,
    TableSpec,
    open_session,
)
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable
from privbench.privacy.queries import Total
from privbench.privacy.stability import check
from privbench.synthesizers import PlanInput, roots_of, spare_amounts
from privbench.synthesizers.independent import IndependentSynthesizer
from privbench.synthesizers.junction import JunctionSynthesizer
from privbench.synthesizers.junction_model import JunctionModel


def correlated(rows: int, seed: int = 1) -> dict[str, tuple[np.ndarray, Domain]]:
    """Six columns that follow one another, with NULLs, a spiky one and one of many values."""
    g = np.random.default_rng(seed)
    kind = g.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])
    age = np.clip(kind * 12 + g.integers(0, 15, rows), 0, 59)
    job = np.where(g.random(rows) < 0.15, 6, (kind + g.integers(0, 3, rows)) % 6)
    gain = np.where(g.random(rows) < 0.8, 0, age + g.integers(0, 39, rows))
    pay = np.clip(np.rint(np.exp(g.normal(3 + kind, 0.7))), 0, 2999).astype(int)
    return {
        "kind": (kind, Domain(4)),
        "age": (age, Domain(60, ordered=True)),
        "job": (job, Domain(6, nullable=True)),
        "gain": (gain, Domain(99, ordered=True)),
        "pay": (pay, Domain(3000, ordered=True)),
        "rich": ((pay > 150).astype(int), Domain(2)),
    }


def database(columns, neighbours="add-remove") -> PrivateDatabase:
    rows = len(next(iter(columns.values()))[0])
    spec = DatabaseSpec({"t": TableSpec("t", {})}, Relation(neighbours))
    cells = {name: Cells(codes, domain) for name, (codes, domain) in columns.items()}
    return PrivateDatabase(spec, {"t": PrivateTable(rows, cells, {})})


def fit_in(session, options=None):
    """Total and fit, as a pipeline makes them."""
    total = float(session.measure(Total("t"), 0.02 * session.amount_total, "total t")[0])
    return JunctionSynthesizer(options).fit(
        session, {"t": max(total, 1.0)}, 0.98 * session.amount_total
    )


def fit(columns, folder, epsilon, seed=1, accounting="pure", neighbours="add-remove"):
    data = database(columns, neighbours)
    accountant = Accountant(accounting, epsilon, 1e-9 if accounting == "zcdp" else 0.0)
    session = open_session(data, accountant, folder, "t", noise=SeededNoise(seed))
    return fit_in(session), session, data


def same(first: JunctionModel, second: JunctionModel) -> bool:
    (header, arrays), (other, others) = first.to_state(), second.to_state()
    return (
        header == other
        and arrays.keys() == others.keys()
        and all(np.array_equal(arrays[name], others[name]) for name in arrays)
    )


#: ε under which a hundred rows are worth a full fit.
RICH = {"pure": 2000.0, "zcdp": 600.0}


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_every_claim_holds_on_every_neighbour(neighbours, accounting, tmp_path):
    """Removing or exchanging any row: no statistic of a rich fit moves beyond its claim."""
    columns = correlated(150)
    _, session, data = fit(columns, tmp_path, RICH[accounting], 3, accounting, neighbours)
    asked = [step.query for step in session.trace]
    kinds = [query.kind for query in asked]
    labels = [step.event.label for step in session.trace]
    assert kinds.count("pair scores") >= 8
    assert any("round 1" in label for label in labels)
    assert any("coarse" in label for label in labels)
    report = check(asked, data, every=True)
    assert report.ok, report.violations[:5]
    assert report.neighbours == 150
    worst = [w for w, kind in zip(report.worst, kinds, strict=True) if kind == "histogram"]
    assert min(worst) > 0.4


def test_events_follow_from_releases_alone(tmp_path):
    """Another table, but the same noisy results: the same events (replayed from the ledger)."""
    columns = correlated(400)
    data = database(columns)
    session = open_session(data, Accountant("pure", 8.0), tmp_path, "t")
    first = fit_in(session)
    session._release.leave()
    empty = {name: (codes[:0], domain) for name, (codes, domain) in columns.items()}
    again = open_session(
        database(empty), Accountant("pure", 8.0), tmp_path, "t", resume=session.release_id
    )
    second = fit_in(again)
    assert len(again.trace) == len(session.trace) > 15
    assert same(first, second)
    one, two = (model.sample(1.0, 5).tables["t"].codes for model in (first, second))
    assert all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_dependence_is_kept(accounting, tmp_path):
    columns = correlated(6000)
    model, session, data = fit(columns, tmp_path / "a", 2.0, 1, accounting)
    assert session.spent == pytest.approx(session.amount_total, rel=1e-6)
    accountant = Accountant(accounting, 2.0, 1e-9 if accounting == "zcdp" else 0.0)
    other = open_session(data, accountant, tmp_path / "b", "t", noise=SeededNoise(1))
    other.measure(Total("t"), 0.02 * other.amount_total, "total t")
    baseline = IndependentSynthesizer().fit(other, {"t": 6000.0}, 0.98 * other.amount_total)
    figures = []
    for fitted in (model, baseline):
        made = fitted.sample(1.0, 2).tables["t"].codes
        coded = [
            Coded((codes // 100).astype(np.uint32), (made[name] // 100).astype(np.uint32), 30)
            if domain.size == 3000
            else Coded(codes.astype(np.uint32), made[name].astype(np.uint32), domain.size)
            for name, (codes, domain) in columns.items()
        ]
        found = divergence(coded, 2)
        figures.append((found.kld, found.tvd))
    assert figures[0][0] < 0.55 * figures[1][0]
    assert figures[0][1] < 0.6 * figures[1][1]


def test_plans_tell_level_by_level_what_is_measured(tmp_path):
    columns = correlated(5000)
    _, session, data = fit(columns, tmp_path, 4.0)
    totals = {"t": float(session.trace[0].result[0])}
    planned = JunctionSynthesizer().plan(data.spec, PlanInput(0.98 * 4.0, "pure", totals, {}))
    made = [step.event for step in session.trace[1:]]
    assert [event.label for event in made] == [event.label for event in planned]
    assert sum(event.amount for event in planned) <= 0.98 * 4.0
    by_label = {event.label: event for event in planned}
    for event in made:
        if "pair" not in event.label:
            assert event.amount == pytest.approx(by_label[event.label].amount, rel=1e-9)


@pytest.mark.parametrize("herding", [True, False])
def test_rows_of_any_number(herding, tmp_path):
    columns = correlated(3000)
    model, _, _ = fit(columns, tmp_path, 4.0)
    model = JunctionModel(model.tables, model.laws, {}, herding)
    share = np.bincount(columns["kind"][0], minlength=4) / 3000
    for scale in (0.0001, 0.01, 1.0, 7.3):
        made = model.sample(scale, 1).tables["t"]
        assert made.rows == round(model.tables["t"].rows * scale)
        if made.rows > 1000:
            got = np.bincount(made.codes["kind"], minlength=4) / made.rows
            assert np.abs(got - share).sum() < 0.05


def test_more_rows_than_a_chunk(tmp_path):
    model, _, _ = fit(correlated(3000), tmp_path, 4.0)
    made = model.sample(100.0, 1).tables["t"]
    assert made.rows > 2**18
    law = model.laws["t"]
    for column, name in enumerate(law.domains):
        got = np.bincount(made.codes[name], minlength=law.domains[name].size) / made.rows
        want = law.bins[column].spread(law.bins[column].counts) / law.bins[column].counts.sum()
        assert np.abs(got - want).sum() < 0.04, name


ODD = {
    "no rows": {"a": (np.zeros(0, int), Domain(3)), "b": (np.zeros(0, int), Domain(80, True))},
    "one row": {"a": (np.ones(1, int), Domain(3)), "b": (np.ones(1, int), Domain(80, True))},
    "two rows": {"a": (np.arange(2), Domain(3)), "b": (np.arange(2), Domain(80, True))},
    "all NULL": {
        "a": (np.full(90, 5), Domain(5, nullable=True)),
        "b": (np.full(90, 700), Domain(700, True, nullable=True)),
    },
    "nothing but NULL": {"a": (np.zeros(90, int), Domain(0, nullable=True))},
    "constant": {"a": (np.full(90, 2), Domain(5)), "b": (np.full(90, 0), Domain(5))},
    "all distinct": {
        "a": (np.arange(900), Domain(900, True)),
        "b": (np.arange(900)[::-1].copy(), Domain(900)),
    },
    "one column": {"a": (np.arange(90) % 9, Domain(9, True))},
    "huge domain": {
        "a": (np.arange(90) * 10_000, Domain(10**6, True)),
        "b": (np.arange(90) % 2, Domain(2)),
    },
}


@pytest.mark.parametrize("epsilon", [0.001, 1.0, 1000.0])
@pytest.mark.parametrize("kind", ODD)
def test_odd_tables_are_sensible(kind, epsilon, tmp_path):
    columns = ODD[kind]
    model, _, _ = fit(columns, tmp_path, epsilon)
    rows = len(columns["a"][0])
    scale = min(1.0, 1000.0 / max(model.tables["t"].rows, 1.0))
    made = model.sample(scale, 3).tables["t"]
    for name, (codes, domain) in columns.items():
        assert made.codes[name].shape == (made.rows,)
        assert made.codes[name].dtype == domain.dtype
        assert not made.rows or made.codes[name].max() < domain.size
        if epsilon == 1000.0 and rows:
            size = domain.size
            real, got = (np.bincount(c, minlength=size) / len(c) for c in (codes, made.codes[name]))
            limit = 0.45 if kind in ("all distinct", "huge domain") else 0.05
            close = (
                np.abs(np.cumsum(real) - np.cumsum(got)) if domain.ordered else np.abs(real - got)
            )
            assert (close.max() if domain.ordered else close.sum() / 2) < limit, name


def test_two_hundred_columns(tmp_path):
    g = np.random.default_rng(1)
    base = g.integers(0, 4, 500)
    columns = {
        f"c{k}": (np.where(g.random(500) < 0.7, base, g.integers(0, 4, 500)), Domain(4))
        for k in range(200)
    }
    model, _, _ = fit(columns, tmp_path, 3.2)
    made = model.sample(1.0, 1).tables["t"].codes
    assert len(made) == 200
    real = np.array([np.bincount(codes, minlength=4) / 500 for codes, _ in columns.values()])
    got = np.array([np.bincount(c, minlength=4) / len(c) for c in made.values()])
    assert 0.5 * np.abs(real - got).sum(axis=1).mean() < 0.25


@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_a_target_is_measured_with_every_other_column(epsilon, tmp_path):
    data = database(correlated(3000))
    session = open_session(
        data, Accountant("pure", epsilon), tmp_path, "target", noise=SeededNoise(1)
    )
    fit_in(session, {"target": "t.rich"})
    others = {"kind", "age", "job", "gain", "pay"}
    pairs = [s.event.columns for s in session.trace if s.event.label.startswith("tree pair")]
    assert {frozenset(pair) for pair in pairs} == {frozenset((name, "rich")) for name in others}
    assert 0.95 * session.amount_total < session.spent <= session.amount_total
    amount, total = 0.98 * session.amount_total, session.trace[0].result[0]
    planned = JunctionSynthesizer({"target": "rich"}).plan(
        session.spec, PlanInput(amount, "pure", {"t": float(total)})
    )
    made = [step.event for step in session.trace[1:]]
    assert sorted(event.label for event in planned) == sorted(event.label for event in made)
    assert sum(e.amount for e in planned) == pytest.approx(sum(e.amount for e in made))


@pytest.mark.parametrize("target", ["orders.state", "kind"])
def test_a_target_among_many_tables(target, shop, begin):
    session, totals, amount = begin(shop(3000), 8.0)
    learner, before = JunctionSynthesizer({"target": target}), len(session.trace)
    left = {root: session.remaining(root) for root in roots_of(session.spec)}
    public = {"countries": 12}
    start = PlanInput(amount, "pure", totals, public, spare_amounts(left, amount))
    planned = {e.label for e in learner.plan(session.spec, start)}
    model = learner.fit(session, totals, amount, public)
    assert {step.event.label for step in session.trace[before:]} <= planned
    assert model.sample(0.1, 1).tables["orders"].rows > 0


def test_a_target_that_is_nowhere_costs_nothing(tmp_path):
    session = open_session(
        database(correlated(50)), Accountant("pure", 1.0), tmp_path, "none", noise=SeededNoise(1)
    )
    learner = JunctionSynthesizer({"target": "salary"})
    with pytest.raises(ConfigError, match="no modelled column"):
        learner.fit(session, {"t": 50.0}, 0.9)
    with pytest.raises(ConfigError, match="no modelled column"):
        learner.plan(session.spec, PlanInput(0.9, "pure", {"t": 50.0}))
    assert session.spent == 0
