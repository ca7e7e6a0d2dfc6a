"""Every kind of workload, from a database and from tables in memory."""

import re
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from psycopg import sql
from sql_files import sql_of

from privbench.errors import UsageError
from privbench.postgres.connect import connect
from privbench.postgres.introspect import introspect
from privbench.schema import Schema
from privbench.workload import (
    KINDS,
    generate_from_source,
    generate_from_tables,
    kinds,
)
from privbench.workload.generators.draft import JoinTree, QueryDraft
from privbench.workload.generators.rows import DatabaseRows, MemoryRows
from privbench.workload.safety import check

# Two keys to one parent, a self-reference, a composite key that may be NULL, and a key to UNIQUE.
PRESS = sql_of(__file__, "press")
# Operators of predicates, by kind; and how many of 60 queries have so many joins.
FORMS = {
    "mscn": {"=", "<", ">"},
    "joins": {"=", "<=", ">=", "BETWEEN"},
    "sam": {"=", "<=", ">="},
    "california": {"<=", ">=", "BETWEEN"},
    "mixed": {"=", "<=", ">=", "BETWEEN", "IS"},
}
JOINS = {kind: {0: 20, 1: 20, 2: 20} for kind in ("mscn", "joins")}
#: A predicate on a literal: the column, the operator, and the literal unless a column follows.
_PREDICATE = re.compile(
    r'"(\w+)"\."(\w+)"(?: COLLATE "C")? (<=|>=|=|<|>|BETWEEN|I?LIKE|IS) (?!")'
    r'([^" ]+?|\'[^\']*\'\S*)(?= |;)'
)


@pytest.fixture(scope="module")
def source(shop):
    with connect(shop, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def schema(source):
    return introspect(source)


@pytest.fixture(scope="module")
def tables(source, schema):
    return _tables(source, schema)


@pytest.fixture(scope="module")
def clone(shop_clone):
    with connect(shop_clone, autocommit=True) as connection:
        yield connection


def _tables(connection, schema):
    """The tables as the typed arrays that a model's rows are."""
    found = {}
    for table in schema:
        name = sql.Identifier(table.name.schema, table.name.name)
        rows = connection.execute(sql.SQL("TABLE {}").format(name)).fetchall()
        columns = zip(table.columns, zip(*rows, strict=True), strict=True)
        found[table.key] = {column.name: pa.array(values) for column, values in columns}
    return found


@pytest.fixture(scope="module")
def press(make_database):
    dsn = make_database(statements=PRESS)
    with connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def press_schema(press):
    return introspect(press)


def plan_of(kind, **changes):
    return replace(kinds()[kind].plan, **{"queries": 20, "seed": 1, **changes})


def sixty(kind):
    joins = (0, 2 * (kinds()[kind].plan.joins[1] > 0))
    return plan_of(kind, queries=60, joins=joins, predicates=(1, 3))


@pytest.fixture(scope="module")
def made(source, schema):
    """A workload of each kind from the source."""
    return {kind: generate_from_source(source, kind, schema, sixty(kind)) for kind in KINDS}


def _asked(query):
    """Predicates of a query on literals: table, column, operator and first literal."""
    tables = {alias: name for name, alias in re.findall(r'"(\w+)" AS "(\w+)"', query.sql)}
    return {(tables[alias], *rest) for alias, *rest in _PREDICATE.findall(query.sql)}


def _answers_are_true(made, connection, *, stated):
    assert len({query.sql for query in made}) == len(made)
    check(made)
    for query in made:
        rows = connection.execute(query.sql.encode()).fetchall()
        assert rows
        assert not query.sql.startswith("SELECT COUNT") or rows[0][0] > 0, query.sql
        assert query.card == (rows[0][0] if stated else None)


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_source_it_is_confidential_and_of_the_promised_form(kind, made, source):
    assert made[kind].confidential
    assert len(made[kind]) == 60
    _answers_are_true(made[kind], source, stated=kind != "mixed")
    forms, sizes = set(), set()
    for query in made[kind]:
        found = _asked(query)
        assert len({(table, column) for table, column, *_ in found}) == len(found)
        forms |= {operator for _, _, operator, _ in found}
        sizes.add(len(found))
        columns = {column for _, column, *_ in found}
        assert not {"id", "customer_id", "order_id", "line"} & columns
        assert kind != "california" or columns <= {"total", "quantity"}
        # Few values: equality alone.
        assert not re.search(r'"(status|country|vip)" [<>B]', query.sql)
        joined = re.findall(r'"\w+"\."(\w+)" = "\w+"\."(\w+)"', query.sql)
        assert set(joined) <= {("customer_id", "id"), ("order_id", "id")}
        names = re.findall(r'"public"\."(\w+)" AS', query.sql)
        assert len(names) == query.facts.tables == len(joined) + 1
        assert kind == "joins" or len(set(names)) == len(names)
    # Words that many notes have.
    assert bool(forms & {"LIKE", "ILIKE"}) == (kind in ("joins", "mixed"))
    assert forms - {"LIKE", "ILIKE"} == FORMS[kind]
    assert sizes == {1, 2, 3} if kind != "california" else {1}
    numbers = Counter(query.facts.joins for query in made[kind])
    assert numbers == JOINS.get(kind, numbers)
    assert set(numbers) == ({0} if kind in ("sam", "california") else {0, 1, 2})


def test_literals_are_values_of_the_column_and_mixed_queries_count_group_and_sort(source, made):
    for query in made["mscn"]:
        for table, column, _, value in _asked(query):
            text = f"SELECT EXISTS (SELECT 1 FROM {table} WHERE {column} = {value})"
            assert source.execute(text.encode()).fetchone() == (True,), text
    # Mixed queries count, group and sort.
    texts = [query.sql for query in made["mixed"]]
    for word in (" GROUP BY ", " ORDER BY ", " = 'paid'", "::timestamp"):
        assert any(word in text for text in texts), word
    assert 30 < sum(text.startswith("SELECT COUNT(*)") for text in texts) < 60


def test_neither_order_of_rows_nor_settings_have_a_say(source, schema, made):
    plan = sixty("mixed")
    with source.transaction(force_rollback=True):
        source.execute("UPDATE orders SET total = total WHERE id % 2 = 0")
        found = [row[0] for row in source.execute("SELECT id FROM orders").fetchall()]
        assert found != sorted(found)
        source.execute("SET DateStyle = 'SQL, DMY'")
        assert generate_from_source(source, "mixed", schema, plan) == made["mixed"]
    assert generate_from_source(source, "mixed", schema, replace(plan, seed=2)) != made["mixed"]


@pytest.mark.parametrize("kind", KINDS)
def test_of_tables_in_memory_it_states_no_answer(kind, clone, schema):
    tables = _tables(clone, schema)
    made, again, other = (
        generate_from_tables(tables, kind, schema, plan_of(kind, seed=seed)) for seed in (1, 1, 2)
    )
    assert made == again != other
    assert not made.confidential
    assert len(made) == 20
    _answers_are_true(made, clone, stated=False)
    # Values that stand in the source alone stand in no query of the clone's rows.
    marked = {
        key: {
            name: pa.array([f"xx{v}" if isinstance(v, str) else v for v in array.to_pylist()])
            for name, array in columns.items()
        }
        for key, columns in tables.items()
    }
    for query in generate_from_tables(marked, kind, schema, plan_of(kind)):
        literals = set(re.findall(r"'([a-z][^']*)'", query.sql)) - {"true", "false"}
        assert all(text.startswith(("xx", "x%")) for text in literals), query.sql


def test_answers_are_those_of_a_clone(tables, clone, schema):
    made = generate_from_tables(tables, "joins", schema, plan_of("joins"), clone=clone)
    assert not made.confidential
    _answers_are_true(made, clone, stated=True)


@pytest.mark.parametrize("kind", KINDS)
def test_counts_in_memory_are_those_of_the_database(kind, tables, source, schema):
    memory = MemoryRows(tables, 0)
    counts = []

    class Both(DatabaseRows):
        def count(self, draft, enough=None):
            found = super().count(draft)
            assert super().count(draft, 1) == min(found or 0, 1)
            counts.append((memory.count(draft), found))
            return found

    rows = Both(source, 3)
    kinds()[kind].make(rows, rows, schema, plan_of(kind))
    assert len(counts) >= 20
    assert [ours for ours, _ in counts] == [theirs for _, theirs in counts]


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("mscn", {"operators": ("~",)}, "no operator ~"),
        ("mscn", {"operators": ()}, "no operator at all"),
        ("mscn", {"joins": (0, -1)}, "from 0 to -1 joins"),
        ("mscn", {"predicates": (3, 2)}, "from 3 to 2 predicates"),
        ("mscn", {"least": 9, "most": 8}, "from 9 to 8 answers"),
        ("mscn", {"least": 10**9}, "no query with an answer"),
        ("joins", {"predicates": (40, 40)}, "no query with an answer"),
    ],
)
def test_what_no_query_can_be_is_refused(kind, changes, said, tables, schema):
    with pytest.raises(UsageError, match=said):
        generate_from_tables(tables, kind, schema, plan_of(kind, **changes))


