"""Every kind of workload, from a database and from tables in memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from privbench.errors import UsageError
from privbench.postgres.connect import connect
from privbench.postgres.introspect import introspect
from privbench.schema import Column, ColumnType, Schema, Table, TableName
from privbench.workload import KINDS, Plan, Workload, generate_from_source, generate_from_tables
from privbench.workload.generators.database import DatabaseAnswers, DatabaseRows
from privbench.workload.generators.draft import Draft
from privbench.workload.generators.memory import Columns, MemoryAnswers, MemoryTables
from privbench.workload.generators.plan import collect
from privbench.workload.safety import check

Tables = Mapping[str, Columns]


@pytest.fixture(scope="module")
def schema(shop: str) -> Schema:
    with connect(shop) as connection:
        return introspect(connection)


def _tables(dsn: str, schema: Schema) -> Tables:
    """The tables as the typed arrays that a model's rows are."""
    found = {}
    with psycopg.connect(dsn) as connection:
        for table in schema:
            name = sql.Identifier(table.name.schema, table.name.name)
            cursor = connection.execute(sql.SQL("TABLE {}").format(name))
            columns = zip(*cursor.fetchall(), strict=True)
            names = [column.name for column in table.columns]
            found[table.key] = {
                name: pa.array(column) for name, column in zip(names, columns, strict=True)
            }
    return found


@pytest.fixture(scope="module")
def tables(shop: str, schema: Schema) -> Tables:
    return _tables(shop, schema)


@pytest.fixture(scope="module")
def clone_tables(shop_clone: str, schema: Schema) -> Tables:
    return _tables(shop_clone, schema)


