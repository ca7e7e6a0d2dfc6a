"""Dates and times: the order that names tell, and intervals on a real server."""

from __future__ import annotations

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from privbench.config import ColumnConfig
from privbench.encoding.bounds import Bounds
from privbench.encoding.column_names import date_orders
from privbench.encoding.keys.generate import fill_keys
from privbench.encoding.registry import codec_from_json, reader
from privbench.postgres.introspect import introspect
from privbench.postgres.snapshot import Snapshot
from privbench.rng import generator
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
def test_names_suggest_what_comes_first(before, after):
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
def test_other_names_suggest_nothing(one, other):
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


def test_the_values_decide_where_names_suggest_either():
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


def test_what_no_exchange_repairs_follows_as_others_do():
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


VALUES = ("1 year 2 mons", "-3 years", "30 days", "-26 hours", "90 minutes", "0", None)
FIELDS = {
    "interval": VALUES,
    "interval(0)": VALUES,
    "interval year": ("2 years", "-1 year", "0", None),
    "interval year to month": ("1 year 2 mons", "-5 mons", "0", None),
    "interval month": ("7 mons", "-5 mons", None),
    "interval day": ("3 days", "-2 days", "400 days", None),
    "interval day to hour": ("3 days 5 hours", "-2 hours", None),
}


@pytest.mark.parametrize("type_", FIELDS)
def test_values_of_every_kind_of_interval_come_back_equal(make_database, type_):
    dsn, values = make_database(), FIELDS[type_]
    with psycopg.connect(dsn) as connection:
        connection.execute(f"CREATE TABLE t (c {type_}); CREATE TABLE made (c {type_})".encode())
        connection.cursor().executemany("INSERT INTO t VALUES (%s)", [(v,) for v in values])
        table = next(one for one in introspect(connection).tables if one.name.name == "t")
    plan = reader(table.column("c"), table, ColumnConfig(), 1e-9)
    with Snapshot(dsn) as snapshot:
        batches = list(snapshot.stream(table, plan.select(sql.Identifier("c")), batch_bytes=1))
    pieces = [plan.read(dict(zip(b.schema.names, b.columns, strict=True))) for b in batches]
    points = np.concatenate([piece["c"] for piece in pieces])
    bounds, shared = plan.needs
    listed = tuple(str(point) for point in sorted({*points[:-1].tolist()}))
    codec = plan.finish(
        {bounds.attribute: Bounds(-200_000_000, 200_000_000), shared.attribute: listed}
    )
    codes = codec.recodings["c"].apply(points)
    made = codec_from_json(codec.to_json()).decode({"c": codes}, generator(1)).to_pylist()
    with psycopg.connect(dsn) as connection:
        connection.cursor().executemany("INSERT INTO made VALUES (%s)", [(v,) for v in made])
        lost = connection.execute("SELECT c FROM t EXCEPT ALL SELECT c FROM made").fetchall()
    assert not lost, made
