"""Float columns: zero has a cell, and numbers with few decimals come back as such numbers."""

import itertools
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from noisy_histograms import released_by

from privbench.config import ColumnConfig
from privbench.encoding.bounds import Bounds
from privbench.encoding.decimals import (
    MORE,
    MOST,
    ZERO,
    DecimalGrid,
    Decimals,
    decimals_of,
)
from privbench.encoding.floats import image, value
from privbench.encoding.registry import codec_from_json, reader
from privbench.encoding.selectivity import shares
from privbench.errors import ModelError
from privbench.learning.denoise import denoise
from privbench.learning.guard import guard
from privbench.learning.ranges import find_decimals
from privbench.privacy.data import NAN, NEG_INF, NULL, POS_INF
from privbench.rng import generator
from privbench.schema import Check, Column, ColumnType, Table, TableName

TYPES = {
    "float8": ColumnType("double precision", "float8"),
    "float4": ColumnType("real", "float4"),
    "numeric": ColumnType("numeric", "numeric"),
}
#: Least positive numbers.
LEAST = {"float8": 5e-324, "float4": 1.5e-45, "numeric": 5e-324}
bases = st.sampled_from(sorted(TYPES))
decimals = st.integers(0, MOST)


def plan(base="float8", config=None, *checks):
    column = Column("c", 1, TYPES[base])
    made = tuple(Check(f"k{i}", text) for i, text in enumerate(checks))
    table = Table(TableName("public", "t"), (column,), checks=made)
    return reader(column, table, config or ColumnConfig(), 0.0)


def codec_of(found, low, high, count, **more):
    bounds, *rest = found.needs
    lo, hi = (found.scale.parse(str(end)) for end in (low, high))
    released = {bounds.attribute: Bounds(lo, hi, **more)}
    return found.finish(released | {need.attribute: Decimals(count) for need in rest})


def counted(base, numbers):
    """Decimals as a reader counts them; numbers as the server sends them."""
    sent = np.asarray(numbers, np.float32 if base == "float4" else np.float64).astype(np.float64)
    pieces = plan(base).read({"c1": pa.array(sent, from_pandas=False)})
    return pieces["c\x1fdecimals"].tolist()


def least_decimals(text):
    """Of a plain decimal number."""
    return len(text.partition(".")[2].rstrip("0")) if float(text) else ZERO


@given(bases, decimals, st.integers(-(10**6), 10**6))
def test_decimals_are_those_of_the_shortest_text(base, count, steps):
    text = f"{steps / 10**count:.{count}f}"
    assert counted(base, [float(text)]) == [least_decimals(text)]


@given(st.integers(-(2**50), 2**50), decimals)
def test_a_double_of_a_decimal_has_no_more_decimals(steps, count):
    assert decimals_of(np.array([steps / 10**count]))[0] <= count


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0.0, ZERO), (-0.0, ZERO), (1.0, 0), (-9.99, 2), (0.1 + 0.2, MORE), (1e-6, 6), (1e-7, MORE),
        (1e300, 0), (2.0**53 + 2, 0), (2.0**49 + 0.125, 1), (1e12 + 0.125, 3), (5e-324, MORE),
        (1234567890.12, 2), (np.pi, MORE),
    ],
)  # fmt: skip
def test_decimals_of_single_numbers(number, expected):
    assert counted("float8", [number]) == [expected]


def test_decimals_of_32_bit_floats_are_those_that_they_show():
    assert counted("float4", [0.1, 9.99, 250000.75, 16777216.0, 1e20, 1 / 3]) == [1, 2, 2, 0, 0, 7]


def test_what_is_no_number_has_no_decimals():
    sent = pa.array([None, np.nan, -np.inf, np.inf, 2.5], pa.float64())
    found = plan().read({"c1": sent})["c\x1fdecimals"]
    assert found.tolist() == [NULL, NAN, NEG_INF, POS_INF, 1]


ends = st.floats(-1e6, 1e6)
settles = settings(max_examples=150, deadline=None)


