"""What columns of some names usually hold: labels that are counted, ranges that stand in."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from columns import FLOAT8, INT2, INT4, INTERVAL, TEXT, char, numeric, plan
from sql_files import cases

from privbench.config import ColumnConfig
from privbench.encoding.base import CategoriesNeed
from privbench.encoding.scale import scale_of
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


def test_suggestions_are_distinct_labels_and_ranges_with_ends():
    data = packaged("suggestions")
    for labels in [data["kinds"], *(item["labels"] for item in data["lists"])]:
        assert labels
        assert len(set(labels)) == len(labels)
    assert all(float(item["low"]) < float(item["high"]) for item in data["ranges"])


@pytest.mark.parametrize(("suggested", "names"), cases(__file__, "names.txt"))
def test_names_suggest_kinds_labels_and_ranges(suggested, names):
    what, _, wanted = suggested.partition(" ")
    for name in names.split():
        if what == "kind":
            assert (by_name(name).provider if by_name(name) else "none") == wanted
        elif what == "label":
            found = suggested_labels(name)
            assert found == () if wanted == "none" else wanted in found[:32]
        else:
            ends = " ".join((suggested_range(name) or ("none",))[:2])
            assert ends == wanted if what == "range" else ends != "0 1"


def test_suggested_labels_fit_the_name_and_the_length():
    assert "CA" not in suggested_labels("order_state")
    assert "shipped" not in suggested_labels("marital_status")
    assert all(len(label) == 2 for label in suggested_labels("country", 2, 2))
    assert named("country", TWO).default_labels == suggested_labels("country", 0, 2)


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


def test_a_default_is_within_the_range_of_a_name():
    need = bounds_of("status", default="9")
    assert (need.default.lo, need.default.hi) == (0, 10)


def test_durations_have_no_range_of_a_name_and_share_values():
    need, shared = named("day_hour", INTERVAL).needs
    assert (need.default.lo, shared.grid) == (0, "day_hour")


def test_domain_of_a_flag_has_two_values_and_amounts_are_no_flags():
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


@pytest.mark.parametrize(
    ("type_", "default", "low", "high"),
    [
        (INT4, "5000", 0, 10_000), (INT4, "'-700'::integer", -1400, 0),
        (NUMERIC, "'2500.50'::numeric(12,2)", 0, 500_100), (FLOAT8, "5000", 0.0, 10_000.0),
        (FLOAT8, "'-5000.5'::real", -10_001.0, 0.0),
        *((INT4, text, 0, 100) for text in (
            "7", "-1", "99999", "2147483647", None, "nextval('s'::regclass)")),
    ],
)  # fmt: skip
def test_default_range_has_the_magnitude_of_a_default(type_, default, low, high):
    need = bounds_of("n", type_, default=default)
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
