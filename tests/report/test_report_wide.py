"""A comparison of a table of many columns ends, and computes without holding the databases."""

import re
import time

import psycopg
import pytest
from pages import changed

from privbench.report import compare
from privbench.report.html import render
from privbench.workload import Workload, WorkloadQuery

WORKLOAD = Workload(
    "one", (WorkloadQuery("q1", "SELECT count(*) FROM wide WHERE c1 = 0 AND c2 < 9"),)
)
COLUMNS = 150


@pytest.fixture(scope="module")
def sides(make_database):
    found = []
    for shift in (0, 1):
        columns = ", ".join(f"(i * {k} + {shift}) % {2 + k % 90} AS c{k}" for k in range(COLUMNS))
        made = f"CREATE TABLE wide AS SELECT {columns} FROM generate_series(1, 1000) i"
        found.append(make_database(made))
    return found


def test_many_columns_cost_little_and_hold_no_transaction(sides, tmp_path):
    steps = []
    held = []

    def look():
        for dsn in sides:
            with psycopg.connect(dsn) as connection:
                row = connection.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE xact_start IS NOT NULL"
                    " AND backend_type = 'client backend'"
                    " AND datname = current_database() AND pid <> pg_backend_pid()"
                ).fetchone()
                held.append(row[0] if row else -1)

    def tell(step, done, total):
        steps.append(step)
        if step.startswith("compare"):
            look()

    begun = time.process_time()
    document = compare(*sides, WORKLOAD, None, tmp_path / "r", repeats=1, tell=tell)
    assert time.process_time() - begun < 60
    assert steps == ["queries", "read public.wide", "compare public.wide"]
    assert held == [0] * 2
    parts = document.tables[0].divergence
    assert [part.sets for part in parts.values()] == [1001] * 3
    assert parts["2"].of == COLUMNS * (COLUMNS - 1) // 2
    assert len(document.tables[0].columns) == COLUMNS


def test_the_page_of_300_tables_and_1000_queries_is_small_and_draws_the_worst(document):
    loans = next(table for table in document.tables if table.name == "public.loans")
    view = next(part for part in document.views.correlations if part.table == loans.name)
    column = loans.columns[0]
    names = [f"c{i}" for i in range(10)]
    matrix = [[0.25 if i != j else None for i in range(10)] for j in range(10)]
    shared = {"columns": names, "real": matrix, "clone": matrix, "ordered": [True] * 10}
    tables, views = [], []
    for number in range(300):
        columns = [changed(column, name=name, tvd=number / 300) for name in names]
        tables.append(changed(loans, name=f"public.t{number}", columns=columns))
        views.append(changed(view, table=f"public.t{number}", **shared))
    keys = [changed(document.views.fanouts[0], tvd=i / 600) for i in range(600)]
    pictures = changed(document.views, correlations=views, fanouts=keys)
    queries = [document.queries[i % 8] for i in range(1001)]
    page = render(changed(document, tables=tables, views=pictures, queries=queries))
    assert len(page.encode()) < 7_000_000
    assert page.count("<tr><td>l") >= 1000
    drawn = set(re.findall(r'data-cells="/tables/(\d+)/columns/', page))
    assert drawn == {str(number) for number in range(270, 300)}
    assert set(re.findall(r'data-cells="/views/correlations/(\d+)"', page)) == drawn
    assert "270 more are in comparison.json" in page
    keys_drawn = re.findall(r'data-cells="/views/fanouts/(\d+)"', page)
    assert keys_drawn == [str(number) for number in range(599, 449, -1)]