@settles
@given(bases, decimals, ends, ends, st.sampled_from([None, 16, 40, 128]), st.integers(0, 2**32))
@example("float8", 0, 0.0, 25.0, None, 1)
@example("float4", 6, -1e6, 1e6, None, 1)
@example("float8", 0, 0.2, 0.3, None, 1)
def test_values_lie_on_the_lattice_and_in_their_cells(base, count, low, high, cells, seed):
    codec = codec_of(plan(base), low, high, count, cells=cells)
    size = codec.recoding.domain.size
    codes = np.tile(np.arange(size), 3)
    column = codec.decode({"c": codes}, generator(seed))
    points = codec.scale.points_of(column)
    again = codec.recoding.apply(points)
    first, end = codec.recoding.core
    inside = (codes >= first) & (codes < end)
    if base == "float4":
        # Cells may be narrower than the steps of 32-bit floats.
        narrow = np.flatnonzero(np.diff(np.array(codec.recoding.edges, object)) < 2**30)
        inside &= ~np.isin(codes, narrow)
    np.testing.assert_array_equal(again[inside], codes[inside])
    numbers = value(points[inside])
    steps = np.rint(numbers * 10**count)
    nearest = np.array([int(step) / 10**count for step in steps])
    if base == "float4":
        nearest = nearest.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(numbers, nearest)


@settles
@given(bases, decimals, st.integers(-(10**6), 10**6), st.integers(0, 250))
def test_narrow_ranges_give_every_number_back(base, count, start, width):
    """Cells of single steps: what is read is what is written, to the last bit."""
    if base == "float4":
        start %= 10**4
    steps = np.arange(start, start + width + 1)
    numbers = np.array([int(step) / 10**count for step in steps])
    codec = codec_of(plan(base), numbers[0], steps[-1] / 10**count + 10.0**-count / 2, count)
    sent = numbers.astype(np.float32).astype(np.float64) if base == "float4" else numbers
    codes = codec.recoding.apply(plan(base).read({"c1": pa.array(sent)})["c"])
    column = codec.decode({"c": codes}, generator(0))
    assert column.cast(pa.float64()).to_pylist() == sent.tolist()


@settles
@given(
    bases, st.none() | decimals, st.floats(-1e30, 1e30), st.floats(-1e30, 1e30), st.integers(1, 128)
)
@example("float8", None, 0.0, 100.0, 128)
@example("float8", 2, 0.0, 1e30, 128)
@example("float8", 0, -1e30, -1e29, 16)
def test_zero_has_a_cell_of_its_own(base, count, low, high, cells):
    codec = codec_of(plan(base), low, high, count, cells=cells)
    edges = codec.recoding.edges
    assert all(a < b for a, b in itertools.pairwise(edges))
    places = codec.recoding.places
    assert len(places) == len(edges)
    assert all(a < b for a, b in itertools.pairwise(places))
    if not edges[0] <= 0 < edges[-1]:
        return
    code = int(codec.recoding.apply(np.zeros(1, np.int64))[0])
    zeros = codec.decode({"c": np.full(50, code)}, generator(1)).cast(pa.float64()).to_pylist()
    assert zeros == [0.0] * 50
    sides = np.abs(value(np.array(edges)))
    others = np.flatnonzero(np.maximum(sides[:-1], sides[1:]) > LEAST[base])
    others = others[others != code]
    drawn = codec.decode({"c": others}, generator(2)).cast(pa.float64()).to_numpy()
    assert (drawn != 0.0).all()


@pytest.mark.parametrize(
    "found",
    [
        plan(config=ColumnConfig(kind="range", min=0, max=1000)),
        plan(config=ColumnConfig(kind="range", min=-5, max=5, bins=20)),
    ],
)
def test_zero_has_a_cell_in_a_public_range(found):
    assert found.needs == ()
    assert found.attributes == ("c",)
    codec = found.finish({})
    code = int(codec.recoding.apply(np.zeros(1, np.int64))[0])
    assert codec.decode({"c": np.full(9, code)}, generator(1)).to_pylist() == [0.0] * 9


def test_cells_of_one_number_are_told():
    codec = codec_of(plan(), 0, 25, 0)
    first, _ = codec.recoding.core
    edges = codec.recoding.edges[first:]
    assert all(codec.scale.alone(a, b) for a, b in itertools.pairwise(edges[:26]))
    assert not codec.scale.alone(edges[0], edges[2])
    for base in TYPES:
        loose = codec_of(plan(base), -1, 1, MORE)
        pairs = itertools.pairwise(loose.recoding.edges)
        assert [a for a, b in pairs if loose.scale.alone(a, b)] == [0]


