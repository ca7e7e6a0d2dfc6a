"""What is interrupted, waits for a lock or finds the disk full says so, and how to go on."""

import contextlib
import fcntl
import os
import pty
import re
import resource
import select
import shlex
import signal
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import market
import psycopg
import pytest
from halting import halted_at, kill_at
from market import fail, succeed

from privbench import pipeline
from privbench.cli import main
from privbench.cli.console import reporter
from privbench.config import Config
from privbench.postgres.load import Loader
from privbench.privacy.release import Release
from privbench.privacy.store import transaction


@pytest.fixture
def config(tmp_path):
    return market.config_file(tmp_path, market.INDEPENDENT)


@contextlib.contextmanager
def small_disk(most: int):
    """Files of this process end at so many bytes, as they would on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def held(dsn: str, table: str, *, until_awaited: bool):
    """Somebody alters a table, and lets it go once it is waited for, or when the block ends."""
    over = threading.Event()
    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
    with psycopg.connect(dsn) as other, psycopg.connect(dsn, autocommit=True) as watch:
        other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())

        def let_go():
            while not over.wait(0.02):
                if watch.execute(waiting, [table]).fetchone():
                    other.rollback()
                    return

        thread = threading.Thread(target=let_go if until_awaited else lambda: None)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def test_a_fit_that_is_interrupted_says_how_to_go_on(fitting, tmp_path, monkeypatch):
    real = Release.store

    def interrupted(self, drawn):
        real(self, drawn)
        raise KeyboardInterrupt

    monkeypatch.setattr(Release, "store", interrupted)
    fit, _ = fitting
    last = fail(130, "", *fit).stderr.strip().splitlines()[-1]
    monkeypatch.undo()
    found = re.search(r"--resume ([0-9a-f-]{36})", last)
    assert found, last
    assert not (tmp_path / "m").exists()
    # Nothing was lost, so nothing is paid for again.
    assert "were lost" not in succeed(*fit, "--resume", found[1]).stderr


def printed(result, beginning):
    """The words of the command that a line of stderr names, to be run as they are."""
    (line,) = [line for line in result.stderr.splitlines() if line.startswith(beginning)]
    program, *words = shlex.split(line.removeprefix(beginning))
    assert program == "privbench"
    return words


#: Names that a shell would take apart.
NAME, FOLDER = "mar ket's $HOME", 'led ger\'s "1"'


@pytest.fixture(scope="module")
def customers(make_database):
    """A single table: what becomes of a release does not depend on what is fitted."""
    return make_database(
        "CREATE TABLE customer (id int PRIMARY KEY, born int, tier text);"
        "INSERT INTO customer SELECT i, 1950 + i, 'gold' FROM generate_series(1, 60) i"
    )


@pytest.fixture
def fitting(customers, tmp_path):
    """A command line with config, identity and ledger, and its config for `pipeline.fit`."""
    path = tmp_path / "a b.toml"
    toml = "[privacy]\nepsilon = 5.0\ndelta = 1e-6\n"
    path.write_text(f"{toml}\n{market.INDEPENDENT}", encoding="utf-8")
    asked = Config.load(path).changed("database", identity=NAME)
    asked = asked.changed("ledger", path=str(tmp_path / FOLDER))
    words = ["fit", customers, "-c", path, "--identity", NAME, "--ledger", tmp_path / FOLDER]
    return [*words, "-o", tmp_path / "m"], asked


def releases(config):
    """State and ε of every release."""
    shown = pipeline.ledger_show("", NAME, config.ledger.path).state["releases"]
    return [(item["state"], item["epsilon"]) for item in shown]


@pytest.mark.parametrize(
    "moment",
    [
        item if item == "record:2" else pytest.param(item, marks=pytest.mark.slow)
        for item in ("extract", "record:1", "store:1", "record:2", "store:3", "learn")
    ],
)
def test_a_fit_that_was_killed_is_named_to_the_next_one(customers, fitting, tmp_path, moment):
    """Nothing more is held for it until somebody decides; every command can be pasted."""
    fit, asked = fitting
    kill_at(moment, pipeline.fit, customers, asked, tmp_path / "m")
    assert releases(asked) == [("open", 5.0)]
    for _ in range(2):
        refused = fail(4, "the same fit broke off before", *fit)
        assert releases(asked) == [("open", 5.0)]
    beside = printed(refused, "To open another beside it: ")
    resume = printed(refused, "To go on: ")
    assert refused.stderr.splitlines()[-1].startswith("To go on: ")
    # What it does not hold in silence it may hold on purpose.
    succeed(*beside)
    assert [state for state, _ in releases(asked)] == ["open", "closed"]
    # Of another ε it is another fit.
    succeed(*fit, "--epsilon", 4, "--force")
    succeed(*resume, "--force")
    assert [state for state, _ in releases(asked)] == ["closed"] * 3
    succeed(*fit, "--force")


def test_a_fit_that_was_killed_can_be_given_up_by_the_command_that_is_named(
    customers, fitting, tmp_path
):
    fit, asked = fitting
    kill_at("store:1", pipeline.fit, customers, asked, tmp_path / "m")
    succeed(*printed(fail(4, "broke off", *fit), "To give it up: "))
    ((state, spent),) = releases(asked)
    assert state == "closed"
    assert 0 < spent < asked.privacy.epsilon
    said = succeed(*fit).stderr
    (again, up) = re.search(r"after a crash: `(.*)`; to give it up: `(.*)`\)", said).groups()
    assert shlex.split(again)[1:-2] == [str(word) for word in fit]
    assert shlex.split(up)[-2:] == ["--ledger", asked.ledger.path]


def test_fits_of_the_same_release_run_side_by_side(customers, fitting, tmp_path):
    fit, asked = fitting
    with halted_at("store:1", pipeline.fit, customers, asked, tmp_path / "other"):
        succeed(*fit)
        assert releases(asked)[0] == ("open", 5.0)
        assert [state for state, _ in releases(asked)] == ["open", "closed"]
    fail(4, "broke off", *fit, "--force")


def test_what_a_resumed_fit_costs_more_is_asked_before_it_is_held(customers, fitting, tmp_path):
    fit, asked = fitting
    kill_at("record:2", pipeline.fit, customers, asked, tmp_path / "m")
    resume = printed(fail(4, "were lost", *fit), "To go on: ")
    assert resume.pop() == "--pay-again"
    for _ in range(2):
        said = "costs more than was asked for. Use --pay-again to go on."
        refused = fail(2, said, *resume)
        assert "extract" not in refused.stderr
        assert releases(asked) == [("open", 5.0)]
        last = refused.stderr.splitlines()[-1]
        assert printed(refused, "To go on: ")[-1] == "--pay-again"
        assert last.startswith("To go on: ")
    resumed = succeed(*printed(refused, "To go on: "))
    line = next(line for line in resumed.stderr.splitlines() if "were lost" in line)
    assert line in refused.stderr
    told = float(re.search(r"up to ε = ([\d.]+)", line)[1])
    assert f"ε = {asked.privacy.epsilon:.4g} was asked for" in line
    assert asked.privacy.epsilon < told
    assert 0 < pipeline.Model.load(tmp_path / "m").promise.epsilon <= told * 1.001
    assert [state for state, _ in releases(asked)] == ["closed"]


def test_a_command_that_is_named_shows_no_password(customers, fitting, tmp_path):
    fit, asked = fitting
    kill_at("store:1", pipeline.fit, customers, asked, tmp_path / "m")
    secret = market.conninfo.make_conninfo(customers, password="hush'hush")
    refused = fail(4, "broke off", fit[0], *fit[2:], "--", secret)
    assert "hush" not in refused.stderr
    words = printed(refused, "To go on: ")
    *options, _, _, dashes, dsn = words
    assert [*options, dashes] == [*(str(word) for word in (fit[0], *fit[2:])), "--"]
    succeed(*words[:-1], dsn.replace("********", "hush"))


def test_a_clone_whose_load_fails_names_the_command_that_loads_its_model(
    source, make_database, tmp_path, monkeypatch
):
    """The budget is spent: the same command again would spend it twice."""
    path, target = market.config_file(tmp_path, market.INDEPENDENT), make_database()
    more = ["--ledger", tmp_path / FOLDER, "--scale", 0.5, "--replace"]
    words = ["clone", source, target, "-c", path, *more, "-o", tmp_path / "m of mine"]

    def broken(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(Loader, "copy_table", broken)
    failed = fail(130, "To go on: ", *words)
    monkeypatch.undo()
    load = printed(failed, "To go on: ")
    assert load[-5:] == ["--scale", "0.5", "--replace", "--ledger", str(tmp_path / FOLDER)]
    succeed(*load)
    ((rows,),) = market.ask(target, "SELECT count(*) FROM customer")
    assert 0 < rows < 60


def heed_interrupts():
    """A shell lets its background jobs ignore Ctrl-C, and so would what they start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def take_terminal():
    """Ctrl-C is a signal to whoever has the terminal for its own."""
    heed_interrupts()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


