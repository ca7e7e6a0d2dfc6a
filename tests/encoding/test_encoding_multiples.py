"""Numeric and money columns: whole numbers, tens and thousands come back as such."""

import itertools
import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from noisy_histograms import released_by

from privbench.config import ColumnConfig
from privbench.encoding.bounds import Bounds
from privbench.encoding.decimals import ZERO, Decimals
from privbench.encoding.keys.repair import repair_uniques
from privbench.encoding.keys.table import TableRows
from privbench.encoding.registry import codec_from_json, reader
from privbench.encoding.selectivity import shares
from privbench.errors import ModelError
from privbench.learning.denoise import denoise
from privbench.learning.guard import guard
from privbench.learning.ranges import find_decimals
from privbench.privacy.data import NAN, NEG_INF, NULL, POS_INF
from privbench.rng import generator
from privbench.schema import Check, Column, ColumnType, Table, TableName, Unique


def numeric(precision, scale):
    text = f"numeric({precision},{scale})"
    return ColumnType(text, "numeric", category="N", precision=precision, scale=scale)


PRICE = numeric(10, 2)
MONEY = ColumnType("money", "money", category="N")
TYPES = [PRICE, numeric(15, 4), numeric(5, 2), numeric(38, 20), numeric(4, 1), MONEY]
types = st.sampled_from(TYPES)
settles = settings(max_examples=150, deadline=None)


def plan(type_=PRICE, *checks, name="c", config=None):
    made = tuple(Check(f"k{i}", text) for i, text in enumerate(checks))
    column = Column(name, 1, type_)
    table = Table(TableName("public", "t"), (column,), checks=made)
    return reader(column, table, config or ColumnConfig(), 0.0)


def codec_of(found, low, high, count, **more):
    bounds, decimals = found.needs
    lo, hi = (found.scale.parse(str(end)) for end in (low, high))
    released = {bounds.attribute: Bounds(lo, hi, **more), decimals.attribute: Decimals(count)}
    return found.finish(released)


def counted(type_, points):
    found = plan(type_)
    raw = found.read({"c1": pa.array(points, pa.int64())})
    return raw[found.needs[1].attribute].tolist()


@settles
@given(types, st.integers(-(10**9), 10**9), st.integers(0, 8))
def test_decimals_are_those_of_the_number(type_, base, zeros):
    found = plan(type_).scale
    told = found.decimal_choices
    point = int(np.clip(base * 10**zeros, *found.limits))
    if point == 0:
        assert counted(type_, [0]) == [ZERO]
        return
    # The exponent of the number without zeros at its end.
    exponent = Decimal(point).scaleb(-found.digits).normalize().as_tuple().exponent
    assert counted(type_, [point]) == [max(-exponent, told[0])]


@pytest.mark.parametrize(
    ("type_", "told"),
    [
        (PRICE, range(-3, 3)), (MONEY, range(-3, 3)), (numeric(5, 2), range(-2, 3)),
        (numeric(3, 2), range(3)), (numeric(2, 2), range(1, 3)), (numeric(38, 20), range(-3, 7)),
        (numeric(3, 5), range(3, 6)), (numeric(1, 1), None), (numeric(8, 0), None),
        (numeric(8, -2), None), (ColumnType("integer", "int4"), None),
        (ColumnType("date", "date"), None),
    ],
)  # fmt: skip
def test_what_there_is_to_be_told(type_, told):
    found = plan(type_)
    assert found.scale.decimal_choices == told
    assert len(found.needs) == (1 if told is None else 2)
    if told is not None:
        need = found.needs[1]
        assert need.candidates.tolist() == list(told)
        assert need.usual == told[-1]
        assert need.candidates[0] > ZERO


def test_what_is_no_number_has_no_decimals():
    assert counted(PRICE, [None, NAN, 290]) == [NULL, NAN, 1]


def test_a_public_range_asks_nothing():
    assert plan(PRICE, config=ColumnConfig(kind="range", min=0, max=99)).needs == ()
    assert plan(PRICE, "((c >= 0) AND (c <= 5))").attributes == ("c",)


