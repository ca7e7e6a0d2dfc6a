"""``privbench run``: what failed is said, gates hold, and a run without an answer is no success."""

import json

import market
import pytest
from sql_files import cases, database_of, sql_of

GOOD = "SELECT count(*) FROM ware"
MISSING = "SELECT count(*) FROM movie_info_idx"
ZERO = "SELECT 1 / (count(*) - 3) FROM ware"
SLOW = ("--timeout", 0.2, "--allow-function", "pg_catalog.pg_sleep")
source = database_of(sql_of(__file__, "tenants"))


@pytest.fixture
def run(source, tmp_path):
    """``run(*texts, options=(), compared=False)``: run queries, or compare the source to itself."""

    def command(*texts, options=(), compared=False):
        path = tmp_path / "w.sql"
        if texts:
            path.write_text(";\n".join(texts))
        words = ["run", path, "--on", source, "-o", tmp_path / "r.json"]
        if compared:
            words = ["compare", source, source, "-w", path, "-o", tmp_path / "r"]
            words += ["--no-floor", "--no-distributions"]
        return market.run("-q", *words, "--repeats", 1, *options)

    return command


def test_failed_queries_are_named_with_their_reason(run, tmp_path):
    done = run(GOOD, MISSING, MISSING, ZERO)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("4 queries: 1 ended, 3 failed, 0 timed out; medians ")
    assert lines[1] == (
        '2 of 4 queries: relation "movie_info_idx" does not exist (SQLSTATE 42P01): q2, q3'
    )
    # The server's own words may hold values of rows here.
    assert lines[2] == "1 of 4 queries: the server reported DivisionByZero (SQLSTATE 22012): q4"
    kept = json.loads((tmp_path / "r.json").read_text())
    assert kept["summary"]["errors"] == 3
    assert "movie_info_idx" in kept["results"][1]["message"]


@pytest.mark.parametrize("compared", [False, True])
@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [(MISSING, (), "movie_info_idx"), ("SELECT pg_sleep(5)", SLOW, "passed its time-out")],
)
def test_a_workload_without_any_answer_is_no_success(run, text, options, reason, compared):
    done = run(text, text, options=options, compared=compared)
    assert done.exit_code == 3, done.output
    assert "no query of the workload has an answer" in done.stderr
    assert f"2 of 2 queries{' on the source' if compared else ''}: " in done.stdout
    assert reason in done.stdout


@pytest.mark.parametrize(("code", "gate"), cases(__file__, "gates_of_runs.txt"))
def test_gates_of_a_run(run, tmp_path, code, gate):
    code = int(code)
    done = run(GOOD, MISSING, options=("--fail-if", gate))
    assert done.exit_code == code, done.output
    if code == 2:
        assert not (tmp_path / "r.json").exists()
        assert "replay.errors" in done.stderr
    else:
        verdict = "FAILED" if code else "passed"
        assert f"gate {verdict}: fail if {gate} (it is " in done.stdout


#: Of a workload as people have it: id, file and line, reason and text of each refusal.
REFUSED = [
    ("q2", "w.sql:3", "it is not a query but CREATE VIEW", "CREATE VIEW revenue AS SELECT 1"),
    ("q4", "w.sql:5", "it is not a query but SET", "SET work_mem = '64MB'"),
    ("q5", "w.sql:7", "syntax error at or near", "SELECT count(*) FROM ten WHERE id = :id"),
    ("q7", "more.sql:1", "it calls pg_sleep", "SELECT pg_sleep('\\u202e1')"),
    ("q8", "more.sql:2", "it is not a query but INSERT", "INSERT INTO ten VALUES (1, 1, 1)"),
    ("q10", "w.sql:11", 'syntax error at or near "MATCH"', "SELECT * FROM GRAPH_TABLE (g MATCH"),
]
CHANGED = {"q3": "FOR UPDATE", "q6": "EXPLAIN ANALYZE"}


@pytest.fixture
def mixed(tmp_path):
    """A workload of queries and of what is none, in two files."""
    for name, text in cases(__file__, "mixed_workload.txt"):
        (tmp_path / name).write_text(text, encoding="utf-8")


def require_named(lines):
    assert len(lines) == len(REFUSED)
    for line, (name, place, reason, text) in zip(lines, REFUSED, strict=True):
        assert line.startswith(f"query {name} of workload w (")
        assert f"/{place}): {reason}" in line
        assert f": {text}" in line
        assert line.isprintable()


@pytest.mark.parametrize("compared", [False, True])
def test_all_refused_queries_are_named_at_once_and_nothing_runs(mixed, run, tmp_path, compared):
    done = run(compared=compared)
    assert done.exit_code == 2
    first, *named, last = done.stderr.splitlines()
    assert "6 of 10 queries are refused, none was run." in first
    require_named(named)
    assert "--skip-refused" in last
    assert not (tmp_path / "r.json").exists()


@pytest.mark.parametrize("compared", [False, True])
def test_refused_queries_are_left_out_by_name_where_the_operator_says_so(
    mixed, run, tmp_path, compared
):
    done = run(options=("--skip-refused",), compared=compared)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    require_named([line.split(": ", 1)[1] for line in lines if line.startswith("left out: ")])
    if compared:
        document = json.loads((tmp_path / "r" / "comparison.json").read_text())
        results, told = document["queries"], document["workload"]
        assert told["queries"] == 4
        for name in ("report.html", "report.md"):
            text = (tmp_path / "r" / name).read_text(encoding="utf-8")
            for word in ("it is not a query but CREATE VIEW", "it calls pg_sleep", "FOR UPDATE"):
                assert word in text
    else:
        assert lines[0].startswith("4 queries: 4 ended, 0 failed")
        assert {f"query {name} ran without {what}" for name, what in CHANGED.items()} <= {*lines}
        told = json.loads((tmp_path / "r.json").read_text())
        results = told["results"]
        assert told["refused"][3]["sql"] == "SELECT pg_sleep('\u202e1')"
    assert [item["id"] for item in results] == ["q1", "q3", "q6", "q9"]
    assert [item["id"] for item in told["refused"]] == [name for name, *_ in REFUSED]
    assert told["changed"] == CHANGED


def test_where_all_queries_are_refused_none_can_be_left_out(run):
    done = run("SELECT pg_sleep(1)", options=("--skip-refused",))
    assert done.exit_code == 2
    assert "it calls pg_sleep" in done.stderr
