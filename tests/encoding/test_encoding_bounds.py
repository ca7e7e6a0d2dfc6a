"""Numbers and times that many units share: released like labels, drawn exactly."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from privbench.config import ColumnConfig
from privbench.encoding import Bounds, BoundsNeed, CategoriesNeed, Decimals, DecimalsNeed
from privbench.encoding.registry import codec_from_json, reader
from privbench.encoding.scale import scale_of
from privbench.rng import generator
from privbench.schema import Check, Column, ColumnType, Table, TableName, Unique

TYPES = {
    "numeric": (ColumnType("numeric(10,2)", "numeric", precision=10, scale=2), "4.99"),
    "bare": (ColumnType("numeric", "numeric"), "0.125"),
    "float8": (ColumnType("double precision", "float8"), "-17.3"),
    "money": (ColumnType("money", "money"), "19.99"),
    "date": (ColumnType("date", "date"), "2022-02-14"),
    "timestamp": (ColumnType("timestamp", "timestamp"), "2022-02-15 09:34:33.123456"),
    "timestamptz": (ColumnType("timestamptz", "timestamptz"), "2022-02-15T09:34:33+00:00"),
    "interval": (ColumnType("interval", "interval"), "3:00:00"),
}


def plan(type_, *, delta=1e-9, checks=(), uniques=(), config=None):
    table = Table(
        TableName("public", "t"), (Column("c", 1, type_),), checks=checks, uniques=uniques
    )
    return reader(table.columns[0], table, config or ColumnConfig(), delta)


def lists(readers):
    return [need for need in readers.needs if isinstance(need, CategoriesNeed)]


def released(readers, points, decimals=None):
    """Bounds of the middle of the candidates, decimals, and some shared points."""
    found = {}
    for need in readers.needs:
        if isinstance(need, BoundsNeed):
            edges = need.candidates
            third = len(edges) // 3
            found[need.attribute] = Bounds(int(edges[third]), int(edges[2 * third]))
        elif isinstance(need, DecimalsNeed):
            found[need.attribute] = Decimals(decimals)
        else:
            found[need.attribute] = tuple(sorted(map(str, points)))
    return found


@pytest.mark.parametrize("name", TYPES)
def test_a_value_that_many_share_is_drawn_exactly(name):
    type_, text = TYPES[name]
    readers = plan(type_)
    (need,) = lists(readers)
    assert need.source == need.grid == "c"
    assert need.attribute != "c"
    scale = scale_of(type_)
    point = scale.parse(text)
    codec = readers.finish(released(readers, [point]))
    codec = codec_from_json(codec.to_json())
    recoding = codec.recodings["c"]
    near = np.array([point, point - 1, point + 1])
    code, *others = recoding.apply(near).tolist()
    assert code not in others
    made = codec.decode({"c": np.full(50, code)}, generator(3))
    assert scale.points_of(made).tolist() == [point] * 50


@pytest.mark.parametrize("name", TYPES)
def test_shared_values_at_the_ends_of_what_is_public(name):
    type_, _ = TYPES[name]
    readers = plan(type_)
    lo, hi = readers.range.lo, readers.range.hi
    codec = readers.finish(released(readers, [lo, hi]))
    edges = np.array(codec.recoding.edges)
    assert (np.diff(edges) > 0).all()
    assert (edges[0], edges[-1]) == (lo, hi + 1)
    for point in (lo, hi):
        (code,) = codec.recodings["c"].apply(np.array([point]))
        made = codec.decode({"c": np.array([code])}, generator(3))
        assert readers.scale.points_of(made).tolist() == [point]


def test_where_no_value_is_looked_for():
    price = TYPES["numeric"][0]
    assert lists(plan(price))
    assert not lists(plan(price, delta=0.0))
    assert not lists(plan(price, uniques=(Unique("u", ("c",)),)))
    assert not lists(plan(price, config=ColumnConfig(min=0, max=9)))
    assert not lists(plan(price, checks=(Check("k", "((c >= 0) AND (c <= 5))", ("c",)),)))
    assert lists(plan(price, checks=(Check("k", "((c >= 0) AND (c <= 9))", ("c",)),)))
    assert not lists(plan(ColumnType("integer", "int4")))
    assert not lists(plan(ColumnType("numeric(5,0)", "numeric", precision=5, scale=0)))


@pytest.mark.parametrize(
    ("name", "decimals", "shared"),
    [("numeric", -1, ("100", "200", "250.00")), ("numeric", 0, ("3", "12")), ("money", 0, ("20",)),
     ("float8", 0, ("3", "7", "12")), ("float8", 1, ("0.1", "7.5")), ("bare", 2, ("0.25", "4"))],
)  # fmt: skip
def test_beside_a_shared_value_all_numbers_have_as_few_decimals(name, decimals, shared):
    """No cell next to it is without any number of the lattice."""
    readers = plan(TYPES[name][0])
    scale = scale_of(TYPES[name][0])
    points = [scale.parse(text) for text in shared]
    found = released(readers, points, decimals)
    low, high = (scale.parse(text) for text in ("0", "900"))
    found["c"] = Bounds(low, high)
    codec = readers.finish(found)
    for point in points:
        (code,) = codec.recodings["c"].apply(np.array([point]))
        made = codec.decode({"c": np.full(20, code)}, generator(1))
        assert scale.points_of(made).tolist() == [point] * 20
        beside = np.repeat([code - 1, code + 1], 50)
        values = codec.decode({"c": beside}, generator(2)).cast(pa.float64()).to_numpy()
        unit = 10.0**-decimals
        assert np.allclose(values, np.round(values / unit) * unit)


def test_a_shared_value_with_more_decimals_than_others_gets_no_cell():
    readers = plan(TYPES["numeric"][0])
    found = released(readers, [299], 0) | {"c": Bounds(0, 90000)}
    edges = set(readers.finish(found).recoding.edges)
    assert not edges & {299, 300 - 1}
