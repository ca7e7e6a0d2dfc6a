"""Rows that own rows, sizes of units: definition, claims and mutants."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from harness import caught
from hypothesis import given, settings
from hypothesis import strategies as st
from small_databases import fill, specs, two_tables

from privbench.domain import Domain
from privbench.errors import PrivacyRefusal, SchemaError
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable
from privbench.privacy.queries import (
    Children,
    Histogram,
    JointHistogram,
    PairScores,
    Region,
    Split,
    Total,
    UnitRows,
)
from privbench.privacy.queries.counting import View
from privbench.privacy.queries.regions import overlap, region_weights, rows_of
from privbench.privacy.query import GRID, Integers, Sensitivity
from privbench.privacy.spec import DatabaseSpec, KeySpec, TableSpec
from privbench.privacy.units import contribution, row_weights

QUICK = settings(max_examples=30, deadline=None)
SEED = st.integers(0, 2**32)


# rows that own rows -------------------------------------------------------------------------------


def parents(bound: Any = "weights", tau: int = 1) -> PrivateDatabase:
    """User 0 owns eight posts, three of them with links; user 1 one with, user 2 one without."""
    own = KeySpec("own", "posts", "users", "own")
    deep = KeySpec("own", "links", "posts", "own")
    see = KeySpec("see", "links", "posts", "ref", nullable=True)
    spec = DatabaseSpec(
        {
            "users": TableSpec("users", {}),
            "posts": TableSpec("posts", {}, (own,), bound, tau),
            "links": TableSpec("links", {}, (deep, see)),
        }
    )
    cells = Cells(np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1]), Domain(2))
    tables = {
        "users": PrivateTable(3, {}, {}),
        "posts": PrivateTable(10, {"c": cells}, {"own": np.array([0] * 8 + [1, 2])}),
        "links": PrivateTable(
            6, {}, {"own": np.array([2, 2, 5, 7, 8, 8]), "see": np.array([9, 9, 9, 9, 9, 3])}
        ),
    }
    return PrivateDatabase(spec, tables)


def test_parents_share_the_weight_among_themselves() -> None:
    database = parents(tau=2)
    key = database.spec.tables["links"].key("own")
    some = Region.of_parents(key)
    third = GRID * 2 // (2 * 3)
    expected = [0, 0, third, 0, 0, third, 0, third, GRID // 2, 0]
    assert region_weights(database, "posts", some).tolist() == expected
    counts = Histogram.of(database.spec, "posts", (Children(key, (0, 1, 2)),), some)
    assert counts.evaluate(database).tolist() == [0, 2 * third, third + GRID // 2]
    assert Total("posts", 2, some).evaluate(database).tolist() == [3]
    assert caught(counts, database) == set()
    assert caught(replace(counts, tau=1), database) == set()
    whole = EveryParentWhole("posts", counts.axes, some, tau=1)
    assert {"l1", "l2"} <= caught(whole, database)


def test_truncation_keeps_the_first_parents_in_random_order() -> None:
    database = parents("truncation", 2)
    key = database.spec.tables["links"].key("own")
    found = region_weights(database, "posts", Region.of_parents(key))
    ranks = database._units.ranks("posts")
    last = max((2, 5, 7), key=lambda row: ranks[row])
    assert np.flatnonzero(found).tolist() == sorted({2, 5, 7, 8} - {last})
    assert set(found.tolist()) == {0, GRID}


def test_another_tau_costs_the_same_where_rows_are_truncated() -> None:
    database = parents("truncation", 2)
    key = database.spec.tables["links"].key("own")
    for region in (None, Region.of_parents(key)):
        counts = Histogram.of(database.spec, "posts", ("c",), region)
        assert counts.sensitivity(database.spec).l1 == 2 * GRID
        one = replace(counts, tau=1)
        assert one.sensitivity(database.spec) == Sensitivity(GRID, GRID, GRID)
        assert caught(one, database) == set()
        whole = EveryParentWhole("posts", counts.axes, Region.of_parents(key), tau=1)
        assert {"l1", "l2"} <= caught(whole, database)


class EveryParentWhole(Histogram):
    """Every row that owns some counts 1, however many the unit has."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        reads = [axis.read(data, "posts") for axis in self.axes]
        whole = np.full(data._rows("posts"), GRID)
        return View(reads, self.shape, whole, rows_of(data, self.region)).count([(0,)])[0]


@given(data=st.data(), seed=SEED)
@QUICK
def test_weights_of_parents_never_pass_the_contribution(data: st.DataObject, seed: int) -> None:
    database = fill(data.draw(specs()), 30, seed)
    for key in (key for table in database.spec.tables.values() for key in table.keys):
        if key.role == "own":
            for tau in (None, 1, 3):
                found = region_weights(database, key.parent, Region.of_parents(key), tau)
                sums: dict[int, int] = defaultdict(int)
                for unit, weight in zip(
                    database._units.identity(key.parent).tolist(), found.tolist(), strict=True
                ):
                    sums[unit] += weight
                most = contribution(database.spec, key.parent) if tau is None else GRID
                assert max(sums.values(), default=0) <= most
                edges = database._parents(key)
                owns = np.bincount(edges[edges >= 0], minlength=found.size) > 0
                assert not found[~owns].any()


