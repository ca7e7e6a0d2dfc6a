import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import psycopg
import pytest
from market import some_slow
from sql_files import TOWNS

from privbench.errors import ConnectionFailed, UsageError
from privbench.postgres import binaries, embedded


@pytest.fixture
def program():
    programs = embedded.embedded_programs() or embedded.machine_programs()
    if not programs:
        pytest.skip("no PostgreSQL server programs on this machine")
    return programs[0]


@pytest.fixture
def directory():
    # pytest's own temporary directories are closed to the account that runs the server.
    path = Path(tempfile.mkdtemp(prefix="pb-test-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_start_in_a_named_directory_keeps_its_data(program, directory):
    with embedded.start(program, directory) as server, psycopg.connect(server.dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS i")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.dsn)
    server.stop()
    with embedded.start(program, directory) as server, psycopg.connect(server.dsn) as connection:
        assert connection.execute("SELECT i FROM kept").fetchone() == (7,)
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)


def test_start_of_a_temporary_server_leaves_nothing_and_tells_what_is_wrong(program):
    with embedded.start(program) as server:
        directory = server.directory
        assert (directory / "data" / "PG_VERSION").exists()
    assert not directory.exists()
    # A setting that is wrong is told by the server s own words.
    with pytest.raises(ConnectionFailed, match="work_mem"):
        embedded.start(program, settings={"work_mem": "plenty"})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another account for the server")
def test_start_in_a_closed_directory_is_refused(program, directory):
    closed = directory / "closed"
    closed.mkdir(mode=0o700)
    directory.chmod(0o700)
    with pytest.raises(UsageError, match="cannot reach"):
        embedded.start(program, closed / "server")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another account for the server")
def test_start_of_closed_programs_copies_them(directory):
    programs = embedded.embedded_programs()
    if not programs:
        pytest.skip("the embedded PostgreSQL is not installed")
    package = programs[0].path.parents[2]
    home = directory / "packages"
    for name in (package.name, f"{package.name}.libs"):
        shutil.copytree(package.parent / name, home / name, symlinks=True)
    directory.chmod(0o700)
    hidden = home / programs[0].path.relative_to(package.parent)
    with embedded.start(binaries.Program(hidden, programs[0].major)) as server:
        assert str(server.program) != str(hidden)
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_any_server_without_one_names_the_extra(monkeypatch):
    monkeypatch.setattr(binaries, "package_directories", list)
    monkeypatch.setattr(binaries, "machine_directories", list)
    with pytest.raises(UsageError, match=r"privbench\[demo\]"):
        embedded.any_server()


def _gone(process):
    command = Path(f"/proc/{process}/cmdline")
    return not command.exists() or not command.read_bytes()


#: Commands that start a server, as programs that tell where its data are and wait.
STARTS = {
    "any server": "embedded.any_server()",
    "a named directory": "embedded.start(PROGRAM, DIRECTORY)",
    "nobody keeps it": "embedded.any_server().dsn; import gc; gc.collect()",
    "a child outlives it": "embedded.any_server(); import os, time; os.fork() or time.sleep(60)",
}


@pytest.mark.parametrize(
    ("how", "number"),
    some_slow(
        product(STARTS, [signal.SIGKILL, signal.SIGTERM, None]),
        [("a named directory", signal.SIGKILL), ("a child outlives it", None)],
    ),
)
def test_no_server_outlives_the_process_that_started_it(directory, program, how, number):
    code = f"""
import sys
from pathlib import Path
from privbench.postgres import binaries, embedded
PROGRAM = binaries.Program(Path({str(program.path)!r}), {program.major})
DIRECTORY = Path({str(directory)!r})
launch = embedded._launch
def watch(postgres, directory, settings):
    launch(postgres, directory, settings)
    print(directory, flush=True)
embedded._launch = watch
one = {STARTS[how]}
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    data = Path(process.stdout.readline().strip()) / "data"
    server = int((data / "postmaster.pid").read_text().split()[0])
    assert not _gone(server)
    if number is not None:
        process.send_signal(number)
    # A child that outlives it keeps the pipe, so its end is not waited for.
    process.stdin.close()
    process.wait(60)
    kept = how == "a named directory"
    _wait_for(lambda: _gone(server) and (kept or not data.parent.parent.exists()))
    assert data.exists() == kept


def _wait_for(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("nothing of the kind came about within a minute")


@pytest.mark.parametrize("words", [["demo", "--out", "out"]])
def test_a_killed_command_leaves_no_server_and_no_rows(make_database, directory, tmp_path, words):
    dsn = make_database(TOWNS)
    directory.chmod(0o755)
    (tmp_path / "c.toml").write_text("[privacy]\nepsilon = 3.2\n")
    words = [word.format(dsn=dsn) for word in words]
    process = subprocess.Popen(
        [sys.executable, "-m", "privbench", *words],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(directory)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _wait_for(lambda: process.poll() is not None or [*directory.glob("**/.s.PGSQL.5432")])
        (running,) = directory.glob("**/postmaster.pid")
        server = int(running.read_text().split()[0])
    finally:
        process.kill()
        process.communicate()
    _wait_for(lambda: _gone(server))
    _wait_for(lambda: not [*directory.iterdir()])
