"""What goes where: results to stdout, all else to stderr, in the chosen format."""

import ast
import json
import re
from pathlib import Path
from types import SimpleNamespace

import market
import pytest
from integrity import schema_of, whole
from market import fail, run, succeed
from pyarrow import parquet

from privbench import cli, pipeline
from privbench.cli import console
from privbench.config import Config
from privbench.pipeline import Model
from privbench.privacy.accountant import epsilon_for

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def config(tmp_path):
    return market.config_file(tmp_path, market.INDEPENDENT)


def test_no_rule_has_a_number_in_what_users_see():
    rule = re.compile(r"PRIVACY P\d|\bP\d+[,)]")
    texts = [run(name).stdout for name in ("config-schema", "compare-schema")]
    texts += [path.read_text() for path in DOCS.glob("*.md")]
    for path in Path(cli.__file__).parents[1].rglob("*.py"):
        if not rule.search(path.read_text()):
            continue
        tree = ast.parse(path.read_text())
        # All constants but docstrings.
        silent = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        constants = {node for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        texts += [str(node.value) for node in constants - silent]
    assert not [found[0] for text in texts for found in rule.finditer(text)]


def test_results_to_stdout_and_progress_to_stderr(source, config, tmp_path, make_database):
    fitted = succeed("fit", source, "-c", config, "-o", tmp_path / "m")
    assert re.fullmatch(r"\S+/m: ε = [^\n]*", fitted.stdout.splitlines()[-1])
    for stage in ("extract", "totals", "domains", "learn"):
        assert re.search(rf"^INFO +{stage}: [\d.]+ s, peak \d+ MiB$", fitted.stderr, re.M), stage
    release = re.search(r"release ([0-9a-f-]{36}) \(to go on after a crash", fitted.stderr)
    assert release
    target = make_database()
    loaded = succeed("load", tmp_path / "m", target)
    lines = loaded.stdout.splitlines()
    assert lines[0].startswith("6 tables, ")
    assert len([line for line in lines if line.startswith("  public.")]) == 6
    assert " s, peak" not in loaded.stdout
    whole(target)
    again = run("load", tmp_path / "m", target)
    assert "the target is not empty" in again.stderr
    assert "sample" not in again.stderr
    shown = run("ledger", "show", "--identity", "market", "--ledger", tmp_path / "ledger")
    assert release[1] in shown.stdout
    assert shown.stderr == ""


def test_a_long_stage_tells_where_it_is(monkeypatch, caplog):
    waits = []

    class Clock:
        def __init__(self, seconds, call):
            self.seconds, self.call, self.state = seconds, call, "new"
            waits.append(self)

        def start(self):
            self.state = "started"

        def cancel(self):
            self.state = "cancelled"

    monkeypatch.setattr(console, "Timer", Clock)
    monkeypatch.setattr(console, "current_thread", lambda: waits[-1])
    # An earlier command of this process has set its logger up: each line is to be captured once.
    monkeypatch.setattr(console.LOG, "propagate", False)
    monkeypatch.setattr(console.LOG, "handlers", [caplog.handler])
    caplog.set_level("INFO", "privbench")
    reporter = console.LogReporter()
    with reporter.stage("learn"):
        assert waits[0].seconds <= 5
        waits[0].call()
        for step in (
            ("learn public.orders", 4, 15),
            ("queries", 1200, 3000),
            ("extract public.orders", 2000, None),
            ("index", 0, None),
        ):
            reporter.advance(*step)
            assert waits[-1].seconds <= 30
            waits[-1].call()
        release = SimpleNamespace(events=[SimpleNamespace(table="public.orders")])
        reporter.spending = SimpleNamespace(release=release, tables=["a", "b", "public.orders"])
        reporter.begin("learn")
        for _ in range(2):
            waits[-1].call()
        assert waits[-1].state == "started"
    assert waits[-1].state == "cancelled"
    assert caplog.messages[:-1] == [
        "learn", "learn 4 of 15: public.orders", "queries 1,200 of 3,000",
        "extract 2,000: public.orders", "index", *["learn 3 of 3: public.orders"] * 2,
    ]  # fmt: skip


def test_json_log_is_json_lines_and_names_the_kinds_of_errors(source, config, make_database):
    result = succeed("--log-format", "json", "clone", source, make_database(), "-c", config)
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line["time"]) for line in lines)
    staged = {line["stage"]: line["seconds"] for line in lines if "stage" in line}
    assert {"extract", "totals", "domains", "learn", "sample", "load"} <= staged.keys()
    assert all(isinstance(seconds, float) and seconds >= 0 for seconds in staged.values())
    assert result.stdout.startswith("6 tables, ")
    # Errors name their kind.
    result = run("--log-format", "json", "fit", "host=/nonexistent-directory", "-c", config,
                 "-o", config.parent / "m")  # fmt: skip
    (line,) = [json.loads(text) for text in result.stderr.splitlines()]
    assert (result.exit_code, line["level"], line["error"]) == (3, "error", "ConnectionFailed")


