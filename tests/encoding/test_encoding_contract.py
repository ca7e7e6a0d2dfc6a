"""One contract for every family of types, by tables: what is sent, its codes, what comes back."""

import json
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pytest
from columns import (
    BOOL,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    MONEY,
    NUMERIC,
    STAMP,
    STAMPZ,
    TEXT,
    UUID,
    codes_of,
    numeric,
    plan,
    release,
    varchar,
)  # fmt: skip
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql

from privbench.config import ColumnConfig
from privbench.encoding.arrays import ArrayCodec
from privbench.encoding.bounds import BoundsNeed
from privbench.encoding.documents import DocumentReader
from privbench.encoding.filled import FillReader
from privbench.encoding.ordered import OrderedCodec
from privbench.encoding.registry import codec_from_json
from privbench.encoding.surrogate_text import is_format
from privbench.errors import ModelError
from privbench.privacy.recoding import NAN, NEG_INF, NULL, POS_INF
from privbench.rng import generator
from privbench.schema import ColumnType


@dataclass(frozen=True)
class Case:
    """A column and what the server sends for it.

    `sent` draws one selected value; `check(codec, codes, values)` holds of what is decoded.
    """

    type: ColumnType
    sent: st.SearchStrategy
    arrow: pa.DataType = field(default_factory=pa.int64)
    checks: tuple[str, ...] = ()
    config: ColumnConfig = field(default_factory=ColumnConfig)
    delta: float = 0.0
    not_null: bool = False
    check: object = None
    released: dict = field(default_factory=dict)

    def reader(self):
        more = {"config": self.config, "delta": self.delta, "null": not self.not_null}
        return plan(self.type, *self.checks, **more)

    def batch(self, plan, values):
        """The selected columns; of texts the length too, of types that are filled in the cell."""
        aliases = [alias for _, alias in plan.select(sql.Identifier("c"))]
        filled = plan.parts[0] if isinstance(plan, DocumentReader) else plan
        if isinstance(filled, FillReader):
            null = 2 if filled.codec.blank else 1
            cells = pa.array([null * (value is None) for value in values], pa.int32())
            return dict.fromkeys(aliases, cells)
        order = {}
        if getattr(plan, "codec", None) is ArrayCodec:
            size, element, *more = aliases
            order = {alias: pa.array([None] * len(values), pa.bool_()) for alias in more}
            aliases = [element, size]
        batch = {aliases[0]: pa.array(values, self.arrow), **order}
        for alias in aliases[1:]:
            lengths = [None if value is None else len(value) for value in values]
            batch[alias] = pa.array(lengths, pa.int64())
        return batch

    def read(self, plan, parts):
        return plan.collect([plan.read(self.batch(plan, part)) for part in parts])

    def codec(self, plan, seed):
        """The codec after any release."""
        return plan.finish(release(plan, generator(seed), **self.released))

    def verify(self, codec, codes, column):
        if isinstance(codec, OrderedCodec):
            in_their_cells(codec, codes["c"], column)
        if self.check is not None:
            self.check(codec, codes, column.to_pylist())


def in_their_cells(codec, codes, column):
    """Values on a grid are within the public limits, and in the cells they are drawn from."""
    points = codec.scale.points_of(column)
    edges = np.array(codec.recoding.edges, dtype=object)
    exact = codes >= 0
    if codec.type.base == "float4":
        # A cell may be narrower than the steps of 32-bit floats.
        exact = ~np.isin(codes, np.flatnonzero(np.diff(edges) < 2**30)) & (codes < len(edges) - 1)
    if codec.type.base == "numeric" and codec.type.precision is None:
        # Infinities are written as the largest numbers.
        domain = codec.domains["c"]
        exact &= ~np.isin(codes, [domain.special_code(n) for n in domain.specials if "inf" in n])
    np.testing.assert_array_equal(codec.recoding.apply(points)[exact], codes[exact])
    real = ~np.isin(points, [NULL, NAN, NEG_INF, POS_INF])
    assert ((points[real] >= codec.limits[0]) & (points[real] <= codec.limits[1])).all()


