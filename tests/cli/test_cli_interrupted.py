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
from importlib import import_module
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

#: Names that a shell would take apart.
NAME, FOLDER = "mar ket's $HOME", 'led ger\'s "1"'
#: Ends once somebody waits for a lock of a table, or after half a minute.
AWAITED = """DO $$ BEGIN FOR turn IN 1..1500 LOOP
  EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = '{table}'::regclass);
  PERFORM pg_sleep(0.02);
END LOOP; END $$"""


def printed(result, beginning):
    """The words of the command that a line of stderr names, to be run as they are."""
    (line,) = [line for line in result.stderr.splitlines() if line.startswith(beginning)]
    program, *words = shlex.split(line.removeprefix(beginning))
    assert program == "privbench"
    return words


@pytest.fixture(scope="module")
def customers(make_database):
    """A single table: what becomes of a release does not depend on what is fitted."""
    return make_database(
        "CREATE TABLE customer (id int PRIMARY KEY, born int, tier text);"
        "INSERT INTO customer SELECT i, 1950 + i, 'gold' FROM generate_series(1, 60) i"
    )


class Fitting:
    """A fit with config, identity and ledger: its command line, and its config for Python."""

    def __init__(self, source, folder, accounting="auto"):
        path, self.source, self.output = folder / "a b.toml", source, folder / "m"
        lines = ("[privacy]", "epsilon = 5.0", "delta = 1e-6", f'accounting = "{accounting}"')
        path.write_text("\n".join([*lines, market.INDEPENDENT]), encoding="utf-8")
        self.config = Config.load(path).changed("database", identity=NAME)
        self.config = self.config.changed("ledger", path=str(folder / FOLDER))
        words = ["-c", path, "--identity", NAME, "--ledger", folder / FOLDER, "-o", self.output]
        self.words = ["fit", source, *words]

    def kill(self, moment):
        kill_at(moment, pipeline.fit, self.source, self.config, self.output)

    def releases(self):
        return pipeline.ledger_show("", NAME, self.config.ledger.path).state["releases"]

    def states(self):
        return [item["state"] for item in self.releases()]

    def require_open(self):
        """Nothing more is held for the release than was asked for."""
        assert [(item["state"], item["epsilon"]) for item in self.releases()] == [("open", 5.0)]


@pytest.fixture
def fitting(customers, tmp_path):
    return Fitting(customers, tmp_path)


def test_a_fit_that_is_interrupted_says_how_to_go_on(fitting, monkeypatch):
    store = Release.store

    def interrupted(self, drawn):
        store(self, drawn)
        raise KeyboardInterrupt

    monkeypatch.setattr(Release, "store", interrupted)
    last = fail(130, "", *fitting.words).stderr.strip().splitlines()[-1]
    monkeypatch.undo()
    resume = re.search(r"--resume ([0-9a-f-]{36})", last)
    assert resume, last
    assert not fitting.output.exists()
    # Nothing was lost, so nothing is paid for again.
    assert "were lost" not in succeed(*fitting.words, "--resume", resume[1]).stderr


@pytest.mark.parametrize(
    "moment",
    market.some_slow(
        [
            (moment,)
            for moment in ("extract", "record:1", "store:1", "record:2", "store:3", "learn")
        ],
        [("record:2",)],
    ),
)
def test_a_fit_that_was_killed_is_named_to_the_next_one(fitting, moment):
    """Nothing more is held for it until somebody decides; every command can be pasted."""
    fitting.kill(moment)
    for _ in range(2):
        refused = fail(4, "the same fit broke off before", *fitting.words)
        fitting.require_open()
    beside = printed(refused, "To open another beside it: ")
    resume = printed(refused, "To go on: ")
    assert refused.stderr.splitlines()[-1].startswith("To go on: ")
    # What it does not hold in silence it may hold on purpose.
    succeed(*beside)
    assert fitting.states() == ["open", "closed"]
    # Of another ε it is another fit.
    succeed(*fitting.words, "--epsilon", 4, "--force")
    succeed(*resume, "--force")
    assert fitting.states() == ["closed"] * 3
    succeed(*fitting.words, "--force")


def test_the_commands_that_go_on_or_give_up_can_be_pasted_and_show_no_password(fitting):
    fitting.kill("store:1")
    secret = market.conninfo.make_conninfo(fitting.source, password="hush'hush")
    options = [fitting.words[0], *fitting.words[2:], "--"]
    refused = fail(4, "broke off", *options, secret)
    assert "hush" not in refused.stderr
    *shown, _, _, dashes, dsn = printed(refused, "To go on: ")
    assert [*shown, dashes] == [str(word) for word in options]
    assert dsn.replace("********", "hush").startswith("user=")
    succeed(*printed(refused, "To give it up: "))
    (release,) = fitting.releases()
    assert release["state"] == "closed"
    assert 0 < release["epsilon"] < 5.0
    said = succeed(*fitting.words).stderr
    (again, up) = re.search(r"after a crash: `(.*)`; to give it up: `(.*)`\)", said).groups()
    assert shlex.split(again)[1:-2] == [str(word) for word in fitting.words]
    assert shlex.split(up)[-2:] == ["--ledger", fitting.config.ledger.path]


