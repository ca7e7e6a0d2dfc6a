"""Kinds of workloads over one table, by the tests of the core's kinds."""

import json
import re

import market
import pyarrow as pa
import pytest
import test_workload_generators as generators
from shop_databases import shop, shop_clone
from test_workload_generators import (
    clone,
    plan_of,
    press,
    press_schema,
    schema,
    sixty,
    source,
    tables,
)

from privbench.errors import UsageError
from privbench.schema import Schema
from privbench.workload import generate_from_source, generate_from_tables, read

__all__ = ["clone", "press", "press_schema", "schema", "shop", "shop_clone", "source", "tables"]
KINDS = pytest.mark.parametrize("kind", ["sam", "california"])


@KINDS
def test_of_a_source_it_is_confidential_and_of_the_promised_form(kind, source, schema):
    made = {kind: generate_from_source(source, kind, schema, sixty(kind))}
    generators.test_of_a_source_it_is_confidential_and_of_the_promised_form(kind, made, source)


@KINDS
def test_of_tables_in_memory_it_states_no_answer(kind, clone, schema):
    generators.test_of_tables_in_memory_it_states_no_answer(kind, clone, schema)


@KINDS
def test_counts_in_memory_are_those_of_the_database(kind, tables, source, schema):
    generators.test_counts_in_memory_are_those_of_the_database(kind, tables, source, schema)


def test_sam_orders_strings_by_code_points(press_schema):
    rows = {"public.letters": {"name": pa.array([f"{'aB'[i % 2]}{i % 12}" for i in range(300)])}}
    only = Schema((press_schema.table("letters"),))
    made = generate_from_tables(rows, "sam", only, plan_of("sam"))
    ranges = [query.sql for query in made if re.search("[<>]=", query.sql)]
    assert ranges
    assert all('"name" COLLATE "C" ' in text for text in ranges)


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("sam", {"joins": (0, 1)}, "kind sam join nothing"),
        ("california", {"operators": ("=",)}, "kind california ask no operator ="),
    ],
)
def test_what_no_query_can_be_is_refused(kind, changes, said, tables, schema):
    with pytest.raises(UsageError, match=said):
        generate_from_tables(tables, kind, schema, plan_of(kind, **changes))


@KINDS
def test_a_database_without_rows_or_numbers_is_said(kind, tables, schema):
    with pytest.raises(UsageError, match="no table"):
        generate_from_tables({}, kind, Schema(()), plan_of(kind))
    with pytest.raises(UsageError, match=r"empty|with values"):
        generate_from_tables({}, kind, schema, plan_of(kind))
    only = Schema((schema.table("customers"),))
    if kind == "california":
        with pytest.raises(UsageError, match="no table has a numeric column"):
            generate_from_tables(tables, kind, only, plan_of(kind))


def _done(*arguments):
    return market.succeed("-q", "workload", *arguments).stdout


def _refused(*arguments):
    return re.sub(r"\s+", " ", market.fail(2, "", "-q", "workload", *arguments).stderr)


LIGHT = "title t,movie_companies mc#t.id=mc.movie_id#t.kind_id,=,7#715\ntitle t##t.id,<,9#8\n"


@pytest.mark.parametrize("form", ["native", "sql", "card-sql", "mscn", "pgbench"])
def test_formats_are_converted_and_back(form, tmp_path):
    light, there, back = tmp_path / "light.csv", tmp_path / "there", tmp_path / "back.csv"
    light.write_text(LIGHT)
    there = there.with_suffix(".sql") if form in ("sql", "card-sql") else there
    assert "Wrote 2 queries" in _done("convert", light, there, "--to", form)
    _done("convert", there, back, "--from", form, "--to", "mscn")
    text = LIGHT if form in ("native", "card-sql", "mscn") else re.sub(r"#\d+\n", "#\n", LIGHT)
    assert back.read_text() == text


def test_a_sam_file_takes_its_table_and_columns_from_the_options(tmp_path):
    given = {"query_list": [[[1], [">="], ["Mexico"]]], "card_list": ["3"]}
    (tmp_path / "w.txt").write_text(json.dumps(given))
    assert "--columns" in _refused("convert", tmp_path / "w.txt", tmp_path / "w", "--to", "native")
    _done("convert", tmp_path / "w.txt", tmp_path / "w", "--to", "native", "--table", "census",
          "--columns", "age, native_country")  # fmt: skip
    (query,) = read(tmp_path / "w")
    assert query.sql == (
        "SELECT COUNT(*) FROM census WHERE native_country >= 'Mexico' COLLATE \"C\";"
    )


@pytest.fixture(scope="module")
def bought(make_database):
    return market.create(make_database(), 30)


def test_one_table_may_be_asked_for(bought, tmp_path):
    path = tmp_path / "w.json"
    _done("generate", bought, "-o", path, "--kind", "sam", "--queries", 9, "--format", "sam",
          "--table", "purchase", "--predicates", "1-3")  # fmt: skip
    made = read(path)
    assert made.confidential
    assert all(" FROM purchase WHERE " in query.sql for query in made)
    assert [market.one(bought, query.sql) for query in made] == [query.card for query in made]
