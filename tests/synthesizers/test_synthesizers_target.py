"""A column that rows shall tell from the others: its pairs are measured, whatever they show."""

from __future__ import annotations

import numpy as np
import pytest
from private_tables import private_database

from privbench.domain import Domain
from privbench.errors import ConfigError
from privbench.privacy import KeySpec
from privbench.synthesizers.base import PlanInput
from privbench.synthesizers.graphical import GraphicalSynthesizer

PUBLIC = {"countries": 12}


@pytest.mark.parametrize("target", ["orders.state", "kind"])
@pytest.mark.parametrize("epsilon", [2.0, 8.0])
def test_a_targets_pairs_with_all_other_columns_are_measured(target, epsilon, shop, begin):
    session, totals, amount = begin(shop(3000), epsilon)
    learner, before = GraphicalSynthesizer({"target": target}), len(session.trace)
    spec, name = session.spec, target.split(".")[-1]
    table = next(key for key, held in spec.tables.items() if name in held.attributes)
    start = PlanInput.of(session, totals, amount, PUBLIC)
    planned = {event.label for event in learner.plan(spec, start)}
    model = learner.fit(session, totals, amount, PUBLIC)
    events = [step.event for step in session.trace[before:]]
    assert {event.label for event in events} <= planned
    pairs = {event.columns for event in events if event.label == f"pair of {table}"}
    others = {
        other
        for other, domain in spec.tables[table].attributes.items()
        if other != name and not domain.filler
    }
    assert others <= {other for pair in pairs if name in pair for other in pair}
    assert session.spent <= session.amount_total
    assert model.sample(0.1, 1).tables["orders"].rows > 0


def test_a_target_that_is_nowhere_costs_nothing(shop, begin):
    session, totals, amount = begin(shop(200), 1.0)
    spent, learner = session.spent, GraphicalSynthesizer({"target": "salary"})
    with pytest.raises(ConfigError, match="no modelled column"):
        learner.fit(session, totals, amount, PUBLIC)
    with pytest.raises(ConfigError, match="no modelled column"):
        learner.plan(session.spec, PlanInput(amount, "pure", totals))
    assert session.spent == spent


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("roots", [0, 1])
def test_a_target_of_a_table_without_rows_ends_no_fit(roots, nullable, begin):
    key = KeySpec("k", "b", "a", "own", nullable)
    none = np.zeros(0, np.int64)
    columns = {"c": (none, Domain(2)), "d": (none, Domain(3))}
    tables = {"a": (roots, {}, {}), "b": (0, columns, {key: none})}
    session, totals, amount = begin(private_database(tables), 1e4, "zcdp")
    model = GraphicalSynthesizer({"target": "b.c"}).fit(session, totals, amount)
    assert model.sample(1.0, 1).tables["b"].rows == 0
