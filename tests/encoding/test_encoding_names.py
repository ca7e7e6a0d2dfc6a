"""What columns of some names usually hold: labels that are counted, ranges that stand in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from privbench.config import ColumnConfig
from privbench.encoding.base import CategoriesNeed
from privbench.encoding.column_names import packaged, suggested_labels, suggested_range
from privbench.encoding.registry import reader
from privbench.encoding.scale import scale_of
from privbench.rng import generator
from privbench.schema import Check, Column, ColumnType, Table, TableName

TEXT = ColumnType("text", "text", category="S")
TWO = ColumnType("character(2)", "bpchar", category="S", length=2)
SMALL = ColumnType("smallint", "int2", category="N")
INT = ColumnType("integer", "int4", category="N")
NUMERIC = ColumnType("numeric(12,2)", "numeric", category="N", precision=12, scale=2)
FLOAT = ColumnType("double precision", "float8", category="N")
SPAN = ColumnType("interval", "interval")


def plan(name, type_=TEXT, config=None, delta=1e-9, *checks):
    column = Column(name, 1, type_)
    found = tuple(Check(f"k{i}", text, (name,)) for i, text in enumerate(checks))
    table = Table(TableName("public", "t"), (column,), checks=found)
    return reader(column, table, config or ColumnConfig(), delta)


def test_lists_are_distinct_and_every_pattern_matches_a_name():
    data = packaged("suggestions")
    for labels in [data["kinds"], *(item["labels"] for item in data["lists"])]:
        assert labels
        assert len(set(labels)) == len(labels)
    assert all(float(item["low"]) < float(item["high"]) for item in data["ranges"])


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("nationality", "British"), ("ShipCountry", "Brazil"), ("country_code", "GB"),
        ("gender", "F"), ("order_status", "Shipped"), ("currency", "USD"), ("lang", "en"),
        ("department", "Sales"), ("kind", "A"), ("weekday", "Monday"), ("is_active", "Y"),
        ("marital_status", "Widowed"), ("MaritalStatus", "M"), ("race", "Asian"),
    ],
)  # fmt: skip
def test_names_suggest_labels(name, label):
    assert label in suggested_labels(name)


@pytest.mark.parametrize("name", ["title", "body", "name", "remarks", "description", "q1"])
def test_other_names_suggest_none(name):
    assert suggested_labels(name) == ()
    assert suggested_range(name) is None


@pytest.mark.parametrize("name", ["posttypeid", "PostTypeId", "vote_type_id", "class", "statusid"])
def test_names_of_codes_suggest_few_values(name):
    assert suggested_range(name).high == "10"
    assert suggested_range(f"{name}_count") is None


def test_a_status_of_people_is_not_that_of_orders():
    assert "shipped" not in suggested_labels("marital_status")


def test_the_first_few_hold_every_way_to_write_them():
    assert {"USA", "US", "Germany", "DE"} <= set(suggested_labels("country")[:32])
    assert {"active", "CA"} <= set(suggested_labels("state")[:32])
    assert "active" in suggested_labels("order_state")[:32]
    assert "CA" not in suggested_labels("order_state")


@pytest.mark.parametrize(
    "name",
    [
        "price_per_month",
        "cost_per_day",
        "revenue_last_quarter",
        "how_long",
        "sea_level",
        "lat_total",
    ],
)
def test_rates_and_sums_are_no_parts_of_calendars(name):
    assert suggested_range(name) is None


@pytest.mark.parametrize("type_", [INT, NUMERIC, FLOAT])
@pytest.mark.parametrize(
    ("name", "check"),
    [("month", "c > 50"), ("rank", "c > 50"), ("x", "c >= 1000"), ("x", "c < '-7'::integer")],
)
def test_a_suggested_range_that_a_check_forbids_is_no_point(type_, name, check):
    text = f"({check.replace('c ', name + ' ')})"
    (need, *_) = plan(name, type_, None, 1e-9, text).needs
    low, high = (value(need, type_, end) for end in (need.usual.lo, need.usual.hi))
    assert high - low >= 0.5 * min(abs(low), abs(high), 40)


def value(need, type_, point):
    """The number of a grid point, as text of the column's type reads back."""
    scale = scale_of(type_)
    return float(scale.build(np.array([point]), {}).to_pylist()[0])


def test_labels_fit_the_column():
    assert all(len(label) == 2 for label in suggested_labels("country", 2, 2))
    assert plan("country", TWO).usual == suggested_labels("country", 0, 2)


