"""Every family against a real server: what is selected is read, what is decoded is loaded."""

from dataclasses import replace

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from columns import codes_of, copy_in, modelled, release, stored
from psycopg import sql
from sql_files import sql_of

from privbench.config import ColumnConfig
from privbench.encoding.base import PartNeed
from privbench.encoding.categories import LONG
from privbench.encoding.registry import reader, table_coverage
from privbench.encoding.scale import scale_of
from privbench.postgres.introspect import introspect
from privbench.postgres.snapshot import Snapshot
from privbench.privacy.recoding import NULL, POS_INF
from privbench.rng import generator
from privbench.rules.facts import with_rules
from privbench.schema import Check

CANARY = "canary-7f3a91-secret"


@pytest.fixture(scope="module")
def dsn(make_database):
    return make_database(sql_of(__file__, "all_types"))


@pytest.fixture(scope="module")
def rows(dsn):
    """The rows as PostgreSQL has them, in the order they were made."""
    with psycopg.connect(dsn) as connection:
        shown = 'SELECT to_jsonb(found) FROM "All Types" found'
        return [row for (row,) in connection.execute(shown)]


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
def test_every_type_is_read_and_made_again(dsn, table, rows, delta):
    rng = generator(5)
    readers = plans(table, delta)
    data = read(dsn, table, readers)
    columns = {}
    for plan in readers:
        codec = stored(plan.finish(release(plan, rng)))
        assert plan.attributes == tuple(data[plan.name])
        unread = [need.attribute for need in plan.needs if isinstance(need, PartNeed)]
        unread += [] if plan.words is None else [plan.words.attribute]
        assert sorted([*codec.domains, *unread]) == sorted(plan.attributes)
        codes = codes_of(codec, data[plan.name])
        assert all(codes[name].max() < domain.size for name, domain in codec.domains.items())
        decoded = codec.decode(codes, rng, len(rows))
        assert len(decoded) == len(rows)
        if plan.attributes and plan.nullable:
            expected = [row[plan.name] is None for row in rows]
            assert decoded.is_null().to_pylist() == expected, plan.name
        assert CANARY not in str(decoded.cast(pa.string()).to_pylist())
        if not codec.omitted:
            columns[plan.name] = decoded
    assert data["mny"]["mny"]._values[1] == 101_999
    load(dsn, table, columns)


@pytest.mark.parametrize("seed", range(2))
def test_any_code_gives_a_value_that_the_server_takes(dsn, table, seed):
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


ARRAYS = {
    "int4[]": {"'{}'": {None}, "NULL": {None}, "'{7,NULL}'": {"7", None},
        "array(SELECT generate_series(1, 1000))": {str(n) for n in range(1, 1001)},
        "'{{1,2},{3,4}}'": {"1", "2", "3", "4"}, "'[5:6]={8,9}'": {"8", "9"}},
    "bool[]": {"'{t,f}'": {"true", "false"}},
    "date[]": {"'{2001-02-03,infinity}'": {"2001-02-03", "infinity"}},
    "box[]": {"'{(1,1),(0,0)}'": {"(1,1),(0,0)"}},
    "pair[]": {"""'{"(1,x)","(2,)"}'""": {"(1,x)", "(2,)"}},
    "timestamp[]": {"'{2001-02-03 04:05,NULL}'": {"2001-02-03 04:05:00.000000", None}},
    "text[]": {"array['a\"', '{,', repeat('x', 500)]": {'a"', "{,", LONG}},
    "jsonb[]": {"array[('[' || repeat('1e131071,', 20000) || '1]')::jsonb, '1']": {"1", LONG}},
    "bytea[]": {"array[convert_to(repeat('x', 2000000), 'UTF8'), 'a']": {"\\x61", LONG}},
}  # fmt: skip


