"""Names that make lines, escape sequences or marks of direction in what is shown to people."""

import ast
import contextlib
import json
import logging
import os
import pty
import shlex
import subprocess
import sys
import unicodedata
import xml.etree.ElementTree as ET
from pathlib import Path

import market
import psycopg
import pytest
from markdown_it import MarkdownIt
from psycopg import conninfo, sql
from sql_files import sql_of

import privbench
from privbench.cli.console import JsonFormatter, TextFormatter
from privbench.config import Config
from privbench.display import Lines, code, lines, markdown, table, visible
from privbench.errors import SchemaError

FORGED = ("Nothing needs your sign-off.", "All columns PROTECTED: ok")
LINES = f"nl\n\n{FORGED[0]}\n{FORGED[1]}"
#: Signs that show nothing or change what is around them, up to the length of a name.
BIDI, ZERO = "bidi\u202e\u2066\u200f\u061cko", "zero\u200b\u200d\ufeff\u2060\u00ad\u034f\u3164"
MORE = "\u2800\ufe0f\U000e0041x sep\u2028\u2029\x85\x0b\x0cx"
MARKUP, PADDED = "<script>alert(1)</script>|`x`![a](b)", f"pad{' ' * 50}ok: all"
#: Names of tables, each of them some attacks.
TABLES = (
    LINES,
    "esc\x1b[2J\x1b]0;owned\x07\r\x7f\x9b31m" + BIDI,
    ZERO + MORE,
    f"[bold red]alarm[/bold red]{MARKUP}"[:63],
    PADDED,
)
#: Names that print as they are.
REAL = ("Größe 大きさ حجم גודל 😀👍🏽", "naïve café ไทย")


def hidden(text):
    """Characters of a text, other than line breaks, that show nothing or change what is around."""
    return sorted({
        ascii(char) for char in text
        if char != "\n" and (
            unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
            or char in "\u034f\u115f\u1160\u3164\uffa0\u2800\ufe0f\U000e0100"
        )
    })  # fmt: skip


def forged(text):
    """Lines of a text that a name has made."""
    marks = " \t|>*`-\"'"
    return [line for line in text.split("\n") if line.strip(marks).startswith(FORGED)]


def made(dsn):
    """Tables, columns, labels, constraints, literals, sequences and views of hostile names."""
    name = sql.Identifier
    kind = name(f"type {LINES}"[:60])
    with psycopg.connect(dsn, autocommit=True) as connection:

        def execute(text, **names):
            connection.execute(sql.SQL(text).format(**names))

        execute(
            "CREATE TABLE users (id int PRIMARY KEY, email text);"
            "INSERT INTO users SELECT i, 'a@b' FROM generate_series(1, 30) i;"
            "CREATE TYPE {kind} AS ENUM ({label}, 'plain');"
            "CREATE MATERIALIZED VIEW {view} AS SELECT 1 AS x",
            kind=kind, label=sql.Literal(LINES[:60]), view=name(f"view {LINES}"[:60]),
        )  # fmt: skip
        for table in REAL:
            execute(
                "CREATE TABLE {table} (c text, CONSTRAINT {check} CHECK (c <> ('x' || 'y')));"
                "INSERT INTO {table} SELECT 'z' FROM generate_series(1, 40)",
                table=name(table), check=name(f"ck{table}"),
            )  # fmt: skip
        for table in TABLES:
            column = table[:40] + "c"
            execute(
                "CREATE TABLE {table} (id int PRIMARY KEY, {column} int REFERENCES users,"
                " {note} text DEFAULT {literal}, {enum} {kind},"
                " CONSTRAINT {check} CHECK ({note} <> {literal} || 'x'));"
                "INSERT INTO {table} SELECT i, 1 + i % 30, 'x' || i, 'plain'"
                " FROM generate_series(1, 40) i;"
                "CREATE INDEX {index} ON {table} ({column});"
                "COMMENT ON TABLE {table} IS {comment}",
                table=name(table), column=name(column), note=name("n" + column),
                enum=name("k" + column), kind=kind, literal=sql.Literal(f"{table}\n{FORGED[0]}"),
                check=name("ck" + column), index=name(f"ix{column}"), comment=sql.Literal(table),
            )  # fmt: skip
    return dsn


def of_people(path):
    """Whether a file is read by people or tools as text, and is no data, SQL or lock."""
    return path.suffix in (".toml", ".json", ".jsonl", ".md", ".html", ".xml", ".prom")


