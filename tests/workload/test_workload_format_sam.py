"""SAM's JSON: golden texts, what is written is read again, what is beyond it is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privbench.errors import UsageError
from privbench.workload import Query, Workload, read, write
from privbench.workload.formats.sam import sam

GOLDEN = Path(__file__).parent / "golden"
COLUMNS = ("age", "class", "since", "home Land")

_texts = st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=12)
_kinds = {
    "age": (st.integers(-99, 99).map(str), ["=", "<", "<=", ">=", ">"]),
    "Class": (_texts.map("a{}".format), ["=", "<=", ">="]),
    "since": (st.dates().map(str), ["=", "<=", ">="]),
    "order": (st.decimals(-9, 9, places=3).map(str), ["=", "<"]),
}


@st.composite
def _items(draw: st.DrawFn) -> list[list[str]]:
    columns = draw(st.lists(st.sampled_from(list(_kinds)), min_size=1, max_size=4, unique=True))
    operators = [draw(st.sampled_from(_kinds[column][1])) for column in columns]
    return [columns, operators, [draw(_kinds[column][0]) for column in columns]]


def test_numbered_columns_are_read_as_the_golden_texts() -> None:
    found = read(GOLDEN / "people_test.txt", sam(columns=COLUMNS))
    texts = (GOLDEN / "people_test.sql").read_text().splitlines()
    assert [query.sql for query in found] == texts
    assert [query.card for query in found] == [28801, 107, 5]


def test_numbers_without_names_and_the_way_out_are_said() -> None:
    with pytest.raises(UsageError, match=r"column 3 has no name.*--columns"):
        read(GOLDEN / "people_test.txt")


def test_the_table_may_be_named() -> None:
    found = read(GOLDEN / "people_test.txt", sam("shop.People", COLUMNS))
    assert found.queries[1].sql == 'SELECT COUNT(*) FROM shop."People" WHERE age = 72;'


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_items(), min_size=1, max_size=5), st.booleans())
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, items: list[list[str]], secret: bool
) -> None:
    path = tmp_path_factory.mktemp("sam") / "people_1000.json"
    data = {"query_list": items, "card_list": [str(i) for i in range(len(items))]}
    path.write_text(json.dumps({**data, "table": "people", "confidential": secret}))
    found = read(path)
    assert found.confidential == secret
    write(found, path, "sam")
    written = json.loads(path.read_text())
    assert (written["query_list"], written["card_list"]) == (items, data["card_list"])
    assert read(path) == found


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT COUNT(*) FROM a, b WHERE a.i = b.i", "joins"),
        ("SELECT COUNT(*) FROM a", "no predicate"),
        ("SELECT COUNT(*) FROM a WHERE x BETWEEN 1 AND 2", "several bounds"),
        ("SELECT COUNT(*) FROM a WHERE x > 1 AND x < 5", "several bounds"),
        ("SELECT COUNT(*) FROM a WHERE x <> 1", "operator <>"),
        ("SELECT COUNT(*) FROM a WHERE x >= 'M'", "collation"),
        ("SELECT COUNT(*) FROM a WHERE x = 1 OR y = 1", "than a comparison"),
    ],
)
def test_what_is_beyond_the_format_is_refused(sql: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"sam cannot hold query odd: .*{reason}"):
        write(Workload("w", (Query("odd", sql),)), tmp_path / "w.json", "sam")


def test_one_table_and_all_answers_or_none(tmp_path: Path) -> None:
    one, two = (Query(name, f"SELECT COUNT(*) FROM {name} WHERE x = 1", 3) for name in "ab")
    with pytest.raises(UsageError, match="queries a and b are on different tables"):
        write(Workload("w", (one, two)), tmp_path / "w.json", "sam")
    with pytest.raises(UsageError, match="query c states no answer"):
        write(Workload("w", (one, Query("c", one.sql))), tmp_path / "w.json", "sam")
    write(Workload("w", (Query("c", one.sql),)), tmp_path / "w.json", "sam")
    assert "card_list" not in json.loads((tmp_path / "w.json").read_text())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"query_list": 3}', "no query_list"),
        ('{"query_list": [[["a"], ["="]]]}', "other than columns, operators, values"),
        ('{"query_list": [[["a"], ["="], ["1", "2"]]]}', "other than columns"),
        ('{"query_list": [[["a"], ["; DROP"], ["1"]]]}', "operator other than"),
        ('{"query_list": [], "card_list": ["1"]}', "0 queries and 1 answers"),
        ('{"query_list": [', "no JSON"),
    ],
)
def test_a_broken_file_is_said(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text(text)
    with pytest.raises(UsageError, match=said):
        read(tmp_path / "w.json", "sam")
