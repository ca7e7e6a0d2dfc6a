"""Files that commands write are their owner's, whole, and at their place."""

import json
import os
import stat
import threading
from urllib.parse import unquote

import market
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privbench import files, pipeline
from privbench.pipeline.sampling import file_name, file_names
from privbench.schema import TableName
from privbench.workload import Workload, WorkloadQuery, write
from privbench.workload.results import ReplayLog

WORKLOAD = Workload("w", (WorkloadQuery("q", "SELECT 1 FROM customer", card=1),), confidential=True)


@pytest.fixture(autouse=True)
def _open_umask():
    """Nothing is private by the umask's grace."""
    old = os.umask(0)
    yield
    os.umask(old)


def modes(folder):
    return {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize(
    ("form", "name"),
    [("native", "w.json"), ("sql", "w.sql"), ("sql", "folder"), ("card-sql", "w.txt"),
     ("pgbench", "one.sql"), ("pgbench", "scripts")],
)  # fmt: skip
def test_write_of_a_workload_is_its_owners(tmp_path, form, name):
    """Captured workloads and logs of replays are 0600 from the start."""
    write(WORKLOAD, tmp_path / name, form)
    ReplayLog.finish(tmp_path / "replay.jsonl")
    ReplayLog.open(tmp_path / "log" / "replay.jsonl", {"a": 1})
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o700
    assert set(modes(tmp_path).values()) == {0o600}


def test_commands_write_results_logs_and_reports_for_their_owner(make_database, tmp_path):
    dsn = make_database(statements="CREATE TABLE customer (id integer PRIMARY KEY)")
    path = tmp_path / "w.json"
    write(WORKLOAD, path, "native")
    for command in (
        ["run", path, "--on", dsn, "-o", tmp_path / "results.json"],
        ["compare", dsn, dsn, "-w", path, "-o", tmp_path / "report", "--junit", tmp_path / "j.xml",
         "--metrics", tmp_path / "m.prom"],
    ):  # fmt: skip
        result = market.run(*command)
        assert result.exit_code in (0, 1, 3), result.output
    found = modes(tmp_path)
    assert "results.json" in found
    assert set(found.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "report").stat().st_mode) == 0o700


def test_replacing_a_file_is_private_whole_and_at_its_place(tmp_path):
    # Nobody can open the file between its making and its chmod.
    with files.replacing(tmp_path / "x") as file:
        file.write(b"secret")
        file.flush()
        assert set(modes(tmp_path).values()) == {0o600}
        assert not (tmp_path / "x").exists()
    assert (tmp_path / "x").read_bytes() == b"secret"
    # A link at the report's name leads to a file of the victim's: the new file takes its place.
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "report.html").symlink_to(tmp_path / "mine")
    files.write_text(tmp_path / "report.html", "report")
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "report.html").is_symlink()
    # A log that grows by lines is made with its mode, too.
    files.append_text(tmp_path / "log", "line")
    assert modes(tmp_path)["log"] == 0o600


def test_replacing_that_breaks_leaves_what_was_there(tmp_path):
    """A full disk between two halves of a file: it is renamed when whole."""
    files.write_text(tmp_path / "x", "old")

    def broken():
        with files.replacing(tmp_path / "x") as file:
            file.write(b"ne")
            raise OSError(28, "full")

    with pytest.raises(OSError, match="full"):
        broken()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_write_text_to_a_pipe_keeps_it(tmp_path):
    """As -o /dev/stdout is one."""
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    files.write_text(tmp_path / "pipe", "text")
    reader.join(10)
    assert read == ["text"]
    assert (tmp_path / "pipe").is_fifo()


names = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=63
).filter(lambda name: len(name.encode()) <= 63)
tables = st.builds(TableName, names, names)


@given(st.lists(tables, min_size=1, max_size=8, unique=True))
@example([TableName("public", "A/b"), TableName("public", "A_b")])
@example([TableName("public", "a"), TableName("public", "A"), TableName("public", "%41")])
@example([TableName("public", ".."), TableName("..", "public"), TableName(".", ".")])
@example([TableName("a.b", "c"), TableName("a", "b.c"), TableName('a"."b', "c")])
@example([TableName("con", "x"), TableName("x", "nul"), TableName("COM1", "x")])
@example([TableName("é" * 31, "ü" * 31), TableName("é" * 31, "ü" * 30)])
@example([TableName("s", "é"), TableName("s", "e\u0301"), TableName("s", "É")])
@settings(max_examples=60, deadline=None)
def test_file_names_of_two_tables_differ(found):
    """Also where capitals do not count; they stay in the folder, and can be read back."""
    assert file_name(TableName("public", "users_2"), "parquet") == "public.users_2.parquet"
    made = file_names(found, "csv")
    assert len({name.lower() for name in made.values()}) == len(found)
    for table, name in made.items():
        assert all(0 < len(part) <= 255 for part in name.split("/"))
        assert name.isascii()
        assert not set(name) & set('\0\\:*?"<>| ')
        assert ".." not in name.split("/")
        assert not name.startswith(".")
        schema, rest = name.removesuffix(".csv").replace("/", ".").split(".")
        assert TableName(unquote(schema), unquote(rest)) == table
        assert schema.lower() not in {"con", "nul", "aux", "prn", "com1"}


def test_sample_of_odd_names_loses_no_table(make_database, tmp_path):
    tables = ["A/b", "A_b", "a_b", "..", "con", "x" * 63, "é" * 31, "a%2Fb"]
    made = (
        f'CREATE TABLE "{name}" (id integer PRIMARY KEY);'
        f'INSERT INTO "{name}" SELECT generate_series(1, 50);'
        for name in tables
    )
    dsn = make_database(statements="".join(made))
    config = market.config(tmp_path / "ledger", '[database]\nidentity = "x"', epsilon=50.0)
    pipeline.fit(dsn, market.learner(config, "independent"), tmp_path / "m")
    told = pipeline.sample(tmp_path / "m", tmp_path / "out")
    rows = {
        path.relative_to(tmp_path / "out").as_posix(): len(path.read_text().splitlines()) - 1
        for path in (tmp_path / "out").rglob("*.csv")
    }
    assert len(rows) == len(tables)
    assert len([line for line in told if ".csv: " in line]) == len(tables)
    assert all(count > 0 for count in rows.values())
    assert json.dumps(sorted(rows)).isascii()
