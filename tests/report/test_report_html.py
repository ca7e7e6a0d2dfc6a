"""The HTML page: it says it all, loads nothing, and every figure in it stands in the JSON."""

from __future__ import annotations

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from privbench.report import ComparisonDocument
from privbench.report.html import render
from privbench.report.trace import FORMS, PAIRS

#: Cells with digits that are no figures of the comparison.
_NAMES = {"code", "pre", "sql", "grade"}


class Page(HTMLParser):
    """What the tests look for in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.sections: list[str] = []
        self.scripts = 0
        self.words: list[str] = []
        self.figures: list[tuple[dict[str, str], str]] = []
        self.bare: list[str] = []
        self.data: dict[str, str] = {}
        self._open: list[tuple[str, dict[str, str], list[str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.scripts += tag == "script"
        if tag == "section":
            self.sections.append(values["id"])
        if tag != "a":
            self.loads += [values[name] for name in ("src", "href") if values.get(name)]
        if tag not in ("meta", "link", "br", "img", "input"):
            self._open.append((tag, values, []))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1][0] != tag:
            return
        _, values, said = self._open.pop()
        text = " ".join("".join(said).split())
        if "data-figure" in values and "data-as" in values:
            self.figures.append((values, text))
        if tag == "script" and (values.get("id") or self._open[-1][1].get("class") == "chart"):
            self.data[values.get("id") or self._open[-1][1]["id"]] = "".join(said)
        if tag == "td" and re.search(r"\d", "".join(self._own(values, said))):
            self.bare.append(text)
        if self._open and tag not in ("script", "style"):
            self._open[-1][2].append("".join(said) if self._plain(values, tag) else " ")

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open[-1][2].append(data)
            if self._open[-1][0] not in ("script", "style"):
                self.words.append(data)

    @staticmethod
    def _plain(values: dict[str, str], tag: str) -> bool:
        """Whether a parent's text goes on with this element's."""
        return "data-figure" not in values and tag not in _NAMES

    @staticmethod
    def _own(values: dict[str, str], said: list[str]) -> list[str]:
        """Text of a cell that is neither a traced figure nor a name."""
        named = "data-figure" in values or {"sql", "left"} & set(values.get("class", "").split())
        return [] if named else said


@pytest.fixture(scope="module")
def page(document: ComparisonDocument, folder: Path) -> Page:
    return Page((folder / "report.html").read_text())


def _at(data: Any, pointer: str) -> Any:
    """What a JSON pointer points at."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        data = data[int(name)] if isinstance(data, list) else data[name]
    return data


def _wrong(data: Any, values: dict[str, str], shown: str) -> bool:
    """Whether an element shows something else than the place that it names."""
    found, form = _at(data, values["data-figure"]), values["data-as"]
    if form == "within":  # a figure within a sentence
        printed = (FORMS["number"](found), FORMS["percent"](found))
        return not any(text in shown for text in printed)
    if form in ("checks", "violated"):
        kind = [check for check in found if check["kind"] == values["data-kind"]]
        counted = len(kind) if form == "checks" else sum(check["violations"] > 0 for check in kind)
        return shown != str(counted)
    if form in PAIRS:
        return shown != PAIRS[form](found, _at(data, values["data-against"]))
    return shown != FORMS[form](found)


def test_every_figure_stands_in_the_json(page: Page, folder: Path) -> None:
    data = json.loads((folder / "comparison.json").read_text())
    wrong = [(values, shown) for values, shown in page.figures if _wrong(data, values, shown)]
    assert not wrong
    assert len(page.figures) > 300
    prefixes = {values["data-figure"].split("/")[1] for values, _ in page.figures}
    assert {"qerror", "runtime", "tables", "views", "queries", "figures", "integrity"} <= prefixes
    names = {query["id"] for query in data["queries"]}
    assert [text for text in page.bare if text not in names] == []


def test_a_wrong_figure_would_be_found(page: Page, folder: Path) -> None:
    data = json.loads((folder / "comparison.json").read_text())
    data["qerror"]["overall"]["p95"] += 1
    data["figures"]["qerror.p50"] += 1
    wrong = {v["data-figure"] for v, shown in page.figures if _wrong(data, v, shown)}
    assert wrong == {"/qerror/overall/p95", "/figures/qerror.p50"}


def test_charts_show_the_queries_of_the_json(page: Page, folder: Path) -> None:
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


def _floats(values: Any) -> list[float]:
    assert isinstance(values, list), "packed numbers cannot be read by people"
    return [float(value) for value in values]


