"""pgbench scripts: variables are bound, templates and weights kept, pgbench runs what we write."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo, sql
from sql_files import cases, sql_of

from privbench.errors import UsageError
from privbench.limits import CLONE
from privbench.workload import Workload, WorkloadQuery, read, write
from privbench.workload.formats.pgbench import draw

GOLDEN = Path(__file__).parent / "golden" / "bench"


def test_scripts_are_read_with_their_weights_and_variables():
    select, report, plain = read(GOLDEN)
    found = {query.id: query.weight for query in (select, report, plain)}
    assert found == {"select": 9.0, "report": 1.0, "report#2": 1.0}
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
    assert (tmp_path / "bench" / "select.sql").read_text().splitlines()[2:4] == [
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
    write(Workload("w", queries), tmp_path / "w.pgbench", "pgbench")
    both = [("w", "SELECT 1"), ("w#2", "SELECT 2")]
    assert [(q.id, q.sql) for q in read(tmp_path / "w.pgbench")] == both


def test_pgbench_takes_as_many_scripts_as_are_written(tmp_path):
    """And whole weights below 10⁹: queries of about the same weight share a script."""
    calls = [3_000_000_000 // number for number in range(1, 301)]
    queries = tuple(WorkloadQuery(f"c{n}", f"SELECT {n}", weight=w) for n, w in enumerate(calls))
    write(Workload("w", queries), tmp_path / "w", "pgbench")
    lines = (tmp_path / "w" / "pgbench.opts").read_text().splitlines()
    assert len(lines) <= 128
    assert max(int(line.rpartition("@")[2]) for line in lines) < 10**9
    found = {query.sql: query.weight for query in read(tmp_path / "w")}
    assert len(found) == 300
    for query in queries:
        assert found[query.sql] / found["SELECT 0"] == pytest.approx(
            query.weight / queries[0].weight, rel=0.5
        )


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


PGBENCH = shutil.which("pgbench") or shutil.which(
    "pgbench", path=":".join(sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin"))))
)
needs_pgbench = pytest.mark.skipif(PGBENCH is None, reason="pgbench is not installed")


def run_pgbench(dsn, folder, options, count, fails=None):
    with psycopg.connect(dsn) as connection:
        info = connection.info
        named = {name: getattr(info, name) for name in ("host", "port", "user", "dbname")}
        address = conninfo.make_conninfo(**named, password=info.password or None)
    command = [PGBENCH, "-n", "-t", str(count), *options, address]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if fails:
        assert fails in done.stderr
        return ""
    assert done.returncode == 0, done.stderr
    assert f"number of transactions actually processed: {count}/{count}" in done.stdout
    return done.stdout


def mark(dsn, before=""):
    """Say in the database's comment that it is a clone, as a load does."""
    with psycopg.connect(dsn) as connection:
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(name, before + CLONE))


#: Queries that would be others, or commands, for pgbench, and what they say; without the words of
#: the last, pgbench sends them as they stand.
HOSTILE = {
    "SELECT 1;\n\\! touch {}": None,
    "SELECT 1 \\setshell x touch {}": None,
    "SELECT 1;\r\\shell touch {}": None,
    "-- a\n\\shell touch {}\nSELECT 1": None,
    "SELECT 'a;\n\\shell touch {}": None,
    "SELECT (1;\n": None,
    "SELECT ')' || (1": None,
    "SELECT 1) (": None,
    "SELECT 1\0\n\\shell touch {}": None,
    "SELECT $1": None,
    "SELECT ':client_id'": None,
    "SELECT ':aid'": None,
    "SELECT '/*' /* '\n\\shell touch {}\n": None,
    "SELECT 'a;\n\\shell touch {}\n:zz ::int :''y'": "a;\n\\shell touch {}\n:zz ::int :'y",
    "SELECT $a$;\n\\! touch {}\n$a$": ";\n\\! touch {}\n",
    "SELECT /* \n\\! touch {}\n; */ 'b'": "b",
    "SELECT c FROM (SELECT 'z:set' AS \"\n\\! touch {}\") AS t (c)": "z:set",
    "SELECT 'x--y';": "x--y",
    "SELECT E'\\';\\n' -- \\! touch {};": "';\n",
}


