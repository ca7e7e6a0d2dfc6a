"""Ranges of columns on a grid, and values that many units share: released like labels."""

import numpy as np
import pytest
from columns import (
    DATE,
    FLOAT8,
    INT2,
    INT4,
    INTERVAL,
    MONEY,
    NUMERIC,
    STAMP,
    STAMPZ,
    numeric,
    plan,
    release,
)
from hypothesis import example, given
from hypothesis import strategies as st

from privbench.config import ColumnConfig
from privbench.encoding import Bounds, CategoriesNeed, Step
from privbench.encoding.registry import codec_from_json
from privbench.encoding.scale import scale_of
from privbench.rng import generator

PRICE = numeric(10, 2)
TYPES = {
    "integer": (INT4, "3600"),
    "whole": (numeric(9, 0), "7200"),
    "numeric": (PRICE, "4.99"),
    "bare": (NUMERIC, "0.125"),
    "float8": (FLOAT8, "-17.3"),
    "money": (MONEY, "19.99"),
    "date": (DATE, "2022-02-14"),
    "timestamp": (STAMP, "2022-02-15 09:34:33.123456"),
    "timestamptz": (STAMPZ, "2022-02-15T09:34:33+00:00"),
    "interval": (INTERVAL, "3:00:00"),
}


def lists(type_, *checks, delta=1e-9, **more):
    needs = plan(type_, *checks, delta=delta, **more).needs
    return [need for need in needs if isinstance(need, CategoriesNeed)]


def released(readers, points, decimals=None):
    """Bounds of the middle of the candidates, decimals, and some shared points."""
    third = len(readers.needs[0].candidates) // 3
    middle = Bounds(*readers.needs[0].candidates[[third, 2 * third]].tolist())
    parts = {"step": Step(decimals), "values": tuple(sorted(map(str, points)))}
    return release(readers, None, c=middle, **{f"c\x1f{name}": a for name, a in parts.items()})


def drawn(codec, points, count=20):
    """The codes of some points, each of which is all that its code's cell gives."""
    codes = codec.recodings["c"].apply(np.array(points)).tolist()
    for code, point in zip(codes, points, strict=True):
        made = codec.decode({"c": np.full(count, code)}, generator(3))
        assert codec.scale.points_of(made).tolist() == [point] * count
    return codes


@pytest.mark.parametrize("name", TYPES)
def test_decode_of_a_shared_value_draws_it_exactly(name):
    type_, text = TYPES[name]
    (need,) = lists(type_)
    assert need.source == need.grid == "c" != need.attribute
    readers = plan(type_, delta=1e-9)
    point = scale_of(type_).parse(text)
    codec = codec_from_json(readers.finish(released(readers, [point])).to_json())
    (code,) = drawn(codec, [point], 50)
    assert code not in codec.recodings["c"].apply(np.array([point - 1, point + 1]))
    # Values at the ends of what is public.
    lo, hi = readers.range.lo, readers.range.hi
    codec = readers.finish(released(readers, [lo, hi]))
    edges = np.array(codec.recoding.edges)
    assert (np.diff(edges) > 0).all()
    assert (edges[0], edges[-1]) == (lo, hi + 1)
    drawn(codec, [lo, hi])


def test_lists_of_shared_values_are_asked_for_and_get_cells_where_they_may():
    assert lists(PRICE)
    assert not lists(PRICE, delta=0.0)
    assert not lists(PRICE, uniques=[("c",)])
    assert lists(PRICE, config=ColumnConfig(min=0, max=9))
    assert not lists(PRICE, config=ColumnConfig(min=0, max=5))
    assert not lists(PRICE, "((c >= 0) AND (c <= 5))")
    assert lists(PRICE, "((c >= 0) AND (c <= 9))")
    assert not lists(INT2)
    assert not lists(numeric(4, 0))
    # A shared value with more decimals than others gets no cell.
    readers = plan(PRICE, delta=1e-9)
    found = released(readers, [299], 0) | {"c": Bounds(0, 90000)}
    assert not set(readers.finish(found).recoding.edges) & {299, 300 - 1}


@given(st.integers(-(10**6), 10**6), st.integers(512, 2**20))
@example(-16401, 540689)
@example(-500000, 2**20)
def test_public_range_of_many_steps_is_a_limit_of_what_is_released(low, width):
    """Over one cell a step the noise of a histogram would add up to more than its rows."""
    high = low + width
    wide = plan(INT4, config=ColumnConfig(min=low, max=high), delta=1e-9)
    bounds, _, values = wide.needs
    assert (bounds.default.lo, bounds.default.hi) == (low, high + 1)
    for points in (bounds.candidates, *bounds.coarser):
        assert (points[0], points[-1]) == (low, high)
    assert values.grid == "c"
    # Where noise hides the range, it is the declared one, in narrow cells near zero.
    edges = np.array(wide.finish({"c": bounds.default}).recoding.edges)
    assert (edges[0], edges[-1]) == (low, high + 1)
    widths = np.diff(edges)
    assert len(widths) <= 128 + 3 * 48 + 1
    if low <= 0 <= high:
        assert widths[np.searchsorted(edges, 0, "right") - 1] == 1


def test_describe_says_which_ends_of_a_range_are_declared():
    wide = "the declared range has many steps: it limits what is released"
    for declared, said in (
        ({}, "no range is declared"),
        ({"min": 0}, "a least value is declared"),
        ({"max": 10**6}, "a greatest value is declared"),
        ({"min": 0, "max": 10**6}, wide),
    ):
        assert plan(INT4, config=ColumnConfig(**declared)).describe()[1] == said
    assert plan(INT4, "CHECK ((c > 0))").describe()[1] == "a least value is declared"
    assert plan(INT4, "CHECK (((c > 0) AND (c < 10000)))").describe()[1] == wide
