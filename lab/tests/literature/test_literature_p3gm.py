"""P3GM: its plan, its accounting, what it learns, damaged files."""

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.rdp import RdpAccountant

from privbench.domain import Domain
from privbench.errors import ModelError
from privbench.synthesizers import PlanInput
from privbench_lab.literature.p3gm import P3gmSynthesizer
from privbench_lab.literature.proofs import PROOFS, proof_of

SMALL = {"latent": 2, "hidden": 4, "iterations": 2, "steps": 3}


@pytest.mark.parametrize("columns", ["all", "chances alone"])
def test_the_plan_is_what_happens_and_dp_accounting_agrees(columns, table, rows, begin):
    held = rows(500)
    if columns == "chances alone":
        held = {name: held[name] for name in ("x0", "x1", "class")}
    session, totals, amount = begin(table(held), 1.0, "zcdp")
    learner = P3gmSynthesizer(SMALL)
    planned = learner.plan(session.spec, PlanInput(amount, "zcdp", totals))
    learner.fit(session, totals, amount)
    made = [step.event for step in session.trace[1:]]
    assert [(e.label, e.kind, e.shape) for e in made] == [
        (e.label, e.query.kind, e.query.shape) for e in planned
    ]
    assert [e.amount for e in made] == pytest.approx([e.amount for e in planned])
    assert session.spent <= session.amount_total
    oracle = RdpAccountant()
    for step in session.trace:
        oracle.compose(GaussianDpEvent(step.event.scale / step.event.sensitivity.l2))
    spent = session.guarantee()
    assert spent.epsilon <= 1.0
    assert oracle.get_epsilon(spent.delta) == pytest.approx(spent.epsilon, rel=0.05)


def test_columns_depend_on_each_other_and_labels_have_their_shares(table, rows, begin):
    held = rows(3000)
    held["one"] = (np.zeros(3000, int), Domain(1))
    held["odd"] = (np.where(held["class"][0] == 1, 60, held["age"][0]), Domain(60, True, ("odd",)))
    session, totals, amount = begin(table(held), 8.0, "zcdp")
    options = {"label": "class", "hidden": 30, "steps": 60, "cells": 10, "latent": 5}
    made = P3gmSynthesizer(options).fit(session, totals, amount).sample(1.0, 3)["t"]
    assert list(made.codes) == list(held)
    assert made.codes["class"].mean() == pytest.approx(held["class"][0].mean(), abs=0.05)
    votes = np.sum([made.codes[f"x{i}"] for i in range(4)], axis=0)
    assert made.codes["class"][votes == 4].mean() > 2 * made.codes["class"][votes == 0].mean()
    ages = made.codes["age"].astype(float)
    assert ages[votes == 4].mean() > ages[votes == 0].mean() + 8
    assert ages.std() == pytest.approx(held["age"][0].std(), rel=0.25)
    assert (made.codes["odd"] == 60)[made.codes["class"] == 1].mean() > 0.5
    assert (made.codes["odd"] == 60)[made.codes["class"] == 0].mean() < 0.3
    assert not made.codes["one"].any()


def test_damaged_models_are_refused(table, rows, begin):
    session, totals, amount = begin(table(rows(200)), 3.0, "zcdp")
    header, arrays = P3gmSynthesizer(SMALL).fit(session, totals, amount).to_state()
    for name, array in arrays.items():
        for damage in (array[:-1], np.full_like(array, math.nan)):
            with pytest.raises(ModelError):
                P3gmSynthesizer.load(header, {**arrays, name: damage})
    table_state = {k: v for k, v in header["tables"][0].items() if k != "attributes"}
    with pytest.raises(ModelError, match="lacks"):
        P3gmSynthesizer.load({**header, "tables": [table_state]}, arrays)


def test_its_proof_and_that_of_the_paper():
    assert proof_of("p3gm", {}) == PROOFS["p3gm"]
    assert (PROOFS["p3gm"].verdict, PROOFS["p3gm-as-published"].verdict) == ("sound", "broken")