@pytest.fixture(scope="module")
def session(make_database, tmp_path_factory):
    """The result of every command on a database of hostile names, and the folder they wrote to."""
    folder = tmp_path_factory.mktemp("names")
    line = f"\n{FORGED[0]}\x1b[2J\r\u202e"
    given = {
        "folder": folder, "line": line, "config": folder / "c.toml", "model": folder / "m",
        "queries": folder / "w.json", "bundle": folder / f"bundle{line}",
        "source": made(make_database()), "target": make_database(), "other": make_database(),
        "nowhere": conninfo.make_conninfo(host="/nonexistent", user=TABLES[0], dbname=TABLES[1]),
    }  # fmt: skip
    results = {"inspect": market.succeed("inspect", given["source"], "-o", given["config"])}
    with given["config"].open("a") as config:
        config.write(
            f"\n[database]\nidentity = {json.dumps(f'x{line}')}\n"
            f"[ledger]\npath = {str(folder / 'l')!r}\n{market.INDEPENDENT}"
        )
    names = [json.dumps(TABLES[place]) for place in (0, 2)]
    for file, text in {
        "own.sql": f"SELECT id FROM \"{TABLES[0]}\";\nSELECT pg_sleep('{TABLES[2]}');\n",
        "server.log": f'2026-01-01 00:00:00 UTC [1] LOG:  statement: SELECT 1 AS "{TABLES[1]}"\n',
        "absent.toml": "".join(f"[tables.{name}]\n" for name in names),
    }.items():
        (folder / file).write_text(text)
    given["bundle"].mkdir()
    (given["bundle"] / f"a{line}").touch()
    for name, (_, words) in COMMANDS.items():
        results[name] = market.run(*(word.format(**given) for word in shlex.split(words)))
    return results, folder


#: The exit code and the words of every command.
COMMANDS = {
    name: (int(code), words)
    for name, code, words in (
        text.split(": ", 2) for text in sql_of(__file__, "commands_of_names.txt").splitlines()[1:]
    )
}


def test_names_make_no_line_and_no_sequence_in_any_output(session):
    results, _ = session
    assert len(results) > 25
    for name, result in results.items():
        text = result.stdout + result.stderr
        assert result.exit_code == COMMANDS.get(name, (0,))[0], (name, text)
        assert not hidden(text), (name, hidden(text))
        assert not forged(text), (name, forged(text))


def test_names_make_no_line_and_no_sequence_in_any_file(session):
    """In every file but data and SQL: config, reports, metrics, JSON."""
    _, folder = session
    files = [path for path in folder.rglob("*") if path.is_file() and of_people(path)]
    assert len({path.suffix for path in files}) == 7
    for path in files:
        text = path.read_text()
        assert not hidden(text), (path, hidden(text))
        # Queries keep their lines in boxes of their own.
        assert path.suffix in (".html", ".xml") or not forged(text), (path, forged(text))


def test_names_that_show_nothing_stay_the_names_of_their_tables(session):
    """Escapes are for people: configs and workloads still mean what they meant."""
    results, folder = session
    config = Config.load(folder / "c.toml")
    assert {f'public."{name}"' for name in TABLES} <= config.tables.keys()
    assert results["rebind"].exit_code == 0
    queries = json.loads((folder / "w.json").read_text())["queries"]
    assert any(TABLES[1] in query["sql"] for query in queries)
    tree = ET.parse(folder / "junit.xml")
    assert tree.findall(".//failure")


def test_real_names_print_as_they_are(session):
    results, folder = session
    for name in REAL:
        for command in ("inspect", "check -v", "plan", "load", "sample"):
            assert name in results[command].stdout, (name, command)
        assert name in (folder / "c.toml").read_text()
        assert name in (folder / "compared/report.html").read_text()
        assert visible(name) == name == str(markdown(name))


def test_names_on_a_terminal(session, make_database):
    """Markup of the library that draws bars, and sequences of the terminal."""
    _, folder = session
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "privbench", "-v", "load", folder / "m", make_database()]
    with subprocess.Popen(
        list(map(str, command)), stdin=theirs, stdout=theirs, stderr=theirs
    ) as child:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # The other side is closed.
            while True:
                shown += os.read(ours, 2**16)
    os.close(ours)
    text = shown.decode()
    assert child.returncode == 0, text
    assert "[bold red]alarm[/bold red]" in text
    assert "\\x1b]0;owned\\x07" in text
    for raw in ("\x1b]0;owned", "\u202e", "\u2066", "\u200b", "\x9b31m", "\u2028"):
        assert raw not in text
    assert not forged(text.replace("\r", ""))


@pytest.mark.parametrize(
    "attack",
    [
        *TABLES,
        "a" + 40 * "\u0301",
        70 * " " + FORGED[0],
        9 * "\u3000" + FORGED[0],
        "\u0600\ud800\ue000\U0010ffff\u2065\u00a0\u202f\ufffe",
    ],
)
def test_texts_are_one_line_unless_they_are_made_of_lines(attack):
    assert not hidden(visible(attack))
    assert "\n" not in visible(attack)
    assert visible(visible(attack)) == visible(attack)
    whole = lines("head", f"  {attack}", *table([[attack, "1"], ["b", attack]], "1"))
    assert len(whole.split("\n")) == 4
    assert not hidden(whole)
    assert visible(whole) is whole
    # Whatever is made of lines by other means is one line again.
    for plain in (f"{whole}", whole + "", "\n".join([whole]), whole.strip()):
        assert not isinstance(plain, Lines) or plain is whole
    assert "\n" not in visible(f"{whole}\n")
    error = SchemaError(attack, table=attack, column=attack, remedy=attack)
    assert "\n" not in str(error)
    assert not hidden(str(error))


