"""The formats of MSCN and SAM: what is written is read again; what they cannot hold is said."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sql_files import cases
from test_workload_formats import read_within_its_length

from privbench.errors import UsageError
from privbench.workload import Workload, WorkloadQuery, read, write
from privbench.workload.formats import by_name, names
from privbench_lab.formats.conjunctive import Condition, Conjunction, Value, conjunction
from privbench_lab.formats.sam import sam

GOLDEN = Path(__file__).parent / "golden"
COLUMNS = ("age", "class", "since", "home Land")

_few = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
_texts = st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=12)


def test_formats_are_found_and_asked_before_those_that_take_any_text():
    assert names() == ("native", "card-sql", "mscn", "sam", "pgbench", "sql")
    assert [by_name(name).name for name in names()] == list(names())


#: Files by name: a text, and what is said of it. The first line of each ``.csv`` is fine.
UNREADABLE = [(*title.split(": ", 1), text) for title, text in cases(__file__, "unreadable.txt")]


@pytest.mark.parametrize(("name", "said", "text"), UNREADABLE)
def test_what_cannot_be_read_is_said(name, said, text, tmp_path):
    text = f"a###1\n{text}" if name.endswith(".csv") else text
    (tmp_path / name).write_text(text, errors="surrogateescape")
    with pytest.raises(UsageError, match=said):
        read(tmp_path / name)


_N = 100_000
#: Files of strangers, and what is said of them if they are refused.
HEAVY = {
    "blanks of MSCN": ({"a.txt": "a###1\na###" + (" " * 50 + "#") * 1000 + " " * _N + "!"}, "form"),
    "an answer of MSCN": ({"a.txt": "a###1\na###" + "9" * 400}, "is not of the form"),
    "quotes of MSCN": ({"a.txt": "a##a,=,'" + "''" * _N + "#1"}, ""),
    "JSON of SAM": ({"a.txt": '{"query_list": ' + "[" * _N}, "recursion"),
    "a number in JSON": (
        {"a.txt": '{"query_list": [[["a"], ["="], [' + "9" * 5000 + "]]]}"}, "out of range"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEAVY)
def test_no_file_takes_more_than_its_length(tmp_path, name):
    read_within_its_length(tmp_path, *HEAVY[name])


def test_lines_of_mscn_are_read_and_written_as_the_golden_texts(tmp_path):
    found = read(GOLDEN / "parts.csv")
    assert [query.sql for query in found] == (GOLDEN / "parts.sql").read_text().splitlines()
    assert [query.card for query in found] == [117, 4052, 31, 9]
    assert [query.id for query in found] == ["q1", "q2", "q3", "q4"]
    write(found, tmp_path / "parts.csv", "mscn")
    golden = (GOLDEN / "parts.csv").read_text().replace("=,sent", "=,'sent'")
    assert (tmp_path / "parts.csv").read_text() == golden


def test_numbered_columns_of_sam_are_read_as_the_golden_texts():
    found = read(GOLDEN / "people_test.txt", sam(columns=COLUMNS))
    assert [query.sql for query in found] == (GOLDEN / "people_test.sql").read_text().splitlines()
    assert [query.card for query in found] == [28801, 107, 5]
    found = read(GOLDEN / "people_test.txt", sam("shop.People", COLUMNS))
    assert found.queries[1].sql == 'SELECT COUNT(*) FROM shop."People" WHERE age = 72;'


_names = st.sampled_from(["a", "b_1", "_c", "title", "year2", "kind_id"])
_columns = st.builds("x{}.y{}".format, _names, _names)
_strings = st.text(st.characters(exclude_characters=",#\n\r\x00", codec="utf-8"), max_size=12)
_values = st.one_of(
    st.integers().map(lambda n: Value(str(n), quoted=False)),
    st.decimals(-999, 999, places=2).map(lambda n: Value(f"{n:f}", quoted=False)),
    st.builds(Value, _strings, st.just(True)),
    st.builds(Value, st.dates().map(str), st.just(True), st.just("date")),
)
_comparisons = st.sampled_from(["=", "<", ">", "<=", ">=", "<>"])
_conjunctions = st.builds(
    Conjunction,
    st.lists(st.tuples(_names.map("t_{}".format), _names.map("x{}".format)), min_size=1).map(tuple),
    st.lists(st.tuples(_columns, _columns), max_size=3).map(tuple),
    st.lists(st.builds(Condition, _columns, _comparisons, _values), max_size=5).map(tuple),
)


@_few
@given(parts=_conjunctions, card=st.none() | st.integers(0, 10**12))
def test_lines_of_mscn_that_are_written_are_read_again(tmp_path, parts, card):
    workload = Workload("w", (WorkloadQuery("q1", parts.sql, card),))
    write(workload, tmp_path / "w.csv", "mscn")
    assert read(tmp_path / "w.csv") == workload
    assert conjunction(workload.queries[0], "mscn") == parts


_predicates = st.fixed_dictionaries({}, optional={
    "age": st.tuples(st.sampled_from(["=", "<", "<=", ">=", ">"]), st.integers().map(str)),
    "Class": st.tuples(st.sampled_from(["=", "<=", ">="]), _texts.map("a{}".format)),
    "since": st.tuples(st.sampled_from(["=", "<=", ">="]), st.dates().map(str)),
    "order": st.tuples(st.sampled_from(["=", "<"]), st.decimals(-9, 9, places=3).map(str)),
}).filter(bool)  # fmt: skip


@_few
@given(st.lists(_predicates, min_size=1, max_size=5), st.booleans())
def test_json_of_sam_that_is_written_is_read_again(tmp_path, found, secret):
    items = [[list(one), *map(list, zip(*one.values(), strict=True))] for one in found]
    path = tmp_path / "people_1000.json"
    data = {"query_list": items, "card_list": [str(i) for i in range(len(items))]}
    path.write_text(json.dumps({**data, "table": "people", "confidential": secret}))
    workload = read(path)
    assert workload.confidential == secret
    write(workload, path, "sam")
    written = json.loads(path.read_text())
    assert (written["query_list"], written["card_list"]) == (items, data["card_list"])
    assert read(path) == workload


@pytest.mark.parametrize(("parts", "sql"), cases(__file__, "conjunctions"))
def test_other_ways_to_write_a_conjunction(parts, sql, tmp_path):
    write(Workload("w", (WorkloadQuery("a", sql),)), tmp_path / "w.csv", "mscn")
    assert (tmp_path / "w.csv").read_text() == parts + "\n"


#: What a format cannot hold: the end of ``SELECT COUNT(*) FROM``, or a whole query; and why.
BEYOND = [(*title.split(": ", 1), text) for title, text in cases(__file__, "beyond_formats")]


@pytest.mark.parametrize(("form", "reason", "sql"), BEYOND)
def test_what_is_beyond_a_format_is_refused(form, reason, sql, tmp_path):
    whole = sql.partition(" ")[0].split("\n")[0] in ("SELECT", "WITH", "DELETE")
    odd = WorkloadQuery("odd", sql if whole else f"SELECT COUNT(*) FROM {sql}")
    fine = WorkloadQuery("fine", "SELECT COUNT(*) FROM a WHERE x = 1")
    with pytest.raises(UsageError, match=rf"odd.*{reason}" if "odd" not in reason else reason):
        write(Workload("w", (fine, odd)), tmp_path / "w", form)
    assert not (tmp_path / "w").exists()


def test_sam_holds_all_answers_or_none(tmp_path):
    one = WorkloadQuery("a", "SELECT COUNT(*) FROM a WHERE x = 1", 3)
    with pytest.raises(UsageError, match="query c states no answer"):
        write(Workload("w", (one, WorkloadQuery("c", one.sql))), tmp_path / "w.json", "sam")
    write(Workload("w", (WorkloadQuery("c", one.sql),)), tmp_path / "w.json", "sam")
    assert "card_list" not in json.loads((tmp_path / "w.json").read_text())
