"""Bounds of partitions are read as CHECKs on the partition key, and hold in PostgreSQL."""

from types import SimpleNamespace

import pytest

from privbench.encoding.checks import column_limits, unread_checks
from privbench.postgres.connect import connect
from privbench.postgres.implied import BOUNDS, bounds_check
from privbench.postgres.introspect import introspect

TREES = """
CREATE TABLE day (at date) PARTITION BY RANGE (at);
CREATE TABLE day_2 PARTITION OF day FOR VALUES FROM ('2023-01-01') TO ('2024-01-01');
CREATE TABLE day_1 PARTITION OF day FOR VALUES FROM ('2021-01-01') TO ('2022-01-01');
CREATE TABLE num (n bigint, m int) PARTITION BY RANGE (n, m);
CREATE TABLE num_1 PARTITION OF num FOR VALUES FROM (-10, 0) TO (9, 5);
CREATE TABLE num_2 PARTITION OF num FOR VALUES FROM (9, 5) TO (100, MINVALUE);
CREATE TABLE lst (k text, v int) PARTITION BY LIST (k);
CREATE TABLE lst_1 PARTITION OF lst FOR VALUES IN ('it''s', 'a, b (c)') PARTITION BY LIST (v);
CREATE TABLE lst_2 PARTITION OF lst FOR VALUES IN (NULL, 'z');
CREATE TABLE ids (id int) PARTITION BY LIST (id);
CREATE TABLE ids_1 PARTITION OF ids FOR VALUES IN (1, -2);
CREATE TABLE rest (n int) PARTITION BY RANGE (n);
CREATE TABLE rest_1 PARTITION OF rest FOR VALUES FROM (1) TO (5);
CREATE TABLE rest_2 PARTITION OF rest DEFAULT;
CREATE TABLE half (n int) PARTITION BY RANGE (n);
CREATE TABLE half_1 PARTITION OF half FOR VALUES FROM (MINVALUE) TO (5);
CREATE TABLE expr (n int) PARTITION BY RANGE ((n + 1));
CREATE TABLE expr_1 PARTITION OF expr FOR VALUES FROM (1) TO (5);
CREATE TABLE hash (n int) PARTITION BY HASH (n);
CREATE TABLE none (n int) PARTITION BY RANGE (n);
"""


@pytest.fixture(scope="module")
def trees(make_database_on, server):
    dsn = make_database_on(server)
    with connect(dsn, autocommit=True) as connection:
        connection.execute(TREES.encode())
        return dsn, introspect(connection)


@pytest.mark.parametrize(
    ("table", "column", "low", "high", "values"),
    [
        ("day", "at", "2021-01-01", "2024-01-01", None),
        ("num", "n", "-10", "100", None),
        ("lst", "k", None, None, ("it's", "a, b (c)", "z")),
        ("ids", "id", None, None, ("1", "-2")),
        ("half", "n", None, "5", None),
    ],
)
def test_bounds_are_limits_of_the_key(trees, table, column, low, high, values):
    found = trees[1].table(table)
    limits = column_limits(found, found.column(column))
    assert {item.low for item in limits} - {None} == {low} - {None}
    assert {item.high for item in limits} - {None} == {high} - {None}
    assert next((item.values for item in limits if item.values), None) == values
    assert not unread_checks(found)


@pytest.mark.parametrize("table", ["rest", "expr", "hash", "none"])
def test_nothing_is_claimed_where_any_row_may_fit(trees, table):
    assert trees[1].table(table).checks == ()


def test_the_server_understands_every_check(trees):
    dsn, schema = trees
    with connect(dsn) as connection:
        for table in schema:
            for check in table.checks:
                assert check.name == BOUNDS
                text = f"SELECT FROM {table.name} WHERE {check.expression}"
                connection.execute(text.encode())


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (["FOR VALUES FROM ('b') TO ('m')", "FOR VALUES FROM ('m') TO ('x')"], None),
        (["FOR VALUES FROM ('b') TO ('m')"], "(\"c\" >= 'b') AND (\"c\" < 'm')"),
        (["FOR VALUES WITH (modulus 2, remainder 0)"], None),
        ([], None),
    ],
)
def test_texts_do_not_compare_by_their_bytes(bounds, said):
    row = SimpleNamespace(column="c", strategy="r", columns=1, bounds=bounds)
    check = bounds_check(row)
    assert (check.expression if check else None) == said