#: A colour of the foreground.
COLOUR = re.compile(rb"\x1b\[[\d;]*3[0-7]m")


@pytest.mark.slow
def test_the_question_about_roles_can_be_left(customers, tmp_path):
    words = ["fit", customers, "--epsilon", "5", "-o", tmp_path / "m", "--ledger", tmp_path]
    assert COLOUR.search(typed_at(words, "\x03", 130, b"[y/N]", {}))


def test_owners_in_doubt_are_asked_about(make_database, tmp_path):
    source = make_database(
        "CREATE TABLE box (id int PRIMARY KEY, width int);"
        "CREATE TABLE visit (id int PRIMARY KEY, box_id int NOT NULL REFERENCES box"
        " ON DELETE CASCADE, full_name text, phone text)"
    )
    words = ["fit", source, "--epsilon", "5", "-o", tmp_path / "m", "--ledger", tmp_path]
    said = typed_at(words, "2\nn\n", 2, b"Number [1]", {"NO_COLOR": "1"})
    assert b"1: each row by itself" in said
    assert b"2: box by box_id" in said
    assert b"Accept these roles" in said
    assert not COLOUR.search(said)


def typed_at(words, typed, code, question, colours):
    """Run a command at a terminal, and answer its question; what it says until it ends."""
    ours, theirs = pty.openpty()
    program = [sys.executable, "-m", "privbench", *words]
    variables = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen(
        program, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**variables, "TERM": "xterm", **colours},
        preexec_fn=take_terminal,
    )  # fmt: skip
    os.close(theirs)
    said = b""
    while question not in said:
        said += os.read(ours, 1 << 16)
    with contextlib.suppress(OSError):
        for _ in range(5):
            # Whoever sees no answer types it again.
            os.write(ours, typed.encode())
            while select.select([ours], [], [], 5)[0]:
                said += os.read(ours, 1 << 16)
    assert process.wait(20) == code, said.decode()
    assert b"Traceback" not in said
    return said


