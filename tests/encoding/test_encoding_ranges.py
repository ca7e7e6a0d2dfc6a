"""Ranges and other values that are taken apart come back from a real server."""

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from columns import codes_of, release, stored
from psycopg import sql

from privbench.config import ColumnConfig
from privbench.encoding.base import Step
from privbench.encoding.bounds import Bounds
from privbench.encoding.composites import PartsCodec, RangeCodec, parts_reader
from privbench.encoding.registry import reader
from privbench.postgres.introspect import introspect
from privbench.rng import generator
from privbench.schema import Column, ColumnType

#: By type: ranges that come back as they were, ranges at the ends of the type, one without an end
#: and one without a beginning.
CASES = {
    "int4range": (["[3,8)", "[5,6)"], ["[-2147483648,2147483647)"], "[7,)", "(,9)"),
    "int8range": (["[3,8)", "[50,59)"], [f"[{-(2**63)},{2**63 - 1})"], "[7,)", "(,9)"),
    "numrange": (
        [], ["[1.5,2.25)", "[1e40,1e50)", "[-9e131071,9e131071]", "[-Infinity,Infinity]", "[NaN,]",
             "[1e400,1e401]"],
        "[7,)", "(,9)",
    ),
    "daterange": (
        ["[1970-01-04,1970-01-09)"], ["[-infinity,infinity)", "[0044-03-15 BC,5874897-12-31)"],
        "[1970-01-08,)", "(,1970-01-10)",
    ),
    "tsrange": (
        [], ["[-infinity,infinity)", "[4713-01-01 BC,294276-12-31)", "(2000-01-01,2000-01-02]"],
        "[1970-01-01 00:00:00,)", "(,1970-01-01 00:00:00)",
    ),
    "realrange": ([], ["[-1e308,1e308)", "[-Infinity,Infinity]", "[NaN,]"], "[7,)", "(,9)"),
    "tstzrange": ([], ["[2000-01-01 00:00+00,2000-01-01 00:00+00]"], None, None),
}  # fmt: skip

#: By type: values with labels of their parts, what is hidden behind no label, values that must not
#: end a fit, and what is asked of every pair of a value and of what is made of it.
PARTS = {
    "point": (["(1,2)"], ["(NaN,Infinity)", "(1e308,-1e308)"], "true"),
    "circle": (["<(1,2),3>"], ["<(NaN,Infinity),1e308>"], "radius(b) BETWEEN 0 AND 60"),
    "box": (["(3,4),(1,2)"], ["(1e308,Infinity),(2,1)"], "width(b) <= 60"),
    "inet": (
        ["10.1.2.3", "2001:db8:1::7/64"], ["10.1.2.77", "2001:db8:1::9/64"],
        "set_masklen(a::inet, CASE family(a) WHEN 4 THEN 24 ELSE 48 END)"
        " >>= set_masklen(b, masklen(a))",
    ),
    "cidr": (["10.1.0.0/24", "2001:db8::/32"], ["10.1.9.0/24", "::/0"], "masklen(a) = masklen(b)"),
    "macaddr": (["00:1a:2b:00:00:01"], ["00:1a:2b:ff:ff:ff"], "trunc(a) = trunc(b)"),
    "macaddr8": (["00:1a:2b:00:00:00:00:01"], ["00:1a:2b:00:00:00:00:02"], "trunc(a) = trunc(b)"),
    "vector(3)": (["[1,0,0]"], ["[1e38,-1e38,0]"], "vector_norm(b) BETWEEN 0 AND 60"),
    "halfvec(2)": (["[1,0]"], ["[65504,0]"], "l2_norm(b) BETWEEN 0 AND 60"),
}  # fmt: skip


