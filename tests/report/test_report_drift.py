"""Work, drift, gates over queries, and the forms for machines, on a real comparison."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner
from junitparser import JUnitXml
from market import fail, succeed

from privbench.errors import UsageError
from privbench.report import ComparisonDocument, compare, enforce
from privbench.report.baseline import change, read
from privbench.report.document import json_schema
from privbench.workload import Workload, WorkloadQuery

FEW = Workload(
    "few",
    (
        WorkloadQuery("all", "SELECT count(*) FROM loans", weight=5),
        WorkloadQuery("joined", "SELECT count(*) FROM readers r JOIN loans l ON l.reader = r.id"
                        " WHERE l.weeks < 4", weight=3),
        WorkloadQuery("eight", "SELECT count(*) FROM loans WHERE weeks = 8"),
        WorkloadQuery("fails", "SELECT 1 / (count(*) - 1900) FROM loans"),
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("drift")


@pytest.fixture(scope="module")
def itself(library, folder):
    """The library against itself."""
    return compare(library, library, FEW, None, folder / "itself", repeats=2)


@pytest.fixture(scope="module")
def document(library, library_clone, folder, itself):
    """The library against its clone, with the comparison with itself as the baseline."""
    return compare(
        library,
        library_clone,
        FEW,
        None,
        folder / "clone",
        [
            "query.qerror > 100", "query.qerror > 1000", "drift.qerror.max > 1.2",
            "drift.kld.2 > 1.2", "plan.agreement < 0.1", "work.blocks.max > 1e9",
            "runtime.p50 > 1e6 * runtime.floor.p50",
        ],
        repeats=2,
        baseline=folder / "itself" / "comparison.json",
        junit=folder / "junit.xml",
    )  # fmt: skip


def test_a_database_does_not_differ_from_itself(itself):
    figures = itself.figures
    for name in ("qerror.max", "plan.agreement", "plan.join_order", "plan.operators.max",
                 "stats.n_distinct.max"):  # fmt: skip
        assert figures[name] == 1, name
    for name in ("work.blocks.max", "work.rows.max", "stats.mcv.max", "stats.null_frac.max",
                 "tvd.2", "rows.max_difference", "replay.unstable", "work.missing"):  # fmt: skip
        assert figures[name] == 0, name
    # Its discrepancy and its floor come from as many runs of the same queries.
    for query in itself.queries:
        assert len(query.source.seconds) == len(query.clone.seconds) == len(query.again) == 2
    above = [q.runtime > q.floor for q in itself.queries]
    assert figures["runtime.beyond_floor"] == sum(above) / 4


def test_work_and_plans_are_those_of_the_queries(document):
    whole, joined, eight, fails = document.queries
    root = whole.source.work.plan
    assert root.operator == "Aggregate"
    assert root.children[0].relation == "loans"
    assert root.children[0].rows * root.children[0].loops == 2000
    assert whole.work.rows == pytest.approx(100 * 100 / 2001)
    assert whole.work.same_plan
    assert whole.work.operators == [1, pytest.approx(2000 / 1900)]
    assert eight.qerror == pytest.approx(237)
    assert fails.work is None
    assert fails.clone.error == "22012"
    assert joined.work.same_join_order
    assert (document.work.queries, document.work.missing) == (3, 0)
    assert set(document.plans.same_by_joins) == {"0", "1"}


def test_weights_are_counted(document):
    errors = [q.qerror or 0 for q in document.queries[:3]]
    assert document.qerror.weighted.mean == pytest.approx(np.average(errors, weights=[5, 3, 1]))
    assert document.figures["qerror.weighted.p50"] == errors[0]


def test_the_page_lists_queries_by_calls_times_time(document, folder):
    page = (folder / "clone" / "report.html").read_text().partition("Where the time goes: calls")[2]
    shown = re.findall(r"<tr><th>(\w+)</th><td>(\d)</td>", page.partition("</table>")[0])
    cost = {q.id: (q.weight * (q.source.median or 0), q.weight) for q in document.queries[:3]}
    order = sorted(cost, key=lambda name: -cost[name][0])
    assert shown == [(name, f"{cost[name][1]:g}") for name in order]


def test_drift_is_the_ratio_to_the_baseline(document, itself):
    drift = document.drift
    assert drift.same_workload
    assert drift.gone == drift.added == []
    moved = drift.figures["qerror.max"]
    assert (moved.old, moved.new) == (1, document.figures["qerror.max"])
    assert document.figures["drift.qerror.max"] == moved.ratio == moved.new
    assert document.figures["drift.tvd.2"] is None  # nothing, and now something
    worst = drift.regressions[0]
    assert (worst.query, worst.figure, worst.old) == ("eight", "qerror", 1)
    assert ("fails", "qerror", None) in [(r.query, r.figure, r.new) for r in drift.regressions]
    assert change(0.0, 0.0).ratio == 1


def test_gates_name_their_queries(document, folder):
    found = {gate.condition: gate for gate in document.gates}
    # What the clone cannot answer fails a gate over queries whatever its limit.
    assert found["query.qerror > 100"].queries == ["fails", "eight"]
    assert found["query.qerror > 1000"].queries == ["fails"]
    failed = [gate.failed for gate in document.gates]
    assert failed == [True, True, True, True, False, False, False]
    with pytest.raises(Exception, match=r"query\.qerror > 100 \(fails, eight\)"):
        enforce(document.gates)
    suites = {suite.name: suite for suite in JUnitXml.fromfile(str(folder / "junit.xml"))}
    assert (suites["gates"].tests, suites["gates"].failures) == (7, 4)
    cases = {case.name: case for case in suites["queries"]}
    told = (("fails", 100), ("eight", 100), ("fails", 1000))
    assert set(cases) == {f"query {name}: fail if query.qerror > {most}" for name, most in told}
    eight = cases["query eight: fail if query.qerror > 100"].result[0]
    assert "237" in eight.message
    assert "weeks = 8" in eight.text


@pytest.mark.parametrize(
    ("gate", "options"),
    [
        ("work.blocks.p50 > 1", {"explain": False}),
        ("plan.agreement < 1", {"explain": False}),
        ("runtime.floor.p50 > 1", {"floor": False}),
        ("drift.qerror.p95 > 1", {}),
        ("kld.2 > 1", {"distributions": False}),
        ("kld.2[public.absent] > 1", {}),
    ],
)
def test_gates_over_what_is_not_measured_are_refused_first(library, library_clone, gate, options):
    def ran(*_):
        pytest.fail("the workload was run")

    with pytest.raises(UsageError, match="no figure"):
        compare(library, library_clone, FEW, gates=[gate], tell=ran, **options)


def test_a_baseline_of_another_workload_is_refused(library, folder, itself, tmp_path):
    other = Workload("other", (*FEW.queries[1:], WorkloadQuery("new", "SELECT 1")))
    old = folder / "itself" / "comparison.json"
    with pytest.raises(UsageError, match="ran another workload"):
        compare(library, library, other, baseline=old)
    found = compare(library, library, other, repeats=1, baseline=old, other_workload=True)
    assert not found.drift.same_workload
    assert (found.drift.gone, found.drift.added) == (["all"], ["new"])
    (tmp_path / "no.json").write_text("{}")
    with pytest.raises(UsageError, match="not a comparison"):
        read(tmp_path / "no.json")
    with pytest.raises(UsageError, match="cannot read"):
        read(tmp_path / "absent.json")


def test_the_schema_of_the_document_is_published(document, folder, tmp_path):
    result = succeed("compare-schema")
    schema = json.loads(result.stdout)
    assert schema == json_schema()
    assert schema["$id"] == "privbench-comparison-4"
    assert schema["properties"]["schema_version"]["const"] == 4
    # No object has a property that the schema does not name.
    assert not any(part["additionalProperties"] for part in schema["$defs"].values())
    (tmp_path / "schema.json").write_text(result.stdout)
    files = [str(tmp_path / "schema.json"), str(folder / "clone" / "comparison.json")]
    from check_jsonschema import main as check_jsonschema

    checked = CliRunner().invoke(check_jsonschema, ["--schemafile", *files])
    assert checked.exit_code == 0, checked.output


def test_the_short_report_tells_work_and_drift(folder, document):
    text = (folder / "clone" / "report.md").read_text()
    for needed in ("work discrepancy, blocks", "Same plan for",
                   "Against the comparison of", "| `qerror.p95` | 1 |", "Q-error by weights",
                   "**failed** fails, eight"):  # fmt: skip
        assert needed in text, needed


def test_the_command_takes_every_option(library, library_clone, tmp_path):
    workload = tmp_path / "w.sql"
    workload.write_text("SELECT count(*) FROM loans;")
    base = ["compare", library, library_clone, "-w", workload, "--repeats", 1]
    cold = ("--cold", "--before", "true", "--before-sql", "DISCARD ALL")
    said = succeed(*base, "-o", tmp_path / "a", *cold, "--metrics", tmp_path / "m").stdout
    assert "CONFIDENTIAL" in said
    data = json.loads((tmp_path / "a" / "comparison.json").read_text())
    assert data["replay"]["cold"] == "command: true; new connection; statement: DISCARD ALL"
    assert data["replay"]["warmup"] == 0
    quick = ("--no-floor", "--no-explain", "--no-distributions", "--warmup", 0)
    drift = ("--baseline", tmp_path / "a/comparison.json", "--fail-if", "drift.qerror.p95 > 1.2")
    succeed(*base, "-o", tmp_path / "b", *quick, *drift)
    left = ComparisonDocument.model_validate_json((tmp_path / "b" / "comparison.json").read_text())
    assert left.runtime.floor is left.work is left.plans is None
    assert all(query.again == [] and query.work is None for query in left.queries)
    assert not any(table.columns or table.divergence for table in left.tables)
    assert all(table.source_rows for table in left.tables)
    assert left.figures["runtime.floor.p50"] is left.figures["kld.2"] is None
    assert left.figures["stats.n_distinct.p50"] is not None is left.figures["values.sum.p50"]
    alone = ("compare", library, library_clone, "-o", tmp_path / "c", "--data-only")
    gate = ("--fail-if", "values.sum.median > 100", "--fail-if", "values.identity.max > 0.9")
    succeed(*alone, *gate, "--metrics", tmp_path / "d", "--junit", tmp_path / "j")
    assert 'privbench_values_sum{run="d",stat="p50"}' in (tmp_path / "d").read_text()
    assert "fail if values.sum.p50 &gt; 100" in (tmp_path / "j").read_text()
    assert "Values, median column" in (tmp_path / "c" / "report.md").read_text()
    assert (
        "there is no figure 'qerror.p50'"
        in fail(2, "", *alone, "--fail-if", "qerror.p50 > 1").stderr
    )
    fail(2, "Give either --workload, or --data-only.", *alone[:-1])
    more = ("--explain", "--repeats", 2)
    succeed("run", workload, "--on", library, "-o", tmp_path / "r.json", *more)
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["results"][0]["plan"][0]["Plan"]["Node Type"] == "Aggregate"
