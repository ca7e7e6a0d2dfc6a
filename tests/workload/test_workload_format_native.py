"""The native JSON: everything is kept, later versions and odd files are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privbench.errors import UsageError
from privbench.workload import Query, Workload, read, write

_texts = st.text(st.characters(codec="utf-8"), max_size=30)
_queries = st.builds(
    Query,
    _texts,
    _texts,
    st.none() | st.integers(0, 2**62),
    st.floats(1e-6, 1e9),
    st.none() | _texts,
    st.lists(st.none() | _texts, max_size=3).map(tuple),
    st.lists(_texts, max_size=3).map(tuple),
)
_workloads = st.builds(
    Workload,
    _texts,
    st.lists(_queries, max_size=4, unique_by=lambda query: query.id).map(tuple),
    st.booleans(),
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_workloads)
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, workload: Workload
) -> None:
    path = tmp_path_factory.mktemp("native") / "w.json"
    write(workload, path, "native")
    assert read(path, "native") == workload


def test_the_file_is_as_documented(tmp_path: Path) -> None:
    query = Query("q1", "SELECT 1 WHERE 2 > 1", 1, 3.5, "SELECT 1 WHERE 2 > $1", ("1",), ("x = 1",))
    write(Workload("shop", (query, Query("q2", "SELECT 2"))), tmp_path / "w.json", "native")
    assert json.loads((tmp_path / "w.json").read_text()) == {
        "privbench-workload": 1,
        "name": "shop",
        "confidential": False,
        "queries": [
            {
                "id": "q1",
                "sql": "SELECT 1 WHERE 2 > 1",
                "card": 1,
                "weight": 3.5,
                "template": "SELECT 1 WHERE 2 > $1",
                "parameters": ["1"],
                "draws": ["x = 1"],
            },
            {"id": "q2", "sql": "SELECT 2"},
        ],
    }
    assert read(tmp_path / "w.json").queries[0] == query


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"privbench-workload": 2}, "workload of version 2"),
        ({"more": 1}, "more"),
        ({"queries": [{"id": "a"}]}, r"queries\.0\.sql"),
        ({"queries": [{"id": "a", "sql": "s", "weight": 0}]}, r"queries\.0\.weight"),
        ({"queries": [{"id": "a", "sql": "s", "card": -1}]}, r"queries\.0\.card"),
        ({"queries": [{"id": "a", "sql": "s"}, {"id": "a", "sql": "t"}]}, "two queries of one id"),
    ],
)
def test_odd_files_are_refused(change: dict[str, object], said: str, tmp_path: Path) -> None:
    data = {"privbench-workload": 1, "name": "w", "queries": []}
    (tmp_path / "w.json").write_text(json.dumps({**data, **change}))
    with pytest.raises(UsageError, match=said):
        read(tmp_path / "w.json")