class ParentsByReference(Histogram):
    """Weights among the rows that some row *refers* to, which is up to other units."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        edges = data._parents(data.spec.tables["links"].key("see"))
        rows = np.unique(edges[edges >= 0])
        identity = data._units.identity("posts")[rows]
        _, inverse, sizes = np.unique(identity, return_inverse=True, return_counts=True)
        found = np.zeros(self.shape, dtype=np.int64)
        codes = data._codes("posts", "c")[0][rows]
        np.add.at(found, codes, row_weights(sizes[inverse], 1))
        return found


def test_parents_by_reference() -> None:
    """Posts of thirty users are referred to by user 0's links: with them they enter or leave."""
    key = KeySpec("own", "links", "posts", "own")
    spec, others = parents().spec, 30
    owners = [0] + [user for user in range(1, others + 1) for _ in range(2)]
    see = list(range(1, 2 * others + 1))
    cells = Cells(np.array([0, *[0, 1] * others]), Domain(2))
    tables = {
        "users": PrivateTable(others + 1, {}, {}),
        "posts": PrivateTable(len(owners), {"c": cells}, {"own": np.array(owners)}),
        "links": PrivateTable(
            len(see), {}, {"own": np.zeros(len(see), dtype=int), "see": np.array(see)}
        ),
    }
    database = PrivateDatabase(spec, tables)
    sound = Histogram.of(database.spec, "posts", ("c",), Region.of_parents(key))
    assert caught(sound, database) == set()
    assert "l1" in caught(ParentsByReference("posts", sound.axes), database)


def test_parents_are_refused_along_references() -> None:
    spec = parents().spec
    with pytest.raises(PrivacyRefusal, match="OWN"):
        Region.of_parents(spec.tables["links"].key("see"))
    with pytest.raises(SchemaError, match="not the parent"):
        Region("links", (), spec.tables["links"].key("own"))
    with pytest.raises(SchemaError, match="another table"):
        Total("users", 1, Region("posts"))


class OneWeightForAll(JointHistogram):
    """Disjoint regions of differently weighted rows, as if a unit shared one weight over both."""

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return self.parts[0][0].sensitivity(spec)


def test_differently_weighted_regions_do_not_share_a_budget() -> None:
    database = parents()
    key = database.spec.tables["links"].key("own")
    split = Split.by_code("c", [0, 1])
    low, high = Region("posts").child(split, 0), Region.of_parents(key).child(split, 1)
    assert overlap([(low, 1.0), (high, 2.0)]) == 3.0
    assert overlap([(low, 1.0), (Region("posts").child(split, 1), 2.0)]) == 2.0
    parts = tuple((Histogram.of(database.spec, "posts", (), at), 1.0) for at in (low, high))
    assert caught(JointHistogram(parts), database) == set()
    assert "l1" in caught(OneWeightForAll(parts), database)


def test_pair_tables_of_parents_are_kept_apart() -> None:
    database = parents()
    key = database.spec.tables["links"].key("own")
    axes = ("c", Children(key, (0, 1, 2)))
    for region in (None, Region.of_parents(key)):
        table = Histogram.of(database.spec, "posts", axes, region).evaluate(database)
        for _ in range(2):
            scores = PairScores.of(
                database.spec, "posts", axes, [(0, 1)], [np.zeros(table.shape)], region
            )
            assert scores.evaluate(database).tolist() == [int(table.sum())]


# sizes of units -----------------------------------------------------------------------------------


def test_unit_rows_count_the_own_unit() -> None:
    database = parents()
    assert UnitRows("links", (0, 1, 4)).codes(database, "users").tolist() == [2, 1, 0]
    assert UnitRows("links", (0, 1, 4)).codes(database, "posts").tolist() == [2] * 8 + [1, 0]
    assert UnitRows("posts", (0, 1, 2)).codes(database, "posts").tolist() == [2] * 8 + [1, 1]
    assert UnitRows("users", (0, 1)).codes(database, "links").tolist() == [1] * 6
    asked = Histogram.of(database.spec, "posts", ("c", UnitRows("links", (0, 1, 4))))
    assert caught(asked, database) == set()


@given(data=st.data(), seed=SEED)
@QUICK
def test_unit_rows_in_any_database(data: st.DataObject, seed: int) -> None:
    database = fill(data.draw(specs()), 12, seed)
    names = list(database.spec.tables)
    for name in names:
        for other in names:
            theirs = database._units.identity(other).tolist()
            counts = [theirs.count(unit) for unit in database._units.identity(name).tolist()]
            codes = UnitRows(other, tuple(range(13))).codes(database, name)
            assert codes.tolist() == counts


class RowsThatRefer(UnitRows):
    """The number of rows that refer to the row: other units' doing."""

    def read(self, data: PrivateDatabase, table: str) -> Any:
        edges = data._parents(data.spec.tables["posts"].key("ref"))
        counts = np.bincount(edges[edges >= 0], minlength=data._rows(table))
        return np.minimum(counts, self.size - 1).astype(np.uint16), None


def test_rows_that_refer_are_no_rows_of_the_unit() -> None:
    owners, refs = [0] * 20, list(range(1, 21))
    database = two_tables(owners, refs=refs, users=21)
    for axis, reasons in (
        (UnitRows("posts", (0, 1, 2)), set()),
        (RowsThatRefer("posts", (0, 1, 2)), {"l1", "l2", "linf"}),
    ):
        query = Histogram("users", (axis,))
        assert caught(query, database, units=[("users", 0)]) == reasons
