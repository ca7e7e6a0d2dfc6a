"""Texts that the clone lacks are asked for by the text of their rank, and nothing else changes."""

import json

import pytest
from market import fail, succeed
from sql_files import sql_of

from privbench import pipeline
from privbench.errors import UsageError
from privbench.workload import Query, Workload

#: How a query is written, and how it is asked then; None where it stays.
QUERIES = {
    "SELECT count(*) FROM towns WHERE name = 'Oslo'": "SELECT count(*) FROM towns WHERE name = 'x'",
    "SELECT count(*) FROM towns t WHERE t.name IN ('Oslo', 'Rome', 'Bern') AND id > -3 LIMIT 77":
    "SELECT count(*) FROM towns t WHERE t.name IN ('x', 'z', 'Bern') AND id > -3 LIMIT 77",
    """SELECT count(*) FROM towns WHERE "Odd Name" = 'it''s' AND id <> 17 AND name<>'a''\\b'""":
    """SELECT count(*) FROM towns WHERE "Odd Name" = 'o''no' AND id <> 17 AND name<>E'a''\\\\b'""",
    "SELECT count(*) FROM towns WHERE kind = 'gone' -- 5":
    "SELECT count(*) FROM towns WHERE kind = 'new'",
    "SELECT count(*) FROM towns WHERE name = 'Kyiv' AND id < 99": None,
    "SELECT count(*) FROM towns WHERE name = 'Nowhere'": None,
    "SELECT count(*) FROM towns WHERE name LIKE 'Oslo' AND lower(name) = 'Oslo'": None,
    "SELECT 'Oslo', id FROM towns WHERE name > 'Oslo'": None,
    "SELECT this is no query": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def towns(make_database):
    """DSNs of a source and a clone."""
    names = "'Oslo', 'Bern', 'Rome', 'Kyiv'", "'Bern', 'x', 'z', 'Kyiv'"
    return [
        make_database(sql_of(__file__, "towns_by_rank", names=name, odd=odd, kind=kind))
        for name, odd, kind in zip(names, ("it''s", "o''no"), ("gone", "new"), strict=True)
    ]


def test_only_texts_that_the_clone_lacks_change(towns):
    queries = Workload("w", tuple(Query(str(i), text, card=1) for i, text in enumerate(QUERIES)))
    made = pipeline.rebind_by_rank(queries, *towns)
    assert made.confidential
    assert {query.id: query.sql for query in made} == {
        str(i): new for i, new in enumerate(QUERIES.values()) if new is not None
    }
    assert all(query.card is None for query in made)
    with pytest.raises(UsageError, match="one and the same"):
        pipeline.rebind_by_rank(queries, towns[0], towns[0])


def test_both_answers_are_reported_and_marked(towns, tmp_path):
    workload = tmp_path / "w.sql"
    workload.write_text("".join(f"{text};\n" for text in list(QUERIES)[:2] + list(QUERIES)[4:5]))
    compare = ("compare", *towns, "-w", workload)
    quick = ("--repeats", 1, "--no-floor", "--no-explain", "--no-distributions")
    gate = ("--fail-if", "qerror.rebound.clone_zero > 0")
    succeed(*compare, "-o", tmp_path / "out", "--rebind", *quick, *gate)
    data = json.loads((tmp_path / "out" / "comparison.json").read_text())
    written, again = data["queries"], data["rebound"]["queries"]
    assert [query["source"]["rows"] for query in written] == [50, 95, 3]
    assert [query["clone"]["rows"] for query in written] == [0, 50, 3]
    assert [query["clone"]["rows"] for query in again] == [30, 95]
    assert data["qerror"]["clone_zero"] == 1
    assert data["rebound"]["qerror"]["clone_zero"] == 0
    assert data["rebound"]["qerror"]["overall"]["n"] == 3
    assert data["figures"]["qerror.rebound.max"] == pytest.approx(50 / 30)
    assert "may leave its owner" in data["rebound"]["confidential"]
    for name in ("report.html", "report.md"):
        assert "may leave its owner" in (tmp_path / "out" / name).read_text()
    fail(2, "", *compare, "-o", tmp_path / "no", "--fail-if", "qerror.rebound.p50 > 2")
