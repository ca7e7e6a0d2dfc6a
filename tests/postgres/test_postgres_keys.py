"""Keys of rows are matched as the database's constraints compare them."""

from collections import Counter
from datetime import datetime
from decimal import Decimal

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_files import cases, sql_of

from privbench.config import Config, ReferenceConfig, TableConfig, TargetConfig
from privbench.errors import SchemaError
from privbench.postgres.introspect import introspect, with_equalities
from privbench.postgres.keys import DANGLING, NULL, key_expressions, match
from privbench.postgres.snapshot import Snapshot
from privbench.roles import referenced

#: Values of keys by their types.
VALUES = {
    pa.int16(): range(-3, 4),
    pa.int64(): [-(2**63), -1, 0, 1, 2**40, 2**63 - 1],
    pa.string(): ["", "a", "A", "é", "\x00b"],
    pa.binary(2): [b"ab", b"\x00\x00", b"zz"],
    pa.decimal128(5, 2): [Decimal("1.50"), Decimal(0)],
    pa.timestamp("us"): [datetime(2000, 1, 1, hour) for hour in range(4)],
}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*VALUES]), min_size=1, max_size=3), st.data())
def test_rows_match_the_only_parent_that_has_their_key(kinds, data):
    row = st.tuples(*(st.sampled_from([None, *VALUES[kind]]) for kind in kinds))
    child, parent = (data.draw(st.lists(row, max_size=25)) for _ in "12")
    sides = (
        [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)]
        for rows in (child, parent)
    )
    known = Counter(parent)
    assert match(*sides).tolist() == [
        NULL if None in key else parent.index(key) if known[key] == 1 else DANGLING for key in child
    ]


def test_keys_of_many_columns_are_told_apart():
    rng = np.random.Generator(np.random.PCG64(5))
    columns = [rng.integers(0, 2**60, 3000) for _ in range(8)]
    order = rng.permutation(3000)
    got = match([pa.array(c[order]) for c in columns], [pa.array(c) for c in columns])
    assert (got == order).all()


@pytest.mark.parametrize("kind", [pa.int16(), pa.int32(), pa.int64()])
def test_keys_over_the_whole_range_of_a_type_are_matched(kind):
    """Distances between them exceed the type."""
    keys = pa.array(range(-(2**15), 2**15), kind)
    assert match([keys], [keys]).tolist() == [*range(2**16)]


TYPES = dict(cases(__file__, "keys"))


def made(connection, name):
    """The tables of a case with their key, or a skip where the server lacks what they need."""
    connection.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    try:
        if "any Case" in TYPES[name]:
            connection.execute(
                "CREATE COLLATION \"any Case\" (provider = icu, locale = 'und-u-ks-level2',"
                " deterministic = false)"
            )
        connection.execute(TYPES[name])
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server is built without ICU, or has no extensions")
    columns = "tenant, k" if "tenant" in TYPES[name] else "k"
    checked = "" if "PARTITION" in TYPES[name] else "NOT VALID"
    connection.execute(
        f"ALTER TABLE child ADD CONSTRAINT fk FOREIGN KEY ({columns})"
        f" REFERENCES parent ({columns}) {checked}"
    )
    return columns


def accepted(connection, columns):
    """What the constraint itself says: each child row, with the parent rows that it accepts.

    Every pair of a parent and a child row is tried alone, in the tables of the constraint.
    """
    marks = ", ".join("%s" for _ in columns.split(", "))
    typed = ", ".join(f"{name}::text" for name in columns.split(", "))
    parents = connection.execute(f"SELECT {typed} FROM parent").fetchall()
    children = connection.execute(f"SELECT {typed} FROM child ORDER BY n").fetchall()
    found = [[] for _ in children]
    insert = f"INSERT INTO child (n, {columns}) VALUES (1, {marks})"
    with connection.transaction(force_rollback=True):
        connection.execute("TRUNCATE child, parent")
        for place, parent in enumerate(parents):
            with connection.transaction(force_rollback=True):
                connection.execute(f"INSERT INTO parent ({columns}) VALUES ({marks})", parent)
                for row, child in enumerate(children):
                    if None in child:
                        continue
                    try:
                        with connection.transaction(force_rollback=True):
                            connection.execute(insert, child)
                            found[row].append(place)
                    except (psycopg.errors.IntegrityError, psycopg.errors.DataError):
                        continue  # also where the value is none of the parent's type
    return children, found


@pytest.mark.parametrize("name", sorted(TYPES))
def test_keys_are_matched_as_the_constraint_compares_them(name, make_database):
    dsn = make_database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        columns = made(connection, name)
        children, equal = accepted(connection, columns)
    with Snapshot(dsn) as snapshot:
        schema = introspect(snapshot.connection)
        key = schema.table("child").foreign_key("fk")
        sides = zip((key.table, key.ref_table), key_expressions(schema, key), strict=True)
        ours, theirs = (
            snapshot.read(schema.table(table), [(e, f"k{i}") for i, e in enumerate(side)]).columns
            for table, side in sides
        )
        got = match(ours, theirs)
    expected = [
        NULL if None in child else rows[0] if len(rows) == 1 else DANGLING
        for child, rows in zip(children, equal, strict=True)
    ]
    assert got.tolist() == expected
    assert any(equal)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ALTER TABLE child DROP CONSTRAINT fk")
        names = [name.strip() for name in columns.split(",")]
        to = TargetConfig(table=str(key.ref_table), columns=names)
        tables = {"child": TableConfig(references=[ReferenceConfig(columns=names, to=to)])}
        plain = referenced(introspect(connection), Config(tables=tables))
        (declared,) = with_equalities(connection, plain).table("child").foreign_keys
    assert (declared.equalities, declared.unique) == (key.equalities, key.unique)


@pytest.mark.parametrize(
    "function",
    ["LANGUAGE plpgsql AS 'BEGIN RETURN $1 = $2; END'", "LANGUAGE internal AS 'texteq'"],
)
def test_keys_that_an_operator_of_users_compares_are_refused(make_database, function):
    """By the catalog, whatever the rows are: its function is neither run nor replaced by ours."""
    dsn = make_database(sql_of(__file__, "users_equality", function=function))
    with Snapshot(dsn) as snapshot, pytest.raises(SchemaError, match=r"public\.===\(text,text\)"):
        introspect(snapshot.connection)
