"""money: its grid is read from a real server, and what comes back the server takes."""

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from privbench.config import ColumnConfig
from privbench.encoding.bounds import Bounds
from privbench.encoding.registry import reader
from privbench.postgres.introspect import introspect
from privbench.rng import generator

AMOUNTS = ["-92233720368547758.08", "-0.01", "0", "12.34", "1,019.99", "92233720368547758.07"]


@pytest.fixture(scope="module")
def connection(server, make_database):
    with psycopg.connect(make_database(), autocommit=True) as connection:
        connection.execute("SET lc_monetary = 'C'")
        connection.execute(
            "CREATE TABLE t (m money, b money CHECK (b >= '$1.00'::money AND b <= 1500::money))"
        )
        yield connection


def plan_of(connection, column):
    table = introspect(connection).table("t")
    return reader(table.column(column), table, ColumnConfig(), 0.0)


def test_amounts_are_hundredths(connection):
    plan = plan_of(connection, "m")
    ((text, name),) = plan.select(sql.Identifier("m"))
    rows = connection.execute(
        sql.SQL("SELECT {} FROM unnest({}::money[]) AS t(m)").format(text, sql.Literal(AMOUNTS))
    ).fetchall()
    read = plan.read({name: pa.array([value for (value,) in rows] + [None], pa.int64())})
    assert read["m"][1:5].tolist() == [-1, 0, 1234, 101999]
    assert read["m"][0] == -read["m"][5] == -(10**18) + 1


def test_what_is_drawn_is_money(connection):
    plan = plan_of(connection, "m")
    codec = plan.finish({"m": Bounds(0, 5000)})
    codes = {"m": np.arange(codec.domains["m"].size)}
    made = codec.decode(codes, generator(1)).cast(pa.string()).to_pylist()
    taken = connection.execute("SELECT count(x) FROM unnest(%s::money[]) AS t(x)", [made])
    assert taken.fetchone() == (len(made) - 1,)


def test_checks_bound_it(connection):
    known = plan_of(connection, "b").range
    assert (known.lo, known.hi, known.settled) == (100, 150000, False)
