"""The HTML page: it says it all, loads nothing, and every figure in it stands in the JSON."""

import base64
import gzip
import json
import re
import sys

import pytest
from pages import Page, at, changed, wrong

from privbench.metrics.values import RulePart
from privbench.report import ComparisonDocument
from privbench.report.html import render


@pytest.fixture(scope="module")
def page(document, folder):
    return Page((folder / "report.html").read_text())


def test_the_page_shows_the_figures_of_the_json_and_a_wrong_one_would_be_found(page, folder):
    text = (folder / "comparison.json").read_text()
    again = render(ComparisonDocument.model_validate_json(text))
    assert again == (folder / "report.html").read_text()
    data = json.loads(text)
    assert wrong(data, page) == []
    assert len(page.cells) > 200
    assert {"/figures/qerror.p50", "/figures/qerror.p95", "/figures/kld.2"} <= {
        place for place, _ in page.figures
    }
    data["qerror"]["overall"]["p95"] = data["figures"]["qerror.p95"] = 1234.5
    data["figures"]["qerror.p50"] += 1
    assert {"/figures/qerror.p50", "/figures/qerror.p95"} <= {*wrong(data, page)}


def test_charts_show_the_queries_of_the_json(page, folder):
    queries = json.loads((folder / "comparison.json").read_text())["queries"]
    errors = sorted(query["qerror"] for query in queries if query["qerror"] is not None)
    curve = json.loads(page.data["chart-qerror"])["data"][0]
    assert _floats(curve["x"])[1:] == pytest.approx(errors, rel=1e-3)
    assert _floats(curve["y"])[-1] == 100
    violins = json.loads(page.data["chart-qerror-joins"])["data"]
    drawn = sorted(10**y for violin in violins for y in _floats(violin["y"]))
    assert drawn == pytest.approx(errors, rel=1e-3)
    dots = json.loads(page.data["chart-runtime"])["data"][-1]
    timed = {q["id"]: q for q in queries if q["runtime"] is not None}
    assert set(dots["customdata"]) == set(timed)
    for name, x, y in zip(dots["customdata"], _floats(dots["x"]), _floats(dots["y"]), strict=True):
        assert x == pytest.approx(1000 * timed[name]["source"]["median"], rel=1e-3)
        assert y == pytest.approx(1000 * timed[name]["clone"]["median"], rel=1e-3)


def _floats(values):
    assert isinstance(values, list), "packed numbers cannot be read by people"
    return [float(value) for value in values]


def test_pictures_show_the_shares_of_the_json(page, folder):
    data = json.loads((folder / "comparison.json").read_text())
    cells = json.loads(page.data["cells"])
    columns = [key for key in cells if "/columns/" in key]
    assert len(columns) == sum(len(table["columns"]) for table in data["tables"]) > 3
    for place in columns:
        labels, real, clone = cells[place]
        found = at(data, place)
        assert labels == found["labels"]
        assert real == pytest.approx(found["real"], rel=5e-3)
        assert clone == pytest.approx(found["clone"], rel=5e-3)


def test_the_page_loads_nothing(page, folder):
    text = (folder / "report.html").read_text()
    assert page.loads == ["data:,"]
    assert not re.search(r"@import|url\(\s*['\"]?http", text.partition("<script")[0])
    library = gzip.decompress(base64.b64decode(page.data["plotly"])).decode()
    assert "plotly.js v" in library[:200]
    assert len(text) < 3_500_000


def test_without_plotly_the_page_has_its_tables_and_says_how_to_get_charts(
    document, page, folder, monkeypatch
):
    monkeypatch.setitem(sys.modules, "plotly", None)
    plain = Page(render(document))
    assert "plotly" not in plain.data
    assert "no charts" in " ".join(plain.words)
    assert "pip install 'privbench[report]'" in " ".join(plain.words)
    assert plain.figures == page.figures


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 1400])
def test_a_browser_draws_every_chart_and_asks_for_nothing(browse, document, folder, width):
    seen = browse(folder / "report.html", 'count(".chart")', width)
    assert seen["wrong"] == seen["loaded"] == []
    assert seen["asked"] == ["/"]
    assert seen["drawn"] == seen["charts"] > 0
    # The page does not scroll sideways; tables do, and say so. One click opens all folds,
    # another sorts them.
    assert (seen["width"], seen["over"]) == (width, 0)
    assert seen["unsaid"] == 0
    assert (seen["wide"] > 8) == (width == 400)
    assert seen["folds"] > 10
    assert seen["closed"] == 0
    text = (folder / "report.html").read_text().partition('id="values"')[2]
    furthest = re.findall(r"<summary><h3>(.*?)</h3>", text)[: len(document.tables)]
    assert seen["names"] == sorted(furthest) != furthest


