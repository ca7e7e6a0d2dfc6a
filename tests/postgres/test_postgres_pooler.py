"""Behind PgBouncer in transaction mode: what reads works, and leaves sessions as they were."""

import os
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from market import succeed
from plans import free_port
from psycopg import conninfo
from sql_files import TOWNS

from privbench.postgres.connect import same_database
from privbench.postgres.reading import reading

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is not installed")
#: Server sessions of the pool: what a comparison holds at once.
SESSIONS = 6


def _account(host):
    """PgBouncer does not run as root; the server's own account reaches its socket."""
    if os.geteuid() != 0:
        return []
    return ["-u", Path(host).owner() if host.startswith("/") else "nobody"]


@pytest.fixture
def pooled(make_database, tmp_path):
    """DSN through a pool in transaction mode; the database's tables are there already."""
    dsn = make_database(TOWNS)
    parts = conninfo.conninfo_to_dict(dsn)
    port = free_port()
    user = parts.get("user", "postgres")
    place = f"host={parts['host']} port={parts.get('port', 5432)} user={user}"
    folder = Path("/tmp") / f"pb-pool-{port}"
    folder.mkdir(mode=0o755)
    settings = folder / "ini"
    settings.write_text(
        f"[databases]\n* = {place} pool_size={SESSIONS}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n"
        "server_reset_query =\nquery_wait_timeout = 20\n"
    )
    process = subprocess.Popen(
        [str(PGBOUNCER), "-q", *_account(str(parts["host"])), str(settings)],
        stderr=subprocess.DEVNULL,
    )
    found = f"host=127.0.0.1 port={port} user={user} dbname={parts['dbname']}"
    try:
        for _ in range(100):
            try:
                psycopg.connect(found).close()
                break
            except psycopg.OperationalError:
                time.sleep(0.1)
        yield found
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def _sessions_are_clean(dsn):
    """Other clients, as many at once as the pool has sessions, so that each is looked at."""
    with ExitStack() as stack:
        for number in range(SESSIONS):
            client = stack.enter_context(psycopg.connect(dsn, prepare_threshold=None))
            client.execute(f"CREATE TABLE mark{number} (i integer)")
            shown = {
                name: client.execute(f"SHOW {name}").fetchone()[0]
                for name in ("statement_timeout", "search_path", "row_security", "work_mem")
            }
            assert shown == {
                "statement_timeout": "0",
                "search_path": '"$user", public',
                "row_security": "on",
                "work_mem": "4MB",
            }
            held = client.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
            assert held.fetchone() == (0,)
            prepared = client.execute("SELECT count(*) FROM pg_prepared_statements")
            assert prepared.fetchone() == (0,)
            stack.callback(client.rollback)


def test_commands_that_read_leave_the_pool_as_it_was(pooled, tmp_path):
    workload, failing = tmp_path / "w.sql", tmp_path / "f.sql"
    workload.write_text("SELECT count(*) FROM person, town WHERE person.town = town.id;\n")
    failing.write_text("SELECT count(*) FROM person;\nSELECT 1 / (id - id) FROM person;\n")
    for words in (
        ["inspect", pooled],
        ["workload", "generate", pooled, "-o", tmp_path / "g.json", "--queries", 3],
        ["run", workload, "--on", pooled, "-o", tmp_path / "a.json", "--explain"],
        ["run", failing, "--on", pooled, "-o", tmp_path / "b.json"],
        ["compare", pooled, pooled, "-o", tmp_path / "r", "-w", workload, "--no-floor"],
    ):
        succeed(*words)
        _sessions_are_clean(pooled)
    # Two pooled connections are told to be one database.
    with reading(pooled) as one, reading(pooled) as two:
        assert same_database(one, two)
    _sessions_are_clean(pooled)