def test_read_of_arrays_takes_one_random_element_of_each(make_database):
    columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate(ARRAYS))
    rows = ";".join(
        f"INSERT INTO t (c{n}) SELECT {value} FROM generate_series(1, 30)"
        for n, values in enumerate(ARRAYS.values())
        for value in values
    )
    types = "CREATE TYPE pair AS (a int, b text);"
    dsn = make_database(f"{types} CREATE TABLE t ({columns}); {rows}")
    with psycopg.connect(dsn) as connection:
        table = introspect(connection, schemas=["public"]).tables[0]
    readers = plans(table, 1e-6, {})
    data, start = read(dsn, table, readers), 0
    for plan, values in zip(readers, ARRAYS.values(), strict=True):
        held = data[plan.name][plan.name]
        if scale := scale_of(plan.column.type.parts[0]):
            points, special = held._values, {NULL: None, POS_INF: "infinity"}
            plain = np.where(np.isin(points, [*special]), 0, points)
            texts = scale.build(plain, {}).cast(pa.string()).to_pylist()
            words = [special.get(p, text) for p, text in zip(points, texts, strict=True)]
        else:
            names = [*held._labels.to_pylist(), None]
            words = [names[code] for code in held._codes]
        for allowed in values.values():
            found = {*words[start : start + 30]}
            start += 30
            assert found <= allowed
            assert len(found) == len(allowed) or len(found) > 15


NARROW = (
    Check("k0", "age >= 500 AND age <= 501", ("age",)),
    Check("k1", "status = ANY (ARRAY[98, 99])", ("status",)),
    Check("k2", "level = ANY (ARRAY['none'::text])", ("level",)),
    Check("k3", "char_length(s_text) >= 9 AND char_length(s_text) <= 10", ("s_text",)),
    Check("k4", "d_lim >= '1950-01-01'::date AND d_lim <= '1950-01-02'::date", ("d_lim",)),
    Check("k5", "unit_f >= 5 AND unit_f < 6", ("unit_f",)),
)


def broken(table, rule):
    """The table, as if its catalog promised more than its rows keep."""
    if rule == "CHECK":
        return with_rules(replace(table, checks=NARROW))
    columns = table.columns
    if rule == "NOT NULL":
        texts = {"text", "varchar"}
        blank = {c.name: "''::text" if c.type.base in texts else "x" for c in columns}
        columns = [replace(c, not_null=True, default=blank[c.name]) for c in columns]
    elif rule == "enum":
        columns = [replace(c, type=replace(c.type, labels=c.type.labels[:1])) for c in columns]
    elif rule == "domain":
        no = ("VALUE < '-5'", "VALUE > '-9'", "char_length(VALUE) > 6")
        columns = [
            replace(c, type=replace(c.type, domain_checks=no if c.type.domain else ()))
            for c in columns
        ]
    return with_rules(replace(table, columns=tuple(columns)))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("rule", ["NOT NULL", "CHECK", "enum", "domain"])
def test_rows_that_break_a_rule_of_the_catalog_get_cells(dsn, table, rows, rule, delta):
    """No refusal depends on rows: what the catalog rules out is mapped, value by value."""
    said = broken(table, rule)
    readers = plans(said, delta, {})
    data = read(dsn, said, readers)
    for plan in readers:
        codec = plan.finish(release(plan, generator(5)))
        for name, codes in codes_of(codec, data[plan.name]).items():
            assert codes.shape == (len(rows),)
            assert codes.min() >= 0
            assert codes.max() < codec.domains[name].size


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


def test_table_coverage_names_every_column(table):
    lines = table_coverage(table, CONFIG, 1e-6)
    assert [line.column for line in lines] == [column.name for column in table.columns]
    how = {line.column: line.how for line in lines}
    assert how["status"] == "3 public values"
    assert "public range" in how["age"]
    assert "bounds and step released" in how["positive"]
    assert how["comp"] == "valid placeholder, NULL rate only"
    assert how["skipped"] == "column default, not read"
