"""Bundles of strangers: whatever was done to one, `verify` says so and names the file."""

import json
import os
import random
import re
from dataclasses import replace
from functools import reduce
from operator import getitem

import pyarrow as pa
import pyarrow.parquet as papq
import pytest
import yaml
from bounded import bounded
from bundles import change_facts, render, seal
from markdown_it import MarkdownIt
from sql_files import cases

from privbench.display import visible
from privbench.errors import GateFailed
from privbench.publish import verify
from privbench.publish.checksums import MAX_TEXT, sums_text, walk
from privbench.publish.records import MAX_FACTS


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


def put(file_and_place, value):
    """Another value at a place of a file of facts: keys and numbers that lead to it, by slashes."""
    name, place = file_and_place.split()
    *steps, last = (int(step) if step.isdigit() else step for step in place.split("/"))

    def change(data):
        reduce(getitem, steps, data)[last] = json.loads(value)

    return edit(name, change)


def read_cases(file, make):
    """Attacks by name: what is made of a case's first line and the others, and what is said."""
    found = {}
    for title, text in cases(__file__, file):
        (attack, said), (first, rest) = title.split("; "), text.split("\n", 1)
        found[attack] = make(first, rest), said
    return found


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


def cut(text):
    """A text in the first row of the customers, in both forms of the rows."""

    def change(folder):
        path = first_chunk(folder, "csv")
        head, first, rest = path.read_bytes().split(b"\n", 2)
        table = papq.read_table(path.with_suffix(".parquet"))
        name = table["email"][0].as_py()
        path.write_bytes(b"\n".join([head, first.replace(name.encode(), b'"%b"' % text), rest]))
        place = table.schema.names.index("email")
        texts = pa.array([text.decode(), *table["email"].to_pylist()[1:]])
        papq.write_table(table.set_column(place, "email", texts), path.with_suffix(".parquet"))
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


FACTS, PAPER = "bundle.json", "certificate.json"
ATTACKS = {
    **read_cases("hostile_lines.txt", lambda file, text: append(file, text + "\n")),
    **read_cases("hostile_facts.txt", put),
    "another form": (append(FACTS, " "), FACTS),
    "facts too large to parse": (
        lambda folder: os.truncate(folder / FACTS, MAX_FACTS + 1),
        "has more than",
    ),
    "a deep one": (lambda folder: (folder / FACTS).write_text("[" * 10**6), "nested too deeply"),
    "a container": (swap("compose.yaml", "127.0.0.1:", ""), "compose.yaml: not what"),
    "a certificate for people": (swap("certificate.md", "| ε | ", "| ε | 0."), "certificate.md: "),
    "metadata": (
        swap("croissant.json", '"contentUrl": "data', '"contentUrl": "//evil'),
        "croissant",
    ),
    "a missing event": (edit(PAPER, lambda data: data["events"].pop(3)), "event 3 is not one"),
    "other rows in Parquet": (
        other(lambda ids: pa.array([1] * len(ids), pa.int32())),
        "00001.parquet: its rows are not",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("change", "said"), [
    (garbage, "00001.parquet: "),
    (other(lambda ids: ids.cast(pa.int64())), "00001.parquet: its columns"),
    (forget_line, "00001.csv: it holds another number of rows"),
    (cut(b"a\n\\.\nb"), "00001.csv has a text with the line \\."),
    (cut(b"a\n\\.\r\nb"), "00001.csv has a text with the line \\."),
    (cut(b"a\0b"), "or with a NUL"),
])  # fmt: skip
def test_rows_that_do_not_fit_their_facts_are_named(bundle, change, said):
    change(bundle)
    assert said in refused(bundle)


@pytest.mark.parametrize("name", ATTACKS)
def test_what_was_done_is_named(bundle, name):
    change, said = ATTACKS[name]
    change(bundle)
    assert said in refused(bundle)


@pytest.mark.parametrize("file", [FACTS, PAPER, "workload/workload.json", "SHA256SUMS"])
@pytest.mark.parametrize("text", [
    '"' + '\\"' * 2**19,
    '{"privbench-workload": "' + '\\"' * 2**19,
    '{"privbench-workload": 1, "queries": ' + "[" * 2**20,
    "0" * 64 + "  " + "a/" * 2**19 + "!",
])  # fmt: skip
def test_no_text_takes_more_than_its_length(bundle, file, text):
    (bundle / file).write_text(text)

    def check():
        said = refused(bundle, sealed=file != "SHA256SUMS")
        assert said.startswith(file)

    bounded(check)


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


FORGED = "signed by the key that you named, SHA256:" + 43 * "A"


def test_padding_forges_no_verdict(bundle):
    """A publisher's name stands in quotes on a line of its own, without runs of blanks."""
    texts = (f"ACME){' ' * 66}{FORGED}", 30 * "\u3000" + FORGED, f'ACME": {FORGED}')
    change_facts(bundle / FACTS, lambda data: data.update(publisher=texts[0]))
    render(bundle)
    seal(bundle)
    found = verify(bundle)
    for text in texts:
        named = found.bundle.model_copy(update={"publisher": text})
        shown = replace(found, bundle=named).render()
        assert "they are not signed" in shown
        assert shown.isprintable() is False
        assert shown.replace("\n", "").isprintable()
        for width in range(50, 220):
            rows = [line[at : at + width] for line in shown.split("\n")
                    for at in range(0, len(line) or 1, width)]  # fmt: skip
            assert not [row for row in rows if row.lstrip().startswith(FORGED[:10])]


TEXTS = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "[a](javascript:x) ![b](http://evil/x.png) <http://evil> https://evil/",
    "`` ` ``` | x | y |", "# head", "- list", "1. list", "> quote", "***", "a\\", "&lt;b&gt;",
    "<!--", "zero\u200bwidth \u2800\u3164",
)  # fmt: skip