def listed(*values):
    def check(codec, codes, found):
        assert found == [values[code] for code in codes["c"]]

    return check


def declared(codec, codes, found):
    assert codec.domains["c"].specials == ("other",)
    for code, value in zip(codes["c"], found, strict=True):
        if code < 3:
            assert value == [10, 20, 30][code]
        else:
            assert (value is None) == (code == codec.domains["c"].null_code)


def short(codec, codes, found):
    assert all(value is None or len(value) <= 12 for value in found)


def lengths(codec, codes, found):
    # Texts of formats are as long as their formats demand.
    sizes = zip(codes["c\x1flength"], codes["c\x1fshape"], found, strict=True)
    for code, shape, value in sizes:
        assert value is None or is_format(shape) or len(value) == code


def labels(codec, codes, found):
    short(codec, codes, found)
    for code, value in zip(codes["c"], found, strict=True):
        assert code not in (0, 1) or value == ("a,c", 'a"b')[code]


def mails(codec, codes, found):
    for code, value in zip(codes.get("c", ()), found, strict=False):
        assert value is None or ("@" in value) == (code != 1)


def distinct(codec, codes, found):
    known = [value for value in found if value is not None]
    assert len(set(known)) == len(known)


def objects(codec, codes, found):
    assert all(isinstance(json.loads(value), dict) for value in found if value is not None)


def bytes_(codec, codes, found):
    assert all(bytes.fromhex(value[2:]) is not None for value in found)


def sizes(codec, codes, found):
    for code, value in zip(codes["c"], found, strict=True):
        if value is not None:
            size = 0 if value == "{}" else value.count(",") + 1
            assert codec.edges[code] <= size < codec.edges[code + 1]


def elements(codec, codes, found):
    for code, size, value in zip(codes["c"], codes["c\x1flength"], found, strict=True):
        if value is not None and size and code < 2:
            assert ('"a,c"', '"a\\"b"')[code] in value


def nothing(codec, codes, found):
    assert set(found) <= {None}


def ranged(low, high, **more):
    return ColumnConfig(kind="range", min=low, max=high, **more)


MOOD = ColumnType("mood", "mood", kind="e", category="E", labels=("sad", "ok", "glad"))
SHORT = varchar(12)
TAGS = ColumnType("text[]", "_text", category="A", parts=(TEXT,))
OIDS = ColumnType("oid[]", "_oid", category="A", parts=(ColumnType("oid", "oid"),))

null = st.none()
ends = st.sampled_from([NEG_INF, POS_INF])
int32s = null | st.integers(-(2**31), 2**31 - 1)
int64s = null | st.integers(-(2**63), 2**63 - 1)
instants = null | ends | st.integers(-6 * 10**16, 2 * 10**17)
strings = null | st.text(
    st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12
)
clock = null | st.integers(0, 86_400_000_000)
presence = st.sampled_from([None, 1])
amounts = null | st.integers(0, 70_000)

