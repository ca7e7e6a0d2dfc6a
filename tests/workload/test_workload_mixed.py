"""Generated workloads run, have answers, and are the same for the same seed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from privbench.postgres.connect import Connection, connect
from privbench.postgres.introspect import introspect
from privbench.schema import Schema
from privbench.workload import KINDS, Workload, generate_from_source


@pytest.fixture(scope="module")
def schema(shop: str) -> Schema:
    with connect(shop) as connection:
        return introspect(connection)


def _made(connection: Connection, schema: Schema, seed: int = 1) -> Workload:
    plan = replace(KINDS["mixed"].plan, queries=60, joins=(0, 2), predicates=(1, 3), seed=seed)
    return generate_from_source(connection, "mixed", schema, plan)


@pytest.fixture(scope="module")
def made(shop: str, schema: Schema) -> Workload:
    with connect(shop) as connection:
        return _made(connection, schema)


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
        assert _made(connection, schema) == made
        assert _made(connection, schema, 2) != made


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
