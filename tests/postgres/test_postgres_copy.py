"""Rows that are copied in, as CSV and in binary form."""

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from privbench.postgres.copy_in import copy_rows
from privbench.postgres.csvtext import csv_blocks
from privbench.postgres.introspect import introspect

TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=6)
NASTY = st.sampled_from(["", "NULL", "\\N", "\\.", "\n\\.\n", '"', '""', ",", "\r\n", " a ", "\\"])
DATES = st.dates().map(str) | st.sampled_from(["infinity", "-infinity", "0044-03-15 BC"])
#: Type in PostgreSQL, type in Arrow, values; the last ones are not copied in binary form.
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
    ("text", pa.string(), TEXT | NASTY),
    ("text", pa.dictionary(pa.int16(), pa.string()), NASTY),
    ("varchar(6)", pa.large_string(), TEXT),
    ("char(6)", pa.string(), TEXT),
    ("mood", pa.string(), st.sampled_from(["sad", "", "ok"])),
    ("uuid", pa.string(), st.uuids().map(str) | st.uuids().map("{{{}}}".format)),
    ("numeric(18,0)", pa.decimal128(38, 0), st.decimals(-(10**18) + 1, 10**18 - 1, places=0)),
    ("numeric(8,3)", pa.decimal128(38, 3), st.decimals(-99999, 99999, places=3)),
    ("numeric(18,16)", pa.decimal128(38, 16), st.decimals(-9, 9, places=16)),
    ("numeric(9,2)", pa.string(), st.decimals(-9999, 9999, places=2).map(str) | st.just("NaN")),
    ("numeric", pa.decimal128(38, 5), st.decimals(-(10**30), 10**30, places=5)),
    ("bytea", pa.binary(), st.binary(max_size=5)),
    ("text[]", pa.list_(pa.string()), st.lists(st.none() | TEXT | NASTY, max_size=4)),
    ("integer[]", pa.list_(pa.int32()), st.lists(st.none() | st.integers(-9, 9), max_size=3)),
    ("time", pa.time64("us"), st.times()),
]


@pytest.fixture(scope="module")
def opened(make_database):
    """A connection to a database of three tables of all these types, and what one of them is."""
    with psycopg.connect(make_database(), autocommit=True) as connection:
        listed = ", ".join(f"c{place} {kind}" for place, (kind, _, _) in enumerate(KNOWN))
        connection.execute("CREATE TYPE mood AS ENUM ('sad', '', 'ok')")
        connection.execute("CREATE DOMAIN few AS smallint CHECK (VALUE < 10)")
        for name in ("inserted", "csv", "binary_form"):
            connection.execute(f"CREATE TABLE {name} (row_number serial, {listed})")
        connection.execute("SET timezone = 'UTC'")
        yield connection, introspect(connection).table("binary_form")


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_rows_that_are_copied_in_are_those_that_are_inserted(opened, data):
    connection, table = opened
    last = len(KNOWN) - data.draw(st.sampled_from([1, 5]))
    places = data.draw(st.sets(st.integers(0, last), min_size=1, max_size=6))
    names = [f"c{place}" for place in sorted(places)]
    row = st.fixed_dictionaries({f"c{place}": st.none() | KNOWN[place][2] for place in places})
    parts = data.draw(st.lists(st.lists(row, min_size=1, max_size=4), max_size=4))
    schema = pa.schema([(name, KNOWN[int(name[1:])][1]) for name in names])
    batches = [
        pa.table([[item[n] for item in rows] for n in names], schema=schema) for rows in parts
    ]
    # A slice has offsets that do not start at zero.
    batches = [part for batch in batches for part in (batch.slice(0, 1), batch.slice(1))]
    connection.execute("TRUNCATE inserted, csv, binary_form")
    marks = ", ".join(["%s"] * len(names))
    connection.cursor().executemany(
        f"INSERT INTO inserted ({', '.join(names)}) VALUES ({marks})",
        [[item[name] for name in names] for rows in parts for item in rows],
    )
    for name, kinds in (("csv", []), ("binary_form", [table.column(n).type for n in names])):
        rows = copy_rows(connection, sql.Identifier(name), names, batches, kinds)
        assert rows == sum(map(len, parts))
    found = [
        connection.execute(
            f"SELECT ROW({', '.join(names)})::text FROM {name} ORDER BY row_number"
        ).fetchall()
        for name in ("inserted", "csv", "binary_form")
    ]
    assert found[0] == found[1] == found[2]


def test_rows_of_one_text_are_not_cut_where_a_text_is_the_end_mark(opened):
    """Servers before version 18 end at a line that is such a text, unless it has quotes."""
    texts = ["a", "\\.", None, "", "\n\\.\n", "\\.\n", "z"]
    connection, _ = opened
    connection.execute("CREATE TEMPORARY TABLE one (i serial, x text)")
    copy_rows(connection, sql.Identifier("one"), ["x"], [pa.table({"x": texts})])
    found = connection.execute("SELECT x FROM one ORDER BY i").fetchall()
    assert [text for (text,) in found] == texts


def test_csv_of_nulls_and_of_types_without_text():
    (block,) = csv_blocks([pa.table({"x": pa.nulls(2), "y": ["", None]})], 2)
    assert block.to_pybytes() == b',""\n,\n'
    table = pa.table({"x": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with pytest.raises(pa.ArrowException):
        list(csv_blocks([table], 1))