def test_fits_of_the_same_release_run_side_by_side(fitting, tmp_path):
    given = (fitting.source, fitting.config, tmp_path / "other")
    with halted_at("store:1", pipeline.fit, *given):
        succeed(*fitting.words)
        assert fitting.states() == ["open", "closed"]
    fail(4, "broke off", *fitting.words, "--force")


def test_what_a_resumed_fit_costs_more_is_asked_before_it_is_held(fitting):
    fitting.kill("record:2")
    resume = printed(fail(4, "were lost", *fitting.words), "To go on: ")
    assert resume.pop() == "--pay-again"
    for _ in range(2):
        said = "costs more than was asked for. Use --pay-again to go on."
        refused = fail(2, said, *resume)
        assert "extract" not in refused.stderr
        fitting.require_open()
    again = printed(refused, "To go on: ")
    assert again == [*resume, "--pay-again"]
    assert refused.stderr.splitlines()[-1].startswith("To go on: ")
    resumed = succeed(*again)
    line = next(line for line in resumed.stderr.splitlines() if "were lost" in line)
    assert line in refused.stderr
    assert "ε = 5 was asked for" in line
    told = float(re.search(r"up to ε = ([\d.]+)", line)[1])
    assert told > 5.0
    assert 0 < pipeline.Model.load(fitting.output).promise.epsilon <= told * 1.001
    assert fitting.states() == ["closed"]


def test_a_fit_that_lost_too_much_to_be_resumed_names_the_way_out(customers, tmp_path):
    """Above its cap a release has few levels; beyond the last one it can only be given up."""
    fitting = Fitting(customers, tmp_path, accounting="zcdp")
    fitting.kill("record:2")
    (shown,) = fitting.releases()
    (file,) = Path(fitting.config.ledger.path).rglob("ledger.sqlite")
    with transaction(file.parent) as book:
        entries = book.read(shown["release"])
        # As if it had been killed many times: another event, for which nothing was answered.
        dearest = {**entries[-1]["events"][-1], "amount": 1.0}
        dearest["id"] += 1
        book.append({"type": "events", "events": [dearest]}, shown["release"])
    refused = fail(4, "would pass its last limit: it cannot be resumed", *fitting.words)
    assert "To go on: " not in refused.stderr
    way_out = printed(refused, "To give it up: ")
    again = fail(4, "pass the last of its limits", *fitting.words, "--resume", shown["release"])
    assert shlex.join(["privbench", *map(str, way_out)]) in again.stderr
    fitting.require_open()
    succeed(*way_out)
    succeed(*fitting.words)
    assert fitting.states() == ["closed"] * 2


@pytest.mark.parametrize("marked", [False, True])
def test_a_clone_whose_load_fails_names_the_command_that_loads_its_model(
    source, make_database, tmp_path, monkeypatch, marked
):
    """The budget is spent: the same command again would spend it twice. What is marked stays."""
    path, target = market.config_file(tmp_path, market.INDEPENDENT), make_database()
    more = ["--ledger", tmp_path / FOLDER, "--scale", 0.5, "--replace"]
    words = ["clone", source, target, "-c", path, *more, "-o", tmp_path / "m of mine"]

    def broken(*given, **named):
        raise KeyboardInterrupt

    if marked:
        monkeypatch.setattr(import_module("privbench.pipeline.load"), "LEAST_ROWS", 1)
    monkeypatch.setattr(Loader, "finish", broken)
    failed = fail(130, "To go on: ", *words)
    load = printed(failed, "To go on: ")
    if marked:
        assert printed(fail(130, "the same load goes on", *load), "To go on: ") == load
    monkeypatch.undo()
    replaced = [] if marked else ["--replace"]
    assert load[-4 - len(replaced) :] == [
        *["--scale", "0.5", *replaced, "--ledger", str(tmp_path / FOLDER)]
    ]
    assert ("marked as unfinished" in failed.stderr) == marked
    tables = "SELECT count(*) > 0 FROM pg_tables WHERE schemaname = 'public'"
    assert market.one(target, tables) == marked
    succeed(*load)
    assert 0 < market.one(target, "SELECT count(*) FROM customer") < 60


@pytest.mark.parametrize("command", main.list_commands(None))
def test_a_command_is_printed_only_if_it_takes_what_is_added_to_it(command):
    takes = any("--resume" in item.opts for item in main.get_command(None, command).params)
    said = reporter("human", (command, "a")).again("--resume", "r")
    assert said == (f"privbench {command} a --resume r" if takes else None)


