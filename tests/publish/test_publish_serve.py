"""A throwaway server with a clone in it, as a process of its own."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from privbench import publish, testing
from privbench.errors import UsageError
from privbench.publish import serving

#: What a command finds: it prints how many databases and customers it sees, and ends with 7.
LOOK = """
import os, sys, psycopg
names = "PGHOST PGPORT PGUSER PGPASSWORD PGDATABASE".split()
assert {*names} == {name for name in os.environ if name.startswith("PG")}
with psycopg.connect("") as one, psycopg.connect(os.environ["DATABASE_URL"]) as other:
    assert one.info.get_parameters() == other.info.get_parameters()
    print(*one.execute("SELECT md5(string_agg(c::text, '' ORDER BY c)) FROM customer c").fetchone())
sys.exit(7)
"""


@pytest.fixture
def place():
    """A folder for servers, which the account that runs them can reach; empty in the end."""
    folder = Path(tempfile.mkdtemp(prefix="pb-test-"))
    folder.chmod(0o755)
    yield folder
    for _ in range(600):
        if not [*folder.iterdir()]:
            break
        time.sleep(0.1)
    left = [*folder.iterdir()]
    shutil.rmtree(folder)
    assert not left


@pytest.fixture
def started(place, tmp_path):
    """``started(*words, cache="cache")``: a process of ``privbench serve``."""
    processes = []

    def start(*words: object, cache: str = "cache") -> subprocess.Popen[str]:
        more = {"TMPDIR": str(place), "XDG_CACHE_HOME": str(tmp_path / cache), "PGSERVICE": "no"}
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "privbench", "serve", *map(str, words)],
                env={**os.environ, **more},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def ask(uri: str, query: str, **other: str) -> list[tuple[object, ...]]:
    """The rows of a query, asked with other parameters than those of the URI."""
    dsn = conninfo.make_conninfo(uri, **other)
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(query).fetchall()


def test_a_clone_is_served_with_a_password_and_again_from_the_cache(
    model, started, place, tmp_path
):
    process = started(model)
    uri = process.stdout.readline().strip()
    rows = "SELECT rolsuper, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = current_user"
    assert ask(uri, rows) == [(False, False, True)]
    assert ask(uri, "SHOW listen_addresses") == [("127.0.0.1",)]
    assert ask(uri, "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'") == [
        (serving.OWNER,)
    ]
    (shared,) = ask(uri, "SELECT md5(string_agg(c::text, '' ORDER BY c)) FROM customer c")
    for wrong in ({"password": "no"}, {"user": "postgres"}):
        with pytest.raises(psycopg.OperationalError, match=r"authentication failed|rejects"):
            ask(uri, "SELECT 1", **wrong)
    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        ask(f"postgresql://{serving.OWNER}@{uri.partition('@')[2]}", "SELECT 1")
    process.kill()
    assert process.communicate()[0] == ""
    (entry,) = (tmp_path / "cache/privbench/serve").glob("*[!k]")
    assert (entry.parent.stat().st_mode & 0o777, entry.suffix) == (0o700, "")
    again = started(model, "--", sys.executable, "-c", LOOK)
    out, err = again.communicate()
    assert (again.returncode, out.split()) == (7, [*shared]), err
    assert "sample" not in err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_well(model, started, number):
    process = started(model)
    assert process.stdout.readline()
    process.send_signal(number)
    assert process.communicate()[0] == ""
    assert process.returncode == 0


@pytest.mark.slow
def test_a_bundle_is_served_and_a_damaged_one_refused(bundle, started):
    process = started(bundle, "--", sys.executable, "-c", LOOK)
    out, err = process.communicate()
    assert (process.returncode, len(out.split())) == (7, 1), err
    assert started(bundle, "--scale", "2").wait() == 2
    (script := bundle.parent / "script").touch(0o700)  # of no format that the system runs
    process = started(bundle, "--", script)
    assert (process.wait(), "cannot be run" in process.stderr.read()) == (2, True)
    next(bundle.rglob("*.csv")).write_text("no")
    damaged = started(bundle, cache="other")
    assert (damaged.wait(), "damaged" in damaged.stderr.read()) == (1, True)


@pytest.mark.slow
def test_of_two_that_start_at_once_one_makes_it(model, started):
    with ThreadPoolExecutor() as pool:
        both = [started(model, "--seed", "1", "--", "true") for _ in range(2)]
        said = [err for _, err in pool.map(lambda process: process.communicate(), both)]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted("sample" in err for err in said) == [False, True]


def test_the_cache_drops_what_was_not_used_for_longest(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "privbench/serve"
    for age, name in enumerate(("new", "old", "used", "older.part")):
        (folder / name).mkdir(parents=True)
        (folder / name / "data").write_bytes(bytes(100))
        os.utime(folder / name, (0, 1000 - age))
    with serving._lock("used"):
        assert serving.prune(250) == 200
        assert {item.name for item in folder.iterdir() if item.is_dir()} == {"new", "used"}
        assert serving.prune() == 100
    with contextlib.suppress(FileNotFoundError):
        assert serving.prune() == 100


def test_a_model_that_changes_meanwhile_is_refused_and_nothing_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PGHOSTADDR", "::2")
    (model := tmp_path / "m.privbench").write_text("old")
    copied = serving._copy

    def replaced(folder, into):
        model.write_text("new")
        copied(folder, into)

    monkeypatch.setattr(serving, "_copy", replaced)
    with pytest.raises(UsageError, match="changed meanwhile"), publish.serve(model):
        pass
    assert {path.suffix for path in (tmp_path / "privbench/serve").iterdir()} == {".lock"}
    assert os.environ["PGHOSTADDR"] == "::2"


def test_a_cache_of_another_account_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    serving.prune()
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(UsageError, match="another account"):
        serving.prune()


def test_what_cannot_be_served_is_a_usage_error(started, tmp_path):
    for words in ((), (tmp_path / "none",), (tmp_path / "none", "--", "no such command")):
        assert started(*words).wait() == 2


#: Tests of which none sees another's rows.
PLUGIN = """
import pytest