def test_texts_of_a_bundle_are_no_markup(bundle):
    about = dict(zip(("title", "publisher", "licence"), TEXTS, strict=False)) | {"lost": TEXTS}
    change_facts(bundle / FACTS, lambda data: data.update(about))

    def in_certificate(data):
        data["versions"]["opendp"] = TEXTS[2]
        data["synthesizer"] = TEXTS[1]
        for event, text in zip(data["events"], TEXTS, strict=False):
            event["label"] = text

    change_facts(bundle / PAPER, in_certificate)
    render(bundle)
    seal(bundle)
    verify(bundle)
    reader = MarkdownIt("commonmark").enable("table")
    for name in ("README.md", "certificate.md"):
        page = (bundle / name).read_text()
        assert page.replace("\n", "").isprintable()
        assert "\u2800" not in page
        tokens = [part for token in reader.parse(page) for part in (token, *(token.children or ()))]
        kinds = {token.type for token in tokens}
        assert not kinds & {"html_block", "html_inline", "image", "hr", "blockquote_open"}
        links = [token.attrGet("href") for token in tokens if token.type == "link_open"]
        assert links == (["certificate.md"] if name == "README.md" else [])
        heads = [token for token in tokens if token.type == "heading_open"]
        assert len(heads) == len(re.findall("^#+ ", page, re.MULTILINE))
        whole = {
            "".join(part.content for part in token.children or ())
            for token in tokens
            if token.type == "inline"
        }
        # Of the list in the one page, and of the table in the other, every text is a whole item.
        assert {visible(text) for text in TEXTS} <= whole
    for name in ("deployment.yaml", "croissant.json", FACTS, PAPER):
        assert (bundle / name).read_text().replace("\n", "").isprintable()
    deployed = yaml.safe_load((bundle / "deployment.yaml").read_text())
    assert deployed["deployment"]["basic"]["name"] == TEXTS[0]