def test_a_wide_range_of_a_check_is_a_limit():
    """Percentages with cents, but mostly whole: cells of each cent would hide that."""
    found = plan(PRICE, "((c >= 0) AND (c <= 100))")
    bounds, _ = found.needs
    assert (bounds.usual.lo, bounds.usual.hi) == (0, 10001)
    assert bounds.candidates[[0, -1]].tolist() == [0, 10000]
    codec = codec_of(found, 0, 100, 0)
    made = codec.decode({"c": np.arange(codec.domains["c"].size - 1)}, generator(1))
    assert all(value == int(value) and 0 <= value <= 100 for value in made.to_pylist())
    wide = plan(PRICE, "((c >= 0) AND (c <= 1000000))").needs[0].usual
    assert (wide.lo, wide.hi) == (0, 10000)


ends = st.integers(-(10**7), 10**7)


@settles
@given(
    types, st.data(), ends, ends, st.sampled_from([None, 16, 40, 128]), st.booleans(),
    st.integers(0, 2**32),
)  # fmt: skip
def test_values_are_multiples_and_lie_in_their_cells(type_, data, low, high, cells, seen, seed):
    found = plan(type_)
    bounds, need = found.needs
    count = data.draw(st.sampled_from(list(need.told)))
    lo, hi = sorted(int(np.clip(end, *found.scale.limits)) for end in (low, high))
    inner = data.draw(st.lists(st.integers(lo, hi), max_size=30).map(lambda x: tuple(sorted(x))))
    told = Bounds(lo, hi, cells=cells, inner=inner, seen=seen)
    codec = found.finish({bounds.attribute: told, need.attribute: Decimals(count)})
    edges, size = codec.recoding.edges, codec.recoding.domain.size
    assert all(a < b for a, b in itertools.pairwise(edges))
    first, end = codec.recoding.core
    assert 0 <= first < end < len(edges)
    codes = np.tile(np.arange(size), 3)
    points = codec.scale.points_of(codec.decode({"c": codes}, generator(seed)))
    lows, highs = codec.cells()
    real = (points > NEG_INF) & (points < POS_INF)
    assert (points[real] >= lows[codes][real]).all()
    assert (points[real] < highs[codes][real]).all()
    values = codes < codec.recoding.domain.values
    np.testing.assert_array_equal(codec.recoding.apply(points)[values], codes[values])
    assert ((points >= found.scale.limits[0]) & (points <= found.scale.limits[1]))[real].all()
    unit = 1 if codec.decimals is None else 10 ** (codec.scale.digits - count)
    assert (points[values] % unit == 0).all()
    if codec.decimals is None:
        # The type's own decimals, or a range without such numbers.
        step = 10 ** (codec.scale.digits - count)
        assert step == 1 or not any(point for point in range(-(-lo // step) * step, hi, step))


@settles
@given(types, st.data(), st.integers(-(10**4), 10**4), st.integers(1, 250))
def test_narrow_ranges_give_every_multiple_back(type_, data, start, width):
    found = plan(type_)
    count = data.draw(st.sampled_from(list(found.needs[1].told)))
    unit = 10 ** (found.scale.digits - count)
    points = np.arange(start, start + width + 1) * unit
    points = points[(points >= found.scale.limits[0]) & (points <= found.scale.limits[1])]
    if len(points) < 2 or not points[:-1].any():
        return
    bounds, need = found.needs
    told = Bounds(int(points[0]), int(points[-1]))
    codec = found.finish({bounds.attribute: told, need.attribute: Decimals(count)})
    codes = codec.recoding.apply(found.read({"c1": pa.array(points)})["c"])
    drawn = codec.scale.points_of(codec.decode({"c": codes}, generator(0)))
    assert drawn[:-1].tolist() == points[:-1].tolist()


def test_a_range_without_such_numbers_keeps_its_own_grid():
    assert codec_of(plan(), 0, "0.11", 0).decimals is None
    assert codec_of(plan(), "5.00", "5.12", 0).decimals == 0
    assert codec_of(plan(), "-0.5", 0, 0).decimals is None
    assert codec_of(plan(), "-0.5", "1.5", 0).decimals == 0
    # Nobody saw the range: thousands are not within the usual one.
    assert codec_of(plan(), 0, 100, -3, seen=False).decimals is None
    assert codec_of(plan(), 0, 100, 0, seen=False).decimals == 0


@pytest.mark.parametrize("seen", [True, False])
def test_noise_leaves_the_type_its_decimals(seen):
    assert codec_of(plan(), 0, 100, None, seen=seen).decimals is None
    assert codec_of(plan(), 0, 100, 2, seen=seen).decimals is None


def test_what_a_name_tells_has_no_cells_below():
    """An end that is no multiple is still within what the name tells."""
    found = plan(numeric(8, 2), name="salary")
    low, high = found._expected.named
    bounds, need = found.needs
    codec = found.finish({bounds.attribute: Bounds(low, high), need.attribute: Decimals(-3)})
    assert codec.decimals == -3
    assert codec.recoding.edges[0] >= low


def test_open_ends_keep_checks():
    codec = codec_of(plan(PRICE, "(c >= 0.5)"), "0.5", "9.5", 0)
    assert codec.recoding.edges[:3] == (100, 200, 300)
    top = codec_of(plan(PRICE, "(c <= 9.30)"), 0, 30, 0)
    for item in (codec, top):
        codes = np.tile(np.arange(item.recoding.domain.size), 20)
        drawn = item.scale.points_of(item.decode({"c": codes}, generator(3)))
        drawn = drawn[(drawn > NEG_INF) & (drawn < POS_INF)]
        assert (drawn >= item.limits[0]).all()
        assert (drawn <= item.limits[1]).all()


def test_cells_of_one_multiple_are_told():
    codec = codec_of(plan(), 0, 25, 0)
    first, end = codec.recoding.core
    edges = codec.recoding.edges[first : end + 1]
    assert [b - a for a, b in itertools.pairwise(edges)] == [100] * 25
    assert all(codec.scale.alone(a, b) for a, b in itertools.pairwise(edges))
    assert not codec.scale.alone(0, 101)
    assert codec.scale.alone(1, 101)


@settles
@given(st.sampled_from(range(-3, 3)), st.integers(-(10**6), 10**6), ends, ends)
@example(0, 2900, 0, 5000)
def test_shares_are_those_of_what_is_drawn(count, literal, low, high):
    found = plan()
    bounds, need = found.needs
    codec = found.finish({bounds.attribute: Bounds(low, high), need.attribute: Decimals(count)})
    told = shares(codec, [(literal, literal + 1)], null=False)
    lows, highs = codec.cells()
    unit = codec.scale.unit
    for code in range(codec.recoding.domain.values):
        inside = lows[code] <= literal < highs[code]
        many = -(-int(highs[code]) // unit) - -(-int(lows[code]) // unit)
        hit = inside and literal % unit == 0
        assert told[code] == pytest.approx(1 / many if hit else 0.0)


@pytest.mark.parametrize("text", [False, True])
def test_unique_values_stay_multiples_where_there_are_enough(text):
    """Of 1 to 50, fifty rows are whole; a hundred take cents."""
    item = Unique("u", ("c",))
    column = Column("c", 1, PRICE)
    limits = (Check("k", "(c > 0)", ("c",)), Check("l", "(c <= 50)", ("c",)))
    table = Table(TableName("public", "t"), (column,), checks=limits, uniques=(item,))
    found = reader(column, table, ColumnConfig(), 0.0)
    found = replace(found, range=replace(found.range, settled=False))
    codec = codec_of(found, 1, 51, 0)
    assert codec.decimals == 0
    for rows, whole in ((50, True), (100, False)):
        points = generator(rows, "unique").integers(1, 51, rows) * 100
        values = codec.scale.build(points, {"nan": np.zeros(rows, bool)} if text else {})
        work = TableRows(table, {"c": values}, {}, generator(1), rows, {"c": codec})
        repair_uniques(work, [item])
        assert work.alive.all()
        moved = codec.scale.points_of(work.columns["c"])
        assert len(set(moved.tolist())) == rows
        assert bool((moved % 100 == 0).all()) == whole
        assert moved.min() >= 1
        assert moved.max() <= 5000


def test_decimals_travel_and_are_checked():
    codec = codec_of(plan(), 0, 90_000, -2)
    data = json.loads(json.dumps(codec.to_json()))
    assert data["decimals"] == -2
    assert codec_from_json(data) == codec
    for wrong in (-4, 3, "x"):
        with pytest.raises(ModelError):
            codec_from_json({**data, "decimals": wrong})
    whole = {**data["type"], "scale": 0}
    with pytest.raises(ModelError, match="decimals"):
        codec_from_json({**data, "type": whole})


def released(points, sd, seed, type_=PRICE, cells=64):
    """The codec of a column by noisy histograms, as a fit releases it, and a clone of it."""
    found = plan(type_)
    raw = found.read({"c1": pa.array(points, pa.int64())})
    rng = generator(seed, "noise")
    given = released_by(found.needs, raw, sd, rng, cells)
    codec = found.finish(given)
    domain = codec.recoding.domain
    noisy = np.bincount(codec.recoding.apply(raw["c"]), minlength=domain.size) + rng.laplace(
        0, sd / np.sqrt(2), domain.size
    )
    kept = guard(denoise(noisy, sd, len(points), "laplace"), noisy, sd, domain)
    codes = rng.choice(domain.size, len(points), p=kept / kept.sum())
    return codec, codec.scale.points_of(codec.decode({"c": codes}, rng))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("type_", [PRICE, MONEY])
def test_quantities_come_back_whole(seed, type_):
    points = generator(seed, "quantities").integers(1, 51, 8000) * 100
    codec, drawn = released(points, 40.0, seed, type_)
    assert codec.decimals == 0
    assert (drawn[drawn > NEG_INF] % 100 == 0).all()
    assert (drawn == 2900).mean() == pytest.approx(1 / 50, rel=0.6)


@pytest.mark.parametrize("seed", range(5))
def test_salaries_come_back_in_hundreds(seed):
    points = generator(seed, "salaries").integers(200, 900, 8000) * 10_000
    codec, drawn = released(points, 40.0, seed)
    assert codec.decimals == -2
    assert (drawn[drawn > NEG_INF] % 10_000 == 0).all()


TOLD = range(-3, 3)


def rule(points, scales, repeats, seed):
    """What is told of a column in so many noise scales of rows, how often."""
    raw = np.array(counted(PRICE, points))
    counts = np.bincount(np.searchsorted(np.array(TOLD), raw, side="right"), minlength=7)
    scale = len(points) / scales
    noisy = counts + generator(seed, "rule").laplace(0, scale, (repeats, 7))
    places = [find_decimals(item, scale * np.sqrt(2), TOLD.index(2)) for item in noisy]
    return [None if place is None else TOLD[place] for place in places]


@pytest.mark.parametrize(
    ("unit", "expected", "least"),
    [(1, 2, 0.99), (100, 0, 0.94), (1000, -1, 0.94), (10**5, -3, 0.9)],
)
def test_what_a_column_is_said_to_have(unit, expected, least):
    """With 16 noise scales of rows, the share that the domain stage gives."""
    points = generator(unit, "points").integers(1, 2000, 4000) * unit
    told = rule(points[points < 10**10], 16, 500, unit)
    assert sum(item == expected for item in told) >= least * len(told)


def test_cents_are_kept_where_half_the_prices_have_some():
    rng = generator(3, "halves")
    whole = rng.integers(1, 100, 4000) * 100
    told = rule(np.where(rng.random(4000) < 0.5, whole - 1, whole), 16, 500, 3)
    assert sum(item == 2 for item in told) >= 0.94 * len(told)


def test_few_rows_tell_nothing():
    noisy = generator(1, "none").laplace(0, 10, (1000, 7))
    told = [find_decimals(item, 10 * np.sqrt(2), 5) for item in noisy]
    assert sum(item is not None for item in told) < 30
