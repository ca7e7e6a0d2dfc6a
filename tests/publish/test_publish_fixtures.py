"""Fixtures of pytest that give clones to tests."""

import os
import shutil
import signal
import subprocess
import time
import tomllib
from pathlib import Path

import pytest
from psycopg import conninfo

from privbench import testing

pytest_plugins = "pytester"

#: Tests of which none sees another's rows. The last one is told how to end.
ALONE = """
import os, signal, time
from pathlib import Path

import psycopg, pytest

def count(connection):
    return connection.execute("SELECT count(*) FROM region").fetchone()[0]

@pytest.mark.parametrize("number", range({tests}))
def test_alone(privbench_connection, number):
    before = count(privbench_connection)
    privbench_connection.execute("INSERT INTO region (code, title) VALUES ('zz', 'new')")
    privbench_connection.commit()
    assert count(privbench_connection) == before + 1

def test_shared(privbench_shared_dsn, privbench_server, privbench_dsn):
    with psycopg.connect(privbench_shared_dsn, autocommit=True) as connection:
        for undo in "SELECT", "SET default_transaction_read_only = off":
            connection.execute(undo)
            for change in "DELETE FROM region", "TRUNCATE line", "ALTER TABLE region ADD x int":
                with pytest.raises(psycopg.Error, match="read-only|denied|owner"):
                    connection.execute(change)
        with psycopg.connect(privbench_dsn) as own:
            assert count(connection) == count(own)
    servers = {{psycopg.conninfo.conninfo_to_dict(uri)["port"] for uri in
               (privbench_shared_dsn, privbench_server, privbench_dsn)}}
    with open("servers", "a") as file:
        print(*servers, os.getpid(), file=file)

@pytest.mark.privbench(scale=2)
def test_another_clone(privbench_connection, privbench_server):
    with psycopg.connect(privbench_server) as connection:
        assert connection.info.port != privbench_connection.info.port

def test_last(privbench_connection):
    end = "{end}"
    assert end != "failure"
    if end == "worker" and not os.path.exists("killed"):
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if end in ("SIGINT", "SIGKILL"):
        Path("waiting").touch()
        time.sleep(600)
"""
UNUSED = """
import sys

def test_unused():
    ours = {name for name in sys.modules if name.partition(".")[0] == "privbench"}
    assert ours == {"privbench", "privbench.testing"}
    assert not {"numpy", "scipy", "sqlalchemy", "psycopg", "pyarrow"} & {*sys.modules}
"""


@pytest.fixture
def tested(spawn, tmp_path):
    """``tested(text, *words)``: pytest, in a process of its own, of a file with that text."""

    def run(text: str, *words: object) -> subprocess.Popen[str]:
        (tmp_path / "test_it.py").write_text(text)
        (tmp_path / "pytest.ini").touch()
        options = {"cwd": tmp_path, "stderr": subprocess.STDOUT}
        return spawn("pytest", "-p", "privbench.testing", "test_it.py", *words, **options)

    return run


def test_the_plugin_imports_nothing_until_a_fixture_is_asked_for(tested):
    about = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    (module,) = about["project"]["entry-points"]["pytest11"].values()
    assert module == testing.__name__
    for words in (), ("-n", "1"):
        process = tested(UNUSED, *words)
        assert process.wait() == 0, process.stdout.read()


def test_a_model_that_is_missing_is_a_usage_error(pytester):
    text = "def test(privbench_shared_dsn, privbench_connection): pass"
    pytester.makepyfile(text)
    for words, code, said in (
        ((), 4, "--privbench-model"),
        (("--collect-only",), 0, ""),
        (("--privbench-model", "none"), 4, "there is no model"),
    ):
        done = pytester.runpytest_inprocess("-p", "privbench.testing", *words)
        assert (done.ret, said in done.stderr.str()) == (code, True)
    pytester.makepyfile(
        "import pytest\n@pytest.mark.privbench(model='marked')\ndef test(privbench_dsn): pass"
    )
    done = pytester.runpytest_inprocess("-p", "privbench.testing", "--strict-markers")
    assert "there is no model" in done.stderr.str()
    assert str(pytester.path / "marked") in done.stderr.str()


def ended(end: str, code: int, workers: int = 4, tests: int = 100) -> object:
    marks = [pytest.mark.slow, pytest.mark.timeout(1800)] if workers else []
    return pytest.param(end, code, workers, tests, marks=marks, id=f"{end}-{workers}")


@pytest.mark.parametrize(
    ("end", "code", "workers", "tests"),
    [
        ended("success", 0, 0, 2),
        ended("success", 0),
        ended("failure", 1, tests=9),
        ended("SIGINT", 2, tests=9),
        ended("SIGKILL", -9, tests=9),
        ended("worker", 1, tests=9),
    ],
)
def test_tests_have_databases_of_their_own(tested, model, tmp_path, end, code, workers, tests):
    shutil.copy(model, tmp_path / "shop.privbench")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nprivbench_model = shop.privbench\nprivbench_on = embedded"
    )
    words = ("-n", workers) if workers else ("-k", "not another")
    process = tested(ALONE.format(tests=tests, end=end), "-v", *words)
    if end.startswith("SIG"):
        while not {"waiting", "servers"} <= {path.name for path in tmp_path.iterdir()}:
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.1)
        os.kill(process.pid, signal.Signals[end])
    printed, _ = process.communicate()
    assert process.returncode == code, printed
    assert printed.count("test_alone") >= tests
    assert "test_alone" not in printed.partition("short test summary")[2]
    servers = {line.split()[0] for line in (tmp_path / "servers").read_text().splitlines()}
    assert len(servers) == 1


@pytest.mark.slow
def test_functions_load_where_others_have_made_a_database(model, make_database):
    dsn = conninfo.conninfo_to_dict(make_database())
    testing.loader(model, scale=0.5)(**dsn, password=None)
    url = f"postgresql+psycopg://{dsn['user']}@/{{}}?host={dsn['host']}"
    other = conninfo.conninfo_to_dict(make_database())
    assert testing.load(model, url.format(other["dbname"]), seed=1).rows["public.region"] > 0