CASES = {
    # numbers
    "int2": Case(INT2, null | st.integers(-(2**15), 2**15 - 1)),
    "int4": Case(INT4, int32s),
    "int8": Case(INT8, int64s),
    "int4 between": Case(INT4, int32s, checks=("((c >= 18) AND (c < 121))",)),
    "int4 not null": Case(INT4, st.integers(1, 2**31 - 1), checks=("(c > 0)",), not_null=True),
    "int8 in bins": Case(INT8, int64s, config=ranged(-10, 10**7, bins=50)),
    "numeric": Case(numeric(10, 2), null | st.just(NAN) | st.integers(-(10**10) + 1, 10**10 - 1)),
    "numeric long": Case(numeric(38, 20), null | st.integers(-(10**18) + 1, 10**18 - 1)),
    "numeric tens": Case(numeric(30, -4), null | st.integers(-(10**18) + 1, 10**18 - 1)),
    "float8": Case(FLOAT8, null | st.floats(), pa.float64()),
    "float4": Case(FLOAT4, null | st.floats(width=32), pa.float64()),
    "numeric plain": Case(NUMERIC, null | st.floats(), pa.float64()),
    "float8 between": Case(FLOAT8, null | st.floats(0, 1, exclude_max=True), pa.float64(),
        checks=("((c >= (0)::double precision) AND (c < (1)::double precision))",)),
    "float8 range": Case(FLOAT8, null | st.floats(0, 0.999), pa.float64(),
        config=ranged(0, 0.999)),
    # dates and times
    "date": Case(DATE, null | ends | st.integers(-719162, 2932896)),
    "timestamp": Case(STAMP, instants),
    "timestamptz": Case(replace(STAMPZ, precision=0), instants),
    "timestamptz range": Case(STAMPZ, int64s, config=ranged("2020-01-01", "2020-12-31 23:59:59")),
    "time": Case(ColumnType("time without time zone", "time"), clock),
    "timetz": Case(ColumnType("time with time zone", "timetz"), clock),
    "interval": Case(INTERVAL, int64s),
    # categories
    "bool": Case(BOOL, st.sampled_from([None, "true", "false"]), pa.string(),
        check=listed(False, True, None)),
    "enum": Case(MOOD, st.sampled_from([None, *MOOD.labels]), pa.string(),
        check=listed(*MOOD.labels, None)),
    "declared": Case(INT4, null | st.sampled_from([10, 20, 30, 99]),
        config=ColumnConfig(values=[30, 10, 20]), check=declared),
    "checked list": Case(TEXT, st.sampled_from([None, "x", "y"]), pa.string(),
        checks=("(c = ANY (ARRAY['x'::text, 'y'::text]))",), check=listed("x", "y", None)),
    "released list": Case(INT4, null | st.sampled_from(["aa", "b", "8"]), pa.string(), delta=1e-6,
        config=ColumnConfig(kind="categories")),
    # text
    "text": Case(SHORT, strings, pa.string(), check=lengths),
    "text labels": Case(SHORT, strings, pa.string(), delta=1e-6, check=labels),
    "text city": Case(SHORT, strings, pa.string(), delta=1e-6, check=short,
        config=ColumnConfig(kind="categories", faker="city")),
    "text mail": Case(TEXT, presence, config=ColumnConfig(faker="email"), check=mails),
    # not modelled
    "uuid": Case(UUID, presence, check=distinct),
    "jsonb": Case(ColumnType("jsonb", "jsonb"), presence, check=objects),
    "bytea": Case(ColumnType("bytea", "bytea"), st.integers(0, 70_000), not_null=True,
        check=bytes_),
    "array": Case(OIDS, amounts, check=sizes),
    "array labels": Case(TAGS, strings, pa.string(), delta=1e-6, check=elements),
    "array without labels": Case(TAGS, strings, pa.string(), delta=1e-6, released={"c": ()}),
    "tsvector": Case(ColumnType("tsvector", "tsvector"), amounts),
    "unknown": Case(ColumnType("strange", "strange"), presence, check=nothing),
    "skipped": Case(INT4, presence, config=ColumnConfig(kind="skip"), not_null=True),
}  # fmt: skip
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@every_case
@settings(max_examples=10, deadline=None)
@given(data=st.data(), cut=st.integers(1, 7), seed=st.integers(0, 2**32))
def test_read_then_decode_gives_what_was_sent(case, data, cut, seed):
    plan = case.reader()
    values = data.draw(st.lists(case.sent, max_size=20))
    attributes = case.read(plan, [values[i : i + cut] for i in range(0, len(values), cut)])
    assert tuple(attributes) == plan.attributes
    codec = case.codec(plan, seed)
    codes = codes_of(codec, attributes)
    for name, domain in codec.domains.items():
        assert len(codes[name]) == len(values)
        assert (codes[name] < domain.size).all()
    column = codec.decode(codes, generator(seed), len(values))
    if plan.attributes:
        assert column.is_null().to_pylist() == [value is None for value in values]
    case.verify(codec, codes, column)


