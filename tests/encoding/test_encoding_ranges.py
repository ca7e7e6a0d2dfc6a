"""Ranges and points come back from a real server."""

import json
import math

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from privbench.config import ColumnConfig
from privbench.encoding.base import Decimals
from privbench.encoding.bounds import Bounds
from privbench.encoding.ranges import PointCodec, RangeCodec
from privbench.encoding.registry import codec_from_json, reader
from privbench.postgres.introspect import introspect
from privbench.rng import generator
from privbench.schema import Column, ColumnType, Table, TableName

#: By type: a range of each kind that comes back as it was, and ranges at the ends of the type.
CASES = {
    "int4range": (["[3,8)", "[5,6)"], ["[-2147483648,2147483647)"], "[7,)", "(,9)"),
    "int8range": (
        ["[3,8)", "[50,59)"],
        [f"[{-(2**63)},{2**63 - 1})"],
        "[7,)",
        "(,9)",
    ),
    "numrange": (
        [],
        ["[1.5,2.25)", "[1e40,1e50)", "[-1e400,1e400]", "[-Infinity,Infinity]", "[NaN,]"],
        "[7,)",
        "(,9)",
    ),
    "daterange": (
        ["[1970-01-04,1970-01-09)"],
        ["[-infinity,infinity)", "[0044-03-15 BC,5874897-12-31)"],
        "[1970-01-08,)",
        "(,1970-01-10)",
    ),
    "tsrange": (
        [],
        ["[-infinity,infinity)", "[4713-01-01 BC,294276-12-31)", "(2000-01-01,2000-01-02]"],
        "[1970-01-01 00:00:00,)",
        "(,1970-01-01 00:00:00)",
    ),
    "realrange": ([], ["[-1e308,1e308)", "[-Infinity,Infinity]", "[NaN,]"], "[7,)", "(,9)"),
    "tstzrange": ([], ["[2000-01-01 00:00+00,2000-01-01 00:00+00]"], None, None),
}


@pytest.fixture(scope="module")
def connection(server, make_database):
    with psycopg.connect(make_database(), autocommit=True) as connection:
        connection.execute("CREATE TYPE realrange AS RANGE (subtype = float8)")
        for kind in (*CASES, "point"):
            connection.execute(f"CREATE TABLE of_{kind} (r {kind}, n {kind} NOT NULL)")
        yield connection


def plan_of(connection, kind, column="r"):
    table = introspect(connection).table(f"of_{kind}")
    return reader(table.column(column), table, ColumnConfig(), 0.0)


def read(connection, plan, texts):
    """Attributes of some ranges, as a fit selects them."""
    picked = sql.SQL(", ").join(
        sql.SQL("{} AS {}").format(text, sql.Identifier(name))
        for text, name in plan.select(sql.Identifier("r"))
    )
    type_ = sql.SQL(plan.column.type.sql)
    rows = connection.execute(
        sql.SQL("SELECT {} FROM unnest({}::{}[]) AS t(r)").format(picked, sql.Literal(texts), type_)
    )
    names = [item.name for item in rows.description]
    columns = zip(*rows.fetchall(), strict=True)
    kinds = [pa.float64() if item.type_code == 701 else pa.int64() for item in rows.description]
    found = zip(names, columns, kinds, strict=True)
    return plan.collect([plan.read({name: pa.array(c, kind) for name, c, kind in found})])


def codes_of(codec, data):
    known = codec.recodings
    return {
        name: known[name].apply(data[name]._values) if name in known else data[name]._codes
        for name in codec.domains
    }


@pytest.mark.parametrize("kind", CASES)
def test_every_kind_of_range_comes_back(connection, kind):
    exact, wide, open_, begun = CASES[kind]
    texts = [text for text in (*exact, open_, begun, "(,)", "empty") if text is not None]
    plan = plan_of(connection, kind, "n")
    modelled = [name for name in plan.attributes if not name.endswith("decimals")]
    assert modelled == ["n\x1fkind", "n\x1flower", "n\x1fsize"]
    assert [need.attribute for need in plan.needs] == list(plan.attributes)[1:]
    fine = {name: Bounds(-1, 60) if name in modelled else Decimals() for name in plan.attributes}
    codec = plan.finish(fine)
    again = codec_from_json(json.loads(json.dumps(codec.to_json())))
    assert isinstance(again, RangeCodec)
    made = again.decode(codes_of(again, read(connection, plan, texts)), generator(1))
    equal = connection.execute(
        f"SELECT a::text, b::text FROM unnest(%s::{kind}[], %s::{kind}[]) AS t(a, b)"
        " WHERE a IS DISTINCT FROM b",
        [texts, made.to_pylist()],
    ).fetchall()
    assert [pair for pair in equal if pair[0] in exact or "," not in str(pair[0])] == []
    # The bound of a real range lies somewhere in its cell; whether there is one does not.
    ends = connection.execute(
        f"SELECT count(*) FROM unnest(%s::{kind}[], %s::{kind}[]) AS t(a, b) WHERE lower_inf(a)"
        " IS DISTINCT FROM lower_inf(b) OR upper_inf(a) IS DISTINCT FROM upper_inf(b)"
        " OR isempty(a) IS DISTINCT FROM isempty(b)",
        [texts, made.to_pylist()],
    ).fetchone()
    assert ends == (0,)
    assert len(read(connection, plan, wide)["n\x1flower"]._values) == len(wide)