@pytest.mark.slow
def test_a_browser_tells_of_an_error_and_of_a_request(browse, tmp_path):
    path = tmp_path / "bad.html"
    path.write_text("<head></head><img src='http://192.0.2.1/a.png'><script>absent()</script>")
    wrong = browse(path)["wrong"]
    assert any("absent is not defined" in line for line in wrong)
    assert "request: http://192.0.2.1/a.png" in wrong


def test_the_page_says_it_all(document, page):
    words = " ".join(" ".join(page.words).split())
    assert words.index("CONFIDENTIAL This report holds exact figures") < 250
    assert "no ε covers" in words
    for name in ("headline", "qerror", "worst", "runtime", "work", "tables", "values", "columns",
                 "correlations", "fanouts", "integrity", "queries",
                 "environment"):  # fmt: skip
        assert name in page.sections, name
    worst = max((q for q in document.queries if q.qerror), key=lambda q: q.qerror or 0)
    for needed in (
        worst.sql, "2,000", "1,900", "timed out", "SQLSTATE 22012", "public.loans", "13 of 13",
        "rows.max_difference > 1", "failed", "remark (more than 256", "noise floor", "work_mem",
        document.source.version, "bins of equal width", "public.loans (reader) → public.readers",
        "Seq Scan", "expected", "Slowest queries",
    ):  # fmt: skip
        assert needed in words, needed


def test_a_query_that_finds_nothing_says_why(document):
    query = next(q for q in document.queries if "readers r JOIN loans" in q.sql)
    queries = [changed(query, clone=changed(query.clone, rows=0), qerror=99.0)]
    few = next(t for t in document.tables if t.name == "public.readers")
    tables = [changed(few, source_rows=10)]
    words = " ".join(Page(render(changed(document, queries=queries, tables=tables))).words)
    assert "public.readers has 10 rows: a look-up, private" in words
    assert "a look-up, private" not in " ".join(Page(render(document)).words)


def test_data_cannot_become_markup(document):
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    query = changed(document.queries[0], id=evil, sql=evil, qerror=999.0)
    table = changed(document.tables[0], name=evil, left_out={evil: evil})
    cells = {"labels": [evil] * 40, "real": [1 / 40] * 40, "clone": [1 / 40] * 40}
    whole = next(table for table in document.tables if table.columns)
    rule = RulePart(kind="values.order", rule=evil, source=1, clone=0, error=1)
    other = changed(
        whole,
        columns=[changed(whole.columns[0], name=evil, **cells)],
        values=[changed(whole.values[0], name=evil)],
        rules=[rule],
    )
    matrix = changed(document.views.correlations[0], table=evil)
    hostile = changed(
        document,
        queries=[query, *document.queries[1:]],
        tables=[table, other, *document.tables[2:]],
        source=changed(document.source, database=evil),
        views=changed(document.views, correlations=[matrix]),
    )
    page = Page(render(hostile))
    assert page.loads == ["data:,"]
    assert page.scripts == Page(render(document)).scripts
    assert sum(evil in word for word in page.words) >= 6


def test_an_empty_comparison_has_a_page(document):
    empty = changed(
        document,
        tables=[],
        integrity=[],
        queries=[],
        work=None,
        plans=None,
        views=type(document.views)(),
        qerror=changed(document.qerror, overall=None, by_joins={}, by_third={}),
    )
    page = Page(render(empty))
    assert {"headline", "environment"} <= set(page.sections)
    assert not {"qerror", "worst", "columns", "fanouts"} & set(page.sections)