@needs_pgbench
@pytest.mark.parametrize("form", ["w", "w.sql"])
def test_pgbench_sends_what_the_query_is_or_it_is_left_out(form, make_database, tmp_path, caplog):
    """Whether it is the clone that gets it, or a command of pgbench; beside a variable ``aid``."""
    clone, touched = make_database("CREATE TABLE said (v text)"), tmp_path / "touched"
    mark(clone)
    texts = {text.replace("{}", str(touched)): said for text, said in HOSTILE.items()}
    drawn = WorkloadQuery("d", "SELECT 7", None, 1.0, "SELECT $1", ("7",), ("aid = 7",))
    odd = [
        WorkloadQuery("o", "SELECT 7", None, 1.0, "SELECT $1", ("7",), (draw,))
        for draw in (f"x = 1\n\\shell touch {touched}", f"x 1\n\\! touch {touched}", "x = 1 \\")
    ]
    queries = [WorkloadQuery(f"h{n}", text) for n, text in enumerate(texts)]
    queries += [replace(query, id=f"o{n}") for n, query in enumerate(odd)]
    write(Workload("w", (drawn, *queries)), tmp_path / form, "pgbench")
    left_out = sum(said is None for said in texts.values()) + len(odd)
    assert len(caplog.messages) == left_out
    # Each sends its value into a table, which the server then has as it came.
    folder = tmp_path / form
    for file in [folder] if form == "w.sql" else folder.glob("*.sql"):
        text = file.read_bytes().decode()
        assert text.startswith("-- For a clone, never for the source")
        file.write_text(
            re.sub(r"^SELECT(?! CASE)", "INSERT INTO said SELECT", text, flags=re.M), newline=""
        )
        run_pgbench(clone, file.parent, ["-f", file.name], 1)
    with psycopg.connect(clone) as connection:
        found = [row[0] for row in connection.execute("SELECT v FROM said")]
    wanted = [
        "7",
        *(said.replace("{}", str(touched)) for said in texts.values() if said is not None),
    ]
    assert sorted(found) == sorted(wanted)
    assert not touched.exists()


@needs_pgbench
def test_pgbench_runs_what_is_written(make_database, tmp_path):
    clone = make_database(sql_of(__file__, "shop", step=7) + "CREATE TABLE log (v int);")
    one = WorkloadQuery(
        "one", "SELECT count(*) FROM orders WHERE id < 5", None, 3.0,
        "SELECT count(*) FROM orders WHERE id < $1", ("5",), ("most = random(1, 1000)",),
    )  # fmt: skip
    queries = (
        one,
        WorkloadQuery("two", "SELECT count(*) FROM items -- all", weight=1.0),
        WorkloadQuery("three", "INSERT INTO log VALUES (1)", weight=2.0),
    )
    write(Workload("w", queries, True), tmp_path / "w", "pgbench")
    mark(clone, "Mine\n")
    options = (tmp_path / "w" / "pgbench.opts").read_text().split()
    said = run_pgbench(clone, tmp_path / "w", options, 40)
    assert re.search(r"SQL script 1: one\.sql\n - weight: 3 ", said)
    (ran,) = re.findall(r"SQL script 3: three\.sql\n - weight: 2 .*\n - (\d+) transactions", said)
    with psycopg.connect(clone) as connection:
        assert connection.execute("SELECT count(*) FROM log").fetchone() == (int(ran),)


@needs_pgbench
@pytest.mark.parametrize("form", ["w", "w.sql"])
def test_scripts_that_write_do_so_in_a_clone_alone(form, make_database, tmp_path):
    """The scripts of two sessions, in pgbench and, if somebody takes it for that, in psql."""
    database = make_database("CREATE TABLE log (s int, n int)")
    texts = [
        *("BEGIN", "INSERT INTO log VALUES (1, 1)", "COMMIT"),
        "SELECT n FROM log WHERE s = 1 FOR UPDATE",
        "UPDATE log SET n = n + 1 WHERE s = 1",
        "INSERT INTO log SELECT 2, count(*) FROM log WHERE s = 2",
    ]
    names = ("s1", "s1#2", "s1#3", "s1#4", "s1#5", "s2")
    workload = Workload("w", tuple(map(WorkloadQuery, names, texts)))
    write(workload, tmp_path / form, "pgbench")
    files = [tmp_path / form] if form == "w.sql" else sorted((tmp_path / form).glob("*.sql"))
    if form == "w":
        assert read(tmp_path / form) == workload
    with psycopg.connect(database, autocommit=True) as connection:
        for file in files:
            run_pgbench(database, tmp_path, ["-f", file], 1, "no clone of privbench load")
            subprocess.run(["psql", "-f", file, database], capture_output=True, check=False)
        assert not connection.execute("SELECT * FROM log").fetchall()
        mark(database)
        for file in files:
            run_pgbench(database, tmp_path, ["-f", file], 3)
        found = connection.execute(
            "SELECT s, array_agg(n ORDER BY n) FROM log GROUP BY s"
        ).fetchall()
        assert sorted(found) == [(1, [2, 3, 4]), (2, [0, 1, 2])]


@pytest.mark.parametrize(
    ("template", "guarded"),
    [
        ("SELECT a FROM t WHERE a = $1", False),
        ("DELETE FROM t WHERE a = $1", True),
        ("SELECT a FROM t; DROP TABLE t -- $1", True),
    ],
)
def test_a_script_is_guarded_for_what_it_sends(template, guarded, tmp_path):
    """A stranger's workload may have a harmless text beside a template that writes."""
    text = "SELECT a FROM t WHERE a = 1"
    query = WorkloadQuery("q", text, template=template, parameters=("1",), draws=("x = 1",))
    write(Workload("w", (query,)), tmp_path / "w.sql", "pgbench")
    assert ("no clone of privbench load" in (tmp_path / "w.sql").read_text()) == guarded
