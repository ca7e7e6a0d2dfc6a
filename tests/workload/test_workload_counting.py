"""Counting workloads: stated answers are true, joins follow every kind of key, seeds decide."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import psycopg
import pytest

from privbench.postgres.connect import Connection, connect
from privbench.postgres.introspect import introspect
from privbench.rng import generator
from privbench.schema import Schema
from privbench.workload import KINDS, Workload, generate_from_source, read, write
from privbench.workload.generators.database import DatabaseAnswers, DatabaseRows
from privbench.workload.generators.draft import Draft, JoinTree, draw
from privbench.workload.generators.rows import anchored
from privbench.workload.safety import check

# Two keys to one parent, a self-reference, a composite key that may be NULL, and a key to UNIQUE.
PRESS = """
CREATE TABLE city (
    land text, name text, size integer NOT NULL, code integer NOT NULL UNIQUE,
    PRIMARY KEY (land, name)
);
CREATE TABLE person (
    id integer PRIMARY KEY, age integer, joined timestamp NOT NULL,
    land text, town text, chief integer REFERENCES person,
    FOREIGN KEY (land, town) REFERENCES city (land, name)
);
CREATE TABLE article (
    id integer PRIMARY KEY, score integer NOT NULL, kind text NOT NULL,
    author integer NOT NULL REFERENCES person, editor integer REFERENCES person,
    about integer REFERENCES city (code)
);
INSERT INTO city SELECT 'l' || i % 4, 'n' || i, 100 * i, 7 * i FROM generate_series(1, 20) i;
INSERT INTO person
SELECT i, CASE WHEN i % 5 > 0 THEN 20 + i % 40 END,
    timestamp '2020-01-01' + i * interval '7 hours',
    CASE WHEN i % 3 > 0 THEN 'l' || i % 20 % 4 END, CASE WHEN i % 3 > 0 THEN 'n' || i % 20 END,
    CASE WHEN i > 10 THEN i / 10 END
FROM generate_series(1, 200) i WHERE i % 20 > 0;
INSERT INTO article
SELECT i, i % 17, (ARRAY['news', 'essay'])[1 + i % 2], 1 + i * i % 19,
    CASE WHEN i % 2 = 0 THEN 21 + i % 19 END, 7 * (1 + i % 20)
FROM generate_series(1, 900) i;
"""


@pytest.fixture(scope="module")
def press(make_database: Callable[..., str]) -> str:
    dsn = make_database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(PRESS)
    return dsn


@pytest.fixture(scope="module")
def schema(press: str) -> Schema:
    with connect(press) as connection:
        return introspect(connection)


def _made(connection: Connection, schema: Schema, **changes: object) -> Workload:
    plan = replace(KINDS["joins"].plan, predicates=(1, 4), seed=1)
    return generate_from_source(connection, "joins", schema, replace(plan, **changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def made(press: str, schema: Schema) -> Workload:
    with connect(press) as connection:
        return _made(connection, schema, queries=80)


def test_stated_answers_are_true_and_no_two_queries_alike(press: str, made: Workload) -> None:
    assert len({query.sql for query in made}) == len(made) == 80
    check(made)
    with psycopg.connect(press) as connection:
        for query in made:
            row = connection.execute(query.sql.encode()).fetchone()
            assert row is not None
            assert row[0] == query.card > 0


def test_all_sizes_are_there_alike(made: Workload) -> None:
    assert Counter(query.shape.joins for query in made) == {0: 20, 1: 20, 2: 20, 3: 20}
    for query in made:
        assert query.shape.tables == query.shape.joins + 1  # type: ignore[operator]


def test_every_kind_of_key_is_followed_and_each_once(made: Workload) -> None:
    seen: Counter[str] = Counter()
    for query in made:
        joins = re.findall(r'"\w+"\."(\w+)" = "\w+"\."\w+"', query.sql)
        assert len(set(joins)) == len(joins)
        seen.update(joins)
    assert set(seen) == {"author", "editor", "about", "chief", "land", "town"}
    assert seen["land"] == seen["town"]


def test_a_table_reached_by_two_keys_occurs_twice(made: Workload) -> None:
    both = [query.sql for query in made if '"author" =' in query.sql and '"editor" =' in query.sql]
    assert both
    for text in both:
        persons = set(re.findall(r'"person" AS "(\w+)"', text))
        articles = set(re.findall(r'"article" AS "(\w+)"', text))
        assert len(persons) + len(articles) >= 3


def test_predicates_are_of_the_promised_forms(made: Workload) -> None:
    forms: Counter[str] = Counter()
    sizes = set()
    for query in made:
        found = re.findall(r'("\w+"\."\w+") (=|<=|>=|BETWEEN) [^"]', query.sql)
        columns = [column for column, _ in found]
        assert len(set(columns)) == len(columns)
        assert " IS " not in query.sql
        forms.update(operator for _, operator in found)
        sizes.add(len(found))
    assert set(forms) == {"=", "<=", ">=", "BETWEEN"}
    assert sizes == {1, 2, 3, 4}


def test_an_equality_asks_for_a_value_that_others_share(press: str, made: Workload) -> None:
    asked = set()
    for query in made:
        tables = {alias: name for name, alias in re.findall(r'"(\w+)" AS "(\w+)"', query.sql)}
        found = re.findall(r'"(\w+)"\."(\w+)" = (\d+|\'[^"]+?\')(?= AND|;)', query.sql)
        asked |= {(tables[alias], column, value) for alias, column, value in found}
    assert len(asked) > 10
    with psycopg.connect(press) as connection:
        for table, column, value in asked:
            text = f"SELECT count(*) FROM {table} WHERE {column} = {value}"
            row = connection.execute(text.encode()).fetchone()
            assert row is not None
            assert row[0] > 1, text


def test_large_answers_are_left_out(press: str, schema: Schema) -> None:
    with connect(press) as connection:
        small = _made(connection, schema, queries=20, most=30)
    assert len(small) == 20
    assert max(query.card or 0 for query in small) <= 30


def test_a_slow_query_is_given_up_and_the_session_goes_on(press: str, schema: Schema) -> None:
    all_pairs = Draft(JoinTree((schema.table("article"),) * 4), ())
    with connect(press) as connection:
        assert DatabaseAnswers(connection, 0.05).count(all_pairs) is None
        assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)


def test_anchors_join_and_dead_ends_are_none(press: str, schema: Schema) -> None:
    rng = generator(3, "anchors")
    ends = Counter[bool]()
    with connect(press) as connection:
        rows = DatabaseRows(connection, 3)
        for _ in range(60):
            tree = draw(schema, 2, rng, repeats=True)
            anchor = anchored(tree, rows, rng)
            ends[anchor is None] += 1
            for edge in tree.edges if anchor else ():
                child, parent = anchor[edge.child], anchor[edge.parent]  # type: ignore[index]
                ours = [child[name] for name in edge.key.columns]
                assert ours == [parent[name] for name in edge.key.ref_columns]
                assert None not in ours
    # Persons without articles, and articles without an editor, are dead ends.
    assert ends[True] > 0
    assert ends[False] > 20


def test_it_is_kept_as_card_sql(made: Workload, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("workload") / "counting.sql"
    write(made, path, "card-sql")
    assert [(query.sql, query.card) for query in read(path)] == [
        (query.sql, query.card) for query in made
    ]
