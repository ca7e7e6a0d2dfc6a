"""Families 1 and 2 of the contract's tests: every claim holds on every neighbour."""

import numpy as np
import pytest
from harness import broken, check, remainder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from private_tables import of_tables, two_tables
from small_databases import (
    ADD,
    REPLACE,
    ROW,
    ROW_REPLACE,
    fill,
    queries,
    recodings,
    settled,
    specs,
)
from stability import all_units, change, telling_units, worst_hub

from privbench.privacy import queries as q
from privbench.privacy.spec import KeySpec

#: Relation of neighbours, examples, and the most rows of a table; of few rows every unit goes, of
#: many the heaviest. Measured for every kind of query, a claim of half its size shows in two
#: examples of three under add/remove, and in one of four under replace, where both units of a pair
#: must be heavy. The slow tests draw more, for claims that are less wrong.
EXAMPLES = [
    (ADD, 8, [7]), (REPLACE, 20, [7]), (ROW, 8, [7]), (ROW_REPLACE, 20, [7]),
    (ADD, 6, [120]), (REPLACE, 6, [120]),
    *(pytest.param(relation, 150, [3, 12, 60], marks=pytest.mark.slow)
      for relation in (ADD, REPLACE, ROW, ROW_REPLACE)),
]  # fmt: skip
SLOW = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
SEED = st.integers(0, 2**32)


@pytest.mark.parametrize(("relation", "examples", "sizes"), EXAMPLES, ids=str)
def test_every_claim_holds_when_a_unit_goes(relation, examples, sizes):
    @given(spec=specs(relation), seed=SEED, most=st.sampled_from(sizes))
    @settings(SLOW, max_examples=examples)
    def holds(spec, seed, most):
        database = fill(spec, most, seed)
        asked = queries(settled(database).spec, seed)
        report = check(asked, database, recodings=recodings(spec), every=most < 60)
        assert report.ok, "\n".join(map(str, report.violations[:5]))

    holds()


def owned_tables(spec):
    """Tables that a finer unit may free: elements are parts of their owners' rows."""
    return [name for name, table in spec.tables.items() if table.own and not table.elements]


@given(data=st.data(), seed=SEED)
@settings(SLOW, max_examples=12)
def test_every_claim_holds_when_the_rest_of_a_finer_unit_goes(data, seed):
    """A part of a unit goes in two steps: the whole unit, and its remainder comes."""
    spec = data.draw(specs().filter(owned_tables))
    freed = data.draw(st.lists(st.sampled_from(owned_tables(spec)), min_size=1, unique=True))
    database = fill(spec, 12, seed)
    asked = queries(settled(database).spec, seed)
    for name in spec.tables:
        # Of the freed tables two units go, whose parts differ; of others their first.
        for row in range(min(1 + (name in freed), len(database._units.identity(name)))):
            (root, _), without, rest = remainder(database, freed, name, row)
            assert broken(asked, root, without, rest, recodings(spec)) == set()


def test_orders_of_a_customer_who_went_are_one_unit():
    """As units of their own, the mutant, they would move a total by 900."""
    database, total = two_tables([0] * 1000 + [1]), [q.Total("posts")]
    for kept, violations in ((True, set()), (False, {"l1", "l2", "linf"})):
        (root, _), without, rest = remainder(database, ["posts"], "users", 0, kept=kept)
        assert root == "users"
        assert broken(total, root, without, rest) == {("total", reason) for reason in violations}


@given(spec=specs(), seed=SEED)
@SLOW
def test_the_same_queries_of_the_same_shapes_are_asked_of_empty_tables(spec, seed):
    rows, none = fill(spec, 9, seed), fill(spec, 0, seed)
    full, empty = settled(rows), settled(none)
    asked = queries(full.spec)
    assert asked == queries(empty.spec)
    for query in asked:
        if isinstance(query, q.LabelCounts):
            cells, listed = query.evaluate_labels(none)
            assert listed == {}
            assert not cells.any()
            continue
        counts = query.evaluate(none if query.reads_raw else empty)
        assert counts.shape == query.shape
        assert query.evaluate(rows if query.reads_raw else full).shape == query.shape
        assert "scores" in query.kind or not counts.any()


def test_change_is_exact_beyond_two_to_the_fifty_three():
    first = np.array([2**60 + 1, 5, 2**61], dtype=np.int64)
    moved = change(first, np.array([0, 5, 2**61 - 1], dtype=np.int64))
    assert (moved.l1, moved.linf, moved.l0) == (2**60 + 2, 2**60 + 1, 2)
    cells = np.array([4, 9], np.int64)
    listed = change((cells, {"a": 2, "b": 1}), (cells - 1, {"a": 2, "c": 3}))
    assert (listed.l1, listed.linf, listed.l0) == (6, 3, 2)


def test_units_that_go_are_the_heaviest_and_the_hub():
    database = two_tables([0, -1, 1, -2, 0])
    assert sorted(all_units(database)) == [("posts", 1), ("posts", 3), ("users", 0), ("users", 1)]
    owners = [7] * 30 + list(range(40))
    database = two_tables(owners, refs=[23] * len(owners), users=40)
    assert {("users", 7), ("users", 23)} <= set(telling_units(database, most=1))
    # References inside a unit do not count; a table without rows shares its neighbour's start.
    key = KeySpec("ref", "b", "c", "ref", nullable=True)
    rows = of_tables(a=(0, {}), c=(2, {}), d=(0, {}), b=(3, {}, {key: [1, 1, 0]}))
    assert worst_hub(rows) == ("c", 1)
    assert worst_hub(two_tables([0, 0, 1], refs=[0, 0, 2], users=3)) == ("users", 2)
    assert worst_hub(two_tables([0, 1], refs=[0, 1])) is None
