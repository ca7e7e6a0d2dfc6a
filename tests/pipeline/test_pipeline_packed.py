"""Rows that the server packs are read as the same codes as rows that come by COPY."""

import numpy as np
import psycopg
import pytest
from fits import contents
from psycopg import sql

from privbench.config import ColumnConfig
from privbench.encoding.registry import reader
from privbench.pipeline.extract import encode
from privbench.postgres import packed, stream
from privbench.postgres.introspect import introspect
from privbench.postgres.snapshot import Snapshot

MOODS = ["sad", "so so", 'it\'s "fine", ok', "back\\slash"]
DAYS = ["infinity", "-infinity", "0044-03-15 BC", "0001-01-01", "9999-12-31", "10000-01-01"]
DAYS += ["1999-12-31", "2000-01-01", "2000-02-29", "2010-12-31", "2011-01-01", "5874897-12-31"]
TIMES = [*DAYS[:-1], "2000-01-01 12:34:56.789", "294276-12-31 23:59:59.999999"]
TEXTS = ["", "a", "A", "b", "ä", "日本", 'q"u,o\nte', "x" * 128, "y" * 129, "€" * 129, "z" * 5000]

#: By column: its type, values of it beside NULL, and what the config may say.
COLUMNS = {
    "i2": ("smallint", [-(2**15), -1, 0, 1, 24, 25, 26, 2**15 - 1], [dict(min=0, max=25)]),
    "i4": ("integer", [-(2**31), -1, 0, 7, 9999, 10_000, 2**31 - 1], [dict(min=0, max=9999)]),
    "i8": (
        "bigint",
        [-(2**63), -(2**63) + 1, -(2**63) + 2, -(2**63) + 3, 0, 5, 2**40, 2**63 - 2, 2**63 - 1],
        [dict(min=0, max=99), dict(min=-(2**62), max=2**62), dict(values=["0", "5"])],
    ),
    "n": (
        "numeric(10,2)",
        ["NaN", "-99999999.99", "-0.01", "0", "9.99", "10", "10.01", "99999999.99"],
        [dict(min=0, max=10)],
    ),
    "free": ("numeric", ["NaN", "1e400", "-1e400", "1e-500", "0", "2.5"], [dict(min=0, max=3)]),
    "f4": ("real", ["NaN", "inf", "-inf", "-0", "1.5", "3e38"], [dict(min=-1, max=2)]),
    "f8": ("double precision", ["NaN", "inf", "-inf", "-0", "0.1", "1e308", "5e-324"], []),
    "b": ("boolean", [True, False], []),
    "d": ("date", DAYS, [dict(min="2000-01-01", max="2010-12-31")]),
    "ts": ("timestamp", TIMES, [dict(min="2000-01-01", max="2010-12-31")]),
    "tz": ("timestamptz", TIMES, [dict(min="2000-01-01", max="2010-12-31")]),
    "t": ("time", ["00:00", "23:59:59.999999", "24:00", "12:00"], []),
    "iv": ("interval", ["0", "-178000000 years", "178000000 years", "1 mon"], []),
    "m": ("mood", MOODS, []),
    "s": ("text", TEXTS, [dict(values=["a", "b", "", "''; \\"]), dict(values=["a", "ä"])]),
    "v": ("varchar(4)", ["", "a", "long", "A"], [dict(values=[str(n) for n in range(40)])]),
    "c": ("char(3)", ["a", "ab ", "abc"], [dict(values=["a", "abc"])]),
    "j": ("jsonb", ["{}", "[1]"], []),
    "r": ("int4range", ["empty", "(,)", "[1,5)", "[3,)"], []),
    "arr": ("integer[]", [[1], [], [2, 2, 2], [None]], []),
}
ROWS = 700


