"""Rows that are copied in, as CSV and in binary form."""

import datetime
import math

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from privbench.postgres.copy_in import copy_rows
from privbench.postgres.csvtext import csv_blocks
from privbench.postgres.introspect import introspect

#: Column type in PostgreSQL, Arrow type, values.
TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=6)
NASTY = st.sampled_from(["", "NULL", "\\N", "\\.", "\n\\.\n", '"', '""', ",", "\r\n", " a ", "\\"])
COLUMNS = {
    "t": ("text", pa.string(), TEXT | NASTY),
    "big_t": ("text", pa.large_string(), TEXT),
    "coded": ("text", pa.dictionary(pa.int16(), pa.string()), NASTY),
    "b": ("bytea", pa.binary(), st.binary(max_size=5)),
    "a": ("text[]", pa.list_(pa.string()), st.lists(st.none() | TEXT | NASTY, max_size=4)),
    "i": ("integer[]", pa.list_(pa.int32()), st.lists(st.none() | st.integers(-9, 9), max_size=3)),
    "n": ("bigint", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "f": ("double precision", pa.float64(), st.floats()),
    "r": ("real", pa.float32(), st.floats(width=32)),
    "o": ("boolean", pa.bool_(), st.booleans()),
    "d": ("date", pa.date32(), st.dates()),
    "s": ("timestamp", pa.timestamp("us"), st.datetimes()),
    "z": (
        "timestamptz",
        pa.timestamp("us", "UTC"),
        st.datetimes(min_value=datetime.datetime(1900, 1, 1)).map(
            lambda t: t.replace(tzinfo=datetime.UTC)
        ),
    ),
    "c": ("time", pa.time64("us"), st.times()),
    "m": ("numeric", pa.decimal128(12, 4), st.decimals(-9999999, 9999999, places=4)),
}


def same(a, b, kind):
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    if kind == pa.float32() and a is not None:
        # The server prints the shortest text of a real, which is another double.
        a, b = np.float32(a).item(), np.float32(b).item()
    return a == b and (not isinstance(a, float) or math.copysign(1, a) == math.copysign(1, b))


@pytest.fixture(scope="module")
def opened(make_database):
    with psycopg.connect(make_database(), autocommit=True) as connection:
        columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in COLUMNS.items())
        connection.execute(f"CREATE TEMPORARY TABLE t (row_number serial, {columns})")
        connection.execute("SET timezone = 'UTC'")
        yield connection


def test_rows_of_one_text_are_not_cut_where_a_text_is_the_end_mark(opened):
    """Servers before version 18 end at a line that is such a text, unless it has quotes."""
    texts = ["a", "\\.", None, "", "\n\\.\n", "\\.\n", "z"]
    opened.execute("CREATE TEMPORARY TABLE IF NOT EXISTS one (i serial, x text); TRUNCATE one")
    with opened.cursor() as cursor:
        with cursor.copy("COPY one (x) FROM STDIN (FORMAT csv)") as copy:
            for block in csv_blocks([pa.table({"x": texts})], 1):
                copy.write(block)
        cursor.execute("SELECT x FROM one ORDER BY i")
        assert [text for (text,) in cursor] == texts


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_csv_blocks_through_copy_come_back(opened, data):
    row = st.fixed_dictionaries({name: st.none() | v for name, (_, _, v) in COLUMNS.items()})
    wanted = data.draw(st.lists(row, min_size=1, max_size=6))
    table = pa.table(
        {
            name: pa.array([item[name] for item in wanted], kind)
            for name, (_, kind, _) in COLUMNS.items()
        }
    )
    opened.execute("TRUNCATE t")
    names = ", ".join(COLUMNS)
    with (
        opened.cursor() as cursor,
        cursor.copy(f"COPY t ({names}) FROM STDIN (FORMAT csv)") as copy,
    ):
        # A leading slice gives offsets that do not start at zero.
        for block in csv_blocks([table.slice(0, 1), table.slice(1).combine_chunks()], len(COLUMNS)):
            copy.write(memoryview(block))
    found = opened.execute(f"SELECT {names} FROM t ORDER BY row_number").fetchall()
    assert len(found) == len(wanted)
    for got, item in zip(found, wanted, strict=True):
        for value, name in zip(got, COLUMNS, strict=True):
            assert same(item[name], value, COLUMNS[name][1]), (name, item[name], value)


