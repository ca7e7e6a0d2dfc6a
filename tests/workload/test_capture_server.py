"""From a server that ran queries to a workload that replays on a clone."""

import re
import subprocess
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from market import execute, succeed
from psycopg import conninfo, sql
from sql_files import sql_of

from privbench import pipeline
from privbench.errors import AccessDenied, DatabaseError, UsageError
from privbench.postgres import binaries, embedded
from privbench.postgres.binaries import Program
from privbench.postgres.embedded import FAST, Server
from privbench.workload import read, write

LOGGING = {
    "shared_preload_libraries": "pg_stat_statements,auto_explain",
    "logging_collector": "on",
    "log_destination": "stderr,csvlog,jsonlog",
    "log_filename": "served",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "log_min_duration_statement": "0",
}
# What only a user of production would write: none of it may be in the re-bound workload.
CANARY_NUMBER, CANARY_TEXT = 98_766, "xyzzy canary"
QUICK = ("--synthesizer", "independent")
OWN = sql_of(__file__, "traffic", number=CANARY_NUMBER, text=CANARY_TEXT)
PLANNED = "SELECT bbalance\nFROM pgbench_branches WHERE bid = {} AND '{}' = 'a' || bid::text"


def _with_extension() -> Program | None:
    for program in embedded.machine_programs():
        settings = program.path.parent / "pg_config"
        if settings.exists():
            shown = subprocess.run([settings, "--sharedir"], capture_output=True, text=True)
            folder = Path(shown.stdout.strip()) / "extension"
            if (folder / "pg_stat_statements.control").exists():
                return program
    return None


@pytest.fixture(scope="module")
def observed():
    """A server that counts and logs its statements."""
    program = _with_extension()
    if program is None:
        pytest.skip("no PostgreSQL of this machine comes with pg_stat_statements")
    with embedded.start(program, settings={**FAST, **LOGGING}) as server:
        yield server


