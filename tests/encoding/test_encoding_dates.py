"""Dates and times: their order by names and constraints, and the steps and hours that they keep."""

from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from columns import (
    BOOL,
    DATE,
    INT4,
    INTERVAL,
    STAMP,
    STAMPZ,
    TEXT,
    col,
    dates,
    fill,
    ints,
    owned,
    plan,
    rows_of,
    stored,
    table,
)
from psycopg import sql

from privbench.config import ColumnConfig
from privbench.encoding.base import PartNeed, Step
from privbench.encoding.bounds import Bounds
from privbench.encoding.keys.generate import generate_keys
from privbench.encoding.registry import codec_from_json, reader, unkept
from privbench.errors import ModelError
from privbench.learning.answers import Measured
from privbench.pipeline.domain_answers import settled
from privbench.postgres.introspect import introspect
from privbench.postgres.snapshot import Snapshot
from privbench.privacy.recoding import NULL
from privbench.rng import generator
from privbench.rules.facts import orders
from privbench.rules.hypotheses import RuleGroup, combination_check, order_check
from privbench.rules.named import creation_date
from privbench.schema import Check, ColumnType, Index

RANGE = ColumnType("daterange", "daterange", kind="r", category="R", parts=(DATE,))
MICROSECONDS = 86_400_000_000


def loans(*names, type_=DATE, **more):
    columns = [col(name, type_, null=True) for name in names]
    return table("loans", col("id"), *columns, primary=("id",), **more)


def repaired(values, **more):
    """Days of the columns, in the order of their names, after all repairs."""
    rows = len(next(iter(values.values())))
    columns = {name: dates(days) for name, days in values.items()}
    found = fill(loans(*values, **more), rows, columns).columns
    return [found[name].cast(pa.int32()).to_numpy(zero_copy_only=False) for name in values]


# Since when rows are there


