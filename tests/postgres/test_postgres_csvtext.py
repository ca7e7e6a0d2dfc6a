import datetime
import math

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privbench.postgres.csvtext import csv_blocks

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
def opened(each_server, make_database_on):
    with psycopg.connect(make_database_on(each_server), autocommit=True) as connection:
        columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in COLUMNS.items())
        connection.execute(f"CREATE TEMPORARY TABLE t (row_number serial, {columns})")
        connection.execute("SET timezone = 'UTC'")
        yield connection


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
