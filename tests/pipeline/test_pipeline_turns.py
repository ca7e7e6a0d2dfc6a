"""What is asked for in the domain stage where units are few."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.encoding import Bounds, BoundsNeed, CategoriesNeed, DecimalsNeed
from privbench.pipeline.domain_items import need_amounts
from privbench.pipeline.domain_modes import Mode, Modes, mode_amounts
from privbench.pipeline.domain_shares import Shares, settled_stages
from privbench.pipeline.domain_stages import item_of, stages
from privbench.pipeline.domain_stages import needs as listed_needs
from privbench.pipeline.domain_weights import Count, Weights, weight_amounts
from privbench.pipeline.domains import _from_zero
from privbench.privacy import DatabaseSpec, Relation
from privbench.privacy.spec import KeySpec, TableSpec

USUAL = Bounds(0, 100, seen=False)


def dates(name):
    return BoundsNeed(name, np.arange(9), USUAL, dear=True)


def numbers(name):
    return BoundsNeed(name, np.arange(9), USUAL, dear=False)


def planned(tables, spec=None):
    """What the rules read of a plan: needs by table."""
    spec = spec or DatabaseSpec(
        {name: TableSpec(name, {}, ()) for name in tables}, Relation("add-remove", "owner")
    )
    private = [
        SimpleNamespace(
            table=SimpleNamespace(key=name),
            readers={need.attribute: SimpleNamespace(needs=(need,)) for need in needs},
        )
        for name, needs in tables.items()
    ]
    return SimpleNamespace(private=private, spec=spec)


def kept(tables, rows, amount, delta=1e-9):
    """Attributes that are asked for, by table, and what goes to second totals."""
    plan = planned(tables)
    weights = Weights(dict.fromkeys(tables, rows))
    found = Shares.of(plan, weights, amount, "pure", delta, {})
    names = {name: [] for name in tables}
    for item in found.amounts:
        table, attribute = item.split("\x1f")
        names[table].append(attribute)
    return names, found


def test_numbers_make_room_for_dates():
    needs = [*(numbers(f"n{i}") for i in range(20)), dates("d")]
    names, found = kept({"a": needs}, 900.0, 0.2)
    assert names["a"] == ["d"]
    assert sum(found.amounts.values()) == pytest.approx(120 / 900)


def test_lists_that_promise_little_are_dropped_first():
    needs = [CategoriesNeed("title"), CategoriesNeed("status", dear=True), numbers("n")]
    names, _ = kept({"a": needs}, 2000.0, 0.15)
    assert names["a"] == ["status", "n"]


def test_unlikely_lists_and_long_texts_make_room():
    needs = [
        CategoriesNeed("name", own=True),
        CategoriesNeed("clerk", length=40),
        CategoriesNeed("flag", length=1),
        CategoriesNeed("mode", length=10),
    ]
    names, found = kept({"a": needs}, 2000.0, 0.35)
    assert names["a"] == ["clerk", "flag", "mode"]
    assert found.lists == 3
    names, _ = kept({"a": needs}, 2000.0, 0.15)
    assert names["a"] == ["flag"]
    names, found = kept({"a": needs}, 2000.0, 3.0)
    assert len(names["a"]) == 4
    assert found.lists == 3


def told(count, rows=3000.0, epsilon=0.5, columns=1):
    """The budget, and what is asked for, where one name of all is shared by a noisy count."""
    names = [CategoriesNeed(f"name{i}", own=True) for i in range(columns)]
    plan, weights = planned({"a": [*names, numbers("n"), numbers("m")]}), Weights({"a": rows})
    asked = mode_amounts(plan, weights, stages(plan, epsilon).domains, "pure")
    found = {
        item: Mode((count if item.endswith("name0") else 0.0) * 2**0.5 / part, 2**0.5 / part)
        for item, part in asked.items()
    }
    modes = Modes.of(plan, asked, found)
    split, shares = settled_stages(plan, weights, epsilon, "pure", 1e-9, modes)
    return split, {item.split("\x1f")[1] for item in shares.amounts}


def test_a_name_that_noise_may_share_moves_no_budget():
    """At 2.3 deviations domains took 48 % of the budget for it: noise, for one name in 50."""
    usual, _ = told(0.0, columns=2)
    seen, asked = told(2.3, columns=2)
    assert seen == usual
    assert {"n", "m"} <= asked
    clear, asked = told(3.1, columns=2)
    assert clear.domains > usual.domains
    assert "name0" in asked
    _, asked = told(2.3, rows=30_000.0, epsilon=1.0)
    assert "name0" in asked


def test_ranges_make_no_room_for_a_list_that_all_of_the_budget_would_not_show():
    """They were dropped before it, and then it was."""
    _, asked = told(3.1)
    assert asked == {"n", "m"}


def test_lists_get_what_ranges_do_not_need():
    needs = [numbers("n"), CategoriesNeed("kind", dear=True)]
    _, found = kept({"a": needs}, 100_000.0, 0.2)
    assert list(found.amounts.values()) == pytest.approx([120 / 100_000, 0.2 - 120 / 100_000])


@pytest.mark.parametrize("amount", [0.02, 0.05, 0.3, 3.0])
def test_decimals_take_little(amount):
    """At least what tells them, at most what tells them well; numbers without a range need none."""
    names, found = kept({"a": [numbers("n"), DecimalsNeed("d")]}, 3000.0, amount)
    seen = {name[2:]: 3000.0 * share for name, share in found.amounts.items()}
    assert seen["n"] <= 120.0 * (1 + 1e-9)
    if "d" in names["a"]:
        assert 8.0 <= seen["d"] <= seen["n"]
    assert sum(found.amounts.values()) <= amount


def test_no_root_table_gets_more_than_there_is():
    own = KeySpec("k", "b", "a", "own")
    spec = DatabaseSpec(
        {"a": TableSpec("a", {}, ()), "b": TableSpec("b", {}, (own,)), "c": TableSpec("c", {}, ())},
        Relation("add-remove", "owner"),
    )
    items = {
        f"{table}{i}": (table, CategoriesNeed("k") if i % 2 else dates("d"))
        for table in "abc"
        for i in range(5)
    }
    most = {f"{table}{i}": 0.01 * (i + 1) for table in "abc" for i in (0, 2, 4)}
    given = need_amounts(
        {name: spec.roots(table) for name, (table, _) in items.items()},
        items,
        dict.fromkeys(items, 1.0),
        0.3,
        most,
    )
    assert all(given[name] <= most[name] for name in most)
    for root in ("a", "c"):
        charged = [given[name] for name, (table, _) in items.items() if root in spec.roots(table)]
        assert 0.3 * 0.99 < sum(charged) <= 0.3


def test_more_goes_to_domains_only_where_that_saves_lists():
    lists = [CategoriesNeed(f"k{i}", dear=True) for i in range(3)]
    plan, nothing = planned({"a": lists}), Modes({}, 0.0)
    usual = stages(plan, 3.0)
    for rows, more in ((100.0, False), (1500.0, True), (50_000.0, False)):
        weights = Weights({"a": rows})
        found = settled_stages(plan, weights, 3.0, "pure", 1e-9, nothing)[0]
        assert (found.domains > usual.domains) == more
        assert found.domains + found.synthesizer + found.totals == pytest.approx(3.0)
    own = planned({"a": [CategoriesNeed(f"k{i}", own=True) for i in range(3)]})
    found = settled_stages(own, Weights({"a": 1500.0}), 3.0, "pure", 1e-9, nothing)[0]
    assert found == usual


@given(st.data(), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_domains_stay_within_their_budget(data, seed):
    """Largest counts, lists, ranges and second totals, for every root table of any forest."""
    tables, needs = {}, {}
    for i in range(data.draw(st.integers(1, 6))):
        parent = data.draw(st.sampled_from([None, *tables]))
        nullable = data.draw(st.booleans())
        keys = (KeySpec("k", f"t{i}", parent, "own", nullable),) if parent else ()
        tables[f"t{i}"] = TableSpec(f"t{i}", {}, keys)
        kinds = data.draw(st.lists(st.sampled_from("ndlog"), max_size=8))
        made = {
            "n": numbers, "d": dates, "l": lambda name: CategoriesNeed(name, dear=True),
            "o": lambda name: CategoriesNeed(name, own=True),
            "g": lambda name: CategoriesNeed(name, own=True, grid=f"{name}p"),
        }  # fmt: skip
        needs[f"t{i}"] = [made[kind](f"{kind}{place}") for place, kind in enumerate(kinds)]
    spec = DatabaseSpec(tables, Relation("add-remove", "owner"))
    plan = planned(needs, spec)
    accounting = data.draw(st.sampled_from(["pure", "zcdp"]))
    totals = {name: data.draw(st.floats(1, 1e6)) for name in tables}
    amount = data.draw(st.floats(1e-3, 10))
    rng = np.random.default_rng(seed)
    domains = stages(plan, amount).domains
    counted = weight_amounts(plan, totals, domains, accounting)
    told = {name: Count(rng.uniform(-9, 9) ** 5, rng.uniform(0.1, 1e3)) for name in counted}
    weights = Weights.of(spec, totals).told(spec, counted, told)
    amounts = mode_amounts(plan, weights, domains, accounting)
    found = {name: Mode(rng.uniform(-9, 9) ** 5, rng.uniform(0.1, 1e3)) for name in amounts}
    modes = Modes.of(plan, amounts, found, weights.spent)
    split, shares = settled_stages(plan, weights, amount, accounting, 1e-9, modes)
    items = {item_of(table, need): table for table, _, need in listed_needs(plan)}
    for root in {root for name in tables for root in spec.roots(name)}:
        asked = [
            share
            for given in (amounts, shares.amounts)
            for name, share in given.items()
            if root in spec.roots(items[name])
        ]
        again = [share for name, share in shares.again.items() if root in spec.roots(name)]
        again += [share for name, share in counted.items() if root in spec.roots(name)]
        assert sum(asked) + sum(again) <= split.domains * (1 + 1e-12)
    assert split.totals + split.domains + split.synthesizer <= amount * (1 + 1e-12)


def test_what_nearly_all_share_does_not_make_room_for_what_few_do():
    """Names that say little (a first name that all 2,000 share) against dear labels and dates."""
    cheap = [CategoriesNeed(f"c{i}") for i in range(3)]
    costly = [CategoriesNeed(f"k{i}", dear=True) for i in range(2)]
    plan = planned({"a": [*cheap, *costly, *(dates(f"d{i}") for i in range(4))]})
    units = {f"c{i}": 1900.0 for i in range(3)} | {"k0": 130.0, "k1": 110.0}
    modes = {f"a\x1f{name}": Mode(count, 10.0) for name, count in units.items()}
    shares = Shares.of(plan, Weights({"a": 2000.0}), 0.3, "pure", 1e-9, modes)
    names = {name.partition("\x1f")[2] for name in shares.amounts}
    assert {"c0", "c1", "c2"} <= names


def test_a_clear_largest_count_decides():
    """Cheap lists stay, whatever the length of their type; what is not shared is not asked for."""
    lists = [CategoriesNeed(f"c{i}", length=20) for i in range(6)]
    needs = [*lists, CategoriesNeed("poor", length=2), CategoriesNeed("free", own=True)]
    plan = planned({"a": needs})
    units = {f"c{i}": 600.0 for i in range(6)} | {"poor": 40.0, "free": 5.0}
    modes = {f"a\x1f{name}": Mode(count, 10.0) for name, count in units.items()}
    split, shares = settled_stages(
        plan, Weights({"a": 3000.0}), 3.0, "pure", 1e-9, Modes(modes, 0.05)
    )
    names = {name.partition("\x1f")[2] for name in shares.amounts}
    assert names == {f"c{i}" for i in range(6)}
    log_delta = np.log(6e9)
    assert all(600.0 * share > 1.25 * log_delta for share in shares.amounts.values())
    assert split.domains < 3.0


def test_trees_do_not_starve_each_other():
    needs = [dates(f"d{i}") for i in range(4)]
    alone, _ = kept({"b": needs}, 900.0, 0.04)
    beside, _ = kept({"a": needs, "b": needs}, 900.0, 0.04)
    assert 0 < len(alone["b"]) < 4
    assert beside["a"] == beside["b"] == alone["b"]


def test_only_a_part_goes_to_second_totals():
    names, found = kept({"a": [numbers("n")]}, 30.0, 0.2)
    assert names["a"] == []
    assert found.again == {"a": pytest.approx(0.05)}


def test_no_range_gets_more_than_shows_it_well():
    _, found = kept({"a": [dates("d"), numbers("n")]}, 100_000.0, 0.2)
    assert list(found.amounts.values()) == [pytest.approx(120 / 100_000)] * 2
    _, found = kept({"a": [dates("d")]}, 300.0, 0.2)
    assert list(found.amounts.values()) == [pytest.approx(0.2)]


def test_a_range_begins_at_zero_where_nothing_is_seen_below():
    need = BoundsNeed("n", np.array([-2, -1, 0, 1, 2, 4]), USUAL, dear=False)
    noisy = np.array([0.0, 1.0, -1.0, 9.0, 9.0, 9.0, 0.0])
    assert _from_zero(need, noisy, 1.0, 1, 5) == (3, 5)
    assert need.between(*_from_zero(need, noisy, 1.0, 1, 5), np.ones(7, np.int64), 16).lo == 0
    assert _from_zero(need, noisy + np.eye(7)[1] * 5, 1.0, 1, 5) == (1, 5)
    assert _from_zero(dates("d"), noisy, 1.0, 1, 5) == (1, 5)