@every_case
def test_decode_of_any_code_and_of_no_rows_is_sound(case):
    for seed in range(5):
        codec = case.codec(case.reader(), seed)
        codes = {name: np.arange(200) * 7919 % d.size for name, d in codec.domains.items()}
        column = codec.decode(codes, generator(seed), 200)
        assert len(column) == 200
        assert not case.not_null or column.null_count == 0
        case.verify(codec, codes, column)
    assert all(len(item) == 0 for item in case.reader().collect([]).values())
    empty = {name: np.empty(0, dtype=np.uint8) for name in codec.domains}
    assert len(codec.decode(empty, generator(1), 0)) == 0


@every_case
def test_codec_from_json_of_a_codec_is_the_same(case):
    codec = case.codec(case.reader(), 3)
    text = json.dumps(codec.to_json())
    assert r"\u0000" not in text  # which no model may hold
    again = codec_from_json(json.loads(text))
    assert again.domains == codec.domains
    assert again.recodings == codec.recodings
    # What denoising and orders of dates read is not compared, but the same in ``fit --since``.
    for name, domain in codec.domains.items():
        assert again.domains[name].edges == domain.edges
    codes = {name: np.arange(30) % d.size for name, d in codec.domains.items()}
    one, two = (item.decode(codes, generator(1), 30) for item in (codec, again))
    assert one.equals(two) or "nan" in str(one)


@every_case
def test_needs_and_coverage_are_public(case):
    one, two = case.reader(), case.reader()
    assert [need.attribute for need in one.needs] == [need.attribute for need in two.needs]
    for need in one.needs:
        if isinstance(need, BoundsNeed):
            grids = [need.candidates, *need.coarser]
            assert need.candidates.dtype == np.int64
            assert len(need.candidates) <= 2000
            assert [len(grid) for grid in grids] == sorted(map(len, grids), reverse=True)
            for grid in grids:
                assert (np.diff(grid.astype(object)) > 0).all()
                assert (grid[0], grid[-1]) == (need.candidates[0], need.candidates[-1])
    assert all(one.describe())


#: Type, CHECKs, config, what is sent, its codes, and what is decoded; nothing is released.
EXAMPLES = {
    "int4 range": (INT4, (), ranged(0, 3), [0, 3, 9, None], [0, 3, 3, 4], ["0", "3", "3", None]),
    "numeric range": (numeric(4, 1), (), ranged(0, 1), [0, 5, 10, NAN, None],
        [0, 5, 10, 11, 12], ["0.0", "0.5", "1.0", "NaN", None]),
    "money range": (MONEY, (), ranged("$1.00", "$1.02"),
        [100, 102, None], [0, 2, 3], ["1.00", "1.02", None]),
    "date range": (DATE, (), ranged("2020-02-28", "2020-03-01"),
        [18320, 18321, 18322, POS_INF, None], [0, 1, 2, 2, 3],
        ["2020-02-28", "2020-02-29", "2020-03-01", "2020-03-01", None]),
    "interval days": (ColumnType("interval day", "interval"), (), ranged("0 days", "2 seconds"),
        [0, 1, 2, None], [0, 1, 2, 3], ["0 days", "0 days", "0 days", None]),
    "bool check": (BOOL, ("c",), None, ["true", None], [0, 1], ["true", None]),
}  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_read_of_examples_gives_their_codes_and_values(example):
    type_, checks, config, sent, expected, out = example
    arrow = pa.string() if isinstance(sent[0], str) else pa.int64()
    case = Case(type_, st.nothing(), arrow, checks, config or ColumnConfig())
    plan = case.reader()
    assert plan.needs == ()
    codec = plan.finish({})
    codes = codes_of(codec, case.read(plan, [sent]))["c"]
    assert codes.tolist() == expected
    assert codec.decode({"c": codes}, generator(1)).cast(pa.string()).to_pylist() == out


def test_select_of_a_skipped_column_reads_nothing():
    plan = CASES["skipped"].reader()
    assert plan.select(sql.Identifier("c")) == []
    assert plan.attributes == ()


@pytest.mark.parametrize(
    "data", [{}, {"codec": "ordered"}, {"codec": "nope"}, {"codec": "list", "column": "c"}]
)
def test_codec_from_json_of_hostile_json_is_refused(data):
    with pytest.raises(ModelError):
        codec_from_json(data)
