"""MSCN's lines and SAM's JSON: golden texts, what is written is read again, the rest is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privbench.errors import UsageError
from privbench.workload import Query, Workload, read, write
from privbench.workload.formats.conjunctive import Condition, Conjunction, Value, conjunction
from privbench.workload.formats.sam import sam

GOLDEN = Path(__file__).parent / "golden"
COLUMNS = ("age", "class", "since", "home Land")

_names = st.sampled_from(["a", "b_1", "_c", "title", "year2", "kind_id"])
_columns = st.builds("x{}.y{}".format, _names, _names)
_strings = st.text(st.characters(exclude_characters=",#\n\r\x00", codec="utf-8"), max_size=12)
_values = st.one_of(
    st.integers().map(lambda n: Value(str(n), quoted=False)),
    st.decimals(-999, 999, places=2).map(lambda n: Value(f"{n:f}", quoted=False)),
    st.builds(Value, _strings, st.just(True)),
    st.builds(Value, st.dates().map(str), st.just(True), st.just("date")),
)
_tables = st.tuples(_names.map("t_{}".format), _names.map("x{}".format))
_comparisons = st.sampled_from(["=", "<", ">", "<=", ">=", "<>"])
_conjunctions = st.builds(
    Conjunction,
    st.lists(_tables, min_size=1, max_size=4).map(tuple),
    st.lists(st.tuples(_columns, _columns), max_size=3).map(tuple),
    st.lists(st.builds(Condition, _columns, _comparisons, _values), max_size=5).map(tuple),
)
_texts = st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=12)
_kinds = {
    "age": (st.integers(-99, 99).map(str), ["=", "<", "<=", ">=", ">"]),
    "Class": (_texts.map("a{}".format), ["=", "<=", ">="]),
    "since": (st.dates().map(str), ["=", "<=", ">="]),
    "order": (st.decimals(-9, 9, places=3).map(str), ["=", "<"]),
}
_often = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def _items(draw: st.DrawFn) -> list[list[str]]:
    columns = draw(st.lists(st.sampled_from(list(_kinds)), min_size=1, max_size=4, unique=True))
    operators = [draw(st.sampled_from(_kinds[column][1])) for column in columns]
    return [columns, operators, [draw(_kinds[column][0]) for column in columns]]


def test_lines_are_read_and_written_as_the_golden_texts(tmp_path: Path) -> None:
    found = read(GOLDEN / "parts.csv")
    assert [query.sql for query in found] == (GOLDEN / "parts.sql").read_text().splitlines()
    assert [query.card for query in found] == [117, 4052, 31, 9]
    assert [query.id for query in found] == ["q1", "q2", "q3", "q4"]
    write(found, tmp_path / "parts.csv", "mscn")
    golden = (GOLDEN / "parts.csv").read_text().replace("=,sent", "=,'sent'")
    assert (tmp_path / "parts.csv").read_text() == golden


def test_numbered_columns_are_read_as_the_golden_texts() -> None:
    found = read(GOLDEN / "people_test.txt", sam(columns=COLUMNS))
    assert [query.sql for query in found] == (GOLDEN / "people_test.sql").read_text().splitlines()
    assert [query.card for query in found] == [28801, 107, 5]
    found = read(GOLDEN / "people_test.txt", sam("shop.People", COLUMNS))
    assert found.queries[1].sql == 'SELECT COUNT(*) FROM shop."People" WHERE age = 72;'
    with pytest.raises(UsageError, match=r"column 3 has no name.*--columns"):
        read(GOLDEN / "people_test.txt")


@_often
@given(parts=_conjunctions, card=st.none() | st.integers(0, 10**12))
def test_lines_that_are_written_are_read_again(
    tmp_path: Path, parts: Conjunction, card: int | None
) -> None:
    workload = Workload("w", (Query("q1", parts.sql, card),))
    write(workload, tmp_path / "w.csv", "mscn")
    assert read(tmp_path / "w.csv") == workload
    assert conjunction(workload.queries[0], "mscn") == parts


@_often
@given(items=st.lists(_items(), min_size=1, max_size=5), secret=st.booleans())
def test_json_that_is_written_is_read_again(
    tmp_path: Path, items: list[list[str]], secret: bool
) -> None:
    path = tmp_path / "people_1000.json"
    data = {"query_list": items, "card_list": [str(i) for i in range(len(items))]}
    path.write_text(json.dumps({**data, "table": "people", "confidential": secret}))
    found = read(path)
    assert found.confidential == secret
    write(found, path, "sam")
    written = json.loads(path.read_text())
    assert (written["query_list"], written["card_list"]) == (items, data["card_list"])
    assert read(path) == found


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        (
            'SELECT COUNT(*) FROM "public"."title" AS "t" WHERE "t"."year" BETWEEN 1 AND 2;',
            "title t##t.year,>=,1,t.year,<=,2#",
        ),
        (
            "select count(*) from a JOIN b x ON (a.i = x.j AND a.k > -2) WHERE 'u' = x.Name",
            "a,b x#a.i=x.j#a.k,>,-2,x.Name,=,'u'#",
        ),
        ("SELECT COUNT(*) FROM shop.a CROSS JOIN b", "shop.a,b###"),
        ("SELECT COUNT(*) FROM a WHERE 5 > a.x", "a##a.x,<,5#"),
    ],
)
def test_other_ways_to_write_a_conjunction(sql: str, parts: str, tmp_path: Path) -> None:
    write(Workload("w", (Query("a", sql),)), tmp_path / "w.csv", "mscn")
    assert (tmp_path / "w.csv").read_text() == parts + "\n"


@pytest.mark.parametrize(
    ("form", "sql", "reason"),
    [
        ("mscn", "SELECT COUNT(*) FROM a GROUP BY x", "GROUP"),
        ("mscn", "SELECT COUNT(*) FROM a LIMIT 1", "LIMIT"),
        ("mscn", "SELECT DISTINCT COUNT(*) FROM a", "DISTINCT"),
        ("mscn", "WITH w AS (SELECT 1) SELECT COUNT(*) FROM w", "WITH"),
        ("mscn", "SELECT SUM(x) FROM a", "else than COUNT"),
        ("mscn", "SELECT COUNT(DISTINCT x) FROM a", "else than COUNT"),
        ("mscn", "SELECT COUNT(*) FROM a LEFT JOIN b ON a.i = b.i", "inner one"),
        ("mscn", "SELECT COUNT(*) FROM a JOIN b USING (i)", "inner one"),
        ("mscn", "SELECT COUNT(*) FROM (SELECT 1) a", "than tables"),
        ("mscn", "SELECT COUNT(*) FROM a WHERE x = 1 OR y = 2", "than a comparison"),
        ("mscn", "SELECT COUNT(*) FROM a WHERE x IN (1, 2)", "than a comparison"),
        ("mscn", "SELECT COUNT(*) FROM a WHERE x IS NULL", "than a comparison"),
        ("mscn", "SELECT COUNT(*) FROM a WHERE x LIKE 'u%'", "than a comparison"),
        ("mscn", "SELECT COUNT(*) FROM a WHERE x < y", "than a literal"),
        ("mscn", "SELECT COUNT(*) FROM a WHERE lower(x) = 'u'", "columns and literals"),
        ("mscn", "SELECT COUNT(*) FROM a WHERE x = 1 + 1", "than a literal"),
        ("mscn", "SELECT COUNT(*) FROM a WHERE x = 'u,v'", "comma"),
        ("mscn", "SELECT COUNT(*) FROM a WHERE x = 'u#v'", "comma"),
        ("mscn", "SELECT COUNT(*) FROM a WHERE x >= 'M' COLLATE \"C\"", "COLLATE"),
        ("mscn", "SELECT COUNT(*) FROM a WHERE x >= 'M' COLLATE \"de\"", "collation"),
        ("mscn", 'SELECT COUNT(*) FROM "Order Items"', "quotes"),
        ("mscn", 'SELECT COUNT(*) FROM a WHERE "X" = 1', "quotes"),
        ("mscn", "SELECT COUNT(*)", "no table"),
        ("mscn", "DELETE FROM a", "plain SELECT"),
        ("mscn", "SELECT ((((", "plain SELECT"),
        ("sam", "SELECT COUNT(*) FROM a, b WHERE a.i = b.i", "joins"),
        ("sam", "SELECT COUNT(*) FROM a", "no predicate"),
        ("sam", "SELECT COUNT(*) FROM a WHERE x BETWEEN 1 AND 2", "several bounds"),
        ("sam", "SELECT COUNT(*) FROM a WHERE x > 1 AND x < 5", "several bounds"),
        ("sam", "SELECT COUNT(*) FROM a WHERE x <> 1", "operator <>"),
        ("sam", "SELECT COUNT(*) FROM a WHERE x >= 'M'", "collation"),
        ("sam", "SELECT COUNT(*) FROM a WHERE x = 1 OR y = 1", "than a comparison"),
    ],
)
def test_what_is_beyond_a_format_is_refused(
    form: str, sql: str, reason: str, tmp_path: Path
) -> None:
    fine = Query("fine", "SELECT COUNT(*) FROM a WHERE x = 1")
    with pytest.raises(UsageError, match=f"{form} cannot hold query odd: .*{reason}"):
        write(Workload("w", (fine, Query("odd", sql))), tmp_path / "w", form)
    assert not (tmp_path / "w").exists()


def test_sam_holds_one_table_and_all_answers_or_none(tmp_path: Path) -> None:
    one, two = (Query(name, f"SELECT COUNT(*) FROM {name} WHERE x = 1", 3) for name in "ab")
    with pytest.raises(UsageError, match="queries a and b are on different tables"):
        write(Workload("w", (one, two)), tmp_path / "w.json", "sam")
    with pytest.raises(UsageError, match="query c states no answer"):
        write(Workload("w", (one, Query("c", one.sql))), tmp_path / "w.json", "sam")
    write(Workload("w", (Query("c", one.sql),)), tmp_path / "w.json", "sam")
    assert "card_list" not in json.loads((tmp_path / "w.json").read_text())


@pytest.mark.parametrize("line", ["a##x,=#1", "a##x,~,1#1", "a#x#y,=,1#1", "a b c###1", "a###x"])
def test_a_broken_line_is_named(line: str, tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text(f"a###1\n{line}\n")
    with pytest.raises(UsageError, match="query 2 of"):
        read(tmp_path / "w.csv")


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