def dates_of(type_, days):
    """Dates, times at noon, or ranges from days on."""
    if type_ == DATE:
        return dates(days)
    if type_ == STAMP:
        return pa.array(days * MICROSECONDS + MICROSECONDS // 2).cast(pa.timestamp("us"))
    return pc.binary_join_element_wise('["', dates(days).cast(pa.string()), '",)', "")


def days_of(type_, values):
    if type_ == RANGE:
        values = pc.utf8_slice_codeunits(values, 2, 12).cast(pa.date32())
    return values.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy() // MICROSECONDS


@pytest.mark.parametrize(
    ("above", "type_", "serial"),
    [*((DATE, DATE, serial) for serial in (1, -1, 0)), (STAMP, DATE, 0), (DATE, STAMP, 0),
     (STAMP, RANGE, 0), (RANGE, DATE, 0)],
)  # fmt: skip
def test_rows_come_after_their_owners_and_keys_in_the_order_of_dates(above, type_, serial):
    """Dates of loans go from row to row, so that all of them stay what they were."""
    g = np.random.default_rng(2)
    person = table("person", col("id"), col("joined", above), primary=("id",))
    keys = [(("person",), "person", ("id",))]
    loan = table("loans", col("id"), col("day", type_), col("person"), primary=("id",), keys=keys)
    assert [creation_date(each) for each in (person, loan)] == ["joined", "day"]
    joined, days = g.integers(0, 300, 50), g.integers(100, 400, 900)
    found = generate_keys(
        [person, loan],
        {
            "public.person": {"joined": dates_of(above, joined)},
            "public.loans": {"day": dates_of(type_, days)},
        },
        {"public.loans": {"loans_f0": g.integers(0, 50, 900)}},
        {"public.person": 50, "public.loans": 900},
        seed=1,
        own={"public.loans": "loans_f0"},
        follows={"public.loans"},
        serial={"public.loans": serial},
    )["public.loans"]
    day = days_of(type_, found.columns["day"])
    assert (joined[found.parents["loans_f0"]] <= day).all()
    assert (np.sort(day) == np.sort(days)).all()
    ids = found.columns["id"]
    assert sorted(ids.to_pylist()) == [*range(1, 901)]
    steps = np.diff(day[np.argsort(ids.to_numpy())])
    assert (steps * serial >= 0).all()
    assert serial or (steps < 0).any()


@pytest.mark.parametrize(
    ("name", "dates", "found"),
    [
        ("rentals", "last_update rental_date", "rental_date"),
        ("t", "birth_date day", "day"),
        ("t", "updated_at", ""),
        ("t", "paid_on CreatedAt", "CreatedAt"),
        ("t", "one_day other_day", ""),
    ],
)
def test_names_say_since_when_a_row_is_there(name, dates, found):
    assert creation_date(table(name, *(col(each, DATE) for each in dates.split()))) == found


# Versions and bookings

BADGE = [(("badge",), "badge", ("id",))]


@pytest.mark.parametrize(
    ("begin", "first"), [("valid_from", 0), ("from_ts", 1), ("booked_from", 0), ("booked_from", 1)]
)
def test_versions_follow_each_other_and_positions_have_no_gaps(begin, first):
    """Bookings of one badge leave gaps; versions do not, where one is current."""
    g, end = np.random.default_rng(3), begin.replace("from", "to")
    text = "CREATE UNIQUE INDEX i ON t USING btree (badge) WHERE is_current"
    indexes = (Index("i", text, True, ("badge",), "is_current"),) if begin != "booked_from" else ()
    names = ("badge", "version", begin, end, "is_current")
    history = table(
        "history",
        *(col("id"), col("badge"), col("version"), col(begin, DATE), col(end, DATE, null=True)),
        col("is_current", BOOL),
        primary=("id",),
        uniques=[("badge", "version")],
        keys=BADGE,
        indexes=indexes,
    )
    low, high = (dates(g.integers(0, 90, 900)) for _ in "12")
    values = {
        begin: low,
        end: pc.if_else(pa.array(g.random(900) < 0.33), None, high),
        "is_current": pa.array(g.random(900) < 0.5),
        "version": ints(g.integers(first, 5, 900)),
    }
    made = owned(history, 300, g.integers(0, 300, 900), values)
    gaps = 0
    for _, group in groupby(sorted(rows_of(made.columns, names)), key=itemgetter(0)):
        rows = list(group)
        assert [row[1] for row in rows] == list(range(first, first + len(rows)))
        for one, other in pairwise(rows):
            gaps += (other[2] - one[3]).days != 1 or one[4]
        gaps += rows[-1][3] is not None or not rows[-1][4]
    assert bool(gaps) == (begin == "booked_from")


def test_numbered_versions_follow_each_other_and_their_last_is_open():
    g, names = np.random.default_rng(4), ("badge", "version", "valid_from", "valid_to")
    columns = [col(name, DATE if name.startswith("valid") else INT4) for name in names]
    history = table("history", *columns, primary=("badge", "version"), keys=BADGE)
    begins, ends = (g.integers(0, 90, 900) for _ in "12")
    ends[g.random(900) < 0.3] = 20_000
    values = {"valid_from": dates(begins), "valid_to": dates(ends)}
    made = owned(history, 300, g.integers(0, 300, 900), values).columns
    open_ = max(made["valid_to"].to_pylist())
    for _, group in groupby(sorted(rows_of(made, names)), key=itemgetter(0)):
        versions = list(group)
        assert all((two[2] - one[3]).days == 1 for one, two in pairwise(versions))
        assert versions[-1][3] == open_


def of_rooms(definition, columns, values, checks=(), **more):
    """Rows of 60 rooms under an index of a room: their rooms and columns."""
    rows = len(next(iter(values.values())))
    ranges = [name for name, what in columns.items() if what == (RANGE,)]
    index = Index("i", definition, columns=("room", *ranges), **more)
    booking = table(
        "booking",
        *(col("id"), col("room"), *(col(name, *what) for name, what in columns.items())),
        primary=("id",),
        keys=[(("room",), "room", ("id",))],
        indexes=(index,),
        checks=checks,
    )
    if index.unique:
        (line,) = unkept(booking)
        assert line.how == "kept in generation: at most one such row a parent"
    made = owned(booking, 60, np.random.default_rng(7).integers(0, 60, rows), values)
    assert made.rows == rows
    return sorted(rows_of(made.columns, ("room", *columns)), key=str)


GIST = "EXCLUDE USING gist (room WITH =, {} WITH &&)"


def bounds(text):
    days = text.replace('"', "")[1:-1].split(",")
    return [date.fromisoformat(day) if day else None for day in days]


@pytest.mark.parametrize("days", [400, 3000], ids=["crowded", "roomy"])
@pytest.mark.parametrize("name", ["during", "valid", "ends"])
def test_periods_under_exclude_keep_apart(name, days):
    """Bookings keep their lengths where there is room, versions have no gaps, one each is open."""
    g, rows = np.random.default_rng(6), 900
    begin, length = g.integers(0, days, rows), g.integers(1, 30, rows)
    free = pa.array(g.random(rows) < 60 / rows)
    low, high = dates(begin), pc.if_else(free, None, dates(begin + length))
    if name == "ends":
        columns = {"a": (DATE,), "b": (DATE, True)}
        text = GIST.format("daterange(a, b, '[]'::text)")
        found = [
            (room, a, b and b + timedelta(1))
            for room, a, b in of_rooms(text, columns, {"a": low, "b": high})
        ]
    else:
        pairs = zip(low.to_pylist(), high.to_pylist(), strict=True)
        texts = pa.array([f'["{a}","{b}")' if b else f'["{a}",)' for a, b in pairs])
        booked = of_rooms(GIST.format(name), {name: (RANGE,)}, {name: texts})
        found = [(room, *bounds(text)) for room, text in booked]
    found.sort(key=lambda row: row[:2])
    last = date(1970, 1, 1) + timedelta(int((begin + length).max()))
    gaps = opened = 0
    for _, group in groupby(found, key=itemgetter(0)):
        periods = list(group)
        opened += periods[-1][2] is None
        for one, other in pairwise(periods):
            assert one[1] < one[2] <= other[1] <= last
            gaps += one[2] < other[1]
    assert opened >= 45
    assert (gaps == 0) == (name == "valid")
    if name == "during" and days > 1000:
        kept = Counter((b - a).days for _, a, b in found if b)
        assert sum((kept & Counter(length.tolist())).values()) > 0.9 * rows
    assert name == "valid" or min(a for _, a, _ in found) >= date(1970, 1, 1)


def test_current_rows_exchange_what_a_rule_of_the_flag_says_of_them():
    """The last row of a parent is current, and the only one without an end."""
    g, rows = np.random.default_rng(8), 900
    flags, begin = pa.array(g.permutation(np.arange(rows) < 50)), g.integers(0, 400, rows)
    text = "(is_current, (ended IS NULL)) IN (('true', 'true'), ('false', 'false'))"
    found = of_rooms(
        "CREATE UNIQUE INDEX i ON t USING btree (room) WHERE is_current",
        {"created_at": (DATE,), "is_current": (BOOL,), "ended": (DATE, True)},
        {
            "created_at": dates(begin),
            "is_current": flags,
            "ended": pc.if_else(flags, None, dates(begin + 9)),
        },
        [Check("shown by rows", text, ("is_current", "ended"), declared=True)],
        unique=True,
        predicate="is_current",
    )
    current = Counter(room for room, _, flag, _ in found if flag)
    assert (current.total(), max(current.values())) == (50, 1)
    assert all(flag == (end is None) for _, _, flag, end in found)
    for _, group in groupby(found, key=itemgetter(0)):
        days = [(begin, end) for _, begin, _, end in group]
        assert all(end is None or begin < end for begin, end in days)
        assert all(begin == max(days)[0] for begin, end in days if end is None)


# Which of two columns comes first

BEFORE = (
    "rental_date return_date", "orderdate duedate", "SellStartDate SellEndDate",
    "created_at last_login", "createdAt updatedAt", "creationdate lastaccessdate",
    "admittime dischtime", "intime outtime", "visit_start_date visit_end_date",
    "from_date to_date", "birthdate hiredate", "first_seen_at last_seen_at", "check_in check_out",
)  # fmt: skip
APART = (
    "visit_start stay_end", "photo_date from_date", "birth_date order_date",
    "due_date review_date", "last_update last_login", "started_at submitted_at",
)  # fmt: skip
NUMBERS = ("min max", "price_low price_high", "lowerBound upperBound", "temp_lo temp_hi")


def named(item):
    return [order.columns for order in orders(item)]


def test_names_say_which_column_comes_first():
    for before, after in map(str.split, BEFORE):
        assert named(loans(after, before)) == [(before, after)]
    for pair in map(str.split, APART):
        assert named(loans(*pair)) == []
    assert named(table("t", col("start_date", DATE), col("end_date", STAMPZ))) == []
    for pair in map(str.split, NUMBERS):
        assert named(loans(*pair[::-1], type_=INT4)) == [(*pair,)]
    for pair in map(str.split, ("start end", "min_id max_id", "low_price max_size", *BEFORE)):
        assert named(loans(*pair, type_=INT4)) == []


def shuffled(seed, rows=1000, moved=0):
    """Stays of up to ten days, whose ends are those of others, some days earlier."""
    rng = np.random.default_rng(seed)
    begin = rng.uniform(0, 200, rows).round()
    return begin, rng.permutation(begin + rng.uniform(0, 10, rows).round()) - moved


def any_order(low, high):
    """Days that know nothing of each other."""
    rng = np.random.default_rng(5)
    return rng.uniform(0, 100, 1000).round() + low, rng.uniform(0, 100, 1000).round() + high


RENTED, STARTED = ("rental_date", "return_date"), ("start_date", "end_date")
#: Names, days, rules, whether days may be equal, which columns keep their values, and the most
#: that nine in ten distances are.
ORDERS = {
    "ends of others are exchanged": (RENTED, shuffled(1, 2000), {}, True, "both", 15),
    # Noise may put most returns before most rentals: they follow as others do.
    "too early for an exchange": (RENTED, shuffled(6, moved=4), {}, True, "first", 25),
    "a unique column keeps its rows": (
        STARTED, (np.random.default_rng(4).permutation(300), np.arange(10, 310)),
        {"uniques": [["end_date"]]}, True, "rows", None),
    "a CHECK": (("a", "b"), any_order(0, 20), {"checks": ["(a < b)"]}, False, "both", None),
}  # fmt: skip


@pytest.mark.parametrize("case", ORDERS)
def test_ordered_dates_move_as_little_as_they_may(case):
    names, (begin, end), rules, equal, kept, distance = ORDERS[case]
    low, high = repaired(dict(zip(names, (begin, end), strict=True)), **rules)
    assert (low <= high).all() if equal else (low < high).all()
    if kept == "rows":
        assert (high == end).all()
        return
    assert sorted(low) == sorted(begin)
    assert sorted(high) == sorted(end) if kept == "both" else abs(high.mean() - end.mean()) < 5
    assert distance is None or np.percentile(high - low, 90) < distance


@pytest.mark.parametrize("share", [0.0, 0.12, 0.9])
def test_the_share_out_of_order_that_rows_have_shown_is_left(share):
    """It takes the place of what names say."""
    days = dict(zip(("opened", "closed"), any_order(0, 20), strict=True))
    check = order_check(("opened", "closed"), share)
    (order,) = orders(loans(*days, checks=[check]))
    assert (order.source, order.broken) == ("config", share)
    opened, closed = repaired(days, checks=[check])
    as_drawn = (days["opened"] > days["closed"]).mean()
    expected = as_drawn if share == 0.9 else share
    assert np.mean(opened > closed) == pytest.approx(expected, abs=0.03)


# Combinations that rows have shown

SHOP = (
    col("status", TEXT), col("paid", DATE, null=True), col("sent", DATE, null=True),
    col("card", BOOL), col("bank", BOOL), col("city", TEXT), col("state", TEXT),
)  # fmt: skip
#: Groups of columns with the combinations that rows have shown.
COMBINED = {
    "NULLs of a status": (
        RuleGroup("t", labels=("status",), nulls=("paid", "sent")),
        [("new", "true", "true"), ("paid", "false", "true"), ("sent", "false", "false")]),
    "NULL together": (
        RuleGroup("t", nulls=("paid", "sent")), [("true", "true"), ("false", "false")]),
    "one of two flags": (
        RuleGroup("t", labels=("card", "bank")), [("true", "false"), ("false", "true")]),
    "a city has one state": (
        RuleGroup("t", labels=("city", "state")), [("Hamburg", "Hamburg"), ("Munich", "Bavaria")]),
}  # fmt: skip


def shop_rows():
    """Rows of a shop, each column by itself."""
    rng = np.random.default_rng(3)

    def drawn(values, odds):
        return pa.array(rng.choice(np.array(values, object), 3000, p=odds))

    days = dates(np.arange(3000))
    return {
        "status": drawn(["new", "paid", "sent", "lost"], [0.2, 0.3, 0.49, 0.01]),
        **{name: pc.if_else(drawn([True, False], [p, 1 - p]), days, None)
           for name, p in (("paid", 0.8), ("sent", 0.5))},
        "card": drawn([True, False], [0.8, 0.2]),
        "bank": drawn([True, False], [0.2, 0.8]),
        "city": drawn(["Hamburg", "Munich", "Ulm"], [0.5, 0.4, 0.1]),
        "state": drawn(["Hamburg", "Bavaria", "Berlin"], [0.5, 0.4, 0.1]),
    }  # fmt: skip


@pytest.mark.parametrize("sign", ["=", "<>"])
@pytest.mark.parametrize("fixed", ["", "paid", "sent"])
def test_checks_of_nulls_are_kept_and_so_is_what_a_reference_has(sign, fixed):
    check = Check("c", f"((paid IS NULL) {sign} (sent IS NULL))", ("paid", "sent"))
    before, fixed = shop_rows(), {fixed} - {""}
    after = fill(table("t", *SHOP, checks=[check]), 3000, before, fixed={*fixed}).columns
    together = pc.equal(after["paid"].is_null(), after["sent"].is_null())
    assert pc.all(together if sign == "=" else pc.invert(together)).as_py()
    assert all(after[name].equals(before[name]) for name in fixed)


def test_references_go_to_rows_whose_label_has_one():
    group = RuleGroup("t", labels=("status",), nulls=("agent", "clerk"))
    check = combination_check(group, [("new", *["true"] * 2), ("paid", *["false"] * 2)])
    keys = [((name,), "agents", ("id",)) for name in ("agent", "clerk")]
    columns = [col("status", TEXT), col("agent", null=True), col("clerk", null=True)]
    rng, ids = np.random.default_rng(1), 10 + np.arange(5)
    status = pa.array(np.where(np.arange(3000) % 3, "paid", "new"))
    parents = {f"t_f{place}": rng.integers(-1, 5, 3000) for place in (0, 1)}
    item = table("t", *columns, keys=keys, checks=[check])
    filled = fill(item, 3000, {"status": status}, parents, [ints(ids)])
    for name, key in (("agent", "t_f0"), ("clerk", "t_f1")):
        index = filled.parents[key]
        assert (index < 0).tolist() == pc.equal(status, "new").to_pylist()
        values = [None if place < 0 else ids[place] for place in index]
        assert filled.columns[name].to_pylist() == values
        assert np.bincount(index[index >= 0], minlength=5).min() > 300


@pytest.mark.parametrize("case", COMBINED)
def test_rows_have_combinations_that_rows_have_shown(case):
    group, allowed = COMBINED[case]
    columns = shop_rows()
    item = table("t", *SHOP, checks=[combination_check(group, allowed)])
    assert [rule.rows for rule in item.rules] == [tuple(map(tuple, allowed))]
    made = fill(item, 3000, columns).columns
    cells = [made[n].is_null() if n in group.nulls else made[n] for n in group.columns]
    rows = list(zip(*(c.cast(pa.string()).to_pylist() for c in cells), strict=True))
    named = {row[0] for row in allowed} if group.labels else {row[0] for row in rows}
    assert {row for row in rows if row[0] in named} <= set(allowed)
    # Other labels stay, with the NULLs of some label; and columns keep their shares.
    assert {row[1:] for row in rows if row[0] not in named and group.nulls} <= {
        row[1:] for row in allowed
    }
    for name in set(columns) - {"state"} - ({*group.nulls} if not group.labels else set()):
        before, after = (
            Counter(array.is_null().to_pylist() if name in ("paid", "sent") else array.to_pylist())
            for array in (columns[name], made[name])
        )
        assert all(abs(after[value] - count) < 100 for value, count in before.items()), name


# Intervals, steps, weekdays and hours

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


def test_every_kind_of_interval_comes_back(make_database):
    dsn = make_database("".join(f'CREATE TABLE "{kind}" (c {kind});' for kind in FIELDS))
    with psycopg.connect(dsn, autocommit=True) as connection:
        for kind, values in FIELDS.items():
            text = f'INSERT INTO "{kind}" SELECT unnest(%s::text[])::{kind}'
            connection.execute(text, [[*values]])
        items = {item.name.name: item for item in introspect(connection)}
    with psycopg.connect(dsn) as connection, Snapshot(dsn) as snapshot:
        for kind, item in items.items():
            found = reader(item.column("c"), item, ColumnConfig(), 1e-9)
            read = snapshot.stream(item, found.select(sql.Identifier("c")), batch_bytes=1)
            pieces = [found.read(dict(zip(b.schema.names, b.columns, strict=True))) for b in read]
            points = np.concatenate([piece["c"] for piece in pieces])
            need, shared = found.needs
            listed = tuple(str(point) for point in sorted({*points[:-1].tolist()}))
            far = Bounds(-200_000_000, 200_000_000)
            codec = stored(found.finish({need.attribute: far, shared.attribute: listed}))
            made = codec.decode({"c": codec.recodings["c"].apply(points)}, generator(1))
            query = f'SELECT c FROM "{kind}" EXCEPT ALL SELECT x::{kind} FROM unnest(%s::text[]) x'
            assert connection.execute(query, [made.to_pylist()]).fetchall() == [], kind


TIME = replace(STAMPZ, sql="time without time zone", base="time")


def grains(rng, kind, rows):
    """Microseconds or days of one grain, in 2020 to 2022; or multiples of a whole number."""
    if kind.isdigit():
        return int(kind) * rng.integers(1, 60_000 // int(kind), rows)
    base = 18_262 + rng.integers(0, 1096, rows)
    return {
        "midnight": base * MICROSECONDS,
        "quarter": (base * 96 + rng.integers(0, 96, rows)) * 900 * 10**6,
        "any": base * MICROSECONDS + rng.integers(0, MICROSECONDS, rows),
        "day": base,
        "month": np.array(base).astype("M8[D]").astype("M8[M]").astype("M8[D]").astype(np.int64),
        "monday": (base + 3) // 7 * 7 - 3,
        "hour of day": rng.integers(0, 24, rows) * 3600 * 10**6,
        "second of day": rng.integers(0, 86_400, rows) * 10**6,
    }[kind]


def measured(need, parts, sd, rng, cells=128):
    """What is settled of a part of the values by a noisy histogram of it."""
    size = len(need.candidates) + 1
    counts = np.bincount(np.searchsorted(need.candidates, parts, side="right"), minlength=size)
    return settled(need, [(need, Measured(None, counts + rng.normal(0, sd, size), sd))], cells)


def drawn_in_their_cells(codec, sent, rng):
    """New values for all that were sent, each in the same cell."""
    codes = codec.recoding.apply(sent)
    points = codec.scale.points_of(codec.decode({"c": codes}, rng))
    np.testing.assert_array_equal(codec.recoding.apply(points), codes)
    return points


@pytest.mark.parametrize(
    ("type_", "mixed", "step"),
    [
        (STAMPZ, {"midnight": 0.99, "any": 0.01}, 3), (STAMPZ, {"any": 1.0}, None),
        (STAMPZ, {"midnight": 0.6, "quarter": 0.4}, 6), (DATE, {"month": 1.0}, 1),
        (DATE, {"monday": 1.0}, 2), (DATE, {"month": 0.5, "day": 0.5}, None),
        (TIME, {"hour of day": 0.8, "second of day": 0.2}, None),
        (INT4, {"15": 1.0}, 6), (INT4, {"60": 0.5, "50": 0.5}, 7),
        (INT4, {"100": 0.9, "1": 0.1}, None), (INT4, {"25": 0.99, "1": 0.01}, 5),
    ],
)  # fmt: skip
def test_values_keep_the_shares_of_their_steps(type_, mixed, step):
    rng, rows = np.random.default_rng(1), 20_000
    sent = np.concatenate([grains(rng, kind, int(rows * s)) for kind, s in mixed.items()])
    found = plan(type_, null=False)
    need = next(need for need in found.needs if isinstance(need, PartNeed))
    released = measured(need, found.scale.steps_of(sent), 3.0, rng)
    ends = Bounds(int(sent.min()), int(sent.max()) + 1)
    codec = stored(found.finish({"c": ends, need.attribute: released}))
    assert codec.step == step
    drawn = drawn_in_their_cells(codec, sent, rng)
    shares = [
        np.bincount(found.scale.steps_of(p), minlength=len(need.choices)) for p in (sent, drawn)
    ]
    np.testing.assert_allclose(*(share / len(sent) for share in shares), atol=0.02)
    more = len(codec.law)
    for law in ([1.0], [-1.0, 2.0, *[0.0] * (more - 2)], [float("nan")] * more):
        with pytest.raises(ModelError):
            codec_from_json({**codec.to_json(), "law": law})


#: Of timestamps or dates: shares of days of the week and of hours, and the part that lies at
#: midnight, whose hours are not these.
WEEKS = {
    "office hours": (STAMPZ, [5, 5, 5, 5, 4, 0, 0], [0] * 9 + [1] * 8 + [0] * 7, 0.0),
    "half without a time": (STAMPZ, [1] * 7, [0] * 18 + [1, 3, 3, 3, 1, 1], 0.5),
    "midnight on working days": (STAMPZ, [1, 1, 1, 1, 1, 0, 0], [1] + [0] * 23, 1.0),
    "nothing to keep": (STAMPZ, [1] * 7, [1] * 24, 0.0),
    "weekends": (DATE, [0, 0, 0, 0, 1, 4, 3], [1] + [0] * 23, 1.0),
}


@pytest.mark.parametrize("case", WEEKS)
def test_values_keep_their_weekdays_and_hours(case):
    type_, weekdays, hours, midnight = WEEKS[case]
    rng, rows, unit = np.random.default_rng(4), 20_000, 1 if type_ is DATE else MICROSECONDS
    by = [np.array(shares) / sum(shares) for shares in (weekdays, hours)]
    monday = 18_267  # 2020-01-06
    day = monday + 7 * rng.integers(0, 150, rows) + rng.choice(7, rows, p=by[0])
    clock = rng.choice(24, rows, p=by[1]) * (unit // 24) + rng.integers(0, max(unit // 24, 1), rows)
    sent = day * unit + np.where(rng.random(rows) < midnight, 0, clock)
    found = plan(type_, null=False)
    sides = [found.scale.steps_of, *(partial(found.scale.cycle_of, n) for n in found.scale.cycles)]
    parts = [need for need in found.needs if isinstance(need, PartNeed)]
    released = {
        need.attribute: measured(need, of(sent), 10.0, rng, 40)
        for need, of in zip(parts, sides, strict=True)
    }
    ends = Bounds(monday * unit, (monday + 1050) * unit, 40)
    codec = stored(found.finish({"c": ends, **released}))
    drawn = drawn_in_their_cells(codec, sent, rng)
    for of in sides[1:]:
        shares = [np.bincount(of(points), minlength=24) / rows for points in (sent, drawn)]
        assert abs(np.subtract(*shares)).sum() / 2 < 0.03
    # What queries expect of a cell is what is drawn in it.
    middle = int(codec.recoding.edges[20]) + 5 * unit // 3
    low, high = (ends[20:21] for ends in codec.cells())
    mass, ends = codec.scale.mass, np.array([middle])
    share = mass(low, np.clip(ends, low, high), low, high) / mass(low, high, low, high)
    inside = codec.scale.draw(*(np.repeat(ends, rows) for ends in (low, high)), rng)
    assert abs((inside < middle).mean() - share) < 0.02
    laws = codec.cycles or [[0.1] * 7]
    for law in ([1.0], [2.0, *[-1 / 6] * 6], [float("nan")] * 7, [0.1] * 7):
        with pytest.raises(ModelError):
            codec_from_json({**codec.to_json(), "cycles": [law, *laws[1:]]})


@pytest.mark.parametrize(("type_", "unit"), [(DATE, 1), (STAMPZ, 3600 * 10**6)])
def test_dates_near_another_keep_their_distances(type_, unit):
    """Of two dates of a row, days apart within years, the distance is what cells tell."""
    rng, rows = np.random.default_rng(3), 5000
    item = loans("a", "b", type_=type_)
    begin, end = (reader(item.column(n), item, ColumnConfig(), 0.0) for n in ("a", "b"))
    ends, step = Bounds(18_000 * unit, 20_000 * unit, 40), Step(3 + (unit > 1))
    base, codec = (
        found.finish({found.name: ends, **{need.attribute: step for need in found.needs[1:2]}})
        for found in (begin, end)
    )
    codec = stored(codec.distances(base))
    months = replace(base, step=1)
    assert months.distances(months) is codec.distances(months) is None
    days = 18_000 + rng.integers(0, 2000, rows)
    gaps = rng.choice([-3, 0, 5, 40], rows)
    later = (days + gaps) * unit
    later[:9] = NULL
    codes = {"a": base.recoding.apply(days * unit)}
    codes["b"] = codec.recoding.apply(later, days * unit)
    codecs = {"a": base, "b": codec}
    columns = {name: each.decode(codes, rng) for name, each in codecs.items()}
    found = fill(item, rows, columns, codecs=codecs).columns
    drawn = [codec.scale.points_of(found[name]) for name in ("a", "b")]
    assert (found["b"].null_count, found["a"].null_count) == (9, 0)
    apart = (drawn[1] - drawn[0])[9:] / unit
    assert abs(apart - gaps[9:]).max() <= 6
    assert np.mean(apart == gaps[9:]) > 0.6


# Unique dates


@pytest.mark.parametrize(
    ("type_", "hour", "released"), [(STAMPZ, 3600 * 10**6, Step(4)), (INTERVAL, 3600, None)]
)
def test_unique_times_stay_on_their_step(type_, hour, released):
    """Hours that occur twice become other hours, not microseconds; intervals have no step."""
    found = plan(type_, null=False, uniques=[("c",)])
    steps = {n.attribute: released for n in found.needs if isinstance(n, PartNeed) and not n.cycle}
    codec = found.finish({"c": Bounds(0, 2400 * hour), **steps})
    values = codec.scale.build(np.random.default_rng(0).integers(0, 2400, 500) * hour, {})
    item = table("t", col("c", type_), uniques=[("c",)])
    made = fill(item, 500, {"c": values}, codecs={"c": codec}).columns["c"]
    points = codec.scale.points_of(made)
    assert len({*points.tolist()}) == 500
    assert released is None or not (points % hour).any()


def test_unique_dates_of_a_calendar_stay_in_it():
    """Readings of one meter that noise put on one quarter move to another, not to the next day."""
    quarters = np.array([17167, 17257, 17348, 17440, 17532, 17622, 17713, 17805])
    columns, keys = (col("meter"), col("read_on", DATE)), [(("meter",), "meter", ("id",))]
    reading = table("reading", *columns, primary=("meter", "read_on"), keys=keys)
    read_on = dates(np.random.default_rng(5).choice(quarters, 900))
    made = owned(reading, 225, np.repeat(np.arange(225), 4), {"read_on": read_on}).columns
    days = made["read_on"].cast(pa.int32()).to_numpy()
    assert {*days} == {*quarters}
    assert len({*zip(made["meter"].to_pylist(), days, strict=True)}) == 900
