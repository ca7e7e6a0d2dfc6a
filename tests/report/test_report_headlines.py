"""Headline figures: how run times are graded beside their noise floor."""

import pytest
from pages import changed

from privbench.metrics.base import SummaryPart
from privbench.report.headlines import headlines, markdown, summary

QUERIES = 100


def _runtime(document, value, floor=None, beyond=None):
    """What is said of run times of a comparison whose queries are long enough to be timed."""
    figures = {"runtime.p50": value, "runtime.floor.p50": floor, "runtime.beyond_floor": beyond}
    known = {name: figure for name, figure in figures.items() if figure is not None}
    others = {name: figure for name, figure in document.figures.items() if name not in figures}
    of_one = dict.fromkeys(("mean", "p50", "p75", "p90", "p95", "p99", "max"), floor)
    spread = None if floor is None else SummaryPart.model_validate({"n": QUERIES, **of_one})
    runtime = changed(document.runtime, floor=spread, beyond_floor=beyond)
    lines = headlines(changed(document, figures={**others, **known}, runtime=runtime))
    return next(line for line in lines if line.title.startswith("Runtime"))


def _timed(document, side, median):
    """The queries, with another median time on one side."""
    return [
        changed(query, **{side: changed(getattr(query, side), median=median)})
        for query in document.queries
    ]


@pytest.mark.parametrize(
    ("value", "floor", "beyond", "grade"),
    [
        (80.0, None, None, "poor"),  # no floor: taken as it is
        (80.0, 2.0, 0.95, "poor"),  # far beyond the floor
        (80.0, 90.0, 0.95, None),  # within the floor: nobody can tell
        (80.0, 75.0, 0.59, None),  # 100 queries: up to 60 % may be chance
        (80.0, 78.0, 0.70, "fair"),  # 17.8 % is left without the floor
        (45.0, 44.0, 0.70, "good"),  # 9.4 % is left
        (10.0, 12.0, 0.50, "good"),  # small as it is
    ],
)
def test_run_times_are_graded_beyond_their_floor(document, value, floor, beyond, grade):
    timed = changed(document, queries=_timed(document, "source", 0.1))
    line = _runtime(timed, value, floor, beyond)
    assert line.grade == grade
    beside = ["runtime.p95"] if floor is None else ["runtime.floor.p50", "runtime.beyond_floor"]
    assert [name for _, name in line.asides if name] == beside
    assert "most time: l1, 100 ms, clone " in line.aside
    assert floor is None or f"{floor:g} %" in line.aside


def test_work_and_plans_are_told_in_text(document):
    for text in (summary(document), markdown(document)):
        assert "Work discrepancy, median" in text
        assert "Same plan" in text


def _pairs(document, tables):
    lines = headlines(changed(document, tables=tables))
    return next(line for line in lines if line.title.startswith("2-way KLD"))


def test_tables_too_small_for_a_distribution_are_counted_unless_they_are_public(document):
    branches = next(table for table in document.tables if table.public)
    assert branches.source_rows < 100
    few = changed(branches, name="few", public=False)
    line = _pairs(document, [*document.tables, few])
    assert line.grade is not None
    assert "1 table under 100 rows left out" in line.aside
    small = [changed(table, source_rows=99) for table in document.tables]
    assert _pairs(document, small).grade is None


def test_the_worst_table_by_rows_may_be_a_public_one(document):
    public = next(table for table in document.tables if table.public)
    tables = [*document.tables, changed(public, name="p", clone_rows=0)]
    (*_, rows) = headlines(changed(document, tables=tables))
    assert rows.aside.startswith("p; ")


@pytest.mark.parametrize(
    ("median", "same_plan", "grade"),
    [(0.0009, True, None), (0.0009, False, "poor"), (0.0011, True, "poor")],
)
def test_run_times_too_short_to_be_told_apart_get_no_grade(document, median, same_plan, grade):
    for side in ("source", "clone"):
        document = changed(document, queries=_timed(document, side, median))
    queries = [
        changed(query, work=query.work and changed(query.work, same_plan=same_plan))
        for query in document.queries
    ]
    line = _runtime(changed(document, queries=queries), 80.0)
    assert line.grade == grade
    assert ("under 1 ms" in line.aside) == (grade is None)