def count(connection):
    return connection.execute("SELECT count(*) FROM region").fetchone()[0]

@pytest.mark.parametrize("number", range({tests}))
def test_alone(privbench_connection, number):
    before = count(privbench_connection)
    privbench_connection.execute("INSERT INTO region (code, title) VALUES ('zz', 'new')")
    privbench_connection.commit()
    assert count(privbench_connection) == before + 1
"""
UNUSED = """
import sys

def test_unused():
    ours = {name for name in sys.modules if name.partition(".")[0] == "privbench"}
    assert ours == {"privbench", "privbench.testing"}
    assert not {"numpy", "scipy", "sqlalchemy", "psycopg", "pyarrow"} & {*sys.modules}
"""


@pytest.fixture
def tested(tmp_path, place):
    """``tested(text, *words)``: pytest, in a process of its own, of a file with that text."""

    def run(text: str, *words: object) -> subprocess.CompletedProcess[str]:
        (tmp_path / "test_it.py").write_text(text)
        (tmp_path / "pytest.ini").touch()
        more = {"TMPDIR": str(place), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        more |= {"PYTEST_DEBUG_TEMPROOT": str(tmp_path), "PGHOSTADDR": "::2", "PGSERVICE": "no"}
        command = [sys.executable, "-m", "pytest", "-p", "privbench.testing", "test_it.py"]
        return subprocess.run(
            [*command, *map(str, words)],
            cwd=tmp_path,
            env={**os.environ, **more},
            capture_output=True,
            text=True,
        )

    return run


def test_the_plugin_imports_nothing_until_a_fixture_is_asked_for(tested):
    about = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    (module,) = about["project"]["entry-points"]["pytest11"].values()
    assert module == testing.__name__
    done = tested(UNUSED)
    assert done.returncode == 0, done.stdout
    done = tested(PLUGIN.format(tests=1))
    assert (done.returncode, "--privbench-model" in done.stderr) == (4, True)
    assert tested(PLUGIN.format(tests=1), "--collect-only").returncode == 0
    done = tested(PLUGIN.format(tests=1), "--privbench-model", "none")
    assert (done.returncode, "there is no model" in done.stderr) == (4, True)


@pytest.mark.parametrize(
    ("tests", "words"),
    [(2, ()), pytest.param(100, ("-n", "4"), marks=pytest.mark.slow)],
)
def test_tests_have_databases_of_their_own(tested, model, tmp_path, tests, words):
    shutil.copy(model, tmp_path / "shop.privbench")
    (tmp_path / "pytest.ini").write_text("[pytest]\nprivbench_model = shop.privbench\n")
    done = tested(PLUGIN.format(tests=tests), *words)
    assert (done.returncode, f"{tests} passed" in done.stdout) == (0, True), done.stdout


@pytest.mark.slow
def test_functions_load_where_others_have_made_a_database(model, make_database):
    dsn = conninfo.conninfo_to_dict(make_database())
    testing.loader(model, scale=0.5)(**dsn, password=None)
    url = f"postgresql+psycopg://{dsn['user']}@/{{}}?host={dsn['host']}"
    other = conninfo.conninfo_to_dict(make_database())
    assert testing.load(model, url.format(other["dbname"]), seed=1).rows["public.region"] > 0