def test_csv_blocks_of_nulls_and_of_types_without_text(opened):
    (block,) = csv_blocks([pa.table({"x": pa.nulls(2), "y": ["", None]})], 2)
    assert block.to_pybytes() == b',""\n,\n'
    # A type without text is an error.
    table = pa.table({"x": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with pytest.raises(pa.ArrowException):
        list(csv_blocks([table], 1))


# In binary form: type in PostgreSQL, type in Arrow, values.


DATES = st.dates().map(str) | st.sampled_from(["infinity", "-infinity", "0044-03-15 BC"])
#: Type in PostgreSQL, type in Arrow, values.
KNOWN = [
    ("smallint", pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    ("integer", pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    ("bigint", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    ("few", pa.int64(), st.integers(0, 9)),
    ("bigint", pa.string(), st.integers(-9, 9).map(str)),
    ("real", pa.float32(), st.floats(width=32)),
    ("double precision", pa.float64(), st.floats()),
    ("boolean", pa.bool_(), st.booleans()),
    ("date", pa.date32(), st.dates()),
    ("date", pa.string(), DATES),
    ("timestamp(3)", pa.timestamp("us"), st.datetimes()),
    ("timestamp", pa.string(), st.datetimes().map(str) | st.just("infinity")),
    ("timestamptz", pa.timestamp("us", "UTC"), st.datetimes()),
    ("timestamptz", pa.string(), st.datetimes().map("{}+00".format)),
    ("text", pa.string(), TEXT),
    ("text", pa.dictionary(pa.int16(), pa.string()), st.sampled_from(["", "NULL", "\\.", '"'])),
    ("varchar(6)", pa.large_string(), TEXT),
    ("char(6)", pa.string(), TEXT),
    ("mood", pa.string(), st.sampled_from(["sad", "", "ok"])),
    ("uuid", pa.string(), st.uuids().map(str) | st.uuids().map("{{{}}}".format)),
    ("numeric(18,0)", pa.decimal128(38, 0), st.decimals(-(10**18) + 1, 10**18 - 1, places=0)),
    ("numeric(8,3)", pa.decimal128(38, 3), st.decimals(-99999, 99999, places=3)),
    ("numeric(18,16)", pa.decimal128(38, 16), st.decimals(-9, 9, places=16)),
    ("numeric(9,2)", pa.string(), st.decimals(-9999, 9999, places=2).map(str) | st.just("NaN")),
    ("numeric", pa.decimal128(38, 5), st.decimals(-(10**30), 10**30, places=5)),
    ("numeric", pa.float64(), st.floats(-1e9, 1e9)),
]


@pytest.fixture(scope="module")
def both(make_database):
    with psycopg.connect(make_database(), autocommit=True) as connection:
        listed = ", ".join(f"c{place} {kind}" for place, (kind, _, _) in enumerate(KNOWN))
        connection.execute("CREATE TYPE mood AS ENUM ('sad', '', 'ok')")
        connection.execute("CREATE DOMAIN few AS smallint CHECK (VALUE < 10)")
        for name in ("as_csv", "as_known"):
            connection.execute(f"CREATE TABLE {name} (row_number serial, {listed})")
        connection.execute("SET timezone = 'UTC'")
        yield connection, introspect(connection).table("public.as_known")


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_copy_rows_in_binary_form_gives_the_rows_of_csv(both, data):
    connection, table = both
    places = data.draw(st.sets(st.integers(0, len(KNOWN) - 1), min_size=1))
    names = [f"c{place}" for place in sorted(places)]
    row = st.fixed_dictionaries({f"c{place}": st.none() | KNOWN[place][2] for place in places})
    schema = pa.schema([(name, KNOWN[int(name[1:])][1]) for name in names])
    batches = [
        pa.table([[item[n] for item in rows] for n in names], schema=schema)
        for rows in data.draw(st.lists(st.lists(row, min_size=1, max_size=4), max_size=4))
    ]
    # A slice has offsets that do not start at zero.
    batches = [part for batch in batches for part in (batch.slice(0, 1), batch.slice(1))]
    found = []
    for name, kinds in (("as_csv", []), ("as_known", [table.column(name).type for name in names])):
        connection.execute(f"TRUNCATE {name}")
        rows = copy_rows(connection, sql.Identifier(name), names, batches, kinds)
        assert rows == sum(batch.num_rows for batch in batches)
        shown = f"SELECT ({', '.join(names)})::text FROM {name} ORDER BY row_number"
        found.append(connection.execute(shown.replace("(c", "ROW(c")).fetchall())
    assert found[0] == found[1]