def test_no_label_might_break_a_check_or_was_asked_not_to_be():
    column = Column("status", 1, TEXT)
    for check in (Check("k", "(status <> 'open'::text)", ("status",)), Check("k", "f(t.*)")):
        table = Table(TableName("public", "t"), (column,), checks=(check,))
        assert reader(column, table, ColumnConfig(), 1e-9).usual == ()
    other = Check("k", "(order_status <> 'x'::text)", ("order_status",))
    table = Table(TableName("public", "t"), (column,), checks=(other,))
    assert reader(column, table, ColumnConfig(), 1e-9).usual
    parted = Table(TableName("public", "t"), (column,), partition_key="LIST (status)")
    assert reader(column, parted, ColumnConfig(), 1e-9).usual == ()
    assert plan("status", TEXT, ColumnConfig(kind="text")).usual == ()
    labels = suggested_labels("status")
    (need,) = plan("status").needs
    assert need == CategoriesNeed("status", 64, True, labels, public=("", *labels))


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_suggested_labels_are_counted_and_other_text_is_generated(delta):
    column = plan("nationality", delta=delta)
    texts = pa.array(["German", "secret of a row", "British"])
    assert "nationality" in column.read({"c1": texts, "c1n": pa.array([6, 15, 7])})
    released = {need.attribute: need.usual[:8] for need in column.needs}
    codec = column.finish(released)
    recoding = codec.recodings["nationality"]
    codes = recoding.apply(np.array([0, 1, -1, 2], np.int32), texts)
    assert recoding.values[codes[0]] == "German"
    assert recoding.values[codes[3]] == "British"
    assert codes[1] == recoding.domain.special_code("other")
    assert codes[2] == recoding.domain.null_code
    rows = {name: np.zeros(4, np.int64) for name in codec.domains}
    rows["nationality"] = codes.astype(np.int64)
    made = codec.decode(rows, generator(1)).to_pylist()
    assert (made[0], made[2], made[3]) == ("German", None, "British")
    assert made[1] not in (None, "secret of a row")


def test_a_name_suggests_a_range_of_numbers_only():
    (need,) = plan("latitude", INT).needs
    assert (need.usual.lo, need.usual.hi) == (-90, 91)
    (need,) = plan("n", INT).needs
    assert (need.usual.lo, need.usual.hi) == (0, 100)
    need, shared = plan("day_hour", SPAN).needs
    assert need.usual.lo == 0
    # Durations are mostly a few round ones: values that many share are asked for.
    assert shared.grid == "day_hour"


def test_ranges_that_nobody_saw_hold_nothing_beyond_unless_it_is_clear():
    column = plan("n", INT)
    (need,) = column.needs
    domain = column.finish({"n": need.usual}).domains["n"]
    assert domain.edges is not None
    assert domain.edges[-1] > 1_000_000
    assert domain.edges[domain.core[1]] == 100


@pytest.mark.parametrize(
    "name",
    ["is_active", "isActive", "has_photo", "deleted", "email_verified", "address_verified",
     "archived_flag", "can_edit", "enabled", "Discontinued", "is_discounted"],
)  # fmt: skip
def test_names_of_flags_suggest_zero_and_one(name):
    (need,) = plan(name, INT).needs
    assert (need.usual.lo, need.usual.hi, need.told) == (0, 2, True)
    domain = plan(name, INT).finish({name: need.usual}).domains[name]
    # Zero and one; cells beyond stay empty unless they are clear, and hold what a name hides.
    assert (domain.edges[:3], domain.core) == ((0, 1, 2), (0, 2))
    assert domain.edges[-1] > 10_000
    assert domain.specials == ("below", "above")


@pytest.mark.parametrize("type_", [NUMERIC, FLOAT])
@pytest.mark.parametrize("name", ["loan_approved", "memory_required", "has_price"])
def test_amounts_are_no_flags(name, type_):
    need, *_ = plan(name, type_).needs
    assert not need.told
    assert need.usual == plan("n", type_).needs[0].usual


@pytest.mark.parametrize(
    "name",
    ["rows_deleted", "has_many_count", "is_owner_id", "active_users", "activity", "wallpaper",
     "show_limit", "allowed_hours", "deleted_at_count", "includes"],
)  # fmt: skip
def test_names_of_numbers_are_no_flags(name):
    found = suggested_range(name)
    assert found is None or (found.low, found.high) != ("0", "1")


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("month", 1, 12),
        ("hour", 0, 23),
        ("status", 0, 5),
        ("http_status", 200, 500),
        ("qty", 1, 10),
    ],
)
def test_both_ends_of_a_range_that_a_name_suggests_are_in_it(name, low, high):
    (need,) = plan(name, INT).needs
    recoding = plan(name, INT).finish({name: need.usual}).recodings[name]
    codes = recoding.apply(np.array([low, high]))
    assert recoding.core is not None
    assert recoding.core[0] <= codes.min() <= codes.max() < recoding.core[1]