def _plan(kind: str, **changes: object) -> Plan:
    return replace(KINDS[kind].plan, queries=20, seed=1, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_source_it_is_confidential_and_its_answers_are_true(
    kind: str, shop: str, schema: Schema
) -> None:
    with connect(shop) as connection:
        made = generate_from_source(connection, kind, schema, _plan(kind))
        assert generate_from_source(connection, kind, schema, _plan(kind)) == made
    assert made.confidential
    assert len({query.sql for query in made}) == len(made) == 20
    check(made)
    _answers_are_true(made, shop, stated=kind != "mixed")


@pytest.mark.parametrize("kind", KINDS)
def test_of_tables_in_memory_it_states_no_answer(
    kind: str, clone_tables: Tables, shop_clone: str, schema: Schema
) -> None:
    made = generate_from_tables(clone_tables, kind, schema, _plan(kind))
    assert made == generate_from_tables(clone_tables, kind, schema, _plan(kind))
    assert made != generate_from_tables(clone_tables, kind, schema, replace(_plan(kind), seed=2))
    assert not made.confidential
    assert len({query.sql for query in made}) == len(made) == 20
    check(made)
    _answers_are_true(made, shop_clone, stated=False)


@pytest.mark.parametrize("kind", ["mscn", "joins", "sam"])
def test_answers_are_those_of_a_clone(
    kind: str, tables: Tables, shop_clone: str, schema: Schema
) -> None:
    with connect(shop_clone) as connection:
        made = generate_from_tables(tables, kind, schema, _plan(kind), clone=connection)
    assert not made.confidential
    _answers_are_true(made, shop_clone, stated=True)


def _answers_are_true(made: Workload, dsn: str, *, stated: bool) -> None:
    with psycopg.connect(dsn) as connection:
        for query in made:
            rows = connection.execute(query.sql.encode()).fetchall()
            assert rows
            assert not query.sql.startswith("SELECT COUNT") or rows[0][0] > 0, query.sql
            assert query.card == (rows[0][0] if stated else None)


@pytest.mark.parametrize("kind", KINDS)
def test_counts_in_memory_are_those_of_the_database(
    kind: str, tables: Tables, shop: str, schema: Schema
) -> None:
    memory = MemoryAnswers(MemoryTables(tables))
    counts: list[tuple[int, int | None]] = []

    class Both(DatabaseAnswers):
        def count(self, draft: Draft) -> int | None:
            found = super().count(draft)
            counts.append((memory.count(draft), found))
            return found

        def holds(self, draft: Draft) -> bool:
            return bool(self.count(draft))

    with connect(shop) as connection:
        KINDS[kind].make(DatabaseRows(connection, 3), Both(connection), schema, _plan(kind))
    assert len(counts) >= 20
    assert [ours for ours, _ in counts] == [theirs for _, theirs in counts]


def test_no_literal_comes_from_elsewhere(schema: Schema, clone_tables: Tables) -> None:
    """Values that stand in the source alone stand in no query of the clone's rows."""
    marked = {
        key: {
            name: pa.array([f"xx{v}" if isinstance(v, str) else v for v in array.to_pylist()])
            for name, array in columns.items()
        }
        for key, columns in clone_tables.items()
    }
    for kind in KINDS:
        made = generate_from_tables(marked, kind, schema, _plan(kind))
        for query in made:
            literals = set(re.findall(r"'([a-z][^']*)'", query.sql)) - {"true", "false"}
            assert all(text.startswith("xx") for text in literals), query.sql


def test_sam_asks_one_table_around_a_row(shop: str, schema: Schema) -> None:
    with connect(shop) as connection:
        made = generate_from_source(connection, "sam", schema, replace(_plan("sam"), queries=60))
    assert {query.shape.tables for query in made} == {1}
    found = [re.findall(r'"\."(\w+)" (<=|>=|=) ', query.sql) for query in made]
    assert {operator for item in found for _, operator in item} == {"=", "<=", ">="}
    assert all(len({column for column, _ in item}) == len(item) for item in found)
    # Few values: equality alone.
    assert not re.search(r'"(status|country|vip)" [<>]', " ".join(q.sql for q in made))


def test_sam_orders_strings_by_code_points() -> None:
    column = pa.array([f"{'aB'[i % 2]}{i % 12}" for i in range(300)])
    name = Column("name", 1, ColumnType("text", "text", category="S"), not_null=True)
    schema = Schema((Table(TableName("public", "letters"), (name,)),))
    made = generate_from_tables({"public.letters": {"name": column}}, "sam", schema, _plan("sam"))
    ranges = [query.sql for query in made if re.search("[<>]=", query.sql)]
    assert ranges
    assert all('\' COLLATE "C"' in text for text in ranges)


def test_california_asks_ranges_of_numbers(shop: str, schema: Schema) -> None:
    with connect(shop) as connection:
        made = generate_from_source(connection, "california", schema, _plan("california"))
    for query in made:
        assert query.shape.tables == 1
        assert re.search(r"WHERE \"\w\"\.\"(total|quantity)\" (<=|>=|BETWEEN) ", query.sql)


def test_answers_and_sizes_lie_in_the_plans_ranges(shop: str, schema: Schema) -> None:
    plan = replace(
        _plan("mscn"), joins=(1, 2), predicates=(2, 3), operators=("<", ">="), least=50, most=500
    )
    with connect(shop) as connection:
        made = generate_from_source(connection, "mscn", schema, plan)
    assert {query.shape.joins for query in made} == {1, 2}
    for query in made:
        assert 50 <= (query.card or 0) <= 500
        operators = re.findall(r'"\."\w+" (\S+) [^"]', query.sql)
        assert len(operators) in (2, 3)
        assert set(operators) <= {"<", ">="}


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("sam", {"joins": (0, 1)}, "kind sam join nothing"),
        ("california", {"operators": ("=",)}, "kind california do not ask ="),
        ("mscn", {"operators": ("~",)}, "no operator ~"),
        ("mscn", {"joins": (0, -1)}, "from 0 to -1 joins"),
        ("mscn", {"predicates": (3, 2)}, "from 3 to 2 predicates"),
        ("mscn", {"least": 9, "most": 8}, "from 9 to 8 answers"),
        ("mscn", {"least": 10**9}, "no query with an answer"),
    ],
)
def test_what_no_query_can_be_is_refused(
    kind: str, changes: dict[str, object], said: str, tables: Tables, schema: Schema
) -> None:
    with pytest.raises(UsageError, match=said):
        generate_from_tables(tables, kind, schema, _plan(kind, **changes))


@pytest.mark.parametrize("kind", KINDS)
def test_a_database_without_rows_is_said(kind: str, schema: Schema) -> None:
    with pytest.raises(UsageError, match="no table"):
        generate_from_tables({}, kind, Schema(()), _plan(kind))
    with pytest.raises(UsageError, match=r"empty|with values"):
        generate_from_tables({}, kind, schema, _plan(kind))


def test_a_table_without_numbers_is_said(tables: Tables, schema: Schema) -> None:
    only = Schema(tuple(table for table in schema if table.name.name == "customers"))
    with pytest.raises(UsageError, match="no table has a numeric column"):
        generate_from_tables(tables, "california", only, _plan("california"))


def test_drawing_ends_where_nothing_new_comes(schema: Schema, tables: Tables) -> None:
    answers = MemoryAnswers(MemoryTables(tables))
    rows_of_one = KINDS["mscn"].plan
    drawn = generate_from_tables(tables, "mscn", schema, replace(rows_of_one, queries=1))
    assert len(drawn) == 1
    with pytest.raises(UsageError, match="no query with an answer"):
        collect("none", Plan(3), lambda _joins: None, answers, count=True)