def test_pictures_show_the_shares_of_the_json(page: Page, folder: Path) -> None:
    data = json.loads((folder / "comparison.json").read_text())
    cells = json.loads(page.data["cells"])
    columns = [key for key in cells if "/columns/" in key]
    assert len(columns) == sum(len(table["columns"]) for table in data["tables"]) > 3
    for place in columns:
        labels, real, clone = cells[place]
        found = _at(data, place)
        assert labels == found["labels"]
        assert real == pytest.approx(found["real"], rel=5e-3)
        assert clone == pytest.approx(found["clone"], rel=5e-3)


def test_the_page_loads_nothing(page: Page, folder: Path) -> None:
    text = (folder / "report.html").read_text()
    assert page.loads == ["data:,"]
    assert not re.search(r"@import|url\(\s*['\"]?http", text.partition("<script")[0])
    library = gzip.decompress(base64.b64decode(page.data["plotly"])).decode()
    assert "plotly.js v" in library[:200]
    assert len(text) < 3_500_000


def test_the_page_says_it_all(document: ComparisonDocument, page: Page) -> None:
    words = " ".join(" ".join(page.words).split())
    assert words.index("CONFIDENTIAL This report holds exact figures") < 250
    assert "no ε covers" in words
    for name in ("headline", "qerror", "worst", "runtime", "work", "tables", "columns",
                 "correlations", "fanouts", "heatmap", "statistics", "integrity", "queries",
                 "environment"):  # fmt: skip
        assert name in page.sections, name
    worst = max((q for q in document.queries if q.qerror), key=lambda q: q.qerror or 0)
    for needed in (
        worst.sql, "2,000", "1,900", "timed out", "SQLSTATE 22012", "public.loans", "13 of 13",
        "rows.max_difference > 1", "failed", "remark (more than 256", "noise floor", "work_mem",
        document.source.version, "of about equal mass", "public.loans (reader) → public.readers",
        "Seq Scan", "expected",
    ):  # fmt: skip
        assert needed in words, needed


def test_data_cannot_become_markup(document: ComparisonDocument) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    query = document.queries[0].model_copy(update={"id": evil, "sql": evil, "qerror": 999.0})
    table = document.tables[0].model_copy(update={"name": evil, "left_out": {evil: evil}})
    cells = {"labels": [evil] * 40, "real": [1 / 40] * 40, "clone": [1 / 40] * 40}
    whole = next(table for table in document.tables if table.columns)
    column = whole.columns[0].model_copy(update={"name": evil, **cells})
    other = whole.model_copy(update={"columns": [column]})
    matrix = document.views.correlations[0].model_copy(update={"table": evil})
    heat = document.views.heatmaps[0]
    node = heat.nodes[0].model_copy(update={"when": evil, "columns": [evil, evil]})
    heat = heat.model_copy(update={"table": evil, "nodes": [node, *heat.nodes[1:]]})
    views = {"correlations": [matrix], "heatmaps": [heat]}
    hostile = document.model_copy(
        update={
            "queries": [query, *document.queries[1:]],
            "tables": [table, other, *document.tables[2:]],
            "source": document.source.model_copy(update={"database": evil}),
            "views": document.views.model_copy(update=views),
        }
    )
    page = Page(render(hostile))
    assert page.loads == ["data:,"]
    assert page.scripts == Page(render(document)).scripts
    assert sum(evil in word for word in page.words) >= 4


def test_large_reports_stay_small(document: ComparisonDocument) -> None:
    """68 tables of 8 columns with 40 cells, and 1,000 queries, in one page."""
    table = next(table for table in document.tables if len(table.columns) > 1)
    cells = {"labels": [f"cell {i}" for i in range(40)], "real": [1 / 40] * 40}
    column = table.columns[0].model_copy(update={**cells, "clone": [1 / 37] * 40})
    wide = table.model_copy(update={"columns": [column] * 8})
    queries = [document.queries[i % 8] for i in range(1000)]
    views = document.views.model_copy(
        update={name: list(getattr(document.views, name)) * 68 for name in ("correlations",)}
    )
    large = document.model_copy(update={"tables": [wide] * 68, "queries": queries, "views": views})
    text = render(large)
    assert text.count("<tr><td>l") >= 1000
    assert len(text.encode()) < 10_000_000


def test_an_empty_comparison_has_a_page(document: ComparisonDocument) -> None:
    empty = document.model_copy(
        update={
            "tables": [], "integrity": [], "queries": [], "work": None, "plans": None,
            "statistics": None, "load": None,
            "views": type(document.views)(),
            "qerror": document.qerror.model_copy(
                update={"overall": None, "by_joins": {}, "by_third": {}}
            ),
        }
    )  # fmt: skip
    page = Page(render(empty))
    assert {"headline", "environment"} <= set(page.sections)
    assert not {"qerror", "worst", "columns", "heatmap", "fanouts"} & set(page.sections)
