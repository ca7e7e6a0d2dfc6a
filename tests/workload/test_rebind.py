"""Re-binding: no literal of a user survives, and the new ones are of the synthetic rows."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sql_files import cases, sql_of

from privbench import pipeline
from privbench.errors import UsageError
from privbench.pipeline.model import Model
from privbench.postgres.connect import connect
from privbench.postgres.introspect import introspect
from privbench.workload import Plan, Workload, WorkloadQuery, write
from privbench.workload.generators.rows import DatabaseRows
from privbench.workload.rebind import Planner, rebind
from privbench.workload.rebind.literal_marks import LiteralMark, mark

DOCS = sql_of(__file__, "docs")


@pytest.fixture(scope="module")
def clone(shop_clone):
    drop = "DROP TABLE IF EXISTS docs; DROP SCHEMA IF EXISTS other CASCADE"
    with psycopg.connect(shop_clone, autocommit=True) as connection:
        connection.execute(f"{drop};{DOCS}".encode())
        with connect(shop_clone, autocommit=True) as clone:
            yield clone
        connection.execute(drop)


_schema, _rows = cache(introspect), cache(DatabaseRows)


def _bind(clone, *texts, seed=0, planner=True):
    queries = tuple(
        WorkloadQuery(f"q{i}", text, card=5, weight=2.5) for i, text in enumerate(texts)
    )
    asked = Planner(clone) if planner else None
    workload = Workload("w", queries)
    return rebind(workload, _schema(clone), _rows(clone, seed), seed=seed, planner=asked)


def _one(clone, text, seed=0):
    found = _bind(clone, text, seed=seed)
    assert not found.left_out
    return found.workload.queries[0].sql


#: Queries with places for a text, a number and a date that no clone and no allow-list holds.
PLANTED = (Path(__file__).parent / "golden" / "planted.sql").read_text().rstrip(";\n").split(";\n")
NUMBER, TEXT, DATE = "987651", "Xyzzyfoo", "2387-06-05"


def _planted(template, text=TEXT, number=NUMBER, date=DATE):
    return template.format(s=text, n=number, d=date, h=f"{int(number):x}")


@pytest.mark.parametrize("planner", [True, False])
def test_no_planted_literal_survives(clone, planner):
    texts = [_planted(template) for template in PLANTED]
    found = _bind(clone, *texts, planner=planner)
    assert len(found.workload) >= (9 if planner else len(PLANTED) - 2)
    for query in found.workload:
        shown = query.sql.lower()
        assert TEXT.lower() not in shown
        assert NUMBER not in shown
        assert f"{int(NUMBER):x}" not in shown
        assert DATE not in shown
        assert query.card is None
        assert query.weight == 2.5
    assert not [why for why in found.left_out.values() if TEXT in why or NUMBER in why]


_texts = st.text("abcdefghijklmnopqrstuvwxyz", min_size=8, max_size=8)
_numbers = st.integers(200_000, 899_999).map(str)


@given(_texts, _numbers)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@example("Xyzzyfoo", "987651")
def test_what_is_written_does_not_depend_on_old_literals(clone, text, number):
    """Two workloads that differ only in their literals become one and the same."""
    templates = [template for template in PLANTED if "OFFSET" not in template]
    other = (text, f"9{number[1:]}", "2388-07-04")
    one, two = (
        _bind(clone, *(_planted(t, *values) for t in templates), planner=False)
        for values in ((TEXT, NUMBER, DATE), other)
    )
    assert [q.sql for q in one.workload] == [q.sql for q in two.workload]
    assert one.left_out == two.left_out


@given(st.text(max_size=30))
@settings(max_examples=30, deadline=None)
@example("it's")
@example("\\'; DROP TABLE x; --")
@example("$$")
def test_marks_leave_nothing_of_a_string(content):
    content = content.replace("\x00", "")
    quoted = "'" + content.replace("'", "''") + "'"
    marked = mark(f"SELECT {quoted} || {quoted}", ())
    assert [one.original for one in marked.marks] == [content, content]
    assert re.fullmatch(r"SELECT 'pbmark\w+' \|\| 'pbmark\w+'", marked.text)


@pytest.mark.parametrize("text", [text for _, text in cases(__file__, "rows_of_literals")])
def test_new_literals_find_rows(clone, text):
    """Conditions on a table are taken from one row of it, on joined tables from rows that join."""
    found = [_one(clone, text, seed) for seed in range(6)]
    assert found[0] == _one(clone, text, 0)
    assert len(set(found)) > 3
    for new in found:
        assert clone.execute(new.encode()).fetchall()


@pytest.mark.parametrize(("drawn", "text"), cases(__file__, "columns_of_literals"))
def test_literals_find_their_columns(clone, drawn, text):
    """Through alias lists, stars, sub-queries, WITH, USING, schemas and references to aliases."""
    found = _bind(clone, text)
    assert not found.left_out
    (literals,) = found.literals.values()
    assert literals["drawn"] == int(drawn)
    clone.execute(found.workload.queries[0].sql.encode())


def test_ranges_lists_and_structure_keep_their_form(clone):
    for seed in range(8):
        text = "SELECT 1 FROM orders WHERE total >= 900 AND total < 100 AND id BETWEEN 9 AND 3"
        low, high, first, last = map(float, re.findall(r"\d+\.?\d*", _one(clone, text, seed)[26:]))
        assert low <= high
        assert first <= last
    listed = _one(clone, "SELECT 1 FROM orders WHERE id IN (71, 72, 73, 74, 75, 76)")
    assert len(set(re.findall(r"\d+", listed.partition("IN")[2]))) == 6
    array = _one(clone, "SELECT 1 FROM orders WHERE id = ANY('{71,72,73}')")
    assert len(set(re.findall(r"\d+", array.partition("ANY")[2]))) == 3
    # All else stays.
    text = (
        "SELECT date_trunc('month', placed) AS m, count(*), round(avg(total), 2)::numeric(12,2)"
        " FROM orders WHERE placed > now() - interval '7 days' GROUP BY 1 ORDER BY 2 DESC LIMIT 20"
    )
    assert _one(clone, text) == text


def test_patterns_keep_their_wildcards(clone):
    found = _one(
        clone,
        "SELECT title FROM docs"
        " WHERE title LIKE 'abcdefg%' AND title LIKE '%z' AND title LIKE '%yy_%'",
    )
    patterns = re.findall(r"LIKE '([^']+)'", found)
    for form, pattern in zip((r"Title \d%", r"%\d", r"%.._%"), patterns, strict=True):
        assert re.fullmatch(form, pattern)
    assert clone.execute(found.encode()).fetchall()


def test_parameters_are_bound_by_column_or_type(clone):
    found = _one(
        clone,
        "SELECT extract($1 from placed), sum(total * $2), substring(status::text, $3, $4), $5::date"
        " FROM orders WHERE extract(year from placed) = $6 AND status = $7"
        " AND id IN ($8 /*, ... */)"
        " AND total BETWEEN $9 AND $10 AND placed > now() - interval $11"
        " GROUP BY $12, 3, 4 ORDER BY $13 LIMIT $14 OFFSET $15",
    )
    assert "$" not in found
    assert "= 2024 AND status = '" in found
    assert re.search(r"id IN \( ?\d+, \d+, \d+ ?\)", found)
    assert found.endswith("GROUP BY 1, 3, 4 ORDER BY 1 LIMIT 10 OFFSET 0")
    clone.execute(found.encode())
    found = _one(clone, "SELECT 1 FROM orders WHERE id IN ($1,$2,$3) AND status=$4")
    assert re.fullmatch(r"SELECT 1 FROM orders WHERE id IN \(\d+,\d+,\d+\) AND status='\w+'", found)


def test_what_cannot_be_bound_is_left_out_and_said(clone):
    found = _bind(
        clone,
        "SELECT 1 FROM orders WHERE id = 1",
        "DELETE FROM orders WHERE id = 1",
        "SELECT FROM WHERE )",
        "SELECT 1 FROM nowhere WHERE x = 1",
        "SELECT 'open",
        "SELECT pg_terminate_backend(1) FROM orders",
    )
    assert [query.id for query in found.workload] == ["q0"]
    assert found.left_out == {
        "q1": "it is not a query",
        "q2": "it cannot be read",
        "q3": 'the clone refuses it: relation "nowhere" does not exist (SQLSTATE 42P01)',
        "q4": "it cannot be read",
        "q5": "it calls pg_terminate_backend",
    }
    offline = _bind(
        clone, "SELECT 1 FROM orders", "SELECT 1 FROM nowhere WHERE x = 1", planner=False
    )
    assert offline.left_out == {"q1": "the schema has no table nowhere"}
    with pytest.raises(UsageError, match="no query of the workload can be bound"):
        _bind(clone, "DELETE FROM orders")


def test_odd_texts_do_not_slip_through(clone):
    assert LiteralMark(0, "bits", "1").written("010") == "B'010'"
    assert LiteralMark(0, "bits", "1").written("1' OR 'a") == "'1'' OR ''a'"
    # Not a number, and marks that are none of ASCII's.
    words = _one(clone, "SELECT '…', '--', id FROM orders LIMIT '²'").split()
    assert words[1:3] == ["'x',", "'--',"]
    spread = _one(clone, "SELECT id AS a1_b9_c8_d4, id AS v1 FROM orders")
    assert "a1_b9_c8_d4" not in spread
    assert "v1" in spread


def test_one_query_cannot_end_the_rest(clone, monkeypatch):
    def kept(site):
        if site.mark.original == "77":
            raise ValueError("of 77")
        return "5"

    monkeypatch.setattr("privbench.workload.rebind.neutral.kept", kept)
    found = _bind(clone, "SELECT 1 FROM orders LIMIT 77", "SELECT 1 FROM orders LIMIT 6")
    assert [query.id for query in found.workload] == ["q1"]
    assert found.left_out == {"q0": "it cannot be bound (ValueError)"}


@pytest.fixture(scope="module")
def fitted(shop, tmp_path_factory):
    """A folder with a model of the source and the ledger of its fit."""
    folder = tmp_path_factory.mktemp("fitted")
    config = pipeline.inspect(shop).config.with_privacy(epsilon=5.0)
    config = config.changed("ledger", path=str(folder / "ledger"))
    pipeline.fit(shop, config.changed("synthesizer", name="independent"), folder / "model")
    return folder


def test_a_model_is_enough(fitted, shop, tmp_path):
    queries = (
        WorkloadQuery("a", f"SELECT 1 FROM orders WHERE status = '{TEXT}' AND placed > '{DATE}'"),
        WorkloadQuery("b", f"SELECT 1 FROM customers WHERE country = '{TEXT}' AND id = {NUMBER}"),
    )
    write(Workload("w", queries), tmp_path / "w.json", "native")
    found = pipeline.rebind(tmp_path / "w.json", model=fitted / "model")
    assert not found.workload.confidential
    with psycopg.connect(shop) as source:
        for query in found.workload:
            assert found.literals[query.id]["drawn"] == 2
            assert not {TEXT, NUMBER, DATE} & set(re.findall(r"[\w-]+", query.sql))
            source.execute(query.sql.encode())
    with pytest.raises(UsageError, match="--model"):
        pipeline.rebind(tmp_path / "w.json")


def test_what_is_bound_is_confidential_as_its_rows_are(fitted, shop, shop_clone, tmp_path):
    queries = Workload("w", (WorkloadQuery("a", "SELECT 1 FROM orders WHERE id = 5"),))
    ledger = str(fitted / "ledger")
    # A clone that has releases in the ledger may be the source.
    for dsn, secret in ((shop, True), (shop_clone, False)):
        bound = pipeline.rebind(queries, on=dsn, ledger=ledger)
        assert bound.workload.confidential == secret
        made = pipeline.generate_workload(
            str(fitted / "model"), "mscn", Plan(queries=2), clone=dsn, ledger=ledger
        )
        assert made.confidential == secret
    # A clone of a model whose noise was seeded is no better than the model.
    model = Model.load(fitted / "model")
    replace(model, promise=replace(model.promise, private=False)).save(tmp_path / "seeded")
    for clone in (None, shop_clone):
        found = pipeline.rebind(queries, model=tmp_path / "seeded", on=clone, ledger=ledger)
        assert found.workload.confidential
