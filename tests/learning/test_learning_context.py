"""What owners give to the rows that they own: groups, and bins along chains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as hypothesis_given
from hypothesis import settings
from hypothesis import strategies as st

from privbench.domain import Domain
from privbench.learning.assemble import TableModel, identities
from privbench.learning.bins import Bins
from privbench.learning.junction.context import Variable, groups, lifted
from privbench.learning.junction.given import GivenColumn
from privbench.learning.junction.population import Population
from privbench.learning.keys import KeyModel, fan_variable
from privbench.privacy import DatabaseSpec, KeySpec, TableSpec
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable
from privbench.privacy.queries import FAN_OUT_BOUNDS
from privbench.rng import generator

# Groups of owners


@hypothesis_given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=24), st.floats(0, 1e6, exclude_min=True)
)
@settings(max_examples=300, deadline=None)
def test_groups_are_runs_that_hold_enough(counts, least):
    of = groups(np.array(counts), least)
    assert of[0] == 0
    assert set(np.diff(of).tolist()) <= {0, 1}
    held = np.bincount(of, counts)
    # Sums over codes in either direction differ in the last digit.
    assert (held >= least * (1 - 1e-9)).all() or len(held) == 1
    assert np.bincount(of).min() > 0
    # No run could be cut once more from its end: only the first takes in what is left over.
    for group in range(1, len(held)):
        assert sum(counts[k] for k in np.flatnonzero(of == group)[1:]) < least * (1 + 1e-9)


def test_without_noise_every_number_is_a_group():
    assert groups(np.zeros(5), 0.0).tolist() == [0, 1, 2, 3, 4]


# Chains of owners

CHAIN = ("a", "b", "c", "d")
PARENTS = {"a": None, "b": "a", "c": "b", "d": "c"}
TAUS = {"a": 1, "b": 2, "c": 3, "d": 2}
SIZES = {"a": 5, "b": 4, "c": 6, "d": 2}


def chain(seed, rows=(12, 25, 40, 90)):
    """Rows of four tables that own one another, a fifth of them without an owner."""
    g = generator(seed, "chain")
    counts = dict(zip(CHAIN, rows, strict=True))
    codes = {name: g.integers(0, SIZES[name], counts[name]) for name in CHAIN}
    owners = {}
    for name in CHAIN[1:]:
        above = counts[PARENTS[name]]
        found = g.integers(0, max(above, 1), counts[name])
        owners[name] = np.where((g.random(counts[name]) < 0.2) | (above == 0), -1, found)
    return counts, codes, owners


def private(counts, codes, owners):
    """The same rows as a private database."""
    specs, tables = {}, {}
    for name in CHAIN:
        keys = (KeySpec("up", name, PARENTS[name], "own", True),) if PARENTS[name] else ()
        specs[name] = TableSpec(name, {}, keys, tau=TAUS[name])
        cells = {"x": Cells(codes[name], Domain(SIZES[name]))}
        edges = {"up": owners[name]} if PARENTS[name] else {}
        tables[name] = PrivateTable(counts[name], cells, edges)
    return PrivateDatabase(DatabaseSpec(specs), tables)


def populate(counts, codes, owners):
    people = Population(PARENTS, TAUS)
    for name in CHAIN:
        people.add(name, {"x": codes[name]}, owners.get(name), counts[name])
    return people


def climb(owners, table, row, level):
    """Reference: the owner at a level, or −m where the chain ends at level m."""
    for step in range(1, level + 1):
        row = int(owners[table][row])
        table = PARENTS[table]
        if row < 0:
            return -step
    return row


ROWS = pytest.mark.parametrize(
    "rows", [(12, 25, 40, 90), (1, 2, 3, 30), (0, 9, 20, 40), (5, 0, 9, 20), (0, 0, 0, 7)]
)


@ROWS
def test_owners_at_every_level_are_those_that_one_finds_by_climbing(rows):
    counts, codes, owners = chain(1, rows)
    people = populate(counts, codes, owners)
    ended = set()
    for level in (1, 2, 3):
        index = people.index("d", owners["d"], level)
        assert index.tolist() == [climb(owners, "d", row, level) for row in range(counts["d"])]
        ended |= set(index[index < 0].tolist())
    if rows[0] == 12:
        assert ended == {-1, -2, -3}


@ROWS
def test_given_bins_are_the_codes_that_queries_see(rows):
    """Synthetic rows and measurements speak of the same cells, at every level of a chain."""
    counts, codes, owners = chain(2, rows)
    people, data = populate(counts, codes, owners), private(counts, codes, owners)
    columns, axes = [], []
    for level, name in enumerate(("c", "b", "a"), 1):
        of = np.arange(SIZES[name]) // 2
        domain = Domain(SIZES[name])
        bins = Bins(of, np.ones(len(of)), np.bincount(of).astype(float))
        columns.append(GivenColumn(level, "x", of))
        axes.append(lifted(data.spec, "d", level, Variable("x", domain, bins).axis))
    found = people.given("d", owners["d"], columns)
    for column, axis, bins in zip(columns, axes, found, strict=True):
        assert column.size == axis.size
        assert bins.tolist() == axis.codes(data, "d").tolist()


def test_given_numbers_of_children_are_the_codes_that_queries_see():
    counts, codes, owners = chain(3)
    data = private(counts, codes, owners)
    key = data.spec.tables["b"].own
    name = fan_variable("b", "up")
    children = np.bincount(owners["b"][owners["b"] >= 0], minlength=counts["a"])
    buckets = np.searchsorted(FAN_OUT_BOUNDS, children, side="right") - 1
    assert len(np.unique(buckets)) > 3
    people = populate(counts, codes, owners)
    people.add("a", {name: buckets}, None, counts["a"])
    of = groups(np.bincount(buckets, minlength=len(FAN_OUT_BOUNDS)).astype(float), 2.0)
    assert of.max() > 1
    bins = Bins(of, np.ones(len(of)), np.bincount(of).astype(float))
    variable = Variable(name, Domain(len(of), ordered=True), bins, key)
    assert variable.early
    found = people.given("d", owners["d"], [GivenColumn(3, name, of)])[0]
    assert found.tolist() == lifted(data.spec, "d", 3, variable.axis).codes(data, "d").tolist()


@ROWS
def test_units_and_weights_are_those_of_the_measurements(rows):
    counts, codes, owners = chain(4, rows)
    people, data = populate(counts, codes, owners), private(counts, codes, owners)
    pairs = set()
    for name in CHAIN:
        mine, theirs = people.identity(name), data._units.identity(name)
        pairs |= set(zip(mine.tolist(), theirs.tolist(), strict=True))
        assert people.sizes(name).tolist() == data._units.sizes(name).tolist()
    # One unit is one unit in all tables: the numbers are renamed, one to one.
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
    for name in CHAIN[1:]:
        weights, due = people.weights(name, owners[name]), data._units.weights(name)
        assert weights.shape == due.shape
        if len(due):
            assert weights / weights.max() == pytest.approx(due / due.max(), rel=1e-6)


@ROWS
def test_assembled_units_are_those_of_the_measurements(rows):
    counts, codes, owners = chain(6, rows)
    data = private(counts, codes, owners)
    own = {name: KeyModel("up", PARENTS[name], "own", True, False) for name in CHAIN[1:]}
    tables = {name: TableModel(9.0, {"up": own[name]} if name in own else {}) for name in CHAIN}
    units = identities(tables, CHAIN, {"a": None, **owners}, counts)
    pairs = set()
    for name in CHAIN:
        pairs |= set(zip(units[name].tolist(), data._units.identity(name).tolist(), strict=True))
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def test_roots_have_no_ancestors():
    data = private(*chain(5))
    with pytest.raises(ValueError, match="no ancestors"):
        lifted(data.spec, "a", 1, Variable("x", Domain(5), Bins(*[np.ones(5, int)] * 3)).axis)
