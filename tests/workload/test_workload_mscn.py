"""MSCN-like workloads: true answers, one table once, independent predicates, seeds decide."""

from __future__ import annotations

import re
from collections import Counter

import psycopg
import pytest

from privbench.errors import UsageError
from privbench.postgres.connect import connect
from privbench.postgres.introspect import introspect
from privbench.schema import Schema
from privbench.workload import Workload, generate_mscn
from privbench.workload.safety import check

LITERAL = re.compile(r'"(\w+)"\."(\w+)" [=<>] ([^" ]+?|\'[^\']*\'[^"]*?)(?= AND|;)')


@pytest.fixture(scope="module")
def schema(shop: str) -> Schema:
    with connect(shop) as connection:
        return introspect(connection)


@pytest.fixture(scope="module")
def made(shop: str, schema: Schema) -> Workload:
    with connect(shop) as connection:
        return generate_mscn(connection, schema, 60, max_joins=2, max_predicates=3, seed=1)


def test_stated_answers_are_true_and_no_two_queries_alike(shop: str, made: Workload) -> None:
    assert len({query.sql for query in made}) == len(made) == 60
    check(made)
    with psycopg.connect(shop) as connection:
        for query in made:
            row = connection.execute(query.sql.encode()).fetchone()
            assert row is not None
            assert row[0] == query.card > 0


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


def test_the_same_seed_gives_the_same_workload(shop: str, schema: Schema, made: Workload) -> None:
    with connect(shop) as connection:
        connection.execute("UPDATE orders SET total = total WHERE id % 2 = 0")
        assert generate_mscn(connection, schema, 60, 2, 3, seed=1) == made
        assert generate_mscn(connection, schema, 60, 2, 3, seed=2) != made


def test_a_tree_larger_than_the_schema_is_not_stated_as_one(shop: str, schema: Schema) -> None:
    with connect(shop) as connection:
        made = generate_mscn(connection, schema, 12, max_joins=5, seed=1)
    assert {query.shape.joins for query in made} == {0, 1, 2}


def test_ranges_upside_down_are_refused(shop: str, schema: Schema) -> None:
    with connect(shop) as connection, pytest.raises(UsageError, match="from 0 to -1 joins"):
        generate_mscn(connection, schema, 12, max_joins=-1)
