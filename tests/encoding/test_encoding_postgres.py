"""Every family against a real server: what is selected is read, what is decoded is loaded."""

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from columns import codes_of, copy_in, modelled, release
from psycopg import sql
from sql_files import sql_of

from privbench.config import ColumnConfig
from privbench.encoding.base import DecimalsNeed
from privbench.encoding.registry import codec_from_json, reader, table_coverage
from privbench.postgres.introspect import introspect
from privbench.postgres.snapshot import Snapshot
from privbench.rng import generator

CANARY = "canary-7f3a91-secret"

SCHEMA = sql_of(__file__, "all_types")

ROWS = [
    dict.fromkeys(["sm"], 3),
    dict(
        i2=-32768, i4=2147483647, i8=-(2**63), age=18, positive=1, status=7, money_="-99999999.99",
        free_num="123456789012345678901234567890.5", wide="12345678901234567890123456.5",
        coarse=12300, fine_num="0.00999", pct=100, f4=1.5, f8=-1e308, unit_f=0, b=True, m="so so",
        s_text=CANARY, s_var="abc", s_char="ab", s_code="xyz", s_name="n", level="hi,gh",
        d="infinity", d_lim="2001-12-31", ts="-infinity", ts0="2001-02-03 04:05:06",
        tz="2001-02-03 04:05:06+09", t="23:59:59.999999", ttz="24:00:00-08", iv="1 year 2 mons",
        u="00000000-0000-0000-0000-000000000000", j="[1]", ip="::1", arr=[1, 2], sm=49,
        email=CANARY, first_name=CANARY, comp="(1,x)", mny="1,019.99",
    ),
    dict(
        i2=32767, i8=2**63 - 1, money_="NaN", free_num="NaN", f4="NaN", f8="Infinity",
        s_text="", d="0044-03-15 BC", ts="294276-12-31 23:59:59.999999", tz="infinity",
        iv="-178000000 years", sm=0,
    ),
    dict(
        f8="-Infinity", free_num="1e-500", d="5874897-12-31", ts="infinity", tz="-infinity",
        ts0="-infinity", t="24:00:00", iv="178000000 years", i8=-(2**63) + 1, sm="0.01",
        s_text="x" * 5000,
    ),
]  # fmt: skip


def fill(connection, table):
    for row in ROWS:
        row = {**row, "skipped_const": "2000-01-01"}
        connection.execute(
            sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                sql.Identifier(table.name.name),
                sql.SQL(", ").join(map(sql.Identifier, row)),
                sql.SQL(", ").join(map(sql.Literal, row.values())),
            )
        )


@pytest.fixture(scope="module")
def dsn(each_server, make_database_on):
    dsn = make_database_on(each_server)
    with psycopg.connect(dsn) as connection:
        connection.execute(SCHEMA)
        fill(connection, introspect(connection).tables[0])
    return dsn


@pytest.fixture(scope="module")
def table(dsn):
    with psycopg.connect(dsn) as connection:
        return introspect(connection, schemas=["public"]).tables[0]


CONFIG = {
    "skipped": ColumnConfig(kind="skip"),
    "skipped_const": ColumnConfig(kind="skip"),
    "f8": ColumnConfig(min=-5, max=7.5),
}


def plans(table, delta, config=CONFIG):
    return [
        reader(table.column(name), table, config.get(name, ColumnConfig()), delta)
        for name in modelled(table)
    ]


def read(dsn, table, readers):
    expressions = [
        pair for plan in readers for pair in plan.select(sql.Identifier(plan.column.name))
    ]
    with Snapshot(dsn) as snapshot:
        batches = list(snapshot.stream(table, expressions, batch_bytes=1))
    as_dicts = [dict(zip(b.schema.names, b.columns, strict=True)) for b in batches]
    return {plan.name: plan.collect([plan.read(batch) for batch in as_dicts]) for plan in readers}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_read_then_decode_every_type(dsn, table, delta):
    rng = generator(5)
    readers = plans(table, delta)
    data = read(dsn, table, readers)
    columns = {}
    for plan in readers:
        found = plan.finish(release(plan, rng))
        codec = codec_from_json(found.to_json())
        assert codec == type(codec)(**{**vars(found), "type": codec.type})
        assert plan.attributes == tuple(data[plan.name])
        unread = [need.attribute for need in plan.needs if isinstance(need, DecimalsNeed)]
        assert sorted([*codec.domains, *unread]) == sorted(plan.attributes)
        codes = codes_of(codec, data[plan.name])
        assert all(codes[name].max() < domain.size for name, domain in codec.domains.items())
        decoded = codec.decode(codes, rng, len(ROWS))
        assert len(decoded) == len(ROWS)
        if plan.attributes and plan.nullable:
            expected = [row.get(plan.name) is None for row in ROWS]
            assert decoded.is_null().to_pylist() == expected, plan.name
        assert CANARY not in str(decoded.cast(pa.string()).to_pylist())
        if not codec.omitted:
            columns[plan.name] = decoded
    assert data["mny"]["mny"]._values[1] == 101_999
    load(dsn, table, columns)


@pytest.mark.parametrize("seed", range(3))
def test_any_code_decodes_to_a_value_the_server_takes(dsn, table, seed):
    rng = generator(seed)
    count = 300
    columns = {}
    for plan in plans(table, 1e-6):
        codec = plan.finish(release(plan, rng))
        codes = {name: rng.integers(d.size, size=count) for name, d in codec.domains.items()}
        decoded = codec.decode(codes, rng, count)
        if codec.omitted:
            continue
        if plan.attributes:
            first, domain = next(iter(codec.domains.items()))
            expected = codes[first] == domain.null_code
            assert np.array_equal(decoded.is_null().to_numpy(zero_copy_only=False), expected)
        columns[plan.name] = decoded
    load(dsn, table, columns)


def has_xml(connection):
    """Whether the server was built with libxml."""
    try:
        with connection.transaction():
            connection.execute("SELECT '<a/>'::xml")
    except psycopg.errors.FeatureNotSupported:
        return False
    return True


def load(dsn, table, columns):
    """COPY into an empty table of the same definition; the server checks every value."""
    with psycopg.connect(dsn) as connection:
        if not has_xml(connection):
            columns = {name: values for name, values in columns.items() if name != "x"}
        copied = sql.SQL("CREATE TEMP TABLE copied (LIKE {} INCLUDING ALL)")
        connection.execute(copied.format(sql.Identifier(table.name.name)))
        copy_in(connection, sql.Identifier("copied"), columns)
        rows = connection.execute("SELECT count(*) FROM copied").fetchone()
        assert rows == (len(next(iter(columns.values()))),)


def test_the_coverage_map_names_every_column(table):
    lines = table_coverage(table, CONFIG, 1e-6)
    assert [line.column for line in lines] == [column.name for column in table.columns]
    how = {line.column: line.how for line in lines}
    assert how["status"] == "3 public values"
    assert "public range" in how["age"]
    assert "bounds released" in how["positive"]
    assert how["comp"] == "valid filler, NULL rate only"
    assert how["skipped"] == "column default, not read"
