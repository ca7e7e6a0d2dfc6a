"""pgbench scripts: variables are bound, templates and weights kept, pgbench runs what we write."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo
from sql_files import cases

from privbench.errors import UsageError
from privbench.workload import Workload, WorkloadQuery, read, write
from privbench.workload.formats.pgbench import draw

GOLDEN = Path(__file__).parent / "golden" / "bench"


def test_scripts_are_read_with_their_weights_and_variables():
    select, report, plain = read(GOLDEN)
    assert [(query.id, query.weight) for query in (select, report, plain)] == [
        ("select", 9.0),
        ("report", 1.0),
        ("report#2", 1.0),
    ]
    assert select.template == (
        "SELECT abalance FROM pgbench_accounts WHERE aid = $2"
        " AND note <> '12:30' AND t > '2020-01-01'::date"
    )
    assert select.draws == ("scale = 1", "aid = random(1, 100000 * :scale)")
    assert 1 <= int(select.parameters[1] or "") <= 100_000
    assert select.sql == select.template.replace("$2", select.parameters[1] or "")
    # Variables are drawn from those before, and only where they are needed.
    assert report.draws == ("low = random(1, 5)", "high = :low +    10 * 2")
    low, high = (int(text or "") for text in report.parameters)
    assert high == low + 20
    assert report.sql.endswith(f"BETWEEN {low} AND {high}")
    assert (plain.template, plain.draws) == (None, ())
    assert read(GOLDEN) == read(GOLDEN / "pgbench.opts")


def test_a_folder_is_written_and_read_again(tmp_path):
    queries = tuple(replace(query, id=query.id.replace("#", "")) for query in read(GOLDEN))
    write(Workload("bench", queries, True), tmp_path / "bench", "pgbench")
    assert (tmp_path / "bench" / "pgbench.opts").read_text() == (
        "-f select.sql@9\n-f report.sql@1\n-f report2.sql@1\n"
    )
    assert (tmp_path / "bench" / "select.sql").read_text().splitlines()[1:3] == [
        "\\set aid random(1, 100000 * :scale)",
        "SELECT abalance FROM pgbench_accounts WHERE aid = :aid AND note <> '12:30'"
        " AND t > '2020-01-01'::date;",
    ]
    assert read(tmp_path / "bench") == Workload("bench", queries, True)


def test_weights_are_written_as_whole_numbers_and_one_script_without(tmp_path):
    queries = (
        WorkloadQuery("a", "SELECT 1", weight=0.5),
        WorkloadQuery("b", "SELECT 2", weight=2.25),
    )
    write(Workload("w", queries), tmp_path / "w", "pgbench")
    assert (tmp_path / "w" / "pgbench.opts").read_text() == "-f a.sql@100\n-f b.sql@450\n"
    write(Workload("w", queries[:1]), tmp_path / "w.pgbench", "pgbench")
    assert [(q.id, q.sql) for q in read(tmp_path / "w.pgbench")] == [("w", "SELECT 1")]
    with pytest.raises(UsageError, match=r"the workload has 2\. Name a folder"):
        write(Workload("w", queries), tmp_path / "w.pgbench", "pgbench")


@pytest.mark.parametrize(
    ("said", "script"),
    [
        *cases(__file__, "pgbench_alone"),
        # The end of the file comes after a line feed.
        (r"has \\gset", "SELECT 1 \n\\gset\n"),
        ("without a variable and its value", "SELECT 1;\n\\set a \\\n"),
    ],
)
def test_what_only_pgbench_can_run_is_refused(said, script, tmp_path):
    (tmp_path / "w.sql").write_text(script)
    with pytest.raises(UsageError, match=said):
        read(tmp_path / "w.sql")


EXPRESSIONS = {
    "1 + 2 * 3": "7", "-7 / 2": "-3", "-7 % 3": "-1", "7.0 / 2": "3.5", "(1 + :n) * :n": "20",
    "greatest(1, :n, 3)": "4", "least(9, 1 + 1)": "2", "abs(-3)": "3",
}  # fmt: skip


def test_expressions_and_seeds():
    assert {text: draw(text, {"n": "4"}, "q", "x") for text in EXPRESSIONS} == EXPRESSIONS
    drawn = [draw("random(1, 1000000)", {}, f"q{i}", "x") for i in range(20)]
    assert len(set(drawn)) == 20
    assert drawn == [draw("random(1, 1000000)", {}, f"q{i}", "x") for i in range(20)]


@pytest.mark.parametrize(
    ("name", "said"),
    [("gone.sql", r"gone\.sql, which is not there"), ("../x.sql", "no file name within")],
)
def test_scripts_that_are_missing_or_elsewhere_are_named(name, said, tmp_path):
    (tmp_path / "x.sql").write_text("SELECT 1")
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "pgbench.opts").write_text(f"-f {name}@2\n")
    with pytest.raises(UsageError, match=said):
        read(tmp_path / "w")


@pytest.mark.skipif(shutil.which("pgbench") is None, reason="pgbench is not installed")
def test_pgbench_runs_what_is_written(shop, tmp_path):
    one = WorkloadQuery(
        "one", "SELECT count(*) FROM orders WHERE id < 5", None, 3.0,
        "SELECT count(*) FROM orders WHERE id < $1", ("5",), ("most = random(1, 1000)",),
    )  # fmt: skip
    queries = (one, WorkloadQuery("two", "SELECT count(*) FROM items -- all", weight=1.0))
    write(Workload("w", queries, True), tmp_path / "w", "pgbench")
    options = (tmp_path / "w" / "pgbench.opts").read_text().split()
    with psycopg.connect(shop) as connection:
        info = connection.info
        address = conninfo.make_conninfo(
            host=info.host, port=info.port, user=info.user, password=info.password or None,
            dbname=info.dbname,
        )  # fmt: skip
    command = ["pgbench", "-n", "-t", "40", *options, address]
    done = subprocess.run(command, cwd=tmp_path / "w", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "number of transactions actually processed: 40/40" in done.stdout
    assert re.search(r"SQL script 1: one\.sql\n - weight: 3 ", done.stdout)
