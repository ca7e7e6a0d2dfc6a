import os
import shutil
import tempfile
from pathlib import Path

import psycopg
import pytest

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


def test_lifeline_that_ends_stops_the_server_and_removes_all(program):
    lifeline = embedded.Lifeline()
    server = embedded.start(program, home=lifeline.folder)
    process = int((server.directory / "data" / "postmaster.pid").read_text().split()[0])
    lifeline.end()
    assert not lifeline.folder.exists()
    command = Path(f"/proc/{process}/cmdline")
    assert not command.exists() or not command.read_bytes()
