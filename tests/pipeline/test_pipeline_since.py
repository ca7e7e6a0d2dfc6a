"""``fit --since``: what is kept of an earlier release, what is learned anew, and what it costs."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import market
import numpy as np
import pytest
from fits import fit
from halting import kill_at
from harness import check
from sql_files import cases, sql_of

from privbench import pipeline
from privbench.errors import LedgerError, ModelError, PrivbenchError
from privbench.learning.graphical import select
from privbench.pipeline import Model
from privbench.privacy import Accountant, loss_within
from privbench.privacy.accountant import LEVELS, epsilon_for
from privbench.publish.accounts import certificate_of, require_sound
from privbench.synthesizers import get as find_synthesizer

CONFIG = sql_of(__file__, "library.toml")
#: What of a table is changed, and which table that is.
CHANGES = dict(cases(__file__, "library_changes"))
#: A table with a column of every kind.
KINDS = sql_of(__file__, "kinds")


def library(dsn: str) -> str:
    market.execute(dsn, sql_of(__file__, "library"))
    return dsn


@pytest.fixture(scope="module")
def old(make_database, tmp_path_factory):
    folder = tmp_path_factory.mktemp("old")
    config = market.config(folder / "ledger", CONFIG)
    pipeline.fit(library(make_database()), config, folder / "old")
    return folder / "old"


@pytest.fixture(scope="module")
def small(source, tmp_path_factory):
    """A release of the market."""
    folder = tmp_path_factory.mktemp("small")
    pipeline.fit(source, market.config(folder / "ledger"), folder / "old")
    return folder / "old"


def anew(model: Model, before: Path) -> set[str]:
    """Tables whose columns have been measured since."""
    events = model.events[len(Model.load(before).events) :]
    return {event.table.removeprefix("public.") for event in events if "one-way of" in event.label}


def laws(model: Model):
    return find_synthesizer(model.synthesizer).load(model.state, model.arrays).laws


def test_nothing_is_asked_of_columns_that_did_not_change(make_database, old, tmp_path):
    config = market.config(tmp_path / "ledger", CONFIG)
    made = pipeline.fit(library(make_database()), config, tmp_path / "new", since=old)
    before = Model.load(old)
    assert anew(made, old) == set()
    for name, law in laws(before).items():
        (_, ours), (_, theirs) = laws(made)[name].model.to_state(), law.model.to_state()
        assert all(np.array_equal(ours[part], theirs[part]) for part in theirs)
    assert {key: item.codecs for key, item in made.tables.items()} == {
        key: item.codecs for key, item in before.tables.items()
    }
    # The ledger has the new events alone, the promise those of both releases.
    (release,) = pipeline.ledger_show("", "library", config.ledger.path).state["releases"]
    assert release["epsilon"] < before.promise.epsilon / 2
    assert release["events"] == len(made.events) - len(before.events)
    assert before.events == made.events[: len(before.events)]
    assert before.promise.epsilon < made.promise.epsilon
    assert made.promise.epsilon <= (before.promise.epsilon + release["epsilon"]) * (1 + 1e-9)
    stated = loss_within(made.events, made.promise.accounting, made.promise.delta)
    assert made.promise.epsilon == pytest.approx(stated.epsilon, rel=1e-9)
    require_sound(certificate_of(made, tmp_path / "new", "15"))
    # It can be the start of the next one.
    again = pipeline.fit(
        library(make_database()), config, tmp_path / "next", since=tmp_path / "new"
    )
    assert again.promise.epsilon > made.promise.epsilon
    require_sound(certificate_of(again, tmp_path / "next", "15"))
    # Of pure events none can be missing: they would go unpaid.
    replace(made, events=made.events[:-1]).save(tmp_path / "fewer")
    with pytest.raises(ModelError, match="states more than its events cost"):
        pipeline.fit(library(make_database()), config, tmp_path / "next", since=tmp_path / "fewer")


def test_domains_of_every_kind_of_column_are_taken_over(make_database, tmp_path):
    source = make_database()
    market.execute(source, KINDS)
    config = market.config(tmp_path / "ledger", CONFIG.split("[tables")[0])
    pipeline.fit(source, config, tmp_path / "old")
    made = pipeline.fit(source, config, tmp_path / "new", since=tmp_path / "old")
    before = Model.load(tmp_path / "old")
    assert made.tables == before.tables
    spent = {event.kind for event in made.events[len(before.events) :]}
    assert not spent & {"ranked counts", "label counts", "grid histogram"}
    pipeline.load(tmp_path / "new", make_database())


def test_a_pure_release_leaves_no_list_to_the_next_one(source, tmp_path):
    config = market.config(tmp_path / "ledger", epsilon=200.0, accounting="pure")
    pipeline.fit(source, config, tmp_path / "old")
    made = pipeline.fit(source, config, tmp_path / "new", since=tmp_path / "old")
    assert 200.0 < made.promise.epsilon <= 400.0


@pytest.mark.parametrize(
    "change", market.some_slow([(name,) for name in CHANGES], [(next(iter(CHANGES)),)])
)
def test_a_table_that_changed_is_learned_anew(make_database, old, tmp_path, change):
    source, target = library(make_database()), make_database()
    market.execute(source, CHANGES[change])
    config = market.config(tmp_path / "ledger", CONFIG)
    pipeline.clone(source, target, config, output=tmp_path / "new", since=old)
    assert anew(Model.load(tmp_path / "new"), old) == {change.split(": ")[1]}
    for query in (
        "SELECT avg((kind = 'map')::int) FROM loan",
        "SELECT avg((active = (age < 60))::int) FROM reader",
        "SELECT avg((abs(days - age * 2 / 3) < 12)::int)"
        " FROM loan JOIN reader r ON r.id = reader_id",
    ):
        real, made = (float(str(market.one(dsn, query))) for dsn in (source, target))
        assert made == pytest.approx(real, abs=0.1), query


@pytest.mark.parametrize(
    ("neighbours", "hostile"),
    market.some_slow(
        [*product(("add-remove", "replace"), (False, True))],
        [("add-remove", False), ("replace", True)],
    ),
)
def test_every_claim_holds_whatever_the_earlier_model_says(
    make_database, tmp_path, monkeypatch, neighbours, hostile
):
    source, path = market.create_with_hub(make_database()), tmp_path / "old"
    config = market.with_little_noise(
        tmp_path / "ledger", "privbench", neighbours, "owner", accounting="zcdp"
    ).with_privacy(epsilon=20000.0)
    model = pipeline.fit(source, config, path)
    if hostile:
        # Distributions still, of other cells.
        arrays = {
            name: held[..., ::-1].copy() if name.endswith(("/table", "/shares")) else held
            for name, held in model.arrays.items()
        }
        replace(model, arrays=arrays).save(path)
    else:
        # Of few rows an earlier model is off by more: so all tests are asked.
        monkeypatch.setattr(select, "CHANGED", 1.0)
    fitted = fit(source, config, since=path)
    tests = [step.query for step in fitted.trace if "changed" in step.event.label]
    assert {query.kind for query in tests} >= {"pair scores"}
    assert hostile or "dependence scores" in {query.kind for query in tests}
    report = check(fitted.queries, fitted.before, recodings=fitted.after.recodings)
    assert report.ok, [(fitted.trace[bad.event].event.label, bad) for bad in report.violations]
    assert report.worst_ratio > 0.9


@pytest.mark.parametrize(("said", "change"), cases(__file__, "since_refused.txt"))
def test_another_database_or_config_is_refused_before_anything_is_spent(
    source, make_database, small, tmp_path, said, change
):
    config = market.config(tmp_path / "ledger")
    if "=>" in change:
        config = market.config(tmp_path / "ledger", market.changed_config(change))
    else:
        source = market.create(make_database(), 6)
        market.execute(source, change)
    require_refused(said, source, config, small)


def require_refused(said, source, config, earlier):
    with pytest.raises(PrivbenchError, match=said) as raised:
        pipeline.fit(source, config, earlier.with_name("new"), since=earlier)
    assert "Fit without --since" in str(raised.value)
    assert not Path(config.ledger.path).exists()


def recoded(model, table, **changes):
    """The model with other recodings of some columns of a table."""
    made = model.tables[table]
    codecs = {
        name: replace(codec, recoding=replace(codec.recoding, **changes[name]))
        for name, codec in made.codecs.items()
        if name in changes
    }
    made = replace(made, codecs={**made.codecs, **codecs})
    return replace(model, tables={**model.tables, table: made})


def rooted(model, root):
    events = (replace(event, roots=(root,)) for event in model.events)
    return replace(model, events=tuple(events))


def dated(model, **bases):
    changes = {name: {"since": base} for name, base in bases.items()}
    return recoded(model, "public.purchase", **changes)


def promising(model, **more):
    return replace(model, promise=replace(model.promise, **more))


LESS = "and less is stated"
#: What a stranger changes of a model, and what is said.
CHANGED = [
    (lambda model: promising(model, private=False), "NOT PRIVATE"),
    (lambda model: promising(model, epsilon=0.1), LESS),
    (lambda model: promising(model, rho=model.promise.rho * 1.01), LESS),
    (lambda model: promising(model, conversion=model.promise.conversion / 2), LESS),
    (lambda model: rooted(model, "public.region"), "event 0 is not one of this release"),
    (lambda model: recoded(model, "public.line", quantity={"edges": (1, 5, 21)}),
     "public.line.quantity: .*other cells"),
    (lambda model: dated(model, shipped="nowhere"), "public.purchase.shipped: .*distances"),
    (lambda model: dated(model, shipped="placed", placed="shipped"),
     "public.purchase.placed: .*distances"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), CHANGED)
def test_another_promise_or_model_is_refused_before_anything_is_spent(
    source, small, tmp_path, change, said
):
    change(Model.load(small)).save(tmp_path / "old")
    require_refused(said, source, market.config(tmp_path / "ledger"), tmp_path / "old")


def require_limits(earlier, promise, epsilon=None):
    """The promise is one of few that were fixed before the new release's first event (P36)."""
    epsilon = epsilon or earlier.epsilon
    alone = Accountant("zcdp", epsilon, earlier.delta, threshold_delta=0.0).terms
    levels = [alone.level(Fraction(share) * Fraction(alone.cap)) for share in (*LEVELS, 1)]
    sums = [earlier.rho + level.rho for level in levels]
    place = sums.index(pytest.approx(promise.rho, rel=1e-12))
    part = levels[place].delta / earlier.delta
    assert promise.conversion == pytest.approx(earlier.conversion * part)
    expected = epsilon_for(sums[place], earlier.conversion * part)
    assert promise.epsilon == pytest.approx(expected, rel=1e-9)
    assert promise.delta == earlier.delta
    # No outcome is promised less than one that reached the cap.
    capped = epsilon_for(sums[-1], earlier.conversion * (levels[-1].delta / earlier.delta))
    assert promise.epsilon <= capped * (1 + 1e-9)
    # No part of δ is kept for lists, which no such fit asks for.
    assert sum(Fraction(level.delta) for level in levels) == pytest.approx(earlier.delta)