@pytest.mark.parametrize("formatter", [TextFormatter("%(message)s"), JsonFormatter()])
def test_log_lines_and_tracebacks_are_marked(formatter):
    """A server's message in a traceback (with -v) that looks like the tool's lines."""
    try:
        raise RuntimeError(TABLES[0] + TABLES[1])
    except RuntimeError:
        about = sys.exc_info()
    for message, arguments in (("%s: %s", (TABLES[0], TABLES[1])), (TABLES[2], ())):
        record = logging.LogRecord("privbench", 40, "", 1, message, arguments, about)
        record.fields = {"table": TABLES[0]}
        text = formatter.format(record)
        assert not hidden(text)
        assert not [line for line in text.split("\n") if line.startswith(FORGED)]


MARKDOWN = """# head
- item
1. item
``` x
![i](http://x)
<b>
&lt;b&gt;
a|b
<http://x>
`` a ` b ``
`
***
a\\
=="""


def test_markdown_of_a_stranger_is_text():
    reader = MarkdownIt("commonmark").enable("table")
    for attack in (*TABLES, *REAL, *MARKDOWN.splitlines()):
        both = f"{code(attack)} | {markdown(attack)}"
        page = f"{markdown(attack)} {code(attack)}\n\n| a | b |\n|---|---|\n| {both} |"
        tokens = [token for token in reader.parse(page) if token.type != "inline"]
        inner = [part for token in reader.parse(page) for part in token.children or ()]
        kinds = {token.type for token in (*tokens, *inner)}
        assert kinds <= {"text", "code_inline", "text_special", "softbreak", *(
            f"{part}_{end}" for part in ("paragraph", "table", "thead", "tbody", "tr", "th", "td")
            for end in ("open", "close")
        )}, (attack, kinds)  # fmt: skip
        assert sum(token.type == "td_open" for token in tokens) == 2
        shown = "".join(part.content for part in inner if part.type != "softbreak")
        assert visible(attack) in shown


#: Calls that print, and the only files that may do so: the console, and children that answer to us.
_PRINTING = {
    "click": {"echo", "secho", "echo_via_pager", "prompt", "confirm", "style"},
    "warnings": {"warn"},
    "sys": {"stdout", "stderr"},
    "os": {"write"},
}
_MAY_PRINT = {
    "cli/console.py": {
        *("click.echo", "click.style", "click.confirm", "click.prompt", "rich", "sys.stderr")
    },
    # They ask how wide the stream is.
    "cli/inspect.py": {"sys.stdout"},
    "cli/model.py": {"sys.stderr"},
    # A child, whose answers to its parent are names of files and constants.
    "publish/parquet_check.py": {"print"},
}


@pytest.fixture(scope="module")
def modules():
    """The nodes of every module of the product, by its path; each is parsed once."""
    root = Path(privbench.__file__).parent
    return {
        str(path.relative_to(root)): [*ast.walk(ast.parse(path.read_text()))]
        for path in root.rglob("*.py")
    }


def _calls(nodes):
    """Places of a module where something is printed, or escaped by other means than the door."""
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ):
            yield "print"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in _PRINTING.get(node.value.id, ()):
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "rich":
            yield "rich"


def test_nothing_but_the_console_prints(modules):
    """Which escapes."""
    printing = {name: calls for name, nodes in modules.items() if (calls := {*_calls(nodes)})}
    assert printing == _MAY_PRINT


#: Where text is declared to be escaped already, or JSON is written with letters as they are.
_DECLARING = {
    "Lines": {"display.py", "publish/verifying.py"},
    "Environment": {"report/templates/__init__.py", "publish/scripts.py"},
    "Formatter": {"cli/console.py"},
    "tomli_w.dumps": {"config.py"},
    "JUnitXml": {"report/junit.py"},
    "generate_latest": {"cli/metrics.py"},
}


def test_every_writer_of_texts_escapes_in_one_place(modules):
    """Templates, JSON, TOML, XML and metrics are written where their syntax's escapes are."""
    for name, nodes in modules.items():
        calls = [(node, ast.unparse(node.func)) for node in nodes if isinstance(node, ast.Call)]
        escaped = {
            part for node, called in calls if called.endswith("_visible") for part in ast.walk(node)
        }
        for node, called in calls:
            for part, places in _DECLARING.items():
                if called == part or (called.split(".")[-1] == part and "." not in part):
                    assert name in places, (name, called)
            raw = any(
                word.arg == "ensure_ascii" and ast.unparse(word.value) == "False"
                for word in node.keywords
            )
            # A model's header is for programs alone, and documents are rows.
            unseen = name in ("pipeline/model.py", "encoding/documents.py")
            assert not raw or node in escaped or unseen, (name, node.lineno)
            if called.endswith("Environment"):
                assert "finalize" in {word.arg for word in node.keywords}
