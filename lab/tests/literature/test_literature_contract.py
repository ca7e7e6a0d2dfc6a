"""What holds of every system of the literature: its claims, its files, what it refuses."""

import json

import numpy as np
import pytest
from harness import check
from sql_files import cases

from privbench import synthesizers
from privbench.errors import ConfigError
from privbench.privacy import Relation
from privbench.synthesizers import PlanInput

P3GM = {"latent": 2, "hidden": 4, "iterations": 2, "steps": 3}
#: Synthesizer, options, rows, ε, kinds of queries that are asked, least ratio of change and claim.
MOMENTS = (60, 500.0, {"joint moments", "joint histogram"}, 0.3)
PARENTS = {"class": ("x0", "x1"), "x0": ("x2",)}
QUAIL = {"target": "class", "synthesizer": "independent", "labels": "best"}
FITS = {
    "bayesnet": ("bayesnet", {"parents": PARENTS}, (40, 50.0, {"histogram"}, 0.9)),
    "dpspn": ("dpspn", {}, MOMENTS),
    "dpspn, class": ("dpspn", {"label": "class"}, MOMENTS),
    "dpspn, columns": ("dpspn", {"columns": "random", "alpha": 0.0}, MOMENTS),
    "p3gm": ("p3gm", P3GM, (24, 30.0, set(), 0.3)),
    "quail": ("quail", QUAIL, (50, 5.0, {"joint histogram", "histogram"}, 0.9)),
}


def accounting_of(name):
    return "zcdp" if name == "p3gm" else "pure"


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("case", FITS)
def test_every_claim_of_a_fit_holds(case, neighbours, table, rows, begin):
    name, options, (count, epsilon, kinds, ratio) = FITS[case]
    data = table(rows(count), Relation(neighbours))
    session, totals, amount = begin(data, epsilon, accounting_of(name))
    synthesizers.get(name)(options).fit(session, totals, amount)
    asked = [step.query for step in session.trace]
    assert kinds <= {query.kind for query in asked}
    report = check(asked, data)
    assert report.ok, report.violations[:3]
    assert report.worst_ratio > ratio


@pytest.mark.parametrize("case", FITS)
def test_models_come_back_from_their_files(case, table, rows, begin):
    name, options, _ = FITS[case]
    session, totals, amount = begin(table(rows(200)), 3.0, accounting_of(name))
    model = synthesizers.get(name)(options).fit(session, totals, amount)
    header, arrays = model.to_state()
    header = json.loads(json.dumps(header))
    held = {key: array.copy() for key, array in arrays.items()}
    again = synthesizers.get(name).load(header, held)
    first, second = model.sample(0.5, 11)["t"], again.sample(0.5, 11)["t"]
    for column, codes in first.codes.items():
        assert np.array_equal(codes, second.codes[column])


@pytest.mark.parametrize(("title", "options"), cases(__file__, "refused.txt"))
def test_what_cannot_be_done_costs_nothing(title, options, table, rows, begin):
    place, fault = title.split(": ")
    name, accounting = place.split(", ")
    options = json.loads(options)
    session, totals, amount = begin(table(rows(50)), 3.0, accounting)
    before, make = session.spent, synthesizers.get(name)
    with pytest.raises(ConfigError, match=fault):
        make(options).fit(session, totals, amount)
    with pytest.raises(ConfigError, match=fault):
        make(options).plan(session.spec, PlanInput(amount, accounting, totals))
    assert session.spent == before
