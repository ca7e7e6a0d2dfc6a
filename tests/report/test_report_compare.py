"""A whole comparison of two databases, and every file that it writes."""

import json

import pytest
from junitparser import JUnitXml

from privbench.errors import GateFailed
from privbench.report import ComparisonDocument, compare, enforce, figures, summary
from privbench.report.html import render
from privbench.workload import Workload, write
from privbench.workload.replay import silent


def test_answers_and_qerrors_are_true(document):
    by_id = {query.id: query for query in document.queries}
    one = by_id["l1"]
    assert (one.source.rows, one.clone.rows) == (400, 237)
    assert one.qerror == pytest.approx(400 / 237)
    expected = [q.qerror for q in document.queries if q.qerror is not None]
    assert document.figures["qerror.max"] == max(expected)
    assert document.qerror.overall.n == len(expected) == 29
    assert set(document.qerror.by_joins) == {"0", "1"}
    assert document.qerror.by_joins["1"].n == 8
    assert document.qerror.clone_zero == 0 < document.qerror.true_zero


def test_trouble_is_counted_and_left_out(document):
    assert document.replay.timeouts == {"source": 1, "clone": 1}
    assert document.replay.errors == {"source": 0, "clone": 1}
    assert document.figures["replay.timeouts"] == 2
    # The noise floor has those that ended on the source.
    assert document.runtime.floor.n == 30
    assert document.figures["runtime.floor.p50"] == document.runtime.floor.p50
    sleep, zero = document.queries[-2:]
    assert sleep.qerror is sleep.runtime is zero.qerror is zero.runtime is None
    assert zero.clone.error == "22012"


def test_tables_are_measured(document):
    tables = {table.name: table for table in document.tables}
    loans = tables["public.loans"]
    assert (loans.source_rows, loans.clone_rows) == (2000, 1900)
    assert document.figures["rows.max_difference"] == pytest.approx(5.0)
    assert set(loans.left_out) == {"id", "reader", "remark"}
    assert [column.name for column in loans.columns] == ["taken", "weeks"]
    assert tables["public.branches"].public
    assert tables["public.branches"].columns == []
    weeks = loans.columns[1]
    assert weeks.labels == [str(i) for i in range(1, 9)]
    assert weeks.real == pytest.approx([0.2] * 5 + [0.0] * 3)
    assert weeks.clone == pytest.approx([1 / 8] * 8, abs=0.01)
    assert weeks.tvd == pytest.approx(0.375, abs=0.01)
    whole = document.figures["kld.2"]
    sets = [t.divergence["2"] for t in document.tables if "2" in t.divergence]
    assert whole == pytest.approx(sum(d.kld * d.sets for d in sets) / sum(d.sets for d in sets))
    assert document.figures["kld.2[public.loans]"] == loans.divergence["2"].kld
    assert document.figures["kld.4"] is None
    assert set(document.figures) == figures.names(tables)
    assert len(document.integrity) == 13
    assert document.figures["integrity.violations"] == 0


def test_the_json_is_the_document_and_the_short_report_holds_stamp_and_figures(document, folder):
    text = (folder / "comparison.json").read_text()
    assert ComparisonDocument.model_validate_json(text) == document
    data = json.loads(text)
    assert data["schema_version"] == 4
    assert data["confidential"].startswith("This report holds exact figures of the source")
    # The short report holds stamp and figures.
    text = (folder / "report.md").read_text()
    assert "> **CONFIDENTIAL.** This report holds exact figures" in text
    assert "| `rows.max_difference > 1` | 5 | **failed** |" in text
    assert "| public.loans | 2,000 | 1,900 |" in text
    assert len(text) < 4500
    lines = summary(document).splitlines()
    # What failed comes first.
    assert lines[0] == "gate FAILED: fail if rows.max_difference > 1 (it is 5)"
    assert all("of 31 queries on the" in line for line in lines[1:4])
    assert lines[4].startswith("Q-error, median")
    assert "worst: " in lines[4]
    assert "1 end by LIMIT, which bounds both answers" in lines[4]
    assert lines[-1].startswith("gate passed: fail if qerror.p50 < 1")
    assert "on disk" in lines[-3]
    late = "the statement was cancelled or passed its time-out (SQLSTATE 57014)"
    assert f"1 of 31 queries on the source: {late}: l30" in lines
    zero = "the server reported DivisionByZero (SQLSTATE 22012)"
    assert f"1 of 31 queries on the clone: {zero}: l31" in lines
    assert f"| 1 on the clone | {zero} | l31 |" in text
    assert len(lines) == 14


def test_gates_decide(document, folder):
    assert [gate.failed for gate in document.gates] == [False, False, True]
    assert document.failed
    with pytest.raises(GateFailed, match=r"1 of 3 gates failed: rows\.max_difference > 1") as error:
        enforce(document.gates)
    assert error.value.exit_code == 1
    assert "5" not in str(error.value)
    (_, integrity) = JUnitXml.fromfile(str(folder / "junit.xml"))
    assert (integrity.name, integrity.tests, integrity.failures) == ("integrity", 13, 0)


@pytest.mark.parametrize("after", [pytest.param(0, marks=pytest.mark.slow), 3])
def test_a_comparison_that_was_broken_off_goes_on(
    library, library_clone, loans, tmp_path, monkeypatch, after
):
    """In the replay, after so many queries, or in what follows it."""
    write(Workload("few", loans.queries[:4]), tmp_path / "few.sql")

    def stop(step, done, total):
        if (step, done) == ("queries", after):
            raise ZeroDivisionError

    def again(tell=silent):
        return compare(
            library, library_clone, tmp_path / "few.sql", None, tmp_path / "out", repeats=1,
            explain=False, distributions=False, tell=tell,
        )  # fmt: skip

    with monkeypatch.context() as patch:
        if not after:
            patch.setattr("privbench.metrics.integrity.row_count", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            again(stop)
    assert not (tmp_path / "out" / "comparison.json").exists()
    assert again().replay.resumed == (after or 4)
    assert again().replay.resumed == 0


def test_a_clone_that_lacks_a_table_is_reported(library, make_database, loans):
    found = compare(library, make_database(), Workload("w", loans.queries[:2]), repeats=1)
    assert found.figures["qerror.p95"] is None
    assert found.figures["replay.errors"] == 2
    assert found.figures["integrity.violations"] == 3
    assert [table.clone_rows for table in found.tables] == [None] * 3
    assert "missing" in render(found)
