"""A streaming standby as source: everything that reads works; what recovery stops is named."""

import shutil
import tempfile
import time
from pathlib import Path

import psycopg
import pytest
from market import execute, fail, succeed
from psycopg import sql
from sql_files import TOWNS

from privbench.errors import DatabaseError
from privbench.postgres import embedded
from privbench.postgres.introspect import introspect
from privbench.postgres.snapshot import Snapshot

PROGRAMS = [p for p in embedded.machine_programs() if (p.path.parent / "pg_basebackup").exists()]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAMS, reason="no server programs with pg_basebackup"),
]


@pytest.fixture(scope="module")
def pair():
    """DSNs of a primary's database and of the same on its standby."""
    with embedded.start(PROGRAMS[0], settings={"wal_level": "replica"}) as primary:
        execute(primary.dsn, TOWNS)
        folder = Path(tempfile.mkdtemp(prefix="pb-standby-"))
        embedded.own(folder)
        copy = [PROGRAMS[0].path.parent / "pg_basebackup", "-d", primary.dsn, "-R", "-c", "fast"]
        embedded._run([*copy, "-D", folder / "data"], "pg_basebackup")
        # What recovery needs is taken from readers at once.
        standby = embedded.start(
            PROGRAMS[0], folder, settings={"hot_standby": "on", "max_standby_streaming_delay": "0"}
        )
        yield primary.dsn, standby.dsn
        standby.stop()
        shutil.rmtree(folder, ignore_errors=True)


def caught_up(pair):
    with (
        psycopg.connect(pair[0], autocommit=True) as one,
        psycopg.connect(pair[1], autocommit=True) as other,
    ):
        until = one.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        while not other.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", until).fetchone()[
            0
        ]:
            time.sleep(0.05)


def test_what_reads_takes_a_standby(pair, make_database, tmp_path):
    _, standby = pair
    target, workload = make_database(), tmp_path / "w.json"
    for words in (
        ["inspect", standby],
        ["clone", standby, target, "--epsilon", 5, "--yes", "-j", 2, "--ledger", tmp_path],
        ["workload", "generate", standby, "-o", workload, "--queries", 3],
        ["run", workload, "--on", standby, "-o", tmp_path / "r.json", "--explain"],
        ["compare", standby, target, "-w", workload, "-o", tmp_path / "r", "--repeats", 1],
    ):
        succeed(*words)


def test_a_standby_is_no_target(pair, make_database, tmp_path):
    primary, standby = pair
    words = ("--epsilon", 5, "--yes", "--ledger", tmp_path)
    with psycopg.connect(make_database(), autocommit=True) as other:
        other.execute("CREATE TABLE t (id integer PRIMARY KEY)")
        said = "a standby. Name its primary."
        fail(3, said, "clone", other.info.dsn, standby, *words, "--replace")
    for source, target in ((primary, standby), (standby, primary)):
        fail(3, "the source database itself", "clone", source, target, *words, "--replace")


def test_a_reading_that_recovery_breaks_off_says_what_to_set(pair):
    primary, standby = pair
    with Snapshot(standby) as snapshot:
        table = introspect(snapshot.connection).table("person")
        execute(primary, "UPDATE person SET town = 1", "VACUUM person")
        caught_up(pair)
        with pytest.raises(DatabaseError, match="hot_standby_feedback = on"):
            snapshot.read(table, [(sql.Identifier("id"), "id")])
