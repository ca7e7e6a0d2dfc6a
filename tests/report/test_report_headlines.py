"""Headline figures: how run times are graded beside their noise floor."""

import pytest

from privbench.metrics.base import SummaryPart
from privbench.report.headlines import headlines, markdown, summary

QUERIES = 100


def _document(document, value, floor, beyond):
    """The comparison, with other run times, of queries that are long enough to be timed."""
    queries = [
        query.model_copy(update={"source": query.source.model_copy(update={"median": 0.1})})
        for query in document.queries
    ]
    figures = dict(document.figures) | {"runtime.p50": value}
    for name, figure in (("runtime.floor.p50", floor), ("runtime.beyond_floor", beyond)):
        figures.pop(name, None)
        if figure is not None:
            figures[name] = figure
    of_one = dict.fromkeys(("mean", "p50", "p75", "p90", "p95", "p99", "max"), floor)
    spread = None if floor is None else SummaryPart.model_validate({"n": QUERIES, **of_one})
    runtime = document.runtime.model_copy(update={"floor": spread, "beyond_floor": beyond})
    changes = {"figures": figures, "runtime": runtime, "queries": queries}
    return document.model_copy(update=changes)


def _runtime(document):
    return next(line for line in headlines(document) if line.title.startswith("Runtime"))


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
    line = _runtime(_document(document, value, floor, beyond))
    assert line.grade == grade
    beside = ["runtime.p95"] if floor is None else ["runtime.floor.p50", "runtime.beyond_floor"]
    assert [name for _, name in line.asides if name] == beside
    assert "most time: l1, 100 ms, clone " in line.aside
    assert floor is None or f"{floor:g} %" in line.aside


def test_work_and_plans_are_told_in_text_and_small_tables_named(document):
    for text in (summary(document), markdown(document)):
        assert "Work discrepancy, median" in text
        assert "Same plan" in text
    # Tables too small for a distribution are counted, unless they are public.
    branches = next(table for table in document.tables if table.public)
    assert branches.source_rows < 100
    few = branches.model_copy(update={"name": "few", "public": False})
    larger = document.model_copy(update={"tables": [*document.tables, few]})
    line = next(line for line in headlines(larger) if line.title.startswith("2-way KLD"))
    assert line.grade is not None
    assert "1 table under 100 rows left out" in line.aside
    small = [table.model_copy(update={"source_rows": 99}) for table in document.tables]
    every = headlines(document.model_copy(update={"tables": small}))
    assert next(line for line in every if line.title.startswith("2-way KLD")).grade is None


def test_the_worst_table_by_rows_may_be_a_public_one(document):
    public = next(table for table in document.tables if table.public)
    tables = [*document.tables, public.model_copy(update={"name": "p", "clone_rows": 0})]
    (*_, rows) = headlines(document.model_copy(update={"tables": tables}))
    assert rows.aside.startswith("p; ")


@pytest.mark.parametrize(
    ("median", "same_plan", "grade"),
    [(0.0009, True, None), (0.0009, False, "poor"), (0.0011, True, "poor")],
)
def test_run_times_too_short_to_be_told_apart_get_no_grade(document, median, same_plan, grade):
    longer = _document(document, 80.0, None, None)
    queries = [
        query.model_copy(
            update={
                "source": query.source.model_copy(update={"median": median}),
                "clone": query.clone.model_copy(update={"median": median}),
                "work": query.work and query.work.model_copy(update={"same_plan": same_plan}),
            }
        )
        for query in longer.queries
    ]
    line = _runtime(longer.model_copy(update={"queries": queries}))
    assert line.grade == grade
    assert ("under 1 ms" in line.aside) == (grade is None)
