"""The graphical synthesizer asks for no more than its budget, on any forest of tables."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from private_tables import private_database

from privbench.domain import Domain
from privbench.learning.graphical.budget import Budget
from privbench.learning.graphical.plan import planned
from privbench.privacy import KeySpec
from privbench.synthesizers import PlanInput, roots_of
from privbench.synthesizers.graphical import GraphicalSynthesizer


def columns(rows, sizes, follow, g):
    """Columns of so many cells; those that follow are functions of one number."""
    base = g.random(rows)
    return {
        f"c{at}": (
            ((base if follow else g.random(rows)) * size).astype(int),
            Domain(size, bool(at % 2)),
        )
        for at, size in enumerate(sizes)
    }


def forest(links, seed, roots=300):
    """Tables, each with a key (place of its parent, role, nullable) to one before it, or no key."""
    g = np.random.default_rng(seed)
    tables, rows = {}, []
    for at, (parent, role, nullable) in enumerate([(-1, "", False), *links]):
        name, keys = f"t{at}", {}
        if parent < 0:
            count = roots
        else:
            owners = np.append(np.repeat(np.arange(rows[parent]), g.poisson(2, rows[parent])), 0)
            if nullable:
                owners = np.where(g.random(len(owners)) < 0.1, -1, owners)
            count = len(owners)
            keys = {KeySpec("k", name, f"t{parent}", role, nullable): owners}
        sizes = [60, 60] if at % 2 else [4, 3, 2]
        rows.append(count)
        tables[name] = count, columns(count, sizes, at % 2 == 0, g), keys
    return private_database(tables)


def fit_within_budget(data, accounting, epsilon, begin):
    """A fit ends, spends what it has, and asks for what was planned.

    A session raises an error where one root table is asked for more than it has left.
    """
    session, totals, amount = begin(data, epsilon, accounting)
    learner, before = GraphicalSynthesizer(), len(session.trace)
    left = {root: session.remaining(root) for root in roots_of(session.spec)}
    start = PlanInput.of(session, totals, amount, {})
    planned = {}
    for question in learner.plan(session.spec, start):
        for root in question.query.roots(session.spec):
            planned[root] = planned.get(root, 0.0) + question.amount
    model = learner.fit(session, totals, amount, {})
    assert set(model.sample(0.1, 1)) == set(session.spec.tables)
    for root in (name for name, table in session.spec.tables.items() if table.own is None):
        spent = sum(
            step.event.amount for step in session.trace[before:] if root in step.event.roots
        )
        assert planned[root] <= left[root]
        assert spent > 0.8 * left[root]


LINKS = st.tuples(st.integers(-1, 3), st.sampled_from(["own", "ref"]), st.booleans())


@pytest.mark.parametrize("examples", [3, pytest.param(150, marks=pytest.mark.slow)])
def test_any_forest_keeps_its_budget(examples, begin):
    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(
        st.lists(LINKS, min_size=1, max_size=3),
        st.integers(0, 99),
        st.sampled_from(["pure", "zcdp"]),
        st.sampled_from([0.5, 3.2, 40.0]),
    )
    # A table in the middle finds no pairs, and the last one spends all that is left.
    @example([(0, "own", False), (1, "own", False)], 1, "pure", 40.0)
    @example([(0, "ref", False), (1, "ref", False)], 1, "zcdp", 40.0)
    def run(links, seed, accounting, epsilon):
        links = [(min(parent, at), *rest) for at, (parent, *rest) in enumerate(links)]
        fit_within_budget(forest(links, seed), accounting, epsilon, begin)

    run()


@pytest.mark.parametrize(
    ("customers", "products", "cap"),
    [(20_000, 2_000, 20), (20_000, 20_000, 4), (100, 20, 4)],
    ids=["ten a product", "one a product", "too few for the noise"],
)
def test_targets_of_many_references_get_a_larger_cap(customers, products, cap):
    """Half of the weight of all references to a target unit would else be cut on average."""
    code = {"c": (np.zeros(1, int), Domain(4))}
    keys = (
        KeySpec("customer", "lines", "customers", "own"),
        KeySpec("k", "lines", "products", "ref"),
    )
    lines = 1, code, {key: np.zeros(1, int) for key in keys}
    tables = {"customers": (1, code, {}), "products": (1, code, {}), "lines": lines}
    totals = {"customers": customers, "products": products, "lines": 5 * customers}
    budget = Budget(private_database(tables).spec, "zcdp", 0.08, {}, {})
    events = planned(budget, totals, {})
    caps = [item.query.cap for item in events if item.label.startswith("columns of targets")]
    assert caps == [cap]
