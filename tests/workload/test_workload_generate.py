"""Generated workloads run, have answers, and are the same for the same seed."""

from __future__ import annotations

import re
from collections.abc import Callable

import psycopg
import pytest

from privbench.errors import UsageError
from privbench.postgres.connect import connect
from privbench.postgres.introspect import introspect
from privbench.schema import Schema
from privbench.workload import Workload, generate
from privbench.workload.safety import check


@pytest.fixture(scope="module")
def schema(shop: str) -> Schema:
    with connect(shop) as connection:
        return introspect(connection)


@pytest.fixture(scope="module")
def made(shop: str, schema: Schema) -> Workload:
    with connect(shop) as connection:
        return generate(connection, schema, 60, max_joins=2, max_predicates=3, seed=1)


def test_every_query_is_different_safe_and_has_an_answer(shop: str, made: Workload) -> None:
    assert len({query.sql for query in made}) == len(made) == 60
    check(made)
    with psycopg.connect(shop) as connection:
        for query in made:
            rows = connection.execute(query.sql.encode()).fetchall()
            assert rows
            if query.sql.startswith("SELECT COUNT(*)"):
                assert rows[0][0] >= 1


def test_all_kinds_and_sizes_occur(made: Workload) -> None:
    texts = [query.sql for query in made]
    assert {query.shape.joins for query in made} == {0, 1, 2}
    for word in (" GROUP BY ", " ORDER BY ", " BETWEEN ", " = 'paid'", " IS N", "::timestamp"):
        assert any(word in text for text in texts), word
    counting = sum(text.startswith("SELECT COUNT(*)") for text in texts)
    assert 30 < counting < 60


def test_the_same_seed_gives_the_same_workload(shop: str, schema: Schema, made: Workload) -> None:
    # Neither the rows' physical order nor the session's settings have a say.
    with connect(shop) as connection:
        connection.execute("UPDATE orders SET total = total WHERE id % 2 = 0")
        found = [row[0] for row in connection.execute("SELECT id FROM orders").fetchall()]
        assert found != sorted(found)
        connection.execute("SET DateStyle = 'SQL, DMY'")
        assert generate(connection, schema, 60, 2, 3, seed=1) == made
        assert generate(connection, schema, 60, 2, 3, seed=2) != made


def test_joins_follow_foreign_keys(made: Workload) -> None:
    joined = {
        match
        for query in made
        for match in re.findall(r'"\w+"\."(\w+)" = "\w+"\."(\w+)"', query.sql)
    }
    assert joined == {("customer_id", "id"), ("order_id", "id")}


def test_keys_get_no_predicate(made: Workload) -> None:
    for query in made:
        free = re.findall(r'"(\w+)" (?:<=|>=|BETWEEN|IS|= [^"])', query.sql)
        assert not {"id", "customer_id", "order_id", "line"} & set(free), query.sql


def test_a_database_without_rows_is_said(make_database: Callable[..., str]) -> None:
    with connect(make_database(), autocommit=True) as connection:
        with pytest.raises(UsageError, match="no table"):
            generate(connection, introspect(connection), 5)
        connection.execute("CREATE TABLE t (a integer)")
        with pytest.raises(UsageError, match="empty"):
            generate(connection, introspect(connection), 5)
