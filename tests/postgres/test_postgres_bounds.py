"""Bounds of partitions are read as CHECKs on the partition key, and hold in PostgreSQL."""

import pytest
from sql_files import sql_of

from privbench.encoding.checks import column_limits, unread_checks
from privbench.postgres.connect import connect
from privbench.postgres.implied import BOUNDS
from privbench.postgres.introspect import introspect


@pytest.fixture(scope="module")
def trees(make_database):
    dsn = make_database(sql_of(__file__, "partitions"))
    with connect(dsn) as connection:
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
def test_column_limits_of_partitions_are_their_bounds(trees, table, column, low, high, values):
    found = trees[1].table(table)
    limits = column_limits(found, found.column(column))
    assert {item.low for item in limits} - {None} == {low} - {None}
    assert {item.high for item in limits} - {None} == {high} - {None}
    assert next((item.values for item in limits if item.values), None) == values
    assert not unread_checks(found)


@pytest.mark.parametrize("table", ["rest", "expr", "hash", "none", "txts"])
def test_bounds_of_partitions_that_any_row_may_fit_are_no_check(trees, table):
    """Nor are those of texts in several partitions: texts do not compare by their bytes."""
    assert trees[1].table(table).checks == ()


def test_bounds_of_partitions_are_checks_that_the_server_understands(trees):
    (check,) = trees[1].table("txt").checks
    assert check.expression == "(\"c\" >= 'b') AND (\"c\" < 'm')"
    # The server understands every check.
    dsn, schema = trees
    with connect(dsn) as connection:
        for table in schema:
            for check in table.checks:
                assert check.name == BOUNDS
                text = f"SELECT FROM {table.name} WHERE {check.expression}"
                connection.execute(text.encode())
