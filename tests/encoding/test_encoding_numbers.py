"""Numbers with few decimals come back with as few: floats, numeric and money."""

import itertools
from datetime import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from columns import (
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    MONEY,
    NUMERIC,
    numeric,
    plan,
    stored,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privbench.encoding.base import MORE, MOST, ZERO, Step
from privbench.encoding.bounds import Bounds
from privbench.encoding.floats import value
from privbench.encoding.registry import codec_from_json
from privbench.errors import ModelError
from privbench.learning.answers import Measured
from privbench.pipeline.domain_answers import bounds
from privbench.privacy.recoding import NAN, NEG_INF, NULL, POS_INF
from privbench.rng import generator

FLOATS = [FLOAT8, FLOAT4, NUMERIC]
PRICE = numeric(10, 2)
FIXED = [PRICE, numeric(15, 4), numeric(5, 2), numeric(38, 20), numeric(4, 1), MONEY]
settles = settings(max_examples=60, deadline=None)
cells = st.sampled_from([None, 16, 40, 128])
seeds = st.integers(0, 2**32)


def codec_of(found, low, high, count, **more):
    """The codec after a release of bounds (literals) and decimals."""
    bounds, *rest = found.needs
    lo, hi = (found.scale.parse(str(end)) for end in (low, high))
    released = {bounds.attribute: Bounds(lo, hi, **more)}
    return found.finish(released | {need.attribute: Step(count) for need in rest})


def counted(type_, sent):
    """Numbers of decimals as a reader counts them."""
    array = pa.array(sent, pa.float64() if type_ in FLOATS else pa.int64(), from_pandas=False)
    return plan(type_).read({"c1": array})["c\x1fstep"].tolist()


def as_stored(type_, numbers):
    """The floats that a column of the type holds."""
    numbers = np.asarray(numbers, np.float64)
    return numbers.astype(np.float32).astype(np.float64) if type_ is FLOAT4 else numbers


def every_cell(codec, seed):
    """All codes three times over, and the points drawn in their cells."""
    codes = np.tile(np.arange(codec.recoding.domain.size), 3)
    return codes, codec.scale.points_of(codec.decode({"c": codes}, generator(seed)))


@settles
@given(st.sampled_from(FLOATS), st.integers(0, MOST), st.integers(-(10**6), 10**6))
def test_decimals_of_floats_are_those_of_the_shortest_text(type_, count, steps):
    steps = steps % 10**4 if type_ is FLOAT4 else steps
    exponent = Decimal(steps).scaleb(-count).normalize().as_tuple().exponent
    sent = as_stored(type_, [steps / 10**count])
    assert counted(type_, sent) == [max(-exponent, 0) if steps else ZERO]


@settles
@given(st.sampled_from(FIXED), st.integers(-(10**9), 10**9), st.integers(0, 8))
def test_decimals_of_numeric_are_those_without_zeros_at_the_end(type_, base, zeros):
    scale = plan(type_).scale
    point = int(np.clip(base * 10**zeros, *scale.limits))
    exponent = Decimal(point).scaleb(-scale.digits).normalize().as_tuple().exponent
    expected = max(-exponent, scale.step_choices[0]) if point else ZERO
    assert counted(type_, [point]) == [expected]


def test_decimals_of_null_are_none_and_of_an_unseen_range_two():
    sent = [None, float("nan"), float("-inf"), float("inf"), 0.5]
    assert counted(FLOAT8, sent) == [NULL, NAN, NEG_INF, POS_INF, 1]
    assert counted(PRICE, [None, NAN, 290]) == [NULL, NAN, 1]
    # An unseen range has two decimals and enough cells.
    codec = codec_of(plan(FLOAT8), 0, 100, None, released=False)
    assert codec.step == 2
    first, end = codec.recoding.core
    edges = value(np.array(codec.recoding.edges[first : end + 1]))
    assert edges[:102].tolist() == [0.0, 0.01, *range(1, 101)]
    assert codec_of(plan(FLOAT8), 0, 100, None).step is None
    first, end = codec_of(plan(FLOAT8), 0, 1, None, released=False).recoding.core
    assert end - first >= 16


@pytest.mark.parametrize(
    ("type_", "choices"),
    [
        (PRICE, range(-3, 3)), (MONEY, range(-3, 3)), (numeric(3, 2), range(3)),
        (numeric(38, 20), range(-3, 7)), (numeric(1, 1), None), (numeric(8, -2), None),
        (FLOAT8, range(MORE + 1)), (INT4, range(11)), (INT2, None), (DATE, range(4)),
    ],
)  # fmt: skip
def test_decimals_are_released_where_a_type_has_any(type_, choices):
    needs = [need for need in plan(type_).needs if not getattr(need, "cycle", False)]
    assert len(needs) == (1 if choices is None else 2)
    assert choices is None or needs[1].candidates.tolist() == list(choices)


ends = st.floats(-1e6, 1e6)


@settles
@given(st.sampled_from(FLOATS), st.integers(0, MOST), ends, ends, cells, seeds)
@example(FLOAT8, 0, 0.0, 25.0, None, 1)
@example(FLOAT4, 6, -1e6, 1e6, None, 1)
@example(FLOAT8, 0, 0.2, 0.3, None, 1)
@example(NUMERIC, 0, 0.001, 0.9, None, 1)
@example(NUMERIC, 1, 99.1, 99.9, None, 1)
def test_decode_of_floats_keeps_decimals_and_cells(type_, count, low, high, cells, seed):
    codec = codec_of(plan(type_), low, high, count, cells=cells)
    codes, points = every_cell(codec, seed)
    first, end = codec.recoding.core
    inside = (codes >= first) & (codes < end)
    if type_ is FLOAT4:
        narrow = np.flatnonzero(np.diff(np.array(codec.recoding.edges, object)) < 2**30)
        inside &= ~np.isin(codes, narrow)
    np.testing.assert_array_equal(codec.recoding.apply(points)[inside], codes[inside])
    numbers = value(points[inside])
    nearest = [int(step) / 10**count for step in np.rint(numbers * 10**count)]
    np.testing.assert_array_equal(numbers, as_stored(type_, nearest))


steps = st.integers(-(10**7), 10**7)


@settles
@given(st.sampled_from(FIXED), st.data(), steps, steps, cells, st.booleans(), seeds)
def test_decode_of_numeric_keeps_multiples_and_cells(type_, data, low, high, cells, seen, seed):
    found = plan(type_)
    bounds, need = found.needs
    count = data.draw(st.sampled_from(list(need.choices)))
    lo, hi = sorted(int(np.clip(end, *found.scale.limits)) for end in (low, high))
    inner = data.draw(st.lists(st.integers(lo, hi), max_size=30).map(lambda x: tuple(sorted(x))))
    released = Bounds(lo, hi, cells=cells, inner=inner, released=seen)
    codec = found.finish({bounds.attribute: released, need.attribute: Step(count)})
    assert all(a < b for a, b in itertools.pairwise(codec.recoding.edges))
    codes, points = every_cell(codec, seed)
    lows, highs = codec.cells()
    real = (points > NEG_INF) & (points < POS_INF)
    assert ((points >= lows[codes]) & (points < highs[codes]))[real].all()
    unit = 1 if codec.step is None else 10 ** (codec.scale.digits - count)
    assert (points[codes < codec.recoding.domain.values] % unit == 0).all()


@settles
@given(st.sampled_from(range(-3, 3)), st.integers(-(10**6), 10**6), steps, steps)
@example(0, 2900, 0, 5000)
def test_shares_of_a_literal_are_those_of_what_is_drawn(count, literal, low, high):
    found = plan(PRICE)
    bounds, need = found.needs
    codec = found.finish({bounds.attribute: Bounds(low, high), need.attribute: Step(count)})
    unit, mass = codec.scale.step, codec.scale.mass
    lows, highs = (ends[: codec.recoding.domain.values] for ends in codec.cells())
    low = np.maximum(lows, literal)
    result = mass(low, np.maximum(np.minimum(highs, literal + 1), low), lows, highs)
    result /= mass(lows, highs, lows, highs)
    many = -(-highs // unit) - -(-lows // unit)
    inside = (lows <= literal) & (literal < highs) & (literal % unit == 0)
    expected = np.where(inside, 1 / np.maximum(many, 1), 0.0)
    np.testing.assert_allclose(result, expected)


@pytest.mark.parametrize(
    ("type_", "count", "wrong"), [(FLOAT8, 1, (-1, 7, "x")), (PRICE, -2, (-4, 3, "x"))]
)
def test_wrong_decimals_of_a_model_are_refused(type_, count, wrong):
    codec = codec_of(plan(type_), 0, 25_000, count)
    data = stored(codec).to_json()
    older = {name: item for name, item in data.items() if name != "step"}
    assert codec_from_json(older).step is None
    for item in wrong:
        with pytest.raises(ModelError):
            codec_from_json({**data, "step": item})
    with pytest.raises(ModelError, match="step"):
        codec_from_json({**data, "type": {**data["type"], "sql": "smallint", "base": "int2"}})


def written(days, digits):
    """Days since 1970 as integers of 8 or 6 digits."""
    texts = np.datetime_as_string(np.asarray(days).astype("datetime64[D]"))
    return np.array([int(text.replace("-", "")[:digits]) for text in texts])


SPREAD = np.arange(np.datetime64("2021-01-01"), np.datetime64("2023-10-01")).astype(np.int64)


@pytest.mark.parametrize(
    ("name", "values", "step"),
    [
        ("day_key", written(SPREAD, 8), -8),
        ("period", written(SPREAD, 6), -6),
        # Some values say that there is no date.
        ("closed_key", np.concatenate([written(SPREAD, 8), [0] * 90, [99999999] * 90]), -8),
        # Numbers of the same size, and those that begin with a year, are no dates.
        ("day_key", np.arange(20210000, 20240000, 30), None),
        ("period", np.arange(200_000, 205_000, 5), None),
        ("price", written(SPREAD, 8), None),
    ],
)
def test_integers_that_are_dates_stay_dates(name, values, step):
    """Years are cells of the histogram of bounds: it shows dates by what lies between years."""
    found = plan(INT4, name=name)
    need = found.needs[0]
    counts = np.bincount(
        np.searchsorted(need.candidates, values, side="right"), minlength=len(need.candidates) + 1
    )
    noise = generator(1).normal(0, 5.0, len(counts))
    released = bounds([(need, Measured(None, counts + noise, 5.0))], 128)
    codec = stored(found.finish({need.attribute: released}))
    assert codec.step == step
    if step is None:
        return
    made = codec.decode({name: codec.recoding.apply(values)}, generator(1)).to_numpy()
    dates = made[(made > 190000) & (made < 20500101)]
    for date in dates.astype(str):
        datetime.strptime(date, "%Y%m%d"[: -step - 2])
    assert abs(len(dates) - len(SPREAD)) < 10
    # Each value stays near its own, and cells are spans of days, not of integers.
    assert np.median(np.abs(written(SPREAD, -step) - np.sort(dates)[: len(SPREAD)])) < 100