def test_quiet_says_errors_only_and_verbose_shows_the_traceback(source, config, tmp_path):
    result = succeed("-q", "fit", source, "-c", config, "-o", tmp_path / "m")
    assert result.stderr == ""
    words = "fit", source, "-c", tmp_path / "none", "-o", tmp_path / "m"
    for option in ("-q", "-v"):
        failed = fail(2, "cannot read the config", option, *words)
        assert ("Traceback" in failed.stderr) == (option == "-v")
    assert "Traceback" not in fail(2, "", *words).stderr


def test_from_inspect_to_clone(source, tmp_path, make_database):
    """The way that the README shows: propose, check, plan, fit, load, sample."""
    file = tmp_path / "proposal.toml"
    found = succeed("inspect", source, "-o", file)
    assert "6 tables" in found.stdout
    assert Config.load(file).tables
    checked = succeed("check", source, "-c", file)
    assert checked.stdout == succeed("check", file, source).stdout, "the order of earlier versions"
    fail(2, "SOURCE -c CONFIG", "check", source, source, "-c", file)
    for table in market.TABLES:
        assert f"public.{table}." in checked.stdout
    words = ("--epsilon", "3", "--rows", "public.customer=40")
    report = json.loads(succeed("plan", source, "-c", file, *words, "--json").stdout)
    assert report["accounting"] == "zcdp"
    assert epsilon_for(report["total"], Config.load(file).privacy.delta) < 3
    assert spent(report["events"]) == pytest.approx(report["total"], rel=0.1)
    assert report["expected_rows"] == {"public.customer": 40.0}
    text = succeed("plan", file, source, *words).stdout
    assert text == succeed("plan", source, *words).stdout
    answer, *tables = text.splitlines()[:7]
    assert answer.startswith("ε = 3 is enough for ")
    assert "too few units: public.customer" in answer
    assert [line.split()[0] for line in tables] == [f"public.{name}" for name in market.TABLES]
    assert re.search(r"public.customer +[\d,]+ units needed +40 given +too few", text)
    assert "Too few units to be learned" in text
    assert "total public.customer" not in text
    assert "total public.customer" in run("-v", "plan", file, source, *words).stdout
    model, ledger = tmp_path / "m", tmp_path / "ledger"
    succeed("fit", source, "-c", file, "--epsilon", "3", "-o", model, "--ledger", ledger)
    target = make_database()
    succeed("load", model, target, "--seed", "1")
    whole(target)
    assert schema_of(target) == schema_of(source)
    files = tmp_path / "files"
    sampled = succeed("sample", model, "-o", files, "--format", "parquet", "--seed", 1)
    assert len(sampled.stdout.splitlines()) == len(list(files.glob("*.parquet"))) == 6
    kept = parquet.read_table(files / "public.customer.parquet")
    assert kept.num_rows == market.one(target, "SELECT count(*) FROM customer")
    assert kept.column_names[:3] == ["id", "region", "referrer"]
    named = Config.loads("[database]\nidentity = 'sampled'")
    before = Model.load(model).schema
    for table in pipeline.look(f"parquet:{files}", named).schema:
        theirs = before.table(table.name)
        assert table.primary_columns == theirs.primary_columns
        assert [column.type.category == "D" for column in table.columns] == [
            theirs.column(column.name).type.category == "D" for column in table.columns
        ]
        keys, own = ({(k.columns, k.ref_table) for k in t.foreign_keys} for t in (table, theirs))
        assert keys == own


def spent(events) -> float:
    """The largest sum over root tables."""
    sums: dict[str, float] = {}
    for event in events:
        for root in event["roots"]:
            sums[root] = sums.get(root, 0.0) + event["amount"]
    return max(sums.values())
