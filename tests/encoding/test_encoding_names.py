"""What columns of some names usually hold: labels that are counted, ranges that stand in."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from columns import FLOAT8, INT2, INT4, INTERVAL, TEXT, char, numeric, plan

from privbench.config import ColumnConfig
from privbench.encoding.base import CategoriesNeed
from privbench.encoding.bounds import Bounds
from privbench.encoding.scale import scale_of
from privbench.rng import generator
from privbench.rules.named import by_name, packaged, suggested_labels, suggested_range
from privbench.schema import Check

TWO, NUMERIC = char(2), numeric(12, 2)


def named(name, type_=TEXT, *checks, delta=1e-9, **more):
    """The reader of a column of that name; every CHECK speaks of it."""
    found = [Check(f"k{i}", text, (name,)) for i, text in enumerate(checks)]
    return plan(type_, *found, name=name, delta=delta, **more)


def bounds_of(name, type_=INT4, *checks, **more):
    need, *_ = named(name, type_, *checks, **more).needs
    return need


def domain_of(name, bounds, type_=INT4):
    return named(name, type_).finish({name: bounds}).domains[name]


def test_suggested_labels_are_distinct_and_of_the_names_they_fit():
    data = packaged("suggestions")
    for labels in [data["kinds"], *(item["labels"] for item in data["lists"])]:
        assert labels
        assert len(set(labels)) == len(labels)
    assert all(float(item["low"]) < float(item["high"]) for item in data["ranges"])
    # Names suggest kinds labels and ranges.
    for provider, names in KINDS.items():
        found = {by_name(name) and by_name(name).provider for name in names.split()}
        assert found == {provider}
    for label, names in LABELS.items():
        for found in map(suggested_labels, names.split()):
            assert label in found[:32] if label else found == ()
    for ends, names in RANGES.items():
        for found in map(suggested_range, names.split()):
            assert (found and found[:2]) == ends
    for found in map(suggested_range, NUMBERS.split()):
        assert found is None or found[:2] != ("0", "1")
    assert "CA" not in suggested_labels("order_state")
    assert "shipped" not in suggested_labels("marital_status")
    assert all(len(label) == 2 for label in suggested_labels("country", 2, 2))
    assert named("country", TWO).default_labels == suggested_labels("country", 0, 2)


#: Names by the kind of text, by a label, and by the ends of the range that they suggest.
KINDS = {
    "email": "email EmailAddress e_mail", "phone_number": "phone_number mobile",
    "first_name": "first_name", "last_name": "LastName", "name": "full_name", "city": "city",
    "street_address": "address_line_1", "url": "website_url", "ipv4_private": "client_ip",
    "user_name": "username", None: "emailpromotion name title capacity zip description tip",
}  # fmt: skip
LABELS = {
    "British": "nationality", "Brazil": "ShipCountry", "USA": "country", "DE": "country",
    "GB": "country_code", "F": "gender", "Shipped": "order_status", "active": "state order_state",
    "CA": "state", "en": "lang", "Sales": "department", "A": "kind", "Monday": "weekday",
    "Y": "is_active", "Widowed": "marital_status", "M": "MaritalStatus", "Asian": "race",
    "Germany": "nation_name", None: "title body name remarks description q1",
}  # fmt: skip
RANGES = {
    ("0", "1"): "is_active isActive has_photo deleted email_verified address_verified enabled"
    " archived_flag can_edit Discontinued is_discounted",
    ("0", "10"): "posttypeid PostTypeId vote_type_id class statusid",
    None: "title body name remarks description q1 posttypeid_count class_count price_per_month"
    " cost_per_day revenue_last_quarter how_long sea_level lat_total",
}
#: Not those of flags.
NUMBERS = (
    "rows_deleted has_many_count is_owner_id active_users activity wallpaper show_limit"
    " allowed_hours deleted_at_count includes"
)


@pytest.mark.parametrize("type_", [INT4, NUMERIC, FLOAT8])
@pytest.mark.parametrize(
    ("name", "check"),
    [("month", "c > 50"), ("rank", "c > 50"), ("x", "c >= 1000"), ("x", "c < '-7'::integer")],
)
def test_default_range_that_a_check_forbids_is_no_point(type_, name, check):
    need = bounds_of(name, type_, f"({check.replace('c ', name + ' ')})")
    made = scale_of(type_).build(np.array([need.default.lo, need.default.hi]), {})
    low, high = map(float, made.to_pylist())
    assert high - low >= 0.5 * min(abs(low), abs(high), 40)


def test_default_labels_break_no_check_and_come_after_the_default():
    assert named("status", TEXT, "(status <> 'open'::text)").default_labels == ()
    assert plan(TEXT, "f(t.*)", name="status", delta=1e-9).default_labels == ()
    other = Check("k", "(order_status <> 'x'::text)", ("order_status",))
    assert plan(TEXT, other, name="status", delta=1e-9).default_labels
    assert named("status", partition_key="LIST (status)").default_labels == ()
    assert named("status", config=ColumnConfig(kind="text")).default_labels == ()
    labels = suggested_labels("status")
    (need,) = named("status").needs
    assert need == CategoriesNeed("status", 64, True, labels, public=("", *labels))
    # A default comes before what a name suggests and not where a check may forbid it.
    fresh = {"default": "'fresh'::text"}
    assert named("status", **fresh).default_labels == ("fresh", *suggested_labels("status"))
    assert named("status", TEXT, "status <> lower(status)", **fresh).default_labels == ()


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_read_of_suggested_labels_counts_them_and_makes_the_rest(delta):
    column = named("nationality", delta=delta)
    texts = pa.array(["German", "secret of a row", "British"])
    assert "nationality" in column.read({"c1": texts, "c1n": pa.array([6, 15, 7])})
    codec = column.finish({need.attribute: need.default[:8] for need in column.needs})
    recoding = codec.recodings["nationality"]
    codes = recoding.apply(np.array([0, 1, -1, 2], np.int32), texts)
    assert [recoding.values[codes[0]], recoding.values[codes[3]]] == ["German", "British"]
    assert codes[1] == recoding.domain.special_code("other")
    assert codes[2] == recoding.domain.null_code
    rows = {name: np.zeros(4, np.int64) for name in codec.domains}
    rows["nationality"] = codes.astype(np.int64)
    made = codec.decode(rows, generator(1)).to_pylist()
    assert (made[0], made[2], made[3]) == ("German", None, "British")
    assert made[1] not in (None, "secret of a row")


def test_default_range_of_a_name_is_of_numbers_only():
    need, shared = named("day_hour", INTERVAL).needs
    assert need.default.lo == 0
    # Durations are mostly a few round ones: values that many share are asked for.
    assert shared.grid == "day_hour"


def test_domain_of_a_flag_has_two_values_and_amounts_are_no_flags():
    """A smallint holds codes; an amount is none, whatever its name begins with."""
    need = bounds_of("is_active")
    domain = domain_of("is_active", need.default)
    assert need.named
    assert (domain.edges[:3], domain.core) == ((0, 1, 2), (0, 2))
    assert domain.specials == ("below", "above")
    assert bounds_of("n", INT2).default.hi < bounds_of("n", INT4).default.hi
    for name in ("loan_approved", "memory_required", "has_price"):
        for type_ in (NUMERIC, FLOAT8):
            assert not bounds_of(name, type_).named
            assert bounds_of(name, type_).default == bounds_of("n", type_).default


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("month", 1, 12), ("hour", 0, 23), ("status", 0, 5), ("http_status", 200, 500),
     ("qty", 1, 10)],
)  # fmt: skip
def test_default_range_of_a_name_holds_both_its_ends(name, low, high):
    recoding = named(name, INT4).finish({name: bounds_of(name).default}).recodings[name]
    codes = recoding.apply(np.array([low, high]))
    assert recoding.core[0] <= codes.min() <= codes.max() < recoding.core[1]


@pytest.mark.parametrize(("name", "most"), [("exp_month", 14), ("hour", 26), ("qty", 1000)])
def test_domain_beyond_firm_ends_is_empty_unless_clear(name, most):
    """Clones had a 72nd month: every cell beyond is one more that noise may fill."""
    usual = bounds_of(name).default
    for seen in (False, True):
        domain = domain_of(name, replace(usual, released=seen))
        assert (domain.edges[-1] <= most) == (name != "qty")
    assert domain_of(name, replace(usual, hi=500, released=True)).edges[-1] > 1000


@pytest.mark.parametrize("type_", [INT4, NUMERIC])
@pytest.mark.parametrize(("low", "high"), [(0, 40), (3, 40), (-5, 40)])
def test_domain_of_a_range_from_zero_on_has_one_cell_below_zero(type_, low, high):
    """Noise in thirty cells there made salaries of minus millions."""
    scale = scale_of(type_)
    points = (scale.parse(str(end)) for end in (low, high))
    domain = domain_of("n", Bounds(*points), type_)
    assert (domain.edges[0] >= 0) == (low >= 0)
    assert domain.specials[:2] == ("below", "above")


@pytest.mark.parametrize(
    ("name", "type_", "default", "low", "high"),
    [
        ("n", INT4, "5000", 0, 10_000),
        ("n", INT4, "'-700'::integer", -1400, 0),
        ("n", NUMERIC, "'2500.50'::numeric(12,2)", 0, 500_100),
        ("n", FLOAT8, "5000", 0.0, 10_000.0),
        ("n", FLOAT8, "'-5000.5'::real", -10_001.0, 0.0),
        *(("n", INT4, text, 0, 100) for text in ("7", "-1", "99999", "2147483647", None)),
        ("n", INT4, "nextval('s'::regclass)", 0, 100),
        # Beside what a name suggests it is a value.
        ("status", INT4, "9", 0, 10),
    ],
)
def test_default_range_of_a_default_has_its_magnitude(name, type_, default, low, high):
    need = bounds_of(name, type_, default=default)
    if type_ == FLOAT8:
        low, high = (scale_of(FLOAT8).parse(str(end)) for end in (low, high))
    assert (need.default.lo, need.default.hi) == (low, high)


@pytest.mark.parametrize(
    ("type_", "default", "label"),
    [
        (TEXT, "'UTC'::text", "UTC"), (TEXT, "'it''s'::text", "it's"), (TEXT, "''::text", ""),
        (TWO, "'A '::bpchar", "A"), (TWO, "'long'::bpchar", None), (TEXT, "upper('a'::text)", None),
        (TEXT, "('a'::text || 'b'::text)", None), (TEXT, "CURRENT_USER", None), (TEXT, None, None),
        (TEXT, f"'{'x' * 200}'::text", None),
    ],
)  # fmt: skip
def test_first_default_label_of_a_text_is_its_default(type_, default, label):
    """Twelve sites in UTC, which is what the schema says where nobody says another."""
    found = named("zone", type_, default=default)
    assert found.default_labels == (() if label is None else (label,))
    (need,) = found.needs
    # A default makes no list likelier.
    plain = bounds_of("zone", type_)
    public = tuple(dict.fromkeys((*plain.public, *found.default_labels)))
    assert need == replace(plain, default=found.default_labels, public=public)
    if label is not None:
        recoding = found.finish({"zone": need.default}).recodings["zone"]
        assert recoding.values == (label,)
        texts = pa.array(["elsewhere", label])
        assert recoding.apply(np.array([0, 1, -1]), texts).tolist() == [1, 0, 2]
