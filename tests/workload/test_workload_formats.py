"""Reading, writing, splitting and refusing workloads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privbench.errors import UsageError
from privbench.pgsql import SqlError, pieces
from privbench.workload import Query, Workload, read, write
from privbench.workload.formats import FORMATS
from privbench.workload.query import Shape, shape
from privbench.workload.safety import check

ODD = [
    "SELECT ';' || 'it''s;' FROM t",
    'SELECT "a;b" FROM "odd;name"',
    "SELECT $$;$$, $tag$ $$;$$ $tag$",
    "SELECT 1 /* a; /* nested; */ b; */ + 1",
    "SELECT 1 -- a; b\n+ 1",
    "SELECT E'\\';' || U&'\\0061;'",
    "SELECT a\n\n  FROM t\tWHERE x = ';'",
]


def test_statements_keep_the_text(tmp_path: Path) -> None:
    file = tmp_path / "all.sql"
    file.write_text(";\n".join(ODD) + ";;\n-- nothing more;\n")
    assert [query.sql for query in read(file)] == ODD


@given(st.lists(st.sampled_from(ODD), min_size=1, max_size=6), st.sampled_from([";", " ;\n", ";;"]))
def test_splitting_undoes_joining(parts: list[str], between: str) -> None:
    assert pieces(between.join(parts)) == parts


def test_an_unfinished_string_is_refused_with_its_file_and_place(tmp_path: Path) -> None:
    with pytest.raises(SqlError, match=r"unterminated quoted string .*line 2, column 8"):
        pieces("SELECT 1;\nSELECT 'abc; SELECT 1;")
    (tmp_path / "open.sql").write_text("SELECT 'é';\nSELECT 'é', 'abc; SELECT 1;")
    with pytest.raises(UsageError, match=r"open\.sql: unterminated .*line 2, column 13"):
        read(tmp_path / "open.sql")


def test_hints_before_a_statement_stay_with_it(tmp_path: Path) -> None:
    (tmp_path / "hints.sql").write_text("SELECT 1; /*+ SeqScan(t) */ SELECT 2 FROM t;")
    assert [query.sql for query in read(tmp_path / "hints.sql")] == [
        "SELECT 1",
        "/*+ SeqScan(t) */ SELECT 2 FROM t",
    ]


def test_a_bad_query_of_a_folder_is_told_by_its_id_and_place(tmp_path: Path) -> None:
    for name, text in {"1a": "SELECT 1", "2b": "SELECT 1\n  FORM t x"}.items():
        (tmp_path / f"{name}.sql").write_text(text)
    with pytest.raises(
        UsageError, match=r'query 2b of workload .*at or near "t" \(line 2, column 8'
    ):
        check(read(tmp_path))


def test_card_lines(tmp_path: Path) -> None:
    file = tmp_path / "stats.sql"
    file.write_text(
        "-- a remark\n12||SELECT COUNT(*) FROM a WHERE x = '||';\n\n3.0||SELECT 1\r\n||SELECT 2\n"
    )
    found = read(file)
    assert found.name == "stats"
    assert [(query.id, query.sql, query.card) for query in found] == [
        ("q1", "SELECT COUNT(*) FROM a WHERE x = '||';", 12),
        ("q2", "SELECT 1", 3),
        ("q3", "SELECT 2", None),
    ]


def test_a_folder_is_read_in_natural_order(tmp_path: Path) -> None:
    for name, text in {"10a": "SELECT 10", "2a": "SELECT 2; SELECT 3", "sub/1": "SELECT 1"}.items():
        file = tmp_path / f"{name}.sql"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    (tmp_path / "README.md").write_text("not SQL")
    assert [(query.id, query.sql) for query in read(tmp_path)] == [
        ("2a", "SELECT 2"),
        ("2a#2", "SELECT 3"),
        ("10a", "SELECT 10"),
        ("sub/1", "SELECT 1"),
    ]


# Formats that hold any text, each with a place that it is written to.
KEEPING = {"native": "w.json", "sql": "w.sql", "card-sql": "w.sql", "pgbench": "w"}


@pytest.mark.parametrize("confidential", [False, True])
@pytest.mark.parametrize("form", KEEPING)
def test_what_is_written_is_read_again(form: str, confidential: bool, tmp_path: Path) -> None:
    texts = [text for text in ODD if "\n" not in text] if form == "card-sql" else ODD
    made = tuple(Query(f"q{i}", text, i) for i, text in enumerate(texts, 1))
    workload = Workload("w", made, confidential)
    path = tmp_path / KEEPING[form]
    write(workload, path, form)
    found = read(path)
    assert [query.sql for query in found] == texts
    assert found.confidential == confidential
    if form in ("card-sql", "native"):
        assert found == workload


def test_every_format_is_tested() -> None:
    assert {form.name for form in FORMATS} == {*KEEPING, "mscn", "sam"}


_texts = st.text(st.characters(codec="utf-8"), max_size=30)
_queries = st.builds(
    Query,
    _texts,
    _texts,
    st.none() | st.integers(0, 2**62),
    st.floats(1e-6, 1e9),
    st.none() | _texts,
    st.lists(st.none() | _texts, max_size=3).map(tuple),
    st.lists(_texts, max_size=3).map(tuple),
)
_workloads = st.builds(
    Workload,
    _texts,
    st.lists(_queries, max_size=4, unique_by=lambda query: query.id).map(tuple),
    st.booleans(),
)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(workload=_workloads)
def test_native_keeps_everything(tmp_path: Path, workload: Workload) -> None:
    write(workload, tmp_path / "w.json", "native")
    assert read(tmp_path / "w.json", "native") == workload


def test_the_native_file_is_as_documented(tmp_path: Path) -> None:
    query = Query("q1", "SELECT 1 WHERE 2 > 1", 1, 3.5, "SELECT 1 WHERE 2 > $1", ("1",), ("x = 1",))
    write(Workload("shop", (query, Query("q2", "SELECT 2"))), tmp_path / "w.json", "native")
    full = {
        "id": "q1", "sql": "SELECT 1 WHERE 2 > 1", "card": 1, "weight": 3.5,
        "template": "SELECT 1 WHERE 2 > $1", "parameters": ["1"], "draws": ["x = 1"],
    }  # fmt: skip
    assert json.loads((tmp_path / "w.json").read_text()) == {
        "privbench-workload": 1,
        "name": "shop",
        "confidential": False,
        "queries": [full, {"id": "q2", "sql": "SELECT 2"}],
    }
    assert read(tmp_path / "w.json").queries[0] == query


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"privbench-workload": 2}, "workload of version 2"),
        ({"more": 1}, "more"),
        ({"queries": [{"id": "a"}]}, r"queries\.0\.sql"),
        ({"queries": [{"id": "a", "sql": "s", "weight": 0}]}, r"queries\.0\.weight"),
        ({"queries": [{"id": "a", "sql": "s", "card": -1}]}, r"queries\.0\.card"),
        ({"queries": [{"id": "a", "sql": "s"}, {"id": "a", "sql": "t"}]}, "two queries of one id"),
    ],
)
def test_odd_native_files_are_refused(change: dict[str, object], said: str, tmp_path: Path) -> None:
    data = {"privbench-workload": 1, "name": "w", "queries": []}
    (tmp_path / "w.json").write_text(json.dumps({**data, **change}))
    with pytest.raises(UsageError, match=said):
        read(tmp_path / "w.json")


@pytest.mark.parametrize("confidential", [False, True])
def test_a_folder_is_written_and_read_again(confidential: bool, tmp_path: Path) -> None:
    texts = {"1a": ODD[0], "1b": "-- why\nSELECT 2", "x/2b": ODD[4] + " -- end", "x/10": ODD[5]}
    workload = Workload("job", tuple(Query(*item) for item in texts.items()), confidential)
    write(workload, tmp_path / "job")
    assert read(tmp_path / "job") == workload
    with pytest.raises(UsageError, match="no file name"):
        write(Workload("w", (Query("../../out", "SELECT 1"),)), tmp_path / "job")


def test_card_sql_refuses_several_lines(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="several lines"):
        write(Workload("w", (Query("a", "SELECT\n1"),)), tmp_path / "w", "card-sql")


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no workload at"):
        read(tmp_path / "absent")
    (tmp_path / "data.bin").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot read"):
        read(tmp_path / "data.bin")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(UsageError, match="no known format"):
        read(tmp_path / "notes.txt")
    (tmp_path / "empty.sql").write_text("-- nothing")
    with pytest.raises(UsageError, match="holds no query"):
        read(tmp_path / "empty.sql")
    with pytest.raises(UsageError, match="no workload format"):
        read(tmp_path / "empty.sql", "parquet")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM t",
        "WITH w AS (SELECT 1) SELECT * FROM w;",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "VALUES (1), (2)",
        "TABLE t",
        "SELECT 'DELETE FROM t; set_config(1)' AS \"insert\"",
        "select updated, deleted from t where note ~ 'into'",
    ],
)
def test_reading_queries_pass(sql: str) -> None:
    check(Workload("w", (Query("a", sql),)))


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM t",
        "INSERT INTO t VALUES (1)",
        "UPDATE t SET a = 1",
        "MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE",
        "TRUNCATE t",
        "DROP TABLE t",
        "CREATE TABLE t AS SELECT 1",
        "COPY t TO '/tmp/x'",
        "DO $$ BEGIN END $$",
        "CALL f()",
        "SET work_mem = '1GB'",
        "BEGIN",
        "EXPLAIN ANALYZE DELETE FROM t",
        "WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone",
        "SELECT * INTO copy FROM t",
        "SELECT * FROM t FOR UPDATE",
        "SELECT 1; DELETE FROM t",
        "SELECT nextval('s')",
        "SELECT pg_catalog.pg_terminate_backend(1)",
        "SELECT \"set_config\"('a', 'b', false)",
        "SELECT lo_unlink(1)",
        "SELECT pg_sleep(1)",
        "SELECT $1",
        "SELECT ((( INTO gone",
        "",
        "-- nothing",
    ],
)
def test_everything_else_is_refused(sql: str) -> None:
    with pytest.raises(UsageError, match="query a of workload w"):
        check(Workload("w", (Query("a", sql),)))


def test_tables_and_joins_are_counted() -> None:
    assert shape("SELECT 1 FROM a x, a y LEFT JOIN b USING (i) WHERE EXISTS (SELECT 1 FROM c)") == (
        Shape(4, 2)
    )
    assert shape("SELECT ((((") == Shape(None, None)


def test_the_digest_tells_workloads_apart() -> None:
    one = Workload("w", (Query("a", "SELECT 1"), Query("b", "SELECT 2")))
    other = Workload("w", (Query("a", "SELECT 1b"), Query("", "SELECT 2")))
    assert one.digest == Workload("renamed", one.queries).digest
    assert one.digest != other.digest
