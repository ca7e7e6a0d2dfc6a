"""MSCN-like workloads: true answers, one table once, independent predicates, seeds decide."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import psycopg
import pytest

from privbench.postgres.connect import Connection, connect
from privbench.postgres.introspect import introspect
from privbench.schema import Schema
from privbench.workload import KINDS, Workload, generate_from_source


@pytest.fixture(scope="module")
def schema(shop: str) -> Schema:
    with connect(shop) as connection:
        return introspect(connection)


def _made(connection: Connection, schema: Schema, queries: int, joins: int) -> Workload:
    plan = replace(KINDS["mscn"].plan, joins=(0, joins), predicates=(1, 3), seed=1, queries=queries)
    return generate_from_source(connection, "mscn", schema, plan)


@pytest.fixture(scope="module")
def made(shop: str, schema: Schema) -> Workload:
    with connect(shop) as connection:
        return _made(connection, schema, 60, 2)


def test_all_sizes_are_there_alike_and_no_table_twice(made: Workload) -> None:
    assert Counter(query.shape.joins for query in made) == {0: 20, 1: 20, 2: 20}
    for query in made:
        tables = re.findall(r'"public"\."(\w+)" AS', query.sql)
        assert len(set(tables)) == len(tables) == query.shape.tables


def test_predicates_are_of_the_promised_forms(made: Workload) -> None:
    forms: Counter[str] = Counter()
    sizes = set()
    for query in made:
        found = re.findall(r'("\w+"\."\w+") (=|<|>) [^"]', query.sql)
        assert len({column for column, _ in found}) == len(found)
        forms.update(operator for _, operator in found)
        sizes.add(len(found))
        assert " IS " not in query.sql
        assert "BETWEEN" not in query.sql
        assert not re.search(r'"(status|country|note)" [<>]', query.sql)
    assert set(forms) == {"=", "<", ">"}
    assert sizes == {1, 2, 3}


def test_literals_are_values_of_the_column(shop: str, made: Workload) -> None:
    with psycopg.connect(shop) as connection:
        for query in made:
            tables = {alias: name for name, alias in re.findall(r'"(\w+)" AS "(\w+)"', query.sql)}
            found = re.findall(
                r'"(\w+)"\."(\w+)" [=<>] ([^" ]+?|\'[^\']*\'\S*)(?= AND|;)', query.sql
            )
            for alias, column, value in found:
                text = f"SELECT EXISTS (SELECT 1 FROM {tables[alias]} WHERE {column} = {value})"
                assert connection.execute(text.encode()).fetchone() == (True,), text


def test_a_tree_larger_than_the_schema_is_not_stated_as_one(shop: str, schema: Schema) -> None:
    with connect(shop) as connection:
        made = _made(connection, schema, 12, 5)
    assert {query.shape.joins for query in made} == {0, 1, 2}
