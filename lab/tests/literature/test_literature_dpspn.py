"""Sum-product networks of another paper: what it published, accounting, inference."""

import numpy as np
import pytest
from harness import check

from privbench.errors import PrivacyRefusal
from privbench.synthesizers import PlanInput
from privbench_lab.circuit import log_likelihood, marginal
from privbench_lab.literature.classify import class_law
from privbench_lab.literature.dpspn import DpspnSynthesizer
from privbench_lab.outline import circuits

VARIANTS = pytest.mark.parametrize(
    "options",
    [{}, {"label": "class"}, {"columns": "random", "alpha": 0.0}],
    ids=["plain", "class", "columns"],
)


def test_the_published_claims_do_not_hold(table, rows, begin):
    data = table(rows(60))
    session, totals, amount = begin(data, 500.0)
    learner = DpspnSynthesizer({"as_published": True, "eta": 0.4})
    assert learner.proof.verdict == "broken"
    learner.fit(session, totals, amount)
    report = check([step.query for step in session.trace], data)
    wrong = {item.kind for item in report.violations if item.reason == "l1"}
    assert wrong == {"histogram, as published", "joint histogram, as published"}


def test_the_published_accounting_is_refused_where_it_would_not_be_stamped(table, rows, begin):
    session, totals, amount = begin(table(rows(60)), seed=None)
    with pytest.raises(PrivacyRefusal, match="not private"):
        DpspnSynthesizer({"as_published": True}).fit(session, totals, amount)
    assert len(session.trace) == 1


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
@VARIANTS
def test_a_network_is_better_than_independent_columns(options, accounting, table, rows, begin):
    session, totals, amount = begin(table(rows(4000)), 3.0, accounting)
    model = DpspnSynthesizer(options).fit(session, totals, amount)
    assert 0.95 * session.amount_total < session.spent <= session.amount_total
    held = {name: codes for name, (codes, _) in rows(2000, 9).items()}
    circuit = circuits(model)["t"]
    apart = sum(np.log(marginal(circuit, name)[codes]).mean() for name, codes in held.items())
    assert log_likelihood(circuit, held).mean() > apart + 1.0
    law = class_law(circuit, "class", held)
    assert law.sum(axis=1) == pytest.approx(1.0)
    assert ((law[:, 1] > 0.5) == held["class"]).mean() > 0.72
    drawn = model.sample(1.0, 1)["t"].codes
    assert np.corrcoef(drawn["x0"], drawn["class"])[0, 1] > 0.3


@VARIANTS
def test_plans_name_the_events_of_a_fit(options, table, rows, begin):
    session, totals, amount = begin(table(rows(3000)), 3.0)
    learner = DpspnSynthesizer(options)
    planned = {e.label: e for e in learner.plan(session.spec, PlanInput(amount, "pure", totals))}
    learner.fit(session, totals, amount)
    made = [step.event for step in session.trace[1:]]
    assert {event.label for event in made} <= set(planned)
    assert sum(event.amount for event in planned.values()) <= amount
    for event in made:
        assert planned[event.label].query.kind == event.kind


@pytest.mark.parametrize("size", [0, 1, 2])
def test_tiny_tables(size, table, rows, begin):
    session, totals, amount = begin(table(rows(size)), 0.01)
    model = DpspnSynthesizer({"label": "class"}).fit(session, totals, amount)
    assert set(model.sample(0.01, 1)["t"].codes) == set(rows(1))