def _database(server: Server, name: str) -> str:
    execute(server.dsn, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return conninfo.make_conninfo(server.dsn, dbname=name)


def _pgbench(dsn: str, *options: str) -> None:
    found = binaries.find(
        "pgbench", [*binaries.machine_directories(), *binaries.package_directories()]
    )
    subprocess.run([found[0].path, *options, dsn], check=True, capture_output=True, timeout=200)


@pytest.fixture(scope="module")
def bank(observed):
    """DSN of pgbench's database after some traffic."""
    dsn = _database(observed, "bank")
    execute(dsn, "CREATE EXTENSION pg_stat_statements")
    _pgbench(dsn, "-i", "-s", "1", "--foreign-keys", "-q")
    _pgbench(dsn, "-S", "-t", "40", "-n", "-M", "extended")
    _pgbench(dsn, "-t", "20", "-n")
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in OWN.strip().split(";\n"):
            connection.execute(statement.encode())
        # Of these auto_explain alone tells.
        connection.execute("SET log_min_duration_statement = -1")
        connection.execute("SET auto_explain.log_min_duration = 0")
        for form in ("text", "json"):
            connection.execute(f"SET auto_explain.log_format = {form}")
            for number in (1, 2, 3):
                connection.execute(PLANNED.format(number, form).encode())
        connection.execute("SET auto_explain.log_min_duration = -1")
        # A few thousand accounts of all the range are enough to be cloned.
        connection.execute(
            "DELETE FROM pgbench_accounts WHERE aid % 25 > 0"
            " AND aid NOT IN (SELECT aid FROM pgbench_history)"
        )
    return dsn


@pytest.fixture(scope="module")
def bank_clone(observed, bank, tmp_path_factory):
    """DSN of a clone of it."""
    dsn = _database(observed, "bank_clone")
    ledger = tmp_path_factory.mktemp("ledger")
    succeed("clone", bank, dsn, "--epsilon", 5, "--yes", "--seed", 1, "--ledger", ledger, *QUICK)
    return dsn


def test_what_commands_read_of_a_source_is_no_part_of_its_workload(bank, bank_clone, tmp_path):
    def captured() -> set[str]:
        return {query.sql for query in pipeline.capture(bank).workload}

    before, workload = captured(), tmp_path / "asked.json"
    succeed("workload", "generate", bank, "-o", workload, "--queries", 3, "--joins", "0-1")
    queries = {query.sql for query in read(workload)}
    compare = ("compare", bank, bank_clone, "-w", workload, "-o", tmp_path)
    succeed(*compare, "--repeats", 1, "--no-floor")
    # The replayed queries themselves are a workload, with $n in place of their literals.
    words = {re.split(r"'|-?\b\d", query)[0] for query in queries}
    assert words
    assert {text for text in captured() - before if not text.startswith(tuple(words))} == set()


@pytest.mark.parametrize("form", ["served", "served.csv", "served.json"])
def test_every_log_form_tells_of_the_same_queries(observed, bank, bank_clone, form, tmp_path):
    log = observed.directory / "data" / "log" / form
    found = pipeline.capture(logs=[log], database="bank", samples=3)
    by_text = {q.template or q.sql: q for q in found.workload}
    lookups = [q for text, q in by_text.items() if "abalance FROM pgbench_accounts" in text]
    assert sum(q.weight for q in found.workload if "abalance FROM pgbench_accounts" in q.sql) >= 60
    assert lookups
    assert any(q.parameters for q in found.workload)
    assert any(CANARY_TEXT in q.sql for q in found.workload)
    assert any(why.startswith("it is not a query but ") for why in found.skipped)
    assert found.skipped["it is a parse or bind step, not a run"] >= 40
    assert sum(q.weight for q in found.workload if q.sql.startswith("SELECT bbalance\nFROM")) == 6

    path = tmp_path / "captured.json"
    write(found.workload, path, "native")
    bound = pipeline.rebind(path, on=bank_clone)
    assert not bound.left_out
    for query in bound.workload:
        for secret in (CANARY_TEXT, str(CANARY_NUMBER), "40001"):
            assert secret not in query.sql


def test_sessions_run_in_order_on_the_clone_and_write_nothing_to_the_source(
    observed, bank, bank_clone, tmp_path, monkeypatch
):
    logs = observed.directory / "data" / "log"
    plain, table, objects = (
        pipeline.capture(logs=[logs / form], database="bank", sessions=True, writes=True).workload
        for form in ("served", "served.csv", "served.json")
    )
    assert table.queries == objects.queries
    sessions: dict[str, list[str]] = {}
    for query in table:
        sessions.setdefault(query.id.partition("#")[0], []).append(query.sql)
    ((name, texts),) = (item for item in sessions.items() if "INTO pgbench_history" in str(item))
    words = "BEGIN UPDATE SELECT UPDATE UPDATE INSERT END".split()
    assert [text.split()[0].strip(";") for text in texts] == words * 20
    assert texts == [query.sql for query in plain if query.id.partition("#")[0] == name]

    write(table, tmp_path / "w.json", "native")
    succeed("workload", "convert", tmp_path / "w.json", tmp_path / "mix", "--to", "pgbench")
    # Keys of the source may be missing in the clone.
    monkeypatch.setenv("PGOPTIONS", "-c session_replication_role=replica")
    for dsn, more in ((bank, 0), (bank_clone, 40)):
        with psycopg.connect(dsn, autocommit=True) as connection:
            (before,) = connection.execute("SELECT count(*) FROM pgbench_history").fetchone()
            with suppress(subprocess.CalledProcessError):
                _pgbench(dsn, "-n", "-t", "2", "-f", str(tmp_path / "mix" / f"{name}.sql"))
            (after,) = connection.execute("SELECT count(*) FROM pgbench_history").fetchone()
        assert after == before + more


def test_it_says_what_is_missing(observed, bank):
    bare = _database(observed, "bare")
    with pytest.raises(UsageError, match="CREATE EXTENSION pg_stat_statements"):
        pipeline.capture(bare)
    execute(bare, "CREATE EXTENSION pg_stat_statements", "CREATE ROLE nosy LOGIN")
    with pytest.raises(UsageError, match="holds no query of this database"):
        pipeline.capture(bare)
    with pytest.raises(AccessDenied, match="GRANT pg_read_all_stats TO nosy"):
        pipeline.capture(conninfo.make_conninfo(bank, user="nosy"))


def test_it_says_that_the_library_is_not_loaded(request, make_database_on):
    program = _with_extension()
    if program is None:
        pytest.skip("no PostgreSQL of this machine comes with pg_stat_statements")
    server = request.getfixturevalue("_pool").get(f"machine's {program.major}")
    dsn = make_database_on(server, "unloaded")
    execute(dsn, "CREATE EXTENSION pg_stat_statements")
    with pytest.raises(DatabaseError, match="shared_preload_libraries"):
        pipeline.capture(dsn)