@pytest.fixture(scope="module")
def connection(server, make_database):
    with psycopg.connect(make_database(), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        for kind in PARTS:
            name = kind.partition("(")[0]
            connection.execute(f"CREATE TABLE of_{name} (r {kind}, n {kind} NOT NULL)")
        connection.execute("CREATE TYPE realrange AS RANGE (subtype = float8)")
        connection.execute("CREATE DOMAIN odd AS integer CHECK (VALUE % 2 = 1)")
        connection.execute("CREATE TYPE oddrange AS RANGE (subtype = odd)")
        for kind in (*CASES, "oddrange"):
            connection.execute(f"CREATE TABLE of_{kind} (r {kind}, n {kind} NOT NULL)")
        yield connection


def plan_of(connection, kind, column="r", delta=0.0):
    table = introspect(connection).table(f"of_{kind.partition('(')[0]}")
    return reader(table.column(column), table, ColumnConfig(), delta)


def again(codec, kind):
    assert isinstance(codec, kind)
    return stored(codec)


def read(connection, plan, texts):
    """Attributes of some values, as a fit selects them."""
    picked = sql.SQL(", ").join(
        sql.SQL("{} AS {}").format(text, sql.Identifier(name))
        for text, name in plan.select(sql.Identifier("r"))
    )
    type_ = sql.SQL(plan.column.type.sql)
    rows = connection.execute(
        sql.SQL("SELECT {} FROM (SELECT unnest({}::text[])::{} AS r) AS t").format(
            picked, sql.Literal(texts), type_
        )
    )
    columns = zip(rows.description, zip(*rows.fetchall(), strict=True), strict=True)
    kinds = {701: pa.float64(), 25: pa.string()}
    batch = {c.name: pa.array(v, kinds.get(c.type_code, pa.int64())) for c, v in columns}
    return plan.collect([plan.read(batch)])


def made_of(connection, plan, codec, texts):
    codes = codes_of(codec, read(connection, plan, texts))
    return codec.decode(codes, generator(1)).to_pylist()


@pytest.mark.parametrize("kind", CASES)
def test_every_kind_of_range_comes_back(connection, kind):
    exact, wide, open_, begun = CASES[kind]
    texts = [*(text for text in (*exact, open_, begun) if text), "(,)", "empty", None]
    plan = plan_of(connection, kind)
    modelled = [name for name in plan.attributes if not name.endswith(("step", "weekday", "hour"))]
    assert modelled == ["r\x1fkind", "r\x1flower", "r\x1fsize"]
    assert [need.attribute for need in plan.needs] == list(plan.attributes)[1:]
    fine = {name: Bounds(-1, 60) if name in modelled else Step() for name in plan.attributes}
    made = made_of(connection, plan, again(plan.finish(fine), RangeCodec), texts)
    pairs = connection.execute(
        "SELECT a::text, a IS NOT DISTINCT FROM b, (lower_inf(a), upper_inf(a), isempty(a))"
        " IS NOT DISTINCT FROM (lower_inf(b), upper_inf(b), isempty(b))"
        f" FROM unnest(%s::{kind}[], %s::{kind}[]) AS t(a, b)",
        [texts, made],
    ).fetchall()
    for text, equal, alike in pairs:
        # The bound of a real range lies somewhere in its cell; whether there is one does not.
        assert alike
        assert equal or (text not in exact and "," in text)
    assert len(read(connection, plan, wide)["r\x1flower"]._values) == len(wide)


def test_ranges_of_domains_and_vectors_of_a_size_that_none_has_are_not_taken_apart(connection):
    assert [len(plan_of(connection, f"{kind}range").needs) for kind in ("odd", "int4")] == [0, 4]
    for size, known in ((16_000, True), (2 * 10**9, False)):
        type_ = ColumnType(f"vector({size})", "vector", extension="vector")
        assert (parts_reader("t", Column("v", 1, type_), 0) is not None) == known


@pytest.mark.parametrize("kind", [*CASES, "point", "circle", "vector"])
@pytest.mark.parametrize("column", ["r", "n"])
def test_every_code_gives_a_valid_literal(connection, kind, column):
    plan = plan_of(connection, kind, column)
    for seed in range(4):
        rng = generator(seed)
        codec = plan.finish(release(plan, rng))
        codes = {
            name: np.append(rng.integers(domain.size, size=300), domain.size - 1)
            for name, domain in codec.domains.items()
        }
        made = codec.decode(codes, rng).to_pylist()
        assert (None in made) == (column == "r")
        valid = connection.execute(f"SELECT count(x) FROM unnest(%s::{kind}[]) AS t(x)", [made])
        assert valid.fetchone()[0] == sum(text is not None for text in made)
        assert len(codec.decode({name: c[:0] for name, c in codes.items()}, rng)) == 0


def labels_of(connection, plan, texts):
    """What is released where the texts of these values alone have labels, and numbers up to 50."""
    read_ = read(connection, plan, texts)
    found = {n: Step(None) if "step" in n else Bounds(0, 50) for n in plan.attributes}
    for need in plan.needs:
        if hasattr(need, "per_unit"):
            labels = read_[need.attribute]._labels.to_pylist()
            found[need.attribute] = tuple(sorted({text for text in labels if text}))
    scales = {part.name: part.scale for part in plan.parts if hasattr(part, "scale")}
    for name, scale in scales.items():
        found[name] = Bounds(scale.parse("0"), scale.parse("50"))
    return found


@pytest.mark.parametrize("kind", PARTS)
def test_values_are_made_of_their_parts(connection, kind):
    known, other, asked = PARTS[kind]
    plan = plan_of(connection, kind, delta=1e-9)
    codec = again(plan.finish(labels_of(connection, plan, known)), PartsCodec)
    texts = [*known, None, *other]
    made = made_of(connection, plan, codec, texts)
    rows = connection.execute(
        f"SELECT a IS NULL, b IS NULL, {asked}, a::text = b::text"
        f" FROM (SELECT unnest(%s::text[])::{kind}, unnest(%s::text[])::{kind}) AS t(a, b)",
        [texts, made],
    ).fetchall()
    assert [gone for _, gone, _, _ in rows] == [text is None for text in texts]
    if any(hasattr(need, "per_unit") for need in plan.needs):
        assert all(same for _, _, _, same in rows[: len(known)])
    alike = rows if "mac" in kind or kind == "inet" else rows[: len(known)]
    assert all(holds for gone, _, holds, _ in alike if not gone)
    every = {name: np.arange(400) % domain.size for name, domain in codec.domains.items()}
    made = codec.decode(every, generator(1)).to_pylist()
    connection.execute(f"SELECT count(x::{kind}) FROM unnest(%s::text[]) AS t(x)", [made])
    assert len(codec.decode({name: c[:0] for name, c in every.items()}, generator(1))) == 0


#: By type: shapes that come back, what is asked of them, and shapes that must not end a fit.
SHAPES = {
    "geometry(Point,4326)": (["POINT(13 7)"], "ST_Distance(a, b) < 60", ["POINT EMPTY"]),
    "geography(PointZM)": (["POINT ZM(13 7 1 2)"], "ST_Distance(a, b) < 6e6", []),
    "geometry(Polygon,3857)": (
        ["POLYGON((1 1,5 1,5 4,1 4,1 1))", "POLYGON((1 1,9 1,5 4,1 1))"],
        "ST_IsValid(b) AND ST_NPoints(a) = ST_NPoints(b) AND ST_Area(b) > 0",
        ["POLYGON((1e308 1e308,-1e308 1,1 1,1e308 1e308))"],
    ),
    "geometry(MultiLineStringZ)": (
        ["MULTILINESTRING Z((1 1 1,5 1 1,5 4 1))"],
        "ST_IsValid(b) AND ST_NPoints(b) = 3 AND ST_Length(b) > 0", [],
    ),
    "geometry": (
        ["SRID=4326;POLYGON((1 1,5 1,5 4,1 4,1 1))", "LINESTRING(1 1,5 1,5 4)", "POINT(1 1)"],
        "ST_IsValid(b) AND GeometryType(a) = GeometryType(b) AND ST_SRID(a) = ST_SRID(b)",
        ["GEOMETRYCOLLECTION(POINT(1 1), LINESTRING EMPTY)", "TIN EMPTY", "POINT(1e308 -1e308)"],
    ),
}  # fmt: skip


@pytest.mark.slow
def test_shapes_are_made_of_their_parts(each_server, make_database_on):
    with psycopg.connect(make_database_on(each_server), autocommit=True) as connection:
        some = "SELECT FROM pg_available_extensions WHERE name = 'postgis'"
        if connection.execute(some).fetchone() is None:
            pytest.skip("PostGIS is not installed")
        connection.execute("CREATE EXTENSION postgis")
        for kind, (known, asked, odd) in SHAPES.items():
            connection.execute(f"DROP TABLE IF EXISTS of_shape; CREATE TABLE of_shape (r {kind})")
            plan = plan_of(connection, "shape", delta=1e-9)
            codec = again(plan.finish(labels_of(connection, plan, known)), PartsCodec)
            made = made_of(connection, plan, codec, [*known, None, *odd])
            assert (None in made[: len(known)], made[len(known)]) == (False, None)
            pairs = f"(SELECT unnest(%s::text[])::{kind}, unnest(%s::text[])::{kind}) AS t(a, b)"
            query = f"SELECT bool_and({asked}) FROM {pairs}"
            assert connection.execute(query, [known, made[: len(known)]]).fetchone() == (True,)
            every = {name: np.arange(400) % domain.size for name, domain in codec.domains.items()}
            texts = codec.decode(every, generator(1)).to_pylist()
            valid = f"SELECT bool_and(ST_IsValid(b::geometry)) FROM {pairs}"
            assert connection.execute(valid, [texts, texts]).fetchone() == (True,)
