"""Points: coordinates that are read from a real server, and literals that come back."""

import json
import math

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from privbench.config import ColumnConfig
from privbench.encoding.bounds import Bounds
from privbench.encoding.decimals import Decimals
from privbench.encoding.ranges import PointCodec
from privbench.encoding.registry import codec_from_json, reader
from privbench.postgres.introspect import introspect
from privbench.rng import generator


@pytest.fixture(scope="module")
def connection(server, make_database):
    with psycopg.connect(make_database(), autocommit=True) as connection:
        connection.execute("CREATE TABLE t (p point, n point NOT NULL)")
        yield connection


def plan_of(connection, column):
    table = introspect(connection).table("t")
    return reader(table.column(column), table, ColumnConfig(), 0.0)


def codes_of(connection, plan, codec, texts):
    picked = sql.SQL(", ").join(
        sql.SQL("{} AS {}").format(text, sql.Identifier(name))
        for text, name in plan.select(sql.Identifier("p"))
    )
    found = connection.execute(
        sql.SQL("SELECT {} FROM unnest({}::point[]) AS t(p)").format(picked, sql.Literal(texts))
    )
    names = [item.name for item in found.description]
    columns = zip(names, zip(*found.fetchall(), strict=True), strict=True)
    batch = {name: pa.array(values, pa.float64()) for name, values in columns}
    data = plan.collect([plan.read(batch)])
    return {name: codec.recodings[name].apply(data[name]._values) for name in codec.domains}


def made_of(plan):
    scale = plan.parts[0].scale
    bounds = Bounds(scale.parse("-180"), scale.parse("180"))
    released = {name: bounds if "decimals" not in name else Decimals() for name in plan.attributes}
    codec = codec_from_json(json.loads(json.dumps(plan.finish(released).to_json())))
    assert isinstance(codec, PointCodec)
    return codec


def test_points_come_back_near_where_they_were(connection):
    plan = plan_of(connection, "p")
    codec = made_of(plan)
    texts = ["(13.4,52.5)", "(-95.25,29.75)", None, "(NaN,Infinity)", "(0,0)"]
    made = codec.decode(codes_of(connection, plan, codec, texts), generator(1)).to_pylist()
    rows = connection.execute("SELECT x[0], x[1] FROM unnest(%s::point[]) AS t(x)", [made])
    points = rows.fetchall()
    assert [x is None for x, _ in points] == [False, False, True, False, False]
    assert math.isnan(points[3][0])
    assert points[3][1] == math.inf
    for (x, y), near in zip([points[0], points[1]], [(13.4, 52.5), (-95.25, 29.75)], strict=True):
        assert abs(x - near[0]) < 10
        assert abs(y - near[1]) < 10


@pytest.mark.parametrize("column", ["p", "n"])
def test_every_code_gives_a_valid_point(connection, column):
    codec = made_of(plan_of(connection, column))
    rng = generator(2)
    codes = {name: rng.integers(item.size, size=500) for name, item in codec.domains.items()}
    made = codec.decode(codes, rng).to_pylist()
    assert (None in made) == (column == "p")
    taken = connection.execute("SELECT count(x) FROM unnest(%s::point[]) AS t(x)", [made])
    assert taken.fetchone() == (sum(text is not None for text in made),)
    assert len(codec.decode({name: np.zeros(0, np.int64) for name in codes}, rng)) == 0