def test_what_refers_to_other_public_rows_is_learned_anew(make_database, small, tmp_path):
    source = market.create(make_database())
    market.execute(source, "UPDATE region SET title = 'Somewhere' WHERE code = 'r1'")
    made = pipeline.fit(source, market.config(tmp_path / "ledger"), tmp_path / "new", since=small)
    require_limits(Model.load(small).promise, made.promise)
    tested = {event.table for event in made.events if "changed most" in event.label}
    assert "customer" in anew(made, small)
    assert "public.customer" not in tested
    assert "public.product" in tested


def test_what_is_added_to_a_large_promise_is_never_more_than_the_new_budget_adds(
    source, small, tmp_path
):
    """The δ of a level is so little that ε of both releases rises by more than the level saves."""
    earlier = Model.load(small).promise
    config = market.config(tmp_path / "ledger", epsilon=earlier.epsilon / 4)
    made = pipeline.fit(source, config, tmp_path / "new", since=small)
    require_limits(earlier, made.promise, config.privacy.epsilon)


def test_a_killed_fit_goes_on_with_the_same_model_and_its_lost_answers_count(
    source, small, tmp_path
):
    config, output = market.config(tmp_path / "ledger"), tmp_path / "new"
    kill_at("record:2", pipeline.fit, source, config, output, since=small)
    (killed,) = pipeline.ledger_show("", "market", config.ledger.path).state["releases"]
    with pytest.raises(LedgerError, match="was opened for another fit"):
        pipeline.fit(source, config, output, resume=killed["release"])
    made = pipeline.fit(source, config, output, resume=killed["release"], since=small)
    require_limits(Model.load(small).promise, made.promise)
    assert {event.id for event in made.events} == {*range(len(made.events))}
    after = pipeline.fit(source, config, tmp_path / "next", since=output)
    # What was lost is among the events that all later releases hold.
    assert [event.label for event in after.events][: len(made.events)] == [
        event.label for event in made.events
    ]
    require_sound(certificate_of(after, tmp_path / "next", "15"))
