"""privbench in Python: the session of its page, tables in memory, the notebook of the docs."""

import ast
import doctest
import json
import re
import sys
import tempfile
from contextlib import redirect_stderr
from datetime import date, datetime, timedelta
from decimal import Decimal
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pytest
from market import ask, execute
from psycopg import conninfo
from sql_files import sql_of

import privbench as pb
from privbench.cli import console
from privbench.cli.console import BarReporter
from privbench.config import Config
from privbench.errors import ConfigError, ConnectionFailed, PrivacyRefusal, SchemaError, UsageError
from privbench.sources.frames import declared, texts

ROOT = Path(__file__).parents[1]


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    """The user's state directory is one of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def services(make_database, tmp_path, monkeypatch, ledger):
    """``service=prod`` is a small shop, ``service=clone`` an empty database."""
    sections = []
    for name, statements in (("prod", sql_of(__file__, "notebook_shop")), ("clone", "")):
        known = conninfo.conninfo_to_dict(make_database(statements))
        sections += [f"[{name}]", *(f"{key}={value}" for key, value in known.items())]
    (tmp_path / "services").write_text("\n".join(sections) + "\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))


def test_the_session_of_the_page_runs(services, tmp_path, monkeypatch):
    """Each line as it is written there, with the output that is shown."""
    monkeypatch.chdir(tmp_path)
    Path("queries.sql").write_text("SELECT count(*) FROM users WHERE country = 1;\n")
    (block,) = re.findall(r"```pycon\n(.*?)```", (ROOT / "docs/python.md").read_text(), flags=re.S)
    session = doctest.DocTestParser().get_doctest(block, {}, "python.md", "python.md", 0)
    said = StringIO()
    with redirect_stderr(StringIO()):
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        runner.run(session, out=said.write, clear_globs=False)
    assert said.getvalue() == ""
    names = session.globs
    model, tables, loaded = (names[name] for name in ("model", "tables", "loaded"))
    assert len(session.examples) >= 10
    assert [table.num_rows for table in tables.values()] == [3, pytest.approx(40, abs=20)]
    assert tables["public.users"].schema.field("born").type == pa.date32()
    assert loaded.rows["public.country"] == 3
    assert re.search(r"public\.country +3\b", repr(model))
    assert 1 <= names["figures"]["qerror.p95"] < 100
    assert "public.orders" in repr(names["other"])
    for shown in (model, model.model, loaded, names["proposal"], names["db"]):
        assert len(repr(shown)) < 4000


def test_a_decision_that_cannot_stand_changes_nothing(services):
    proposal = pb.connect("service=prod").propose()
    before = proposal.inspect({}).config
    with pytest.raises(ConfigError, match="nowhere"):
        proposal["users"].decide(own=["nowhere"])
    with pytest.raises(
        SchemaError, match=r"no table public\.user\. Tables: public\.country, public"
    ):
        proposal["user"]
    with pytest.raises(ConfigError, match=r"\[owner\] there is no such key. Did you mean 'own'"):
        proposal["users"].decide(owner=[])
    assert proposal.inspect({}).config == before
    proposal["public.users"].decide(own=[])
    assert proposal.inspect({}).config.tables["public.users"].own == []
    assert "public.users.born" in repr(proposal["users"])
    with pytest.raises(ConnectionFailed):
        pb.connect("service=prod port=1")


def test_a_schema_that_was_changed_since_it_was_shown_is_refused(make_database, ledger):
    """A proposal of references that no constraint states reads the catalog once more."""
    tables = "CREATE TABLE users (id int PRIMARY KEY); CREATE TABLE orders (user_id int);"
    source = pb.connect(dsn := make_database(tables))
    proposal = source.propose()
    assert "user_id" in repr(proposal)
    execute(dsn, "ALTER TABLE users ADD CHECK (id <> 4711)")
    with pytest.raises(SchemaError, match="changed since"):
        source.fit(proposal, epsilon=1)


#: By column, values that frames type by what else is in the column, and their texts.
VALUES = {
    "whole": ([1, 2], ["1", "2"]),
    "large": ([2**60, -(2**62)], ["1152921504606846976", "-4611686018427387904"]),
    "half": ([0.5, 1.0], ["0.5", "1"]),
    "span": ([timedelta(1, 5), -timedelta(0, 0.5)], ["1 days 0:00:05", "-1 days 23:59:59.5"]),
    "flag": ([True, False], ["true", "false"]),
    "day": ([date(2020, 1, 31), date(1, 1, 1)], ["2020-01-31", "0001-01-01"]),
    "at": (
        [datetime(2020, 1, 31, 12), datetime(2020, 1, 31, 12, 0, 0, 500000)],
        ["2020-01-31 12:00:00", "2020-01-31 12:00:00.500000"],
    ),
    "cents": ([Decimal("1.50"), Decimal("20.00")], ["1.50", "20.00"]),
    "word": (["a", "1.0"], ["a", "1.0"]),
}
#: The value of one more row.
MORE = [None, "x", 7, 2.5, True, 2**70, b"\0", [1], {"a": {}}, pd.NaT, pd.NA, datetime(9999, 1, 1)]


@pytest.mark.parametrize("more", MORE, ids=repr)
@pytest.mark.parametrize("make", [pd.DataFrame, dict])
def test_one_more_row_changes_no_type_and_no_other_row(make, more):
    """The schema of a model is that of the config, in which every column is declared."""
    types = {"t": {"whole": "BIGINT"}}
    frames = [
        make({name: values + rows for name, (values, _) in VALUES.items()}) for rows in ([], [more])
    ]
    one, other = map(texts, frames)
    configs = [declared(Config(), {"t": table}, types, {}) for table in (one, other)]
    assert configs[0] == configs[1]
    assert configs[0].source.tables["t"].columns == dict.fromkeys(VALUES, "VARCHAR") | types["t"]
    for name, (_, written) in VALUES.items():
        found = one[name].to_pylist()
        assert other[name].to_pylist()[:2] == found
        assert [text.rstrip("0") for text in found] == [text.rstrip("0") for text in written]


def test_arrow_columns_have_the_texts_of_their_values():
    for name, (values, written) in VALUES.items():
        for made in (pa.array(values), pa.chunked_array([pa.array(values)])):
            found = texts({name: made})[name].to_pylist()
            assert [text.rstrip(".:0") for text in found] == [
                text.rstrip(".:0") for text in written
            ]
    odd = {"t": pa.array([2**62, 1], pa.timestamp("s")), "d": pa.array([2**30, 1], pa.date32())}
    assert texts(pa.table(odd))["d"].to_pylist()[1] == "1970-01-02"
    assert texts({"t": ["\ud800", b"\0", {(1, 2): 3}]})["t"].to_pylist() == [
        "?",
        "\\x00",
        "{(1, 2): 3}",
    ]
    coded = pa.array(["a", "b", "a"]).dictionary_encode()
    assert texts({"c": coded})["c"].to_pylist() == ["a", "b", "a"]


def test_rows_in_memory_lie_in_no_file_once_they_are_copied():
    """A kernel that is killed would leave them behind."""
    source = pb.connect({"left_behind": {"a": [4711]}}, identity="x")
    with source.opened() as dsn:
        assert ask(dsn, "SELECT a FROM left_behind") == [("4711",)]
        assert not list(Path(tempfile.gettempdir()).glob("*/left_behind.parquet"))


def test_a_cell_of_a_notebook_has_one_text_that_changes(monkeypatch):
    shown, said = [], []
    handle = SimpleNamespace(update=lambda text, raw: said.append(text["text/plain"]))

    def display(text, *, raw, display_id):
        shown.append(text["text/plain"])
        return handle

    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr(BarReporter, "_pauses", (0.01, 0.01))
    monkeypatch.setattr(console, "STDERR", SimpleNamespace(is_jupyter=True))
    told = BarReporter()
    with told.stage("extract"):
        pass
    with told.stage("learn"):
        while not any("public" in text for text in said):
            for done in range(1, 101):
                told.advance("learn public.\x1b[31morders", done, 200)
    assert re.fullmatch(r"extract: \d+\.\d s", shown[0])
    moving = next(text for text in said if "public" in text).split("\n")
    assert re.fullmatch(r"█{0,10}░{10,20} learn \d+ of 200: public.\\x1b\[31morders", moving[1])
    assert re.fullmatch(r"extract: \d+\.\d s\nlearn: \d+\.\d s", said[-1])
    assert len(shown) == 1


@pytest.mark.parametrize(
    ("told", "error", "given"),
    [
        ("has no identity", PrivacyRefusal, {}),
        ("'b' names no", UsageError, {"types": {"t": {"b": "DATE"}}}),
        ("'u' names no", UsageError, {"keys": {"u": "a"}}),
        ("tables.t.primary", ConfigError, {"keys": {"t": {"primary": "a"}}}),
        ("'ONE' is no type", ConfigError, {"types": {"t": {"a": "ONE"}}}),
        ("'a/b' names no", UsageError, {"source": {"a/b": {"a": [1]}}}),
        ("two columns", UsageError, {"source": {"t": pd.DataFrame([[1, 2]], columns=["a", "a"])}}),
    ],
)
def test_what_does_not_fit_tables_in_memory_is_said(told, error, given, ledger):
    with pytest.raises(error, match=told):
        pb.fit(**{"source": {"t": {"a": [1]}}, "epsilon": 1, **given})


@pytest.mark.slow
def test_the_notebook_runs(ledger, tmp_path, monkeypatch):
    """Cell by cell, with the outputs that its tutorial shows."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code, expected in _cells():
        tree = ast.parse(code)
        last = tree.body[-1]
        value = tree.body.pop().value if isinstance(last, ast.Expr) else None
        exec(compile(tree, "cell", "exec"), names)
        if value is not None:
            printed = repr(eval(compile(ast.Expression(value), "cell", "eval"), names))
            checker = doctest.OutputChecker()
            assert checker.check_output(expected or "...", printed + "\n", doctest.ELLIPSIS)
    assert "ε = 3.2" in repr(names["model"])


def test_the_tutorial_has_the_cells_of_the_notebook():
    notebook = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells)
    assert ["".join(cell["source"]) for cell in cells] == [code.rstrip() for code, _ in _cells()]


def _cells() -> list[tuple[str, str]]:
    """The cells of the tutorial with the output that it shows, '' where it shows none."""
    text = (ROOT / "docs" / "tutorials" / "notebook.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", text, flags=re.S)