@pytest.mark.parametrize(
    "answers",
    [
        [("resume\n", 0, ["closed"])],
        pytest.param(
            [
                ("stop\n", 4, ["open"]),
                ("\x03", 130, ["open"]),
                ("another\n", 0, ["open", "closed"]),
            ],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_at_a_terminal_it_is_asked_what_becomes_of_an_unfinished_release(
    customers, fitting, tmp_path, answers
):
    fit, asked = fitting
    kill_at("store:1", pipeline.fit, customers, asked, tmp_path / "m")
    for typed, code, left in answers:
        typed_at(fit, typed, code, b"or stop?", {})
        assert [state for state, _ in releases(asked)] == left


def test_an_interrupted_query_ends_at_once_with_130(source, tmp_path):
    path = tmp_path / "w.sql"
    path.write_text("SELECT count(*) FROM generate_series(1, 100000000000) i;\n")
    both = [source, source, "-w", path, "-o", tmp_path / "r", "--no-floor", "--no-distributions"]
    program = [sys.executable, "-m", "privbench", "compare", *both]
    process = subprocess.Popen(
        program, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )
    asked = (
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%generate_series(1, 1000%'"
        " AND state = 'active' AND pid <> pg_backend_pid()"
    )
    until = time.monotonic() + 30
    while market.one(source, asked) == 0 and time.monotonic() < until:
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors
    lines = errors.strip().splitlines()
    assert lines[-1] == f"To go on: the same command; what ran is kept in {tmp_path / 'r'}"
    assert "Traceback" not in errors
    assert market.one(source, asked) == 0


@pytest.mark.parametrize("form", ["csv", pytest.param("parquet", marks=pytest.mark.slow)])
def test_a_full_disk_leaves_no_partial_file(model, tmp_path, form):
    folder = tmp_path / "files"
    with small_disk(700):
        fail(2, "cannot be written", "sample", model, "-o", folder, "--format", form)
    assert all(path.stat().st_size < 700 for path in folder.iterdir())
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    succeed("sample", model, "-o", tmp_path / "again", "--format", form)


@pytest.mark.parametrize(
    "command", ["fit", "load", pytest.param("compare", marks=pytest.mark.slow)]
)
def test_a_lock_that_is_waited_for_is_named(
    source, config, model, make_database, tmp_path, command
):
    target = make_database()
    words = ["fit", source, "-c", config, "-o", tmp_path / "m", "--force"]
    if command == "load":
        succeed("load", model, target)
        words = ["load", model, target, "--replace"]
    if command == "compare":
        path = tmp_path / "w.sql"
        path.write_text("SELECT 1;\n")
        words = ["compare", source, source, "-w", path, "-o", tmp_path / "r"]
    place = target if command == "load" else source
    with held(place, "public.customer", until_awaited=True):
        assert "waiting for a lock on public.customer" in succeed(*words).stderr
    with held(place, "public.customer", until_awaited=False):
        fail(3, "a lock was not granted in time", *words, "--lock-wait-timeout", 0.5)


@pytest.mark.parametrize("command", main.list_commands(None))
def test_a_command_is_printed_only_if_it_takes_what_is_added_to_it(command):
    found = main.get_command(None, command)
    takes = any("--resume" in item.opts for item in found.params)
    said = reporter("human", (command, "a")).again("--resume", "r")
    assert said == (f"privbench {command} a --resume r" if takes else None)


def test_a_fit_that_lost_too_much_to_be_resumed_names_the_way_out(customers, fitting, tmp_path):
    """Above its cap a release has few levels; beyond the last one it can only be given up."""
    fit, asked = fitting
    asked = asked.with_privacy(accounting="zcdp")
    path = fit[fit.index("-c") + 1]
    toml = path.read_text(encoding="utf-8")
    path.write_text(toml.replace("[privacy]", '[privacy]\naccounting = "zcdp"'), encoding="utf-8")
    kill_at("record:2", pipeline.fit, customers, asked, tmp_path / "m")
    (shown,) = pipeline.ledger_show("", NAME, asked.ledger.path).state["releases"]
    (file,) = Path(asked.ledger.path).rglob("ledger.sqlite")
    with transaction(file.parent) as book:
        entries = book.read(shown["release"])
        # As if it had been killed many times: another event, for which nothing was answered.
        dearest = {**entries[-1]["events"][-1], "amount": 1.0}
        dearest["id"] += 1
        book.append({"type": "events", "events": [dearest]}, shown["release"])
    refused = fail(4, "would pass its last limit: it cannot be resumed", *fit)
    assert "To go on: " not in refused.stderr
    way_out = printed(refused, "To give it up: ")
    again = fail(4, "would pass the last of its limits", *fit, "--resume", shown["release"])
    assert shlex.join(["privbench", *map(str, way_out)]) in again.stderr
    assert releases(asked) == [("open", 5.0)]
    succeed(*way_out)
    succeed(*fit)
    assert [state for state, _ in releases(asked)] == ["closed"] * 2


def test_what_was_accepted_is_the_schema_that_was_shown(make_database, tmp_path, monkeypatch):
    """How references compare is read after the consent; a new label, unseen, is refused."""
    dsn = make_database(
        "CREATE TYPE plan AS ENUM ('a'); CREATE TABLE customer (id int PRIMARY KEY, email text);"
        " CREATE TABLE visit (id int PRIMARY KEY, customer_id int, plan plan)"
    )
    change = "ALTER TYPE plan ADD VALUE 'the secret plan'"
    monkeypatch.setattr("privbench.cli.model.ask", lambda *_: market.execute(dsn, change))
    words = ["fit", dsn, "--epsilon", "3", "-o", tmp_path / "m", "--ledger", tmp_path / "l"]
    fail(2, "the schema was changed since it was shown", *words)
    assert not (tmp_path / "m").exists()
