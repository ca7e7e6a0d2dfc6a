"""A throwaway server with a clone in it, as a process of its own."""

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import conninfo, sql
from testcontainers.core import docker_client

from privbench import publish
from privbench.cli import main
from privbench.errors import UsageError
from privbench.publish import hosts, serving

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
def started(spawn, tmp_path):
    """``started(*words, cache="cache", on="embedded")``: a process of ``privbench serve``."""

    def start(*words: object, cache: str = "cache", on: str = "embedded") -> subprocess.Popen[str]:
        own = {"XDG_CACHE_HOME": str(tmp_path / cache)}
        return spawn("privbench", "serve", "--on", on, *words, env=own, stderr=subprocess.PIPE)

    return start


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


@pytest.mark.slow
def test_a_folder_keeps_what_was_written(model, started, place, tmp_path):
    (folder := place / "kept").mkdir(mode=0o777)
    insert = "INSERT INTO region (code, title) VALUES ('zz', 'new')"
    for port in (None, 54321):
        words = ["--keep", folder, *(["--port", port] if port else [])]
        process = started(model, *words)
        uri = process.stdout.readline().strip()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        if port is None:
            ask(uri, f"{insert} RETURNING 1")
            other = started(model, *words)
            assert (other.wait(), "another process uses" in other.stderr.read()) == (2, True)
        else:
            assert ask(uri, "SELECT title FROM region WHERE code = 'zz'") == [("new",)]
            assert conninfo.conninfo_to_dict(uri)["port"] == str(port)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    different = started(model, "--keep", folder, "--scale", "2")
    assert (different.wait(), "has something else" in different.stderr.read()) == (2, True)
    shutil.rmtree(folder)


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


def test_folders_of_another_account_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    serving.prune()
    (model := tmp_path / "model").touch()
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(UsageError, match="another account"):
        serving.prune()
    with (
        pytest.raises(UsageError, match="another account"),
        publish.serve(model, on="embedded", keep=tmp_path / "kept"),
    ):
        pass
    assert not [*(tmp_path / "kept").iterdir()]


def test_what_cannot_be_served_is_a_usage_error(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (model := tmp_path / "model").touch()
    (full := tmp_path / "full").mkdir()
    (full / "else").touch()
    for words, said in (
        ([], "nothing to serve"),
        ([model, "--", "no such command"], "no command no such command"),
        ([tmp_path / "none", "--on", "embedded"], "cannot be read"),
        ([model, "--keep", full], "has something else"),
        ([model, "--keep", full, "--on", "docker"], "are not kept"),
    ):
        done = CliRunner().invoke(main, ["serve", *map(str, words)])
        assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_a_container_is_open_to_this_machine_alone_and_removed(tmp_path, monkeypatch):
    calls = []
    container = SimpleNamespace(
        start=lambda: calls.append("start"),
        stop=lambda timeout: calls.append("stop"),
        put_archive=lambda path, file: calls.append((path, file.read())),
        get_archive=lambda path: ([b"da", b"ta"], {"name": path}),
        exec_run=lambda command, **how: calls.append((command, how)) or Done((0, b"")),
    )
    created = {}
    client = SimpleNamespace(
        ping=lambda: True,
        images=SimpleNamespace(list=lambda name: [], pull=lambda name: calls.append(name)),
        containers=SimpleNamespace(
            create=lambda image, command, **how: created.update(how, image=image) or container
        ),
    )
    engine = SimpleNamespace(client=client, host=lambda: "localhost")
    monkeypatch.setattr(docker_client, "DockerClient", lambda: engine)
    note = f"import sys; open({str(tmp_path / 'removed')!r}, 'a').write(sys.argv[1])"
    monkeypatch.setattr(hosts, "_REMOVE", note)
    host = hosts.Container(tmp_path, 5433)
    with host.running(15) as (_, dsn, execute):
        execute(sql.SQL("SELECT 1"))
    assert conninfo.conninfo_to_dict(dsn) == {"host": "127.0.0.1", "port": "5433"}
    assert created["ports"] == {"5432/tcp": ("127.0.0.1", 5433)}
    assert created["image"] == "postgres:15"
    assert calls[:2] == ["postgres:15", "start"]
    assert calls[-1] == "stop"
    assert (tmp_path / "removed").read_text() == created["name"]
    calls.clear()
    with pytest.raises(KeyboardInterrupt), host.running(15, sql.SQL("secret")):
        raise KeyboardInterrupt
    assert calls[1:3] == [("/", b"data"), "start"]
    command, how = calls[-1]
    assert ("secret" in str(command), how["environment"]) == (False, {"STATEMENT": "secret"})
    assert (tmp_path / "removed").read_text().endswith(created["name"])
    monkeypatch.setattr(engine, "host", lambda: "far.example")
    with pytest.raises(UsageError, match="another machine"):
        hosts.Container(tmp_path, 5433)


class Done(tuple):
    """What a command in a container gave."""

    exit_code = 0


@pytest.fixture
def engine():
    """A client of the container engine, if one answers."""
    try:
        engine = docker_client.DockerClient().client
        engine.ping()
    except Exception as error:
        pytest.skip(f"no container engine answers ({error})")
    return engine


@pytest.mark.slow
def test_a_container_of_the_sources_version_is_served_and_goes(model, bundle, started, engine):
    version = "SELECT current_setting('server_version_num')::int / 10000, rolsuper FROM pg_roles"
    version += " WHERE rolname = current_user"
    known = publish.verify(bundle).bundle.server
    try:
        engine.images.get(f"postgres:{known}")
    except Exception:
        pytest.skip(f"the engine has no image of PostgreSQL {known}")

    def containers():
        return {item["Id"] for item in engine.api.containers(all=True)}

    before = containers()
    for source in (model, model, bundle):
        process = started(source, on="auto")
        uri = process.stdout.readline().strip()
        assert ask(uri, version) == [(known, False)]
        assert ask(uri, "SELECT count(*) > 0 FROM customer") == [(True,)]
        for wrong in ({"password": "no"}, {"user": "postgres"}):
            with pytest.raises(psycopg.OperationalError, match="authentication failed"):
                ask(uri, "SELECT 1", **wrong)
        (identity,) = containers() - before
        (published,) = engine.containers.get(identity).ports["5432/tcp"]
        assert published["HostIp"] == "127.0.0.1"
        process.kill()
        for _ in range(600):
            if containers() == before:
                break
            time.sleep(0.1)
        assert containers() == before
