"""Code of a source's owner never runs with the rights of the role that the tool has."""

import json
import os
import signal
import threading

import market
import pytest
from market import succeed
from psycopg import conninfo
from sql_files import TOWNS, cases, sql_of

from privbench.errors import DatabaseError, SchemaError
from privbench.pgsql import statements
from privbench.postgres.introspect import introspect
from privbench.postgres.snapshot import Snapshot

OWNER = "mallory"
#: What a function of the owner's does when it is called: it fails, and the server's log tells it.
BODY = "LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'EVIL RAN'; END $$;"

#: The database's search path and the name of an attack, and what the owner makes for it.
ATTACKS = {said: text.replace("$BODY", BODY) for said, text in cases(__file__, "source")}


@pytest.fixture(autouse=True)
def nothing_ran(server):
    """The server's log tells of no function of the owner's, but for the server's own ANALYZE."""
    if server.directory is None:
        yield
        return
    log = server.directory / "log"
    start = log.stat().st_size
    yield
    lines = log.read_bytes()[start:].decode(errors="replace").split("\n")
    ran = [
        "\n".join(lines[place : place + 4])
        for place, line in enumerate(lines)
        if "ERROR:  EVIL RAN" in line
    ]
    assert [entry for entry in ran if "automatic analyze" not in entry] == []


@pytest.fixture
def hostile(make_database):
    """``hostile(path, *attacks)``: DSN, for a superuser, of a database that its owner has prepared.

    With several attacks, whatever runs is named by the server's log.
    """

    def make(path, *attacks):
        dsn = make_database()
        name = conninfo.conninfo_to_dict(dsn)["dbname"]
        market.execute(
            dsn,
            f"DO $$ BEGIN CREATE ROLE {OWNER} LOGIN; EXCEPTION WHEN duplicate_object THEN END $$",
            f"ALTER DATABASE {name} OWNER TO {OWNER}",
        )
        market.execute(
            conninfo.make_conninfo(dsn, user=OWNER),
            TOWNS,
            *(attack.replace("{database}", str(name)) for attack in attacks),
            f"ALTER DATABASE {name} SET search_path = {path}",
        )
        return dsn

    return make


PATHS = sorted({said.split(": ")[0] for said in ATTACKS})


@pytest.mark.parametrize(
    "path", [PATHS[0], *(pytest.param(path, marks=pytest.mark.slow) for path in PATHS[1:])]
)
def test_commands_run_nothing(path, hostile, tmp_path):
    made = [text for said, text in ATTACKS.items() if said.startswith(f"{path}: ")]
    source, other = hostile(path, *made), hostile(path, *made)
    config, model = tmp_path / "c.toml", tmp_path / "m.pbm"
    workload = tmp_path / "w.json"
    succeed("inspect", source, "-o", config)
    succeed("check", config, source)
    succeed("plan", config, source, "--epsilon", 4)
    fit = ("fit", source, "-c", config, "--epsilon", 4, "--synthesizer", "independent")
    succeed(*fit, "-o", model, "--ledger", tmp_path / "l")
    succeed("workload", "generate", source, "-o", workload, "--queries", 6)
    # Judged, the workload would not run at all: its functions and operators have namesakes here.
    bold = ("--repeats", 1, "--trust-workload")
    succeed("run", workload, "--on", source, "-o", tmp_path / "a.json", "--explain", *bold)
    succeed("compare", source, other, "-o", tmp_path / "r", "-w", workload, *bold)
    assert len(json.loads(workload.read_text())["queries"]) == 6


IMPLICIT = f"""
CREATE TYPE public.mood AS ENUM ('sad', 'glad');
CREATE FUNCTION public.f(public.mood) RETURNS text {BODY}
CREATE CAST (public.mood AS text) WITH FUNCTION public.f(public.mood) AS IMPLICIT;
ALTER TABLE person ADD COLUMN mood public.mood DEFAULT 'glad';
"""


@pytest.mark.parametrize("command", [["inspect"], ["fit", "--epsilon", "4", "--yes", "-o", "m"]])
def test_inspect_of_an_implicit_cast_is_refused(command, make_database, tmp_path):
    """``mood = 'glad'`` would call it, with pg_catalog alone in the path."""
    dsn = make_database(statements=TOWNS + IMPLICIT)
    words = [str(tmp_path / "m") if word == "m" else word for word in command[1:]]
    market.fail(2, ("public.person", "mood", "implicit cast"), command[0], dsn, *words)


@pytest.mark.parametrize("swap", sql_of(__file__, "swapped").splitlines())
def test_hold_of_a_swapped_table_is_refused(swap, make_database):
    """One that is replaced between the look at the catalog and the reading."""
    dsn = make_database(
        f"""{TOWNS} CREATE FUNCTION public.f() RETURNS integer {BODY}
        CREATE VIEW ready AS SELECT public.f() AS id;
        CREATE TYPE public.mood AS ENUM ('sad', 'glad');
        CREATE FUNCTION public.f(public.mood) RETURNS text {BODY}
        CREATE CAST (public.mood AS text) WITH FUNCTION public.f(public.mood);"""
    )
    with Snapshot(dsn) as snapshot:
        schema = introspect(snapshot.connection)
        market.execute(dsn, swap)
        with pytest.raises((DatabaseError, SchemaError), match=r"changed|any more"):
            snapshot.hold(schema)


#: Autovacuum would run the functions too, but as the table's owner.
ONE = """ALTER TABLE person SET (autovacuum_enabled = off);
CREATE FUNCTION public.f(integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT 1';"""
EVIL = f"CREATE OR REPLACE FUNCTION public.f(integer) RETURNS integer IMMUTABLE {BODY}"
COMPUTED = dict(cases(__file__, "computed"))


@pytest.mark.parametrize("attack", COMPUTED)
def test_commands_of_computed_functions_are_refused(attack, hostile, tmp_path):
    """Constant parts of expressions are judged before a row of the table is read."""
    source, config = hostile("public", ONE + COMPUTED[attack] + EVIL), tmp_path / "c.toml"
    succeed("inspect", source, "-o", config)
    model = ["-o", tmp_path / "m", "--ledger", tmp_path / "l"]
    for words in (
        ["check", config, source],
        ["plan", config, source, "--epsilon", 4],
        ["fit", source, "-c", config, "--epsilon", 4, *model],
        ["workload", "generate", source, "-o", tmp_path / "w.json", "--queries", 6],
    ):
        market.fail(2, "reading it would call a user-defined function", *words)
    assert not (tmp_path / "l").exists()


def test_fit_computes_no_check_of_the_owner(hostile, tmp_path):
    """Even if ``constraint_exclusion`` is set for the database."""
    made = (
        "ALTER TABLE person ADD CHECK (age IS NOT NULL OR public.f(1) > 5) NOT VALID;"
        "ALTER DATABASE {database} SET constraint_exclusion = on;"
    )
    source, config = hostile("public", ONE + made + EVIL), tmp_path / "c.toml"
    succeed("inspect", source, "-o", config)
    files = ["-o", tmp_path / "m", "--ledger", tmp_path / "l"]
    quick = ("--epsilon", 4, "--synthesizer", "independent")
    succeed("fit", source, "-c", config, *quick, *files)
    succeed("workload", "generate", source, "-o", tmp_path / "w.json", "--queries", 6)


def test_statements_in_a_fork_beside_a_parsing_thread_work():
    """A forked process begins with a parser of its own."""
    thread = threading.Thread(target=statements, args=["SELECT 1;" * 15_000])
    thread.start()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        os._exit(0 if statements("SELECT 2")[0].text == "SELECT 2" else 1)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