@pytest.mark.parametrize("count", [0, 2, MORE])
@pytest.mark.parametrize(("low", "high"), [(0, 25), (-3, 7000), (100, 101), (1e-5, 1e-3)])
def test_places_are_as_far_apart_as_values(low, high, count):
    recoding = codec_of(plan(), low, high, count).recoding
    assert recoding.domain.edges == recoding.places
    edges, places = value(np.array(recoding.edges)), np.array(recoding.places, float)
    shares = [(side - side[0]) / (side[-1] - side[0]) for side in (edges, places)]
    np.testing.assert_allclose(*shares, atol=1e-6)


def test_huge_numbers_are_drawn_as_before():
    codec = codec_of(plan(), 1e18, 1e20, 2)
    first, end = codec.recoding.core
    codes = np.arange(first, end)
    again = codec.recoding.apply(codec.scale.points_of(codec.decode({"c": codes}, generator(1))))
    np.testing.assert_array_equal(again, codes)


def test_open_ends_keep_checks():
    """Whole numbers above 0.5 begin at 1, and nothing that a CHECK forbids is drawn."""
    codec = codec_of(plan("float8", None, "(c >= 0.5)"), 0.5, 9.5, 0)
    assert value(np.array(codec.recoding.edges[:3])).tolist() == [1.0, 2.0, 3.0]
    codes = np.tile(np.arange(codec.recoding.domain.size - 1), 20)
    drawn = codec.decode({"c": codes}, generator(3)).drop_null().to_numpy()
    assert drawn[np.isfinite(drawn)].min() >= 0.5
    top = codec_of(plan("float8", None, "(c <= 9)"), 0.0, 30.0, 0)
    codes = np.tile(np.arange(top.recoding.domain.values), 20)
    assert top.decode({"c": codes}, generator(3)).to_numpy().max() == 9.0


@given(st.booleans(), decimals, st.floats(-1e9, 1e9))
@example(True, 6, 839.0)
@example(True, 2, 16777217.5)
def test_the_first_step_is_the_least(single, count, number):
    decimal_grid = DecimalGrid(count, single)
    (step,) = decimal_grid.first(np.array([number]))
    below, at = decimal_grid.numbers(np.array([step - 1, step]))
    assert below < number <= at


@settles
@given(decimals, st.floats(-1e4, 1e4), st.floats(-1e4, 1e4), st.floats(-1e4, 1e4))
def test_shares_are_those_of_what_is_drawn(count, low, high, literal):
    codec = codec_of(plan(), low, high, count)
    first, end = codec.recoding.core
    point = int(image(np.array([round(literal, count)]))[0])
    told = shares(codec, [(point, point + 1)], null=False)[first:end]
    lows, highs = (side[first:end] for side in codec.cells())
    many = np.repeat(np.arange(first, end), 40)
    drawn = codec.scale.points_of(codec.decode({"c": many}, generator(4)))
    hit = np.unique(many[drawn == point]) - first
    assert (told[hit] > 0).all()
    assert ((told == 0) | ((lows <= point) & (point < highs))).all()
    assert told.sum() == 0 or told.max() == pytest.approx(
        1 / codec_steps(codec, first + told.argmax())
    )


def codec_steps(codec, code):
    """Numbers of the lattice in a cell, by counting up from just below either end."""
    unit = 10**codec.decimals

    def first(edge):
        step = int(np.floor(edge * unit)) - 2
        while step / unit < edge:
            step += 1
        return step

    lows, highs = codec.cells()
    low, high = value(np.array([lows[code], highs[code]]))
    return first(high) - first(low)


def test_decimals_travel_and_are_checked():
    codec = codec_of(plan(), 0, 25, 1)
    data = json.loads(json.dumps(codec.to_json()))
    assert data["decimals"] == 1
    assert codec_from_json(data) == codec
    older = {name: item for name, item in data.items() if name != "decimals"}
    assert codec_from_json(older).decimals is None
    for wrong in (-1, 7, "x"):
        with pytest.raises(ModelError):
            codec_from_json({**data, "decimals": wrong})
    integer = {**data["type"], "sql": "integer", "base": "int4"}
    with pytest.raises(ModelError, match="decimals"):
        codec_from_json({**data, "type": integer})
    assert "decimals" not in codec_of(plan(), 0, 25, MORE).to_json()


