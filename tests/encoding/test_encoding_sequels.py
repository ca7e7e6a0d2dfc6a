"""Dates whose names tell their order; exchanges that bring two columns in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from privbench.encoding.column_names import date_orders
from privbench.encoding.keys.generate import fill_keys
from privbench.encoding.keys.repair import order_by_swaps
from privbench.schema import Check, Column, ColumnType, ForeignKey, Table, TableName, Unique

DATE = ColumnType("date", "date", category="D")
STAMP = ColumnType("timestamp with time zone", "timestamptz", category="D")
INT = ColumnType("integer", "int4", category="N")
NAME = TableName("public", "loans")


def table(*names, type_=DATE, checks=(), uniques=()):
    columns = [Column("id", 1, INT, not_null=True)]
    columns += [Column(name, i + 2, type_) for i, name in enumerate(names)]
    return Table(
        NAME,
        tuple(columns),
        primary_key=Unique("pk", ("id",), primary=True),
        uniques=tuple(Unique(f"u{i}", tuple(item)) for i, item in enumerate(uniques)),
        checks=tuple(Check(f"c{i}", text, tuple(names)) for i, text in enumerate(checks)),
    )


def days(values):
    mask = np.isnan(values)
    whole = np.where(mask, 0, values).astype(np.int32)
    return pa.array(whole, mask=mask).cast(pa.date32())


def made(item, seed=0, **values):
    rng = np.random.default_rng(seed)
    columns = {name: days(np.asarray(found, dtype=float)) for name, found in values.items()}
    rows = len(next(iter(columns.values())))
    return fill_keys(item, columns, {}, nothing, rng, rows=rows).columns


def nothing(key: ForeignKey):
    raise AssertionError(key)


def numbers(array):
    return array.cast(pa.int32()).to_numpy(zero_copy_only=False)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("rental_date", "return_date"),
        ("orderdate", "duedate"),
        ("SellStartDate", "SellEndDate"),
        ("created_at", "last_login"),
        ("createdAt", "updatedAt"),
        ("creationdate", "lastaccessdate"),
        ("admittime", "dischtime"),
        ("intime", "outtime"),
        ("visit_start_date", "visit_end_date"),
        ("from_date", "to_date"),
        ("birthdate", "hiredate"),
        ("first_seen_at", "last_seen_at"),
        ("check_in", "check_out"),
    ],
)
def test_names_tell_what_comes_first(before, after):
    assert list(date_orders(table(after, before))) == [(before, after)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("visit_start", "stay_end"),
        ("photo_date", "from_date"),
        ("birth_date", "order_date"),
        ("due_date", "review_date"),
        ("last_update", "last_login"),
    ],
)
def test_other_names_tell_nothing(one, other):
    assert list(date_orders(table(one, other))) == []


def test_only_dates_of_one_type_are_compared():
    mixed = table("start_date", "end_date")
    columns = (*mixed.columns[:2], Column("end_date", 3, STAMP))
    assert list(date_orders(Table(NAME, columns))) == []
    assert list(date_orders(table("start", "end", type_=INT))) == []


def test_both_columns_keep_their_values_and_their_distance_is_that_of_their_means():
    rng = np.random.default_rng(1)
    begin = rng.uniform(0, 200, 2000).round()
    end = rng.permutation(begin + rng.uniform(0, 10, 2000).round())
    found = made(table("rental_date", "return_date"), rental_date=begin, return_date=end)
    low, high = numbers(found["rental_date"]), numbers(found["return_date"])
    assert (low <= high).all()
    assert sorted(low) == sorted(begin)
    assert sorted(high) == sorted(end)
    assert np.percentile(high - low, 90) < 15


def test_nulls_stay_where_they_are():
    rng = np.random.default_rng(2)
    begin, end = rng.uniform(0, 100, 500), rng.uniform(50, 150, 500)
    begin[::7], end[::3] = np.nan, np.nan
    found = made(table("start_date", "end_date"), start_date=begin, end_date=end)
    assert (found["start_date"].is_null().to_numpy(zero_copy_only=False) == np.isnan(begin)).all()
    assert (found["end_date"].is_null().to_numpy(zero_copy_only=False) == np.isnan(end)).all()


def test_the_values_decide_where_names_tell_either():
    rng = np.random.default_rng(3)
    arrival = rng.uniform(0, 100, 500)
    departure = arrival + rng.uniform(0, 10, 500)
    departure[:200] = rng.permutation(departure[:200])
    found = made(
        table("arrival_date", "departure_date"), arrival_date=arrival, departure_date=departure
    )
    assert (numbers(found["arrival_date"]) <= numbers(found["departure_date"])).mean() > 0.95
    found = made(
        table("arrival_date", "departure_date"), arrival_date=departure, departure_date=arrival
    )
    assert (numbers(found["arrival_date"]) >= numbers(found["departure_date"])).mean() > 0.95


def test_a_unique_column_keeps_its_rows():
    rng = np.random.default_rng(4)
    begin, end = rng.permutation(300).astype(float), rng.permutation(300) + 10.0
    one = table("start_date", "end_date", uniques=[["end_date"]])
    found = made(one, start_date=begin, end_date=end)
    assert (numbers(found["end_date"]) == end).all()
    assert (numbers(found["start_date"]) <= numbers(found["end_date"])).all()


def test_a_check_is_kept_without_moving_either_column():
    rng = np.random.default_rng(5)
    begin, end = rng.uniform(0, 100, 1000).round(), rng.uniform(20, 120, 1000).round()
    one = table("a", "b", checks=["(a < b)"])
    found = made(one, a=begin, b=end)
    low, high = numbers(found["a"]), numbers(found["b"])
    assert (low < high).all()
    assert sorted(low) == sorted(begin)
    assert sorted(high) == sorted(end)


def test_what_no_exchange_mends_follows_as_others_do():
    """Noise may put most returns before most rentals."""
    rng = np.random.default_rng(6)
    begin = rng.uniform(0, 200, 1000).round()
    end = rng.permutation(begin + rng.uniform(0, 10, 1000).round()) - 4
    found = made(table("rental_date", "return_date"), rental_date=begin, return_date=end)
    low, high = numbers(found["rental_date"]), numbers(found["return_date"])
    assert (low <= high).all()
    assert sorted(low) == sorted(begin)
    assert np.percentile(high - low, 90) < 25
    assert abs(high.mean() - end.mean()) < 5


def test_a_few_rows_that_cannot_be_in_order_do_not_disturb_the_others():
    rng = np.random.default_rng(7)
    left, right = rng.integers(0, 100, 1000), rng.integers(100, 200, 1000)
    left[:5] = 300
    order = order_by_swaps(left, right, rng)
    assert sorted(order) == list(range(1000))
    assert (left > right[order]).sum() == 5
    assert (order != np.arange(1000)).sum() <= 100


def test_equal_columns_stay_as_they_are_where_names_tell_either():
    """Flights of a year: one in three arrives on the next day, and noise hides the rest."""
    rng = np.random.default_rng(8)
    departure, arrival = rng.uniform(0, 365, 5000).round(), rng.uniform(0, 365, 5000).round()
    found = made(
        table("departure_date", "arrival_date"), departure_date=departure, arrival_date=arrival
    )
    assert (numbers(found["departure_date"]) == departure).all()
    assert (numbers(found["arrival_date"]) == arrival).all()


def test_rows_that_have_the_other_order_keep_it():
    """A library lends out first."""
    rng = np.random.default_rng(9)
    out = rng.uniform(0, 300, 1000).round()
    back = out + rng.uniform(1, 13, 1000).round()
    found = made(table("date_out", "date_in"), date_out=out, date_in=back)
    assert (numbers(found["date_out"]) == out).all()
    assert (numbers(found["date_in"]) == back).all()
    assert list(date_orders(table("started_at", "submitted_at"))) == []


@pytest.mark.parametrize(
    "names",
    [
        ("delivery_date", "ship_date", "order_date"),
        ("ship_date", "delivery_date", "order_date"),
        ("order_date", "ship_date", "delivery_date"),
    ],
)
def test_chains_are_in_order_whatever_the_order_of_columns(names):
    rng = np.random.default_rng(10)
    values = {name: rng.uniform(0, 300, 2000).round() for name in names}
    found = {
        name: numbers(got) for name, got in made(table(*names), **values).items() if name in names
    }
    assert (found["order_date"] <= found["ship_date"]).mean() > 0.98
    assert (found["ship_date"] <= found["delivery_date"]).mean() > 0.98


@pytest.mark.parametrize("seed", range(40))
def test_what_exchanges_have_mended_is_not_sorted(seed):
    rng = np.random.default_rng(seed)
    left = rng.uniform(0, 100, 300)
    right = left + rng.uniform(0, 60, 300)
    some = rng.choice(300, 60, replace=False)
    right[some] = rng.permutation(right[some])
    order = order_by_swaps(left, right, rng)
    assert (left <= right[order]).all()
    assert (order == np.arange(300)).mean() > 0.5


CONDITIONS = (
    "CASE state WHEN 'done' THEN (b >= a) WHEN 'new' THEN (b IS NULL) ELSE true END",
    "((state <> 'done') OR ((b IS NOT NULL) AND (a <= b)))",
)


@pytest.mark.parametrize("check", CONDITIONS)
def test_what_a_check_demands_under_a_condition_holds_of_all_rows(check):
    """Whatever the names: rows that are not done ended 73 days before they began."""
    rng = np.random.default_rng(4)
    item = table("a", "b", checks=(check,))
    a, b = rng.uniform(0, 400, 1500).round(), rng.uniform(50, 450, 1500).round()
    got = made(item, a=a, b=b)
    left, right = numbers(got["a"]), numbers(got["b"])
    assert (left <= right).all()
    assert abs(left.mean() - a.mean()) < 3
    assert abs(right.mean() - b.mean()) < 3


def test_a_check_that_demands_either_order_demands_none():
    item = table("a", "b", checks=("(((k = 1) AND (a <= b)) OR ((k = 2) AND (b <= a)))",))
    rng = np.random.default_rng(4)
    a, b = rng.uniform(0, 400, 900).round(), rng.uniform(0, 400, 900).round()
    got = made(item, a=a, b=b)
    assert (numbers(got["a"]) == a).all()
    assert (numbers(got["b"]) == b).all()