def heed_interrupts():
    """A shell lets its background jobs ignore Ctrl-C, and so would what they start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def take_terminal():
    """Ctrl-C is a signal to whoever has the terminal for its own."""
    heed_interrupts()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def typed_at(words, typed, code, question, **variables):
    """Run a command at a terminal, and answer its question; what it says until it ends."""
    ours, theirs = pty.openpty()
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen(
        [sys.executable, "-m", "privbench", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**inherited, "TERM": "xterm", **variables},
        preexec_fn=take_terminal,
    )
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


#: A colour of the foreground.
COLOUR = re.compile(rb"\x1b\[[\d;]*3[0-7]m")


@pytest.mark.slow
def test_the_question_about_roles_can_be_left(customers, tmp_path):
    words = ["fit", customers, "--epsilon", "5", "-o", tmp_path / "m", "--ledger", tmp_path]
    assert COLOUR.search(typed_at(words, "\x03", 130, b"[y/N]"))


def test_owners_in_doubt_are_asked_about(make_database, tmp_path):
    source = make_database(
        "CREATE TABLE box (id int PRIMARY KEY, width int);"
        "CREATE TABLE visit (id int PRIMARY KEY, box_id int NOT NULL REFERENCES box"
        " ON DELETE CASCADE, full_name text, phone text)"
    )
    words = ["fit", source, "--epsilon", "5", "-o", tmp_path / "m", "--ledger", tmp_path]
    said = typed_at(words, "2\nn\n", 2, b"Number [1]", NO_COLOR="1")
    for line in (b"1: each row by itself", b"2: box by box_id", b"Accept these roles"):
        assert line in said
    assert not COLOUR.search(said)


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
def test_at_a_terminal_it_is_asked_what_becomes_of_an_unfinished_release(fitting, answers):
    fitting.kill("store:1")
    for typed, code, left in answers:
        typed_at(fitting.words, typed, code, b"or stop?")
        assert fitting.states() == left


def test_an_interrupted_query_ends_at_once_with_130(source, tmp_path):
    path = tmp_path / "w.sql"
    path.write_text("SELECT count(*) FROM generate_series(1, 100000000000) i;\n")
    both = [source, source, "-w", path, "-o", tmp_path / "r", "--no-floor", "--no-distributions"]
    process = subprocess.Popen(
        [sys.executable, "-m", "privbench", "compare", *both],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    running = (
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%generate_series(1, 1000%'"
        " AND state = 'active' AND pid <> pg_backend_pid()"
    )
    until = time.monotonic() + 30
    while market.one(source, running) == 0 and time.monotonic() < until:
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors
    lines = errors.strip().splitlines()
    assert lines[-1] == f"To go on: the same command; what ran is kept in {tmp_path / 'r'}"
    assert "Traceback" not in errors
    assert market.one(source, running) == 0


@pytest.mark.parametrize("form", ["csv", pytest.param("parquet", marks=pytest.mark.slow)])
def test_a_full_disk_leaves_no_partial_file(model, tmp_path, form):
    """Files of this process end at so many bytes, as they would on a full disk."""
    folder, before = tmp_path / "files", resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, before[1]))
    try:
        fail(2, "cannot be written", "sample", model, "-o", folder, "--format", form)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert all(path.stat().st_size < 700 for path in folder.iterdir())
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    succeed("sample", model, "-o", tmp_path / "again", "--format", form)


@contextlib.contextmanager
def locked(dsn: str, table: str, *, until_awaited: bool):
    """Somebody alters a table, and lets it go once it is waited for, or when the block ends."""
    with psycopg.connect(dsn) as other:
        other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())

        def let_go():
            if until_awaited:
                other.execute(AWAITED.format(table=table).encode())
                other.rollback()

        thread = threading.Thread(target=let_go)
        thread.start()
        yield
        thread.join()


@pytest.mark.parametrize(
    "command", ["fit", "load", pytest.param("compare", marks=pytest.mark.slow)]
)
def test_a_lock_that_is_waited_for_is_named(source, model, make_database, tmp_path, command):
    place, path = source, tmp_path / "w.sql"
    if command == "fit":
        config = market.config_file(tmp_path, market.INDEPENDENT)
        words = ["fit", source, "-c", config, "-o", tmp_path / "m", "--force"]
    elif command == "load":
        place = make_database()
        succeed("load", model, place)
        words = ["load", model, place, "--replace"]
    else:
        path.write_text("SELECT 1;\n")
        words = ["compare", source, source, "-w", path, "-o", tmp_path / "r"]
    with locked(place, "public.customer", until_awaited=True):
        assert "waiting for a lock on public.customer" in succeed(*words).stderr
    with locked(place, "public.customer", until_awaited=False):
        fail(3, "a lock was not granted in time", *words, "--lock-wait-timeout", 0.5)


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
