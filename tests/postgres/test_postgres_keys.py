import decimal

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_files import cases

from privbench.postgres.introspect import introspect
from privbench.postgres.keys import DANGLING, NULL, key_expressions, match
from privbench.postgres.snapshot import Snapshot

KINDS = {
    "int16": (pa.int16(), st.integers(-3, 3)),
    "int64": (pa.int64(), st.sampled_from([-(2**63), -1, 0, 1, 2**40, 2**63 - 1])),
    "text": (pa.string(), st.sampled_from(["", "a", "A", "é", "\x00b"])),
    "bytes": (pa.binary(2), st.sampled_from([b"ab", b"\x00\x00", b"zz"])),
    "decimal": (
        pa.decimal128(5, 2),
        st.sampled_from([decimal.Decimal("1.50"), decimal.Decimal(0)]),
    ),
    "time": (
        pa.timestamp("us"),
        st.datetimes().map(lambda t: t.replace(year=2000, month=1, day=1)),
    ),
    "float": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, float("inf")])),
}


@st.composite
def keys(draw):
    kinds = [
        KINDS[k] for k in draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    ]

    def rows():
        row = st.tuples(*(st.none() | values for _, values in kinds))
        return draw(st.lists(row, max_size=25))

    return [kind for kind, _ in kinds], rows(), rows()


def arrays(rows, kinds):
    return [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]


def naive(child, parent):
    first = {}
    for index, row in enumerate(parent):
        if None not in row:
            first.setdefault(row, index)
    return [NULL if None in row else first.get(row, DANGLING) for row in child]


@settings(max_examples=100, deadline=None)
@given(keys())
def test_match_is_a_dictionary_join(drawn):
    kinds, child, parent = drawn
    got = match(arrays(child, kinds), arrays(parent, kinds))
    assert got.tolist() == naive(child, parent)


def test_match_of_many_columns_does_not_overflow():
    rng = np.random.Generator(np.random.PCG64(5))
    columns = [rng.integers(0, 2**60, 3000) for _ in range(8)]
    order = rng.permutation(3000)
    got = match([pa.array(c[order]) for c in columns], [pa.array(c) for c in columns])
    assert (got == order).all()


TYPES = dict(cases(__file__, "keys"))


def case_blind(connection):
    try:
        connection.execute(
            "CREATE COLLATION \"any Case\" (provider = icu, locale = 'und-u-ks-level2',"
            " deterministic = false)"
        )
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server is built without ICU")


@pytest.mark.parametrize("name", sorted(TYPES))
def test_key_expressions_agree_with_the_server(name, each_server, make_database_on):
    dsn = make_database_on(each_server)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
        if "COLLATE" in TYPES[name]:
            case_blind(connection)
        connection.execute(TYPES[name])
        connection.execute(
            "ALTER TABLE child ADD CONSTRAINT fk FOREIGN KEY (k) REFERENCES parent (k) NOT VALID"
        )
        wanted = connection.execute(
            "SELECT c.k IS NULL, p.k::text FROM child c LEFT JOIN parent p ON p.k = c.k ORDER BY n"
        ).fetchall()
        values = [row[0] for row in connection.execute("SELECT k::text FROM parent")]
    with Snapshot(dsn) as snapshot:
        schema = introspect(snapshot.connection)
        key = schema.table("child").foreign_key("fk")
        ours, theirs = key_expressions(schema, key)
        got = match(
            snapshot.read(schema.table("child"), [(ours[0], "k")]).columns,
            snapshot.read(schema.table("parent"), [(theirs[0], "k")]).columns,
        )
    expected = [
        NULL if null else DANGLING if found is None else values.index(found)
        for null, found in wanted
    ]
    assert got.tolist() == expected
    assert max(expected) >= 0
