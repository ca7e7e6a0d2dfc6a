"""Intervals on a real PostgreSQL: shared values come back as what equals them."""

from __future__ import annotations

import numpy as np
import psycopg
import pytest
from psycopg import sql

from privbench.config import ColumnConfig
from privbench.encoding.bounds import Bounds
from privbench.encoding.registry import codec_from_json, reader
from privbench.postgres.introspect import introspect
from privbench.postgres.snapshot import Snapshot
from privbench.rng import generator

VALUES = ("1 year 2 mons", "-3 years", "30 days", "-26 hours", "90 minutes", "0", None)
FIELDS = {
    "interval": VALUES,
    "interval(0)": VALUES,
    "interval year": ("2 years", "-1 year", "0", None),
    "interval year to month": ("1 year 2 mons", "-5 mons", "0", None),
    "interval month": ("7 mons", "-5 mons", None),
    "interval day": ("3 days", "-2 days", "400 days", None),
    "interval day to hour": ("3 days 5 hours", "-2 hours", None),
}


@pytest.mark.parametrize("type_", FIELDS)
def test_values_of_every_kind_of_interval_come_back_equal(make_database, type_):
    dsn, values = make_database(), FIELDS[type_]
    with psycopg.connect(dsn) as connection:
        connection.execute(f"CREATE TABLE t (c {type_}); CREATE TABLE made (c {type_})".encode())
        connection.cursor().executemany("INSERT INTO t VALUES (%s)", [(v,) for v in values])
        table = next(one for one in introspect(connection).tables if one.name.name == "t")
    plan = reader(table.column("c"), table, ColumnConfig(), 1e-9)
    with Snapshot(dsn) as snapshot:
        batches = list(snapshot.stream(table, plan.select(sql.Identifier("c")), batch_bytes=1))
    pieces = [plan.read(dict(zip(b.schema.names, b.columns, strict=True))) for b in batches]
    points = np.concatenate([piece["c"] for piece in pieces])
    bounds, shared = plan.needs
    listed = tuple(str(point) for point in sorted({*points[:-1].tolist()}))
    codec = plan.finish(
        {bounds.attribute: Bounds(-200_000_000, 200_000_000), shared.attribute: listed}
    )
    codes = codec.recodings["c"].apply(points)
    made = codec_from_json(codec.to_json()).decode({"c": codes}, generator(1)).to_pylist()
    with psycopg.connect(dsn) as connection:
        connection.cursor().executemany("INSERT INTO made VALUES (%s)", [(v,) for v in made])
        lost = connection.execute("SELECT c FROM t EXCEPT ALL SELECT c FROM made").fetchall()
    assert not lost, made