@pytest.fixture(scope="module")
def source(make_database):
    dsn, rng = make_database(), np.random.default_rng(3)
    moods = ", ".join(sql.Literal(mood).as_string(None) for mood in MOODS)
    columns = ", ".join(f"{name} {kind}" for name, (kind, *_) in COLUMNS.items())
    with psycopg.connect(dsn) as connection:
        connection.execute(f"CREATE TYPE mood AS ENUM ({moods}); CREATE TABLE data ({columns})")
        marks = ", ".join(["%s"] * len(COLUMNS))
        rows = [
            [
                None if rng.random() < 0.2 else held[rng.integers(len(held))]
                for _, held, _ in COLUMNS.values()
            ]
            for _ in range(ROWS)
        ]
        connection.cursor().executemany(f"INSERT INTO data VALUES ({marks})", rows)
        # Pages with holes, some without any row.
        connection.execute("DELETE FROM data WHERE ctid >= '(4,0)' AND ctid < '(9,0)' OR i2 = 25")
        schema = introspect(connection)
    with Snapshot(dsn) as snapshot:
        yield snapshot, schema.tables[0]


def plans(table):
    """A reader of every column that is read, without a config and with each that there is."""
    for name, (_, _, configs) in COLUMNS.items():
        for config in [{}, *configs]:
            for delta in (0.0, 1e-6):
                found = reader(table.column(name), table, ColumnConfig(**config), delta)
                if found.attributes:
                    yield found


def read(snapshot, table, readers, known):
    expressions = [pair for one in readers for pair in one.select(sql.Identifier(one.name))]
    rows, pieces, _ = encode(
        snapshot.stream(table, expressions, known=known), {one.name: one for one in readers}, []
    )
    return rows, {one.name: one.collect(pieces[one.name]) for one in readers}


def check(snapshot, table, readers):
    rows, expected = read(snapshot, table, readers, None)
    known = {name: what for one in readers for name, what in one.known.items()}
    count, found = read(snapshot, table, readers, known)
    assert rows == count
    for name, attributes in expected.items():
        assert list(attributes) == list(found[name])
        for attribute, values in attributes.items():
            assert type(values) is type(found[name][attribute])
            assert contents(values) == contents(found[name][attribute])


@pytest.fixture(autouse=True)
def few_pages(monkeypatch):
    monkeypatch.setattr(packed, "_PAGES", 3)


def test_copied_values_are_those_of_a_select(source):
    snapshot, table = source
    for one in plans(table):
        expressions = one.select(sql.Identifier(one.name))
        copied = snapshot.read(table, expressions)
        statement = sql.SQL("SELECT {} FROM {}").format(
            sql.SQL(", ").join(chosen for chosen, _ in expressions),
            sql.Identifier(table.name.schema, table.name.name),
        )
        rows = snapshot.connection.execute(statement).fetchall()
        # As texts, since NaN is not equal to itself and -0.0 is equal to 0.0.
        assert list(map(repr, zip(*copied.to_pydict().values(), strict=True))) == [*map(repr, rows)]


def test_texts_are_cut_as_the_server_cuts_them(source):
    snapshot, table = source
    sizes = (1, 2, 3, 4, 128, 129, 256, 387, 4999, 5000)
    for name in ("s", "v", "c"):
        one = reader(table.column(name), table, ColumnConfig(), 1e-6)
        whole = sql.SQL("pg_catalog.left({}::pg_catalog.text, {})")
        read = snapshot.read(
            table,
            [(one.text(sql.Identifier(name), size), f"cut {size}") for size in sizes]
            + [(whole.format(sql.Identifier(name), sql.Literal(n)), f"left {n}") for n in sizes],
        )
        for size in sizes:
            assert read.column(f"cut {size}").equals(read.column(f"left {size}")), (name, size)


def test_columns_are_packed_into_the_same_codes_alone_and_together(source):
    snapshot, table = source
    by_name = {}
    for one in plans(table):
        check(snapshot, table, [one])
        by_name.setdefault(one.name, []).append(one)
    # Together they share words and stay apart.
    for turn in range(6):
        check(snapshot, table, [found[turn % len(found)] for found in by_name.values()])


