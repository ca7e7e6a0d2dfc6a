"""``privbench run``: what failed is said, gates hold, and a run without an answer is no success."""

import json

import market
import pytest
from sql_files import cases, database_of

GOOD = "SELECT count(*) FROM ware"
MISSING = "SELECT count(*) FROM movie_info_idx"
ZERO = "SELECT 1 / (count(*) - 3) FROM ware"
SHORT = ("--timeout", 0.2, "--allow-function", "pg_catalog.pg_sleep")
shop = database_of("CREATE TABLE ware AS SELECT generate_series(1, 3) AS id")


@pytest.fixture
def run(shop, tmp_path):
    def command(*texts, options=(), compared=False):
        path = tmp_path / "w.sql"
        path.write_text(";\n".join(texts))
        words = ["run", path, "--on", shop, "-o", tmp_path / "r.json"]
        if compared:
            words = ["compare", shop, shop, "-w", path, "-o", tmp_path / "r", "--no-floor"]
        words += ["--repeats", 1, *options]
        return market.run(*words)

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
    [
        (MISSING, (), "movie_info_idx"),
        (
            "SELECT pg_sleep(5)",
            ("--timeout", 0.2, "--allow-function", "pg_catalog.pg_sleep"),
            "passed its time-out",
        ),
    ],
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
