"""QUAIL: a classifier beside any synthesizer, its share, its proof."""

import json

import numpy as np
import pytest
from sql_files import cases

from privbench.errors import ModelError
from privbench.synthesizers import PlanInput
from privbench_lab.literature.proofs import proof_of
from privbench_lab.literature.quail import QuailSynthesizer


def quail(**options):
    return QuailSynthesizer({"target": "class", "synthesizer": "independent", **options})


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
@pytest.mark.parametrize("split", [0.2, 0.9])
def test_shares_add_up_and_the_class_follows_the_columns(split, accounting, table, rows, begin):
    data = table(rows(4000))
    session, totals, amount = begin(data, 3.0, accounting)
    learner = quail(split=split)
    planned = {
        e.label: e for e in learner.plan(session.spec, PlanInput(amount, accounting, totals))
    }
    model = learner.fit(session, totals, amount)
    asked = [step.query for step in session.trace[1:]]
    assert asked[0].kind == "joint histogram"
    assert all("class" not in query.columns for query in asked[1:])
    made = [step.event for step in session.trace[1:]]
    assert {event.label for event in made} == set(planned)
    assert made[0].amount == pytest.approx(split * amount)
    assert 0.95 * session.amount_total < session.spent <= session.amount_total
    table_ = model.sample(1.0, 3)["t"]
    assert list(table_.codes) == list(rows(1))
    # Columns are independent here, so what the class follows is the classifier alone.
    votes = np.sum([table_.codes[f"x{i}"] for i in range(4)], axis=0)
    assert table_.codes["class"][votes == 4].mean() > 0.6
    assert table_.codes["class"][votes == 0].mean() < 0.25


def test_a_number_is_foretold_too(table, rows, begin):
    session, totals, amount = begin(table(rows(4000)), 3.0)
    model = quail(target="t.age").fit(session, totals, amount)
    codes = model.sample(1.0, 3)["t"].codes
    votes = np.sum([codes[f"x{i}"] for i in range(4)], axis=0)
    ages = codes["age"].astype(float)
    assert ages[votes == 4].mean() > ages[votes == 0].mean() + 10


def test_damaged_models_are_refused(table, rows, begin):
    session, totals, amount = begin(table(rows(500)))
    header, arrays = quail(labels="best").fit(session, totals, amount).to_state()
    for fault in ("wrapped", "columns", "domain"):
        with pytest.raises(ModelError):
            QuailSynthesizer.load({k: v for k, v in header.items() if k != fault}, arrays)


@pytest.mark.parametrize(("title", "options"), cases(__file__, "proofs.txt"))
def test_what_wraps_a_synthesizer_is_no_sounder_than_that(title, options):
    name, verdict = title.split(": ")
    found = proof_of(name, json.loads(options))
    assert found.verdict == verdict
    assert found.reason
