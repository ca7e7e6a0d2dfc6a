"""What is asked for in the domain stage where units are few."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from privbench.encoding import Bounds, BoundsNeed, CategoriesNeed
from privbench.pipeline.domain_shares import Shares
from privbench.pipeline.domains import _from_zero
from privbench.privacy import DatabaseSpec, Relation
from privbench.privacy.spec import TableSpec

USUAL = Bounds(0, 100, seen=False)


def dates(name):
    return BoundsNeed(name, np.arange(9), USUAL, dear=True)


def numbers(name):
    return BoundsNeed(name, np.arange(9), USUAL, dear=False)


def kept(tables, rows, amount, delta=1e-9):
    """Attributes that are asked for, by table, and what goes to second totals."""
    spec = DatabaseSpec(
        {name: TableSpec(name, {}, ()) for name in tables}, Relation("add-remove", "owner")
    )
    private = [
        SimpleNamespace(
            table=SimpleNamespace(key=name),
            readers={need.attribute: SimpleNamespace(needs=(need,)) for need in needs},
        )
        for name, needs in tables.items()
    ]
    plan = SimpleNamespace(private=private, spec=spec)
    found = Shares.of(plan, spec, dict.fromkeys(tables, rows), amount, "pure", delta)
    names = {name: [] for name in tables}
    for item in found.amounts:
        table, attribute = item.split("\x1f")
        names[table].append(attribute)
    return names, found


def test_numbers_make_room_for_dates():
    needs = [*(numbers(f"n{i}") for i in range(20)), dates("d")]
    names, found = kept({"a": needs}, 900.0, 0.2)
    assert names["a"] == ["d"]
    assert sum(found.amounts.values()) == pytest.approx(60 / 900)


def test_lists_that_promise_little_are_dropped_first():
    needs = [CategoriesNeed("title"), CategoriesNeed("status", dear=True), numbers("n")]
    names, _ = kept({"a": needs}, 2000.0, 0.15)
    assert names["a"] == ["status", "n"]


def test_trees_do_not_starve_each_other():
    needs = [dates(f"d{i}") for i in range(4)]
    alone, _ = kept({"b": needs}, 900.0, 0.064)
    beside, _ = kept({"a": needs, "b": needs}, 900.0, 0.064)
    assert 0 < len(alone["b"]) < 4
    assert beside["a"] == beside["b"] == alone["b"]


def test_only_a_part_goes_to_second_totals():
    names, found = kept({"a": [numbers("n")]}, 30.0, 0.2)
    assert names["a"] == []
    assert found.again == {"a": pytest.approx(0.05)}


def test_no_range_gets_more_than_shows_it_well():
    _, found = kept({"a": [dates("d"), numbers("n")]}, 100_000.0, 0.2)
    assert list(found.amounts.values()) == [pytest.approx(60 / 100_000)] * 2
    _, found = kept({"a": [dates("d")]}, 300.0, 0.2)
    assert list(found.amounts.values()) == [pytest.approx(0.2)]


def test_a_range_begins_at_zero_where_nothing_is_seen_below():
    need = BoundsNeed("n", np.array([-2, -1, 0, 1, 2, 4]), USUAL, dear=False)
    noisy = np.array([0.0, 1.0, -1.0, 9.0, 9.0, 9.0, 0.0])
    assert _from_zero(need, noisy, 1.0, 1, 5) == (3, 5)
    assert need.between(*_from_zero(need, noisy, 1.0, 1, 5), np.ones(7, np.int64), 16).lo == 0
    assert _from_zero(need, noisy + np.eye(7)[1] * 5, 1.0, 1, 5) == (1, 5)
    assert _from_zero(dates("d"), noisy, 1.0, 1, 5) == (1, 5)
