"""One contract for every family: read, settle, decode, and read again gives the same cells."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.config import ColumnConfig
from privbench.encoding.bounds import Bounds, BoundsNeed
from privbench.encoding.decimals import Decimals, DecimalsNeed
from privbench.encoding.registry import codec_from_json, coverage, reader
from privbench.encoding.scale import scale_of
from privbench.errors import ModelError
from privbench.privacy.data import NAN, NEG_INF, NULL, POS_INF, Cells, Grid
from privbench.rng import generator
from privbench.schema import Check, Column, ColumnType, Table, TableName

int64s = st.integers(-(2**63), 2**63 - 1)
seeds = st.integers(0, 2**32)


def settle(attribute, recoding):
    if isinstance(attribute, Cells):
        return attribute._codes
    if isinstance(attribute, Grid):
        return recoding.apply(attribute._values)
    return recoding.apply(attribute._codes, attribute._labels)


class Contract:
    """What every family must keep; a subclass names a type and what the server sends for it.

    `source` is a strategy for one selected value (None for NULL), `arrow` its Arrow type.
    """

    type: ColumnType
    source: st.SearchStrategy
    arrow = pa.int64()
    checks: tuple = ()
    config = ColumnConfig()
    delta = 0.0
    not_null = False

    def plan(self):
        column = Column("c", 1, self.type, not_null=self.not_null)
        checks = tuple(Check(f"k{i}", text) for i, text in enumerate(self.checks))
        table = Table(TableName("public", "t"), (column,), checks=checks)
        return reader(column, table, self.config, self.delta)

    def batch(self, plan, values):
        return {alias: pa.array(values, self.arrow) for _, alias in plan.select(_column())}

    def codec(self, plan, draw_seed):
        rng = generator(draw_seed)
        released = {}
        for need in plan.needs:
            if isinstance(need, BoundsNeed):
                low, high = rng.choice(need.candidates, 2)
                released[need.attribute] = Bounds(int(low), int(high))
            elif isinstance(need, DecimalsNeed):
                count = rng.choice([None, *need.told])
                released[need.attribute] = Decimals(count)
            else:
                released[need.attribute] = ("aa", "b")
        return plan.finish(released)

    def test_round_trip(self):
        @settings(max_examples=25, deadline=None)
        @given(st.lists(self.source, max_size=20), st.integers(1, 7), seeds)
        def run(values, cut, seed):
            plan = self.plan()
            if self.not_null:
                values = [value for value in values if value is not None]
            parts = [values[i : i + cut] for i in range(0, len(values), cut)]
            data = plan.collect([plan.read(self.batch(plan, part)) for part in parts])
            assert tuple(data) == plan.attributes
            codec = self.codec(plan, seed)
            codes = {name: settle(data[name], codec.recodings.get(name)) for name in codec.domains}
            for name, domain in codec.domains.items():
                assert len(codes[name]) == len(values)
                assert (codes[name] < domain.size).all()
            decoded = codec.decode(codes, generator(seed), len(values))
            if plan.attributes:
                assert decoded.is_null().to_pylist() == [value is None for value in values]
            self.check(codec, codes, decoded)

        run()

    def check(self, codec, codes, decoded):
        """Values lie in the cells that they were drawn from."""

    def test_every_code_decodes(self):
        for seed in range(5):
            codec = self.codec(self.plan(), seed)
            codes = {
                name: np.arange(200) * 7919 % domain.size for name, domain in codec.domains.items()
            }
            decoded = codec.decode(codes, generator(seed), 200)
            assert len(decoded) == 200
            if self.not_null:
                assert decoded.null_count == 0
            self.check(codec, codes, decoded)

    def test_json_round_trip(self):
        codec = self.codec(self.plan(), 3)
        again = codec_from_json(json.loads(json.dumps(codec.to_json())))
        assert again.domains == codec.domains
        assert again.recodings == codec.recodings
        codes = {name: np.arange(30) % d.size for name, d in codec.domains.items()}
        one, two = (item.decode(codes, generator(1), 30) for item in (codec, again))
        assert one.equals(two) or "nan" in str(one)

    def test_needs_are_public(self):
        one, two = self.plan().needs, self.plan().needs
        assert [need.attribute for need in one] == [need.attribute for need in two]
        for need in one:
            if isinstance(need, BoundsNeed):
                assert need.candidates.dtype == np.int64
                assert (np.diff(need.candidates.astype(object)) > 0).all()
                assert len(need.candidates) <= 2000
                sizes = [len(need.candidates), *map(len, need.coarser)]
                assert sizes == sorted(sizes, reverse=True)
                for few in need.coarser:
                    assert (np.diff(few.astype(object)) > 0).all()
                    assert (few[0], few[-1]) == (need.candidates[0], need.candidates[-1])

    def test_coverage(self):
        line = coverage(self.plan())
        assert line.table == "public.t"
        assert line.column == "c"
        assert line.how
        assert line.why

    def test_no_rows(self):
        plan = self.plan()
        assert all(len(item) == 0 for item in plan.collect([]).values())
        codec = self.codec(plan, 1)
        empty = {name: np.empty(0, dtype=np.uint8) for name in codec.domains}
        assert len(codec.decode(empty, generator(1), 0)) == 0


def _column():
    from psycopg import sql

    return sql.Identifier("c")


class GridContract(Contract):
    """Types with a scale: the decoded value falls into the cell of its code again."""

    source = st.none() | int64s

    def check(self, codec, codes, decoded):
        scale = scale_of(self.type)
        points = scale.points_of(decoded)
        again = codec.recoding.apply(points)
        inside = ~np.isin(codes["c"], self.outer(codec))
        np.testing.assert_array_equal(again[inside], codes["c"][inside])
        lo, hi = codec.limits
        real = ~np.isin(points, [NULL, NAN, NEG_INF, POS_INF])
        assert ((points[real] >= lo) & (points[real] <= hi)).all()

    def outer(self, codec):
        """Cells whose values may be given back as neighbours."""
        return []


class TestSmallint(GridContract):
    type = ColumnType("smallint", "int2")
    source = st.none() | st.integers(-(2**15), 2**15 - 1)


class TestInteger(GridContract):
    type = ColumnType("integer", "int4")
    source = st.none() | st.integers(-(2**31), 2**31 - 1)


class TestBigint(GridContract):
    type = ColumnType("bigint", "int8")


class TestIntegerWithCheck(GridContract):
    type = ColumnType("integer", "int4")
    checks = ("((c >= 18) AND (c < 121))",)

    def test_range_is_public(self):
        assert not self.plan().needs
        assert self.plan().finish({}).domains["c"].values == 103


class TestIntegerNotNull(GridContract):
    type = ColumnType("integer", "int4")
    not_null = True
    checks = ("(c > 0)",)


class TestIntegerWideRange(GridContract):
    type = ColumnType("bigint", "int8")
    config = ColumnConfig(kind="range", min=-10, max=10_000_000, bins=50)

    def test_bins(self):
        assert self.plan().finish({}).domains["c"].values == 50


class TestNumeric(GridContract):
    type = ColumnType("numeric(10,2)", "numeric", precision=10, scale=2)
    source = st.none() | st.just(NAN) | st.integers(-(10**10) + 1, 10**10 - 1)


class TestNumericLong(GridContract):
    type = ColumnType("numeric(38,20)", "numeric", precision=38, scale=20)
    source = st.none() | st.integers(-(10**18) + 1, 10**18 - 1)


class TestNumericNegativeScale(GridContract):
    type = ColumnType("numeric(30,-4)", "numeric", precision=30, scale=-4)
    source = st.none() | st.integers(-(10**18) + 1, 10**18 - 1)


class FloatContract(GridContract):
    arrow = pa.float64()
    source = st.none() | st.floats()

    def outer(self, codec):
        # float32 cannot hit a cell that is narrower than its own steps.
        return np.flatnonzero(np.diff(np.array(codec.recoding.edges, dtype=object)) < 2**30)


class TestDouble(FloatContract):
    type = ColumnType("double precision", "float8")

    def outer(self, codec):
        return []


class TestReal(FloatContract):
    type = ColumnType("real", "float4")
    source = st.none() | st.floats(width=32)

    def check(self, codec, codes, decoded):
        assert decoded.type == pa.float32()
        super().check(codec, codes, decoded)


class TestPlainNumeric(FloatContract):
    type = ColumnType("numeric", "numeric")

    def outer(self, codec):
        domain = codec.domains["c"]
        return [domain.special_code(name) for name in ("inf", "-inf") if name in domain.specials]


class TestDoubleInCheckedRange(FloatContract):
    type = ColumnType("double precision", "float8")
    checks = ("((c >= (0)::double precision) AND (c < (1)::double precision))",)
    source = st.none() | st.floats(0, 1, exclude_max=True)

    def outer(self, codec):
        return []

    def test_range_is_a_limit(self):
        bounds = self.plan().needs[0]
        assert (bounds.usual.lo, bounds.usual.hi) == (0, self.plan().range.hi + 1)
        assert "nan" not in self.plan().range.specials


class TestDoubleInRange(FloatContract):
    type = ColumnType("double precision", "float8")
    config = ColumnConfig(kind="range", min=0, max=0.999)
    source = st.none() | st.floats(0, 0.999)

    def outer(self, codec):
        return []

    def test_range_is_public(self):
        assert not self.plan().needs
        assert self.plan().finish({}).domains["c"].specials == ("nan",)


class TestDate(GridContract):
    type = ColumnType("date", "date")
    source = st.none() | st.sampled_from([NEG_INF, POS_INF]) | st.integers(-719162, 2932896)


class TestTimestamp(GridContract):
    type = ColumnType("timestamp without time zone", "timestamp")
    source = st.none() | st.sampled_from([NEG_INF, POS_INF]) | st.integers(-6 * 10**16, 2 * 10**17)


class TestTimestampTz(TestTimestamp):
    type = ColumnType("timestamp(0) with time zone", "timestamptz", precision=0)


class TestTimestampInRange(GridContract):
    type = ColumnType("timestamp with time zone", "timestamptz")
    config = ColumnConfig(kind="range", min="2020-01-01", max="2020-12-31 23:59:59")

    def test_typed(self):
        decoded = self.plan().finish({}).decode({"c": np.arange(9)}, generator(1))
        assert decoded.type == pa.timestamp("us", "UTC")
        assert {value.year for value in decoded.to_pylist()} == {2020}


class TestTime(GridContract):
    type = ColumnType("time without time zone", "time")
    source = st.none() | st.integers(0, 86_400_000_000)

    def test_range_is_public(self):
        assert not self.plan().needs


class TestTimeTz(TestTime):
    type = ColumnType("time with time zone", "timetz")


class TestInterval(GridContract):
    type = ColumnType("interval", "interval")


class TestBoolean(Contract):
    type = ColumnType("boolean", "bool", category="B")
    source = st.sampled_from([None, "true", "false"])
    arrow = pa.string()

    def check(self, codec, codes, decoded):
        assert decoded.to_pylist() == [[False, True, None][code] for code in codes["c"]]


class TestEnum(Contract):
    type = ColumnType("mood", "mood", kind="e", category="E", labels=("sad", "ok", "glad"))
    source = st.sampled_from([None, "sad", "ok", "glad"])
    arrow = pa.string()

    def check(self, codec, codes, decoded):
        assert decoded.to_pylist() == [["sad", "ok", "glad", None][code] for code in codes["c"]]


class TestDeclaredIntegers(Contract):
    type = ColumnType("integer", "int4")
    config = ColumnConfig(values=[30, 10, 20])
    source = st.none() | st.sampled_from([10, 20, 30, 99])

    def check(self, codec, codes, decoded):
        domain = codec.domains["c"]
        assert domain.ordered
        assert domain.specials == ("other",)
        for code, value in zip(codes["c"], decoded.to_pylist(), strict=True):
            if code < 3:
                assert value == [10, 20, 30][code]
            else:
                assert value in ({None} if code == domain.null_code else {10, 20, 30})


class TestCheckedText(Contract):
    type = ColumnType("text", "text", category="S")
    checks = ("(c = ANY (ARRAY['x'::text, 'y'::text]))",)
    source = st.sampled_from([None, "x", "y"])
    arrow = pa.string()

    def check(self, codec, codes, decoded):
        assert set(decoded.to_pylist()) <= {None, "x", "y"}
        assert codec.domains["c"].specials == ()


class TestReleasedIntegers(Contract):
    type = ColumnType("integer", "int4")
    config = ColumnConfig(kind="categories")
    delta = 1e-6
    source = st.none() | st.sampled_from(["aa", "b", "8"])
    arrow = pa.string()


class TextContract(Contract):
    type = ColumnType("character varying(12)", "varchar", category="S", length=12)
    text = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)
    source = st.none() | text
    arrow = pa.string()

    def batch(self, plan, values):
        lengths = [None if value is None else len(value) for value in values]
        found = {"c1": pa.array(values, pa.string())}
        return {**found, "c1n": pa.array(lengths, pa.int64())} if plan.shaped else found

    def check(self, codec, codes, decoded):
        assert all(value is None or len(value) <= 12 for value in decoded.to_pylist())


class TestFreeText(TextContract):
    """Lengths and shapes come back, strings never do."""

    def check(self, codec, codes, decoded):
        super().check(codec, codes, decoded)
        lengths = codes["c\x1flength"]
        for code, value in zip(lengths, decoded.to_pylist(), strict=True):
            assert value is None or len(value) == code


class TestReleasedText(TextContract):
    delta = 1e-6

    def check(self, codec, codes, decoded):
        super().check(codec, codes, decoded)
        for code, value in zip(codes["c"], decoded.to_pylist(), strict=True):
            assert code not in (0, 1) or value == ("aa", "b")[code]


class TestSemanticText(TextContract):
    config = ColumnConfig(kind="categories", faker="city")
    delta = 1e-6


class PresenceContract(Contract):
    source = st.sampled_from([None, 1])
    arrow = pa.int64()

    def batch(self, plan, values):
        null = 2 if getattr(plan, "blank", False) else 1
        return {"c1": pa.array([null * (value is None) for value in values], pa.int32())}


class TestUuid(PresenceContract):
    type = ColumnType("uuid", "uuid")

    def check(self, codec, codes, decoded):
        found = [value for value in decoded.to_pylist() if value is not None]
        assert len(set(found)) == len(found)


class SizedContract(Contract):
    source = st.none() | st.integers(0, 70_000)
    arrow = pa.int64()

    def batch(self, plan, values):
        return {"c1": pa.array(values, pa.int64())}


class TestJson(SizedContract):
    type = ColumnType("jsonb", "jsonb")

    def check(self, codec, codes, decoded):
        assert all(isinstance(json.loads(v), dict) for v in decoded.to_pylist() if v is not None)


class TestBytes(SizedContract):
    type = ColumnType("bytea", "bytea")
    not_null = True

    def check(self, codec, codes, decoded):
        assert all(bytes.fromhex(value[2:]) is not None for value in decoded.to_pylist())


class TestArray(SizedContract):
    type = ColumnType("oid[]", "_oid", category="A", parts=(ColumnType("oid", "oid"),))

    def check(self, codec, codes, decoded):
        edges = np.array(codec.edges)
        for code, value in zip(codes["c"], decoded.to_pylist(), strict=True):
            if value is not None:
                size = 0 if value == "{}" else value.count(",") + 1
                assert edges[code] <= size < edges[code + 1]


class TestVectors(SizedContract):
    type = ColumnType("tsvector", "tsvector")


class TestEmail(PresenceContract):
    type = ColumnType("text", "text", category="S")
    config = ColumnConfig(faker="email")

    def check(self, codec, codes, decoded):
        for code, value in zip(codes.get("c", ()), decoded.to_pylist(), strict=False):
            assert value is None or ("@" in value) == (code != 1)


class TestUnknown(PresenceContract):
    type = ColumnType("strange", "strange")

    def check(self, codec, codes, decoded):
        assert decoded.null_count == len(decoded)


class TestSkipped(PresenceContract):
    type = ColumnType("integer", "int4")
    config = ColumnConfig(kind="skip")
    not_null = True

    def test_nothing_is_read(self):
        assert self.plan().select(_column()) == []
        assert self.plan().attributes == ()


@pytest.mark.parametrize(
    "data", [{}, {"codec": "ordered"}, {"codec": "nope"}, {"codec": "list", "column": "c"}]
)
def test_hostile_json_is_refused(data):
    with pytest.raises(ModelError):
        codec_from_json(data)
