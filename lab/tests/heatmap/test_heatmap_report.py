"""The heat map in the report: over a released model's own circuit, and over a learned one."""

import json

import psycopg
import pytest
from pages import Page, wrong
from sql_files import sql_of

from privbench import pipeline
from privbench.config import Config
from privbench.errors import UsageError
from privbench.report import compare
from privbench.report.html import render
from privbench.report.text import share
from privbench.workload import Workload, WorkloadQuery
from privbench_lab.heatmap import tree
from privbench_lab.heatmap.parts import HeatMapPart

CONFIG = sql_of(__file__, "library.toml")


@pytest.fixture(scope="module")
def model_path(library, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    path = folder / "library.privbench"
    pipeline.fit(library, Config.loads(CONFIG.replace("{ledger}", str(folder / "ledger"))), path)
    return path


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("out") / "report"


@pytest.fixture(scope="module")
def document(library, library_clone, model_path, out):
    texts = [
        "SELECT count(*) FROM readers WHERE born < 1980 AND member AND city = 'Turku'",
        "SELECT count(*) FROM readers WHERE born BETWEEN 1950 AND 1959 AND member",
        "SELECT count(*) FROM readers WHERE city IN ('Aarhus', 'Turku') AND born IS NULL",
        "SELECT count(*) FROM readers WHERE city LIKE 'A%' AND born > 1990",
        "SELECT count(*) FROM loans WHERE weeks > 3 AND taken >= '2023-06-01'",
    ]
    queries = Workload("few", tuple(WorkloadQuery(f"q{i}", sql) for i, sql in enumerate(texts, 1)))
    return compare(
        library,
        library_clone,
        queries,
        Config.loads(CONFIG.replace("{ledger}", str(out / "unused"))),
        out,
        repeats=1,
        warmup=0,
        floor=False,
        explain=False,
        model=pipeline.modelled(model_path),
    )


def maps_of(document):
    return [HeatMapPart.model_validate(part) for part in document.sections["heatmap"]]


def test_the_models_circuit_stands_beside_source_and_clone(document, library):
    maps = {part.table: part for part in maps_of(document)}
    readers = maps["public.readers"]
    assert readers.circuit == maps["public.loans"].circuit == "model"
    assert readers.nodes[0].model_share == 1
    assert any(node.kind == "sum" for node in readers.nodes)
    assert {name for node in readers.nodes for name in node.columns} == {"born", "city", "member"}
    for query in readers.queries:
        assert len(query.model) == len(query.real) == len(query.clone) == len(readers.nodes)
        assert not any("LIKE" in text for text in query.predicates)
        # At ε = 50 the model is near the source: at the root and, by and large, everywhere.
        assert query.model[0] == pytest.approx(query.real[0], abs=0.05)
    for node in readers.nodes:
        assert node.model_share == pytest.approx(node.real_rows / 400, abs=0.1)


def test_the_page_shows_the_models_shares_of_the_json(document, out):
    page = Page((out / "report.html").read_text())
    assert wrong(json.loads((out / "comparison.json").read_text()), page) == []
    shown = {share(part) for view in maps_of(document) for query in view.queries
             for part in query.model}  # fmt: skip
    assert len(shown & {word.strip() for word in page.words}) > 3
    words = " ".join(" ".join(page.words).split())
    for said in ("model, by its circuit", "Its promise does not cover", document.model.digest[:16]):
        assert said in words


def test_a_model_of_another_schema_is_refused_before_the_work(
    model_path, library_clone, make_database
):
    def ran(*_: object) -> None:
        pytest.fail("the workload was run")

    with pytest.raises(UsageError, match="another schema") as error:
        compare(
            make_database(),
            library_clone,
            Workload("one", (WorkloadQuery("q", "SELECT 1"),)),
            model=pipeline.modelled(model_path),
            tell=ran,
        )
    assert error.value.remedy


def test_data_cannot_become_markup(document):
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    heat, *others = maps_of(document)
    node = heat.nodes[0].model_copy(update={"when": evil, "columns": [evil, evil]})
    heat = heat.model_copy(update={"table": evil, "nodes": [node, *heat.nodes[1:]]})
    sections = {"heatmap": [part.model_dump(mode="json") for part in (heat, *others)]}
    page = Page(render(document.model_copy(update={"sections": sections})))
    assert page.loads == ["data:,"]
    assert page.scripts == Page(render(document)).scripts
    assert sum(evil in word for word in page.words) >= 2


def test_a_circuit_is_learned_while_no_transaction_is_open(make_database, tmp_path, monkeypatch):
    sides = [
        make_database(
            f"CREATE TABLE t AS SELECT i % 5 AS a, i % {n} AS b FROM generate_series(1, 99) i"
        )
        for n in (5, 10)
    ]
    held, learn = [], tree.learn

    def looked_at(columns):
        for dsn in sides:
            with psycopg.connect(dsn) as connection:
                held.extend(
                    connection.execute(
                        "SELECT count(*) FROM pg_stat_activity WHERE xact_start IS NOT NULL"
                        " AND backend_type = 'client backend'"
                        " AND datname = current_database() AND pid <> pg_backend_pid()"
                    ).fetchone()
                )
        return learn(columns)

    monkeypatch.setattr(tree, "learn", looked_at)
    queries = Workload(
        "one", (WorkloadQuery("q1", "SELECT count(*) FROM t WHERE a = 0 AND b < 4"),)
    )
    document = compare(*sides, queries, None, tmp_path / "r", repeats=1, floor=False, explain=False)
    assert held == [0, 0]
    (shown,) = maps_of(document)
    assert (shown.circuit, document.model) == ("source", None)
    assert {name for node in shown.nodes for name in node.columns} == {"a", "b"}
    assert "heatmap" in Page((tmp_path / "r" / "report.html").read_text()).sections