def test_numbers_times_and_short_lists_need_no_copy(source, monkeypatch):
    snapshot, table = source
    if snapshot.connection.info.server_version < 140_000:
        pytest.skip("reads no range of pages")
    copied = set()
    monkeypatch.setattr(stream, "_blocks", lambda *_: (copied.add(one.name) or b"" for _ in "1"))
    for one in plans(table):
        expressions = one.select(sql.Identifier(one.name))
        assert list(snapshot.stream(table, expressions, known=one.known))
    # Texts without a list, or with a long one.
    assert copied == {"s", "v", "c"}


def test_too_many_words_come_by_copy(source, monkeypatch):
    snapshot, table = source
    monkeypatch.setattr(packed, "_WORDS", 0)
    monkeypatch.setattr(stream, "packed", lambda *_: pytest.fail("rows came packed"))
    check(snapshot, table, [one for one in plans(table) if one.name == "i2"][:1])


def test_rows_of_null_alone_are_sent_a_few_at_a_time(make_database, monkeypatch):
    """A page of them is many times larger packed than stored."""
    monkeypatch.setattr(packed, "_PAGES", 1024)
    columns, rows = 60, 60_000
    names = [f"c{place}" for place in range(columns)]
    dsn = make_database()
    with psycopg.connect(dsn) as connection:
        connection.execute(f"CREATE TABLE data ({', '.join(f'{name} bigint' for name in names)})")
        connection.execute(f"INSERT INTO data (c0) SELECT NULL FROM generate_series(1, {rows})")
        (table,) = introspect(connection)
    expressions = [(sql.Identifier(name), name) for name in names]
    with Snapshot(dsn) as snapshot:
        sent = [len(one) for one in snapshot.stream(table, expressions, known={})]
    assert sum(sent) == rows
    assert max(sent) * columns * 8 <= 16 << 20


@pytest.mark.parametrize("step", [1, 7, 1024])
def test_rows_between_wide_gaps_come_in_order_once_whoever_writes(make_database, monkeypatch, step):
    """Where rows go on is a row's own place; gaps lie at the start, between rows and at the end."""
    monkeypatch.setattr(packed, "_PAGES", step)
    dsn = make_database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE data (i int, pad text) WITH (autovacuum_enabled = off)")
        fill = "INSERT INTO data SELECT i, repeat('x', 900) FROM generate_series(1, 600) i"
        connection.execute(fill)
        gaps = [(0, 20), (30, 50), (60, 999)]
        held = " OR ".join(f"ctid >= '({a},0)' AND ctid < '({b},0)'" for a, b in gaps)
        connection.execute(f"DELETE FROM data WHERE {held}")
        (table,) = introspect(connection)
        expressions = [(sql.Identifier("i"), "i")]
        rows = connection.execute("SELECT i FROM data").fetchall()
        with Snapshot(dsn) as snapshot:
            connection.execute(f"{fill}; UPDATE data SET i = -i; DELETE FROM data WHERE i % 3 = 0")
            whole = list(snapshot.stream(table, expressions, known={}))
            parts = snapshot.parts(table, expressions, 9, least=5, known={})
            split = [batch for part in parts for batch in part.stream()]
    assert len(parts) > 2
    for batches in (whole, split):
        assert [(i,) for batch in batches for i in batch.column("i").to_pylist()] == rows
    # None is asked for within a gap.
    assert len(whole) <= -(-20 // step) + 2


def test_texts_are_compared_byte_by_byte_whatever_their_collation(make_database):
    dsn = make_database()
    with psycopg.connect(dsn) as connection:
        try:
            connection.execute(
                "CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level2',"
                " deterministic = false)"
            )
        except psycopg.errors.FeatureNotSupported:
            pytest.skip("this server is built without ICU")
        connection.execute("CREATE TABLE data (s text COLLATE blind)")
        connection.execute("INSERT INTO data VALUES ('a'), ('A'), ('b'), (NULL)")
        (table,) = introspect(connection)
    config = ColumnConfig(values=["a", "b"])
    with Snapshot(dsn) as snapshot:
        check(snapshot, table, [reader(table.column("s"), table, config, 0.0)])