def test_two_decimals_where_nothing_is_known():
    usual = codec_of(plan(), 0, 100, None, seen=False)
    assert usual.decimals == 2
    first, end = usual.recoding.core
    edges = value(np.array(usual.recoding.edges[first : end + 1]))
    assert edges[:102].tolist() == [0.0, 0.01, *range(1, 101)]
    assert value(np.array(usual.recoding.edges[-1:])) < 1000
    assert codec_of(plan(), 0, 100, None).decimals is None


def test_an_unseen_narrow_range_is_cut_finer_than_whole_numbers():
    """CHECK (share <= 1): two cells of all numbers would say nothing."""
    usual = codec_of(plan(), 0, 1, None, seen=False)
    first, end = usual.recoding.core
    assert end - first >= 16
    # Nor does a range that rows told, and that happens to be the usual one.
    told = codec_of(plan(), 0, 1, 2, seen=True)
    assert told.recoding.core[1] - told.recoding.core[0] >= 100


def released(numbers, sd, seed, cells=64):
    """The codec of a column by noisy histograms, as a fit releases it, and its noise."""
    found = plan()
    raw = found.read({"c1": pa.array(numbers, pa.float64(), from_pandas=True)})
    rng = generator(seed, "noise")
    given = released_by(found.needs, raw, sd, rng, cells)
    return found.finish(given), raw["c"], rng


def cloned(numbers, sd, seed):
    """Values drawn from the denoised one-way histogram of a column."""
    codec, points, rng = released(numbers, sd, seed)
    domain = codec.recoding.domain
    counts = np.bincount(codec.recoding.apply(points), minlength=domain.size)
    noisy = counts + rng.laplace(0, sd / np.sqrt(2), len(counts))
    kept = guard(denoise(noisy, sd, len(numbers), "laplace"), noisy, sd, domain)
    codes = rng.choice(domain.size, len(numbers), p=kept / kept.sum())
    return codec, codec.decode({"c": codes}, rng)


@pytest.mark.parametrize("seed", range(5))
def test_whole_numbers_with_nulls_come_back_whole(seed):
    rng = generator(seed, "points")
    points = np.where(rng.random(8000) < 0.6, 0.0, np.floor(rng.exponential(5.0, 8000)))
    points[rng.random(8000) < 0.1] = np.nan
    codec, column = cloned(points, 40.0, seed)
    assert codec.decimals == 0
    found = column.drop_null().to_numpy()
    assert column.null_count == pytest.approx(800, abs=200)
    assert (found == np.rint(found)).mean() > 0.999
    assert (found == 0).sum() == pytest.approx((points == 0).sum(), rel=0.08)
    assert (found == 3).sum() == pytest.approx((points == 3).sum(), rel=0.5)


@pytest.mark.parametrize("seed", range(5))
def test_prices_keep_two_decimals(seed):
    prices = np.round(generator(seed, "prices").lognormal(2.0, 1.0, 8000), 2)
    codec, column = cloned(prices, 40.0, seed)
    assert codec.decimals == 2
    found = column.drop_null().to_numpy()
    finite = found[np.isfinite(found)]
    assert (np.round(finite, 2) == finite).mean() > 0.999
    assert np.median(finite) == pytest.approx(np.median(prices), rel=0.2)


@pytest.mark.parametrize("seed", range(5))
def test_random_doubles_have_no_lattice(seed):
    doubles = generator(seed, "doubles").normal(0.0, 1e-3, 8000)
    codec, column = cloned(doubles, 40.0, seed)
    assert codec.decimals is None
    assert np.std(column.drop_null().to_numpy()) == pytest.approx(1e-3, rel=0.5)


@pytest.mark.parametrize(("rows", "sd"), [(300, 5.0), (1000, 30.0), (8000, 30.0)])
def test_random_doubles_among_whole_numbers_are_seen(rows, sd):
    rng = generator(rows, "mixed")
    numbers = np.where(rng.random(rows) < 0.4, rng.random(rows), rng.integers(1, 99, rows))
    found = [released(numbers, sd, seed)[0].decimals for seed in range(20)]
    assert sum(item is None for item in found) >= 18


def test_few_rows_tell_nothing():
    noisy = generator(1, "none").laplace(0, 10, (1000, 9))
    told = [find_decimals(item, 10 * np.sqrt(2), 2) for item in noisy]
    assert sum(item is not None for item in told) < 30
    assert find_decimals(np.array([500.0, *np.zeros(8)]), 10.0, 2) == 2