@pytest.mark.parametrize("kind", KINDS)
def test_a_database_without_rows_or_numbers_is_said(kind, tables, schema):
    with pytest.raises(UsageError, match="no table"):
        generate_from_tables({}, kind, Schema(()), plan_of(kind))
    with pytest.raises(UsageError, match=r"empty|with values"):
        generate_from_tables({}, kind, schema, plan_of(kind))


def test_joins_follow_every_key_once_and_ask_for_values_that_others_share(press, press_schema):
    plan = plan_of("joins", queries=48, predicates=(1, 4))
    made = generate_from_source(press, "joins", press_schema, plan)
    _answers_are_true(made, press, stated=True)
    assert Counter(query.facts.joins for query in made) == dict.fromkeys(range(4), 12)
    seen = Counter()
    for query in made:
        joins = re.findall(r'"\w+"\."(\w+)" = "\w+"\."\w+"', query.sql)
        assert len(set(joins)) == len(joins)
        seen.update(joins)
        # A table that two keys reach occurs twice.
        names = re.findall(r'"(?:person|article)" AS "(\w+)"', query.sql)
        assert len(set(names)) >= 3 or not {"author", "editor"} <= set(joins)
    assert set(seen) == {"author", "editor", "about", "chief", "land", "town"}
    assert seen["land"] == seen["town"]
    asked = {item for query in made for item in _asked(query) if item[2] == "="}
    assert len(asked) > 10
    for table, column, _, value in asked:
        text = f"SELECT count(*) > 1 FROM {table} WHERE {column} = {value}"
        assert press.execute(text.encode()).fetchone() == (True,), text


def test_a_slow_query_is_given_up_and_the_session_goes_on(press, press_schema):
    all_pairs = QueryDraft(JoinTree((press_schema.table("article"),) * 4), ())
    assert DatabaseRows(press, 3, 0.05).count(all_pairs) is None
    assert press.execute("SHOW statement_timeout").fetchone() == ("0",)