def test_null_comes_back(connection):
    plan = plan_of(connection, "int4range")
    codec = plan.finish({name: Bounds(-1, 60) for name in plan.attributes})
    texts = ["[3,8)", None, "empty", "(,)"]
    made = codec.decode(codes_of(codec, read(connection, plan, texts)), generator(1))
    assert made.to_pylist() == ['["3","8")', None, "empty", "(,)"]


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("column", ["r", "n"])
def test_every_code_gives_a_valid_literal(connection, kind, column):
    plan = plan_of(connection, kind, column)
    for seed in range(4):
        rng = generator(seed)
        bounds = {
            need.attribute: Bounds(*sorted(int(x) for x in rng.choice(need.candidates, 2)))
            for need in plan.needs
        }
        codec = plan.finish(bounds)
        codes = {
            name: np.append(rng.integers(domain.size, size=300), domain.size - 1)
            for name, domain in codec.domains.items()
        }
        made = codec.decode(codes, rng).to_pylist()
        assert (None in made) == (column == "r")
        valid = connection.execute(f"SELECT count(x) FROM unnest(%s::{kind}[]) AS t(x)", [made])
        assert valid.fetchone()[0] == sum(text is not None for text in made)
        assert len(codec.decode({name: c[:0] for name, c in codes.items()}, rng)) == 0


def test_domains_within_ranges_are_not_modelled(make_database):
    with psycopg.connect(make_database()) as connection:
        connection.execute("CREATE DOMAIN odd AS integer CHECK (VALUE % 2 = 1)")
        connection.execute("CREATE TYPE odds AS RANGE (subtype = odd)")
        connection.execute("CREATE TABLE t (o odds, i int4range)")
        table = introspect(connection).table("t")
        plans = [reader(table.column(c), table, ColumnConfig(), 0.0) for c in "oi"]
        assert [len(plan.needs) for plan in plans] == [0, 2]


def test_rows_without_ranges(connection):
    plan = plan_of(connection, "int4range")
    data = plan.collect([])
    codec = plan.finish({name: Bounds(0, 9) for name in plan.attributes})
    assert [len(item) for item in data.values()] == [0, 0, 0]
    size = {name: domain.null_code for name, domain in codec.domains.items()}
    none = {name: np.full(3, code) for name, code in size.items()}
    assert codec.decode(none, generator(1)).to_pylist() == [None] * 3


def test_ranges_of_times_of_which_nothing_is_known_take_hours():
    """Where noise hid their length, stays in hospital took a minute."""
    times = ColumnType("timestamp without time zone", "timestamp", category="D")
    stay = ColumnType("tsrange", "tsrange", kind="r", category="R", parts=(times,))
    column = Column("during", 1, stay)
    plan = reader(column, Table(TableName("public", "t"), (column,)), ColumnConfig(), 0.0)
    usual = {need.attribute: need.usual for need in plan.needs}
    (size,) = (found for name, found in usual.items() if name.endswith("size"))
    assert (size.lo, size.hi) == (0, 172_800)


@pytest.mark.parametrize(("lo", "hi"), [("1930-01-01", "2017-06-30"), ("1500-01-01", "1600-01-01")])
def test_cells_beyond_bounds_of_dates_end_where_dates_do(lo, hi):
    """Noise filled cells on both sides of 1930 to 2017: births of 1764 and 2259."""
    column = Column("birth", 1, ColumnType("date", "date", category="D"))
    plan = reader(column, Table(TableName("public", "t"), (column,)), ColumnConfig(), 0.0)
    ends = [int(np.datetime64(text, "D").astype(int)) for text in (lo, hi, "1900", "2050")]
    edges = plan.finish({"birth": Bounds(*ends[:2], seen=True)}).domains["birth"].edges
    assert edges[0] >= min(ends[0], ends[2])
    assert edges[-1] <= max(ends[1], ends[3])
    assert edges[0] <= ends[0] < ends[1] <= edges[-1]


def point_codec(plan):
    scale = plan.parts[0].scale
    bounds = Bounds(scale.parse("-180"), scale.parse("180"))
    released = {name: bounds if "decimals" not in name else Decimals() for name in plan.attributes}
    codec = codec_from_json(json.loads(json.dumps(plan.finish(released).to_json())))
    assert isinstance(codec, PointCodec)
    return codec


def test_points_come_back_near_where_they_were(connection):
    plan = plan_of(connection, "point")
    codec = point_codec(plan)
    texts = ["(13.4,52.5)", "(-95.25,29.75)", None, "(NaN,Infinity)", "(0,0)"]
    made = codec.decode(codes_of(codec, read(connection, plan, texts)), generator(1)).to_pylist()
    rows = connection.execute("SELECT x[0], x[1] FROM unnest(%s::point[]) AS t(x)", [made])
    points = rows.fetchall()
    assert [x is None for x, _ in points] == [False, False, True, False, False]
    assert math.isnan(points[3][0])
    assert points[3][1] == math.inf
    for (x, y), near in zip(points[:2], [(13.4, 52.5), (-95.25, 29.75)], strict=True):
        assert abs(x - near[0]) < 10
        assert abs(y - near[1]) < 10


@pytest.mark.parametrize("column", ["r", "n"])
def test_every_code_gives_a_valid_point(connection, column):
    codec = point_codec(plan_of(connection, "point", column))
    rng = generator(2)
    codes = {name: rng.integers(item.size, size=500) for name, item in codec.domains.items()}
    made = codec.decode(codes, rng).to_pylist()
    assert (None in made) == (column == "r")
    taken = connection.execute("SELECT count(x) FROM unnest(%s::point[]) AS t(x)", [made])
    assert taken.fetchone() == (sum(text is not None for text in made),)