@pytest.mark.parametrize(("name", "most"), [("exp_month", 14), ("hour", 26), ("qty", 1000)])
def test_beyond_firm_ends_there_is_nothing_unless_rows_are_clear_there(name, most):
    """Clones had a 72nd month: every cell beyond is one more that noise may fill."""
    (need,) = plan(name, INT).needs
    for seen in (False, True):
        bounds = replace(need.usual, seen=seen)
        domain = plan(name, INT).finish({name: bounds}).domains[name]
        assert (domain.edges[-1] <= most) == (name != "qty")
    wide = replace(need.usual, hi=500, seen=True)
    assert plan(name, INT).finish({name: wide}).domains[name].edges[-1] > 1000


def test_a_smallint_holds_codes():
    (need,) = plan("n", SMALL).needs
    assert (need.usual.lo, need.usual.hi, need.told) == (0, 10, False)
    domain = plan("n", SMALL).finish({"n": need.usual}).domains["n"]
    assert domain.edges is not None
    assert domain.edges[domain.core[1]] < 100


@pytest.mark.parametrize(
    ("type_", "default", "low", "high"),
    [
        (INT, "5000", 0, 10_000),
        (INT, "'-700'::integer", -1400, 0),
        (NUMERIC, "'2500.50'::numeric(12,2)", 0, 500_100),
        (FLOAT, "5000", 0.0, 10_000.0),
        (FLOAT, "'-5000.5'::real", -10_001.0, 0.0),
        (INT, "7", 0, 100),
        (INT, "-1", 0, 100),
        (INT, "99999", 0, 100),
        (INT, "2147483647", 0, 100),
        (INT, "nextval('s'::regclass)", 0, 100),
        (INT, None, 0, 100),
    ],
)
def test_a_default_suggests_the_order_of_magnitude(type_, default, low, high):
    column = Column("n", 1, type_, default=default)
    table = Table(TableName("public", "t"), (column,))
    need, *_ = reader(column, table, ColumnConfig(), 1e-9).needs
    if type_ == FLOAT:
        low, high = (scale_of(FLOAT).parse(str(end)) for end in (low, high))
    assert (need.usual.lo, need.usual.hi) == (low, high)


def test_a_default_beside_what_a_name_suggests_is_a_value():
    column = Column("status", 1, INT, default="9")
    table = Table(TableName("public", "t"), (column,))
    (need,) = reader(column, table, ColumnConfig(), 1e-9).needs
    assert (need.usual.lo, need.usual.hi) == (0, 10)


@pytest.mark.parametrize(
    ("type_", "default", "label"),
    [
        (TEXT, "'UTC'::text", "UTC"), (TEXT, "'it''s'::text", "it's"), (TEXT, "''::text", ""),
        (TWO, "'A '::bpchar", "A"), (TWO, "'long'::bpchar", None), (TEXT, "upper('a'::text)", None),
        (TEXT, "('a'::text || 'b'::text)", None), (TEXT, "CURRENT_USER", None), (TEXT, None, None),
        (TEXT, f"'{'x' * 200}'::text", None),
    ],
)  # fmt: skip
def test_the_default_of_a_text_is_a_label_where_none_is_released(type_, default, label):
    """Twelve sites in UTC, which is what the schema says where nobody says another."""
    column = Column("zone", 1, type_, default=default)
    table = Table(TableName("public", "t"), (column,))
    found = reader(column, table, ColumnConfig(), 1e-9)
    assert found.usual == (() if label is None else (label,))
    (need,) = found.needs
    # A default makes no list likelier.
    plain = plan("zone", type_).needs[0]
    assert need == replace(
        plain, usual=found.usual, public=tuple(dict.fromkeys((*plain.public, *found.usual)))
    )
    if label is None:
        return
    recoding = found.finish({"zone": need.usual}).recodings["zone"]
    assert recoding.values == (label,)
    texts = pa.array(["elsewhere", label])
    assert recoding.apply(np.array([0, 1, -1]), texts).tolist() == [1, 0, 2]


def test_a_default_comes_before_what_a_name_suggests_and_not_where_a_check_may_forbid_it():
    column = Column("status", 1, TEXT, default="'fresh'::text")
    free = Table(TableName("public", "t"), (column,))
    assert reader(column, free, ColumnConfig(), 1e-9).usual == (
        "fresh",
        *suggested_labels("status"),
    )
    checked = replace(free, checks=(Check("k", "status <> lower(status)", ("status",)),))
    assert reader(column, checked, ColumnConfig(), 1e-9).usual == ()
