"""Formats: what is written is read again; what a file or a format cannot hold is said."""

import json
import os
import socket
import tempfile
from pathlib import Path

import pytest
from bounded import bounded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sql_files import cases, sql_of

from privbench.errors import UsageError
from privbench.pgsql import pieces
from privbench.workload import Workload, WorkloadQuery, read, write
from privbench.workload.formats import by_name
from privbench.workload.formats.base import CONFIDENTIAL
from privbench.workload.safety import check

ODD = [text for _, text in cases(__file__, "odd_queries")]
# Formats that hold any text, each with a place that it is written to.
KEEPING = {"native": "w.json", "sql": "w.sql", "card-sql": "w.sql", "pgbench": "w"}

_few = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@_few
@given(st.lists(st.sampled_from(ODD[:-1]), min_size=1), st.sampled_from([";", " ;\n", ";;"]))
def test_splitting_undoes_joining(parts, between):
    assert pieces(between.join(parts)) == parts


@pytest.mark.parametrize("confidential", [False, True])
@pytest.mark.parametrize("form", KEEPING)
def test_what_is_written_is_read_again(form, confidential, tmp_path):
    assert by_name(form).name == form
    texts = [text for text in ODD if "\n" not in text] if form == "card-sql" else ODD
    made = tuple(WorkloadQuery(f"q{i}", text, i) for i, text in enumerate(texts, 1))
    workload = Workload("w", made, confidential)
    path = tmp_path / KEEPING[form]
    write(workload, path, form)
    found = read(path)
    assert [query.sql.removesuffix("\n") for query in found] == texts
    assert found.confidential == confidential
    if form in ("card-sql", "native"):
        assert found == workload


_texts = st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=12)
_queries = st.builds(
    WorkloadQuery,
    _texts,
    _texts,
    st.none() | st.integers(0, 2**62),
    st.floats(1e-6, 1e9),
    st.none() | _texts,
    st.lists(st.none() | _texts, max_size=3).map(tuple),
    st.lists(_texts, max_size=3).map(tuple),
)


@_few
@given(_texts, st.lists(_queries, max_size=4, unique_by=lambda query: query.id), st.booleans())
def test_native_keeps_everything(tmp_path, name, queries, secret):
    workload = Workload(name, tuple(queries), secret)
    write(workload, tmp_path / "w.json", "native")
    assert read(tmp_path / "w.json", "native") == workload


def test_the_native_file_is_as_documented(tmp_path):
    query = WorkloadQuery(
        "q1", "SELECT 1 WHERE 2 > 1", 1, 3.5, "SELECT 1 WHERE 2 > $1", ("1",), ("x = 1",)
    )
    write(Workload("shop", (query, WorkloadQuery("q2", "SELECT 2"))), tmp_path / "w.json", "native")
    full = {
        "id": "q1", "sql": "SELECT 1 WHERE 2 > 1", "card": 1, "weight": 3.5,
        "template": "SELECT 1 WHERE 2 > $1", "parameters": ["1"], "draws": ["x = 1"],
    }  # fmt: skip
    assert json.loads((tmp_path / "w.json").read_text()) == {
        "privbench-workload": 1,
        "name": "shop",
        "confidential": False,
        "queries": [full, {"id": "q2", "sql": "SELECT 2"}],
    }


def test_answers_stand_before_their_queries(tmp_path):
    file = tmp_path / "stats.sql"
    file.write_text(
        "-- a remark\n12||SELECT COUNT(*) FROM a WHERE x = '||';\n\n3.0||SELECT 1\r\n||SELECT 2\n"
    )
    assert [(query.sql, query.card) for query in read(file)] == [
        ("SELECT COUNT(*) FROM a WHERE x = '||';", 12),
        ("SELECT 1", 3),
        ("SELECT 2", None),
    ]


def test_a_folder_is_read_in_natural_order_and_written(tmp_path):
    texts = {"10a": "SELECT 10", "2a": "\\timing on\nSELECT 2; SELECT 3", "sub/1": "\\i in.sql\n"}
    for name, text in {**texts, "sub/in": "SELECT 1"}.items():
        file = tmp_path / "w" / f"{name}.sql"
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(text)
    (tmp_path / "w" / "README.md").write_text("not SQL")
    found = [(query.id, query.sql) for query in read(tmp_path / "w")]
    assert found == [
        ("2a", "SELECT 2"),
        ("2a#2", "SELECT 3"),
        ("10a", "SELECT 10"),
        ("sub/1", "SELECT 1"),
        ("sub/in", "SELECT 1"),
    ]
    workload = Workload(
        "job", tuple(WorkloadQuery(*item) for item in found if "#" not in item[0]), True
    )
    write(workload, tmp_path / "job")
    assert read(tmp_path / "job") == workload


#: Files by name: a text, and what is said of it.
UNREADABLE = [(*title.split(": ", 1), text) for title, text in cases(__file__, "unreadable.txt")]


@pytest.mark.parametrize(("name", "said", "text"), UNREADABLE)
def test_what_cannot_be_read_is_said(name, said, text, tmp_path):
    (tmp_path / name).write_text(text, errors="surrogateescape")
    with pytest.raises(UsageError, match=said):
        read(tmp_path / name)


_N = 100_000
_SET = "\\set x {}\nSELECT :x;"


def _fan(last, own):
    """Scripts of which each includes the next one a thousand times."""
    files = {"a.sql": 1000 * "\\i 1.sql\n" + own}
    return files | {f"{n}.sql": 1000 * f"\\i {n + 1}.sql\n" for n in range(1, 8)} | {"8.sql": last}


#: Files of strangers by the name of the first, and what is said of them if they are refused.
HEAVY = {
    "blanks before card||": ({"a.txt": "1||SELECT 1\n" + " " * 2 * _N + "!"}, ""),
    "blanks": ({"a.txt": " " * 2 * _N + "!"}, "no known format"),
    "digits": ({"a.txt": "9" * 2 * _N + "||SELECT 1"}, "no known format"),
    "digits of a later answer": ({"a.txt": "1||SELECT 1\n" + "9" * 5000 + "||SELECT 1"}, ""),
    "blanks after echo": ({"a.sql": "\\echo" + " " * _N + "x\nSELECT 1;"}, ""),
    "blanks after a command": ({"a.sql": "\\timing" + " " * _N + "x y\n"}, "timing"),
    "one that includes itself": ({"a.sql": "\\i a.sql\n" * 100}, "includes itself"),
    "includes of includes": (_fan("SELECT 1;", ""), "includes more than"),
    "includes of nothing": (_fan("", "SELECT 1;"), ""),
    "includes of empty lines": (
        {"a.sql": "SELECT 1;\n\\i 1.sql\n", "1.sql": "\\i 2.sql\n" * 500}
        | {"2.sql": "\\i 3.sql\n" * 500, "3.sql": "\n" * 999},
        "includes more than|longer than",
    ),
    "a NUL in a name": ({"a.sql": "\\i b\0.sql\n"}, "no file name"),
    "a long name": ({"a.sql": f"\\i {'b' * 5000}.sql\n"}, "no file name|cannot read"),
    "digits of pgbench": ({"a.pgbench": _SET.format("9" * _N)}, "cannot be drawn here"),
    "signs of pgbench": ({"a.pgbench": _SET.format("-" * _N + "1")}, "cannot be drawn here"),
    "hexadecimal": ({"a.pgbench": _SET.format("0x" + "f" * 900)}, "cannot be drawn here"),
    "a great quotient": ({"a.pgbench": _SET.format("1e400 / 3")}, "cannot be drawn here"),
    "parentheses of pgbench": ({"a.pgbench": _SET.format("(" * _N)}, "cannot be drawn here"),
    "squares of squares": (
        {
            "a.pgbench": "\\set x0 9\n"
            + "".join(f"\\set x{n + 1} :x{n} * :x{n}\n" for n in range(60))
            + "SELECT :x60;"
        },
        "cannot be drawn here",
    ),
    "many variables": (
        {"a.pgbench": "".join(f"\\set x{n} 1\nSELECT :x{n};\n" for n in range(2 * _N))},
        "more than 1,000 variables",
    ),
    "a great weight": (
        {"a/pgbench.opts": f"-f b.sql@{'9' * 5000}\n", "a/b.sql": "SELECT 1;"},
        "no file name within",
    ),
    "superscripts": ({"a/1\u00b21.sql": "SELECT 1;"}, ""),
    "deep JSON": ({"a.json": '{"privbench-workload": 1, "queries": ' + "[" * _N}, "recursion"),
}  # fmt: skip


def read_within_its_length(tmp_path, files, said):
    """Reading the first of these files takes little time and memory, or is refused."""
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    first = tmp_path / next(iter(files)).partition("/")[0]

    def act():
        if not said:
            assert read(first).queries
            return
        with pytest.raises(UsageError, match=said):
            read(first)

    bounded(act)


@pytest.mark.parametrize("name", HEAVY)
def test_no_file_takes_more_than_its_length(tmp_path, name):
    read_within_its_length(tmp_path, *HEAVY[name])


@pytest.mark.parametrize("make", [
    os.mkfifo,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to(path),
    lambda path: path.symlink_to(path.parent),
    Path.mkdir,
    lambda path: (path.touch(), os.truncate(path, 2**40)),
    lambda path: socket.socket(socket.AF_UNIX).bind(str(path)),
])  # fmt: skip
@pytest.mark.parametrize("named", ["odd.sql", "b.sql"])
def test_what_is_no_plain_file_in_a_folder_is_not_waited_for(make, named):
    """A folder of scripts, one of which is such a thing or includes one."""

    def act():
        # A socket's path has to be short.
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "a.sql").write_text("SELECT 1;")
            (folder / "b.sql").write_text("\\i odd.sql\n" if named == "b.sql" else "SELECT 2;")
            make(folder / "odd.sql")
            with pytest.raises(UsageError, match=r"no plain file|no file name|cannot read"):
                read(folder)

    bounded(act)


@pytest.mark.parametrize("text", ["$0", "$2", f"${'9' * 5000}"])
def test_a_template_that_names_a_missing_parameter_is_not_written(text, tmp_path):
    query = WorkloadQuery(
        "q", "SELECT 1", template=f"SELECT $1, {text}", parameters=("1",), draws=("x = 1",)
    )
    with pytest.raises(UsageError, match="pgbench can run no query"):
        write(Workload("w", (query,)), tmp_path / "a.pgbench", "pgbench")


def test_what_is_not_there_is_said_and_what_leads_elsewhere_not_written(tmp_path):
    with pytest.raises(UsageError, match="no workload at"):
        read(tmp_path / "absent")
    (tmp_path / "w.sql").write_text("SELECT 1")
    with pytest.raises(UsageError, match=r"no workload format.*native, card-sql"):
        read(tmp_path / "w.sql", "parquet")
    for form in ("sql", "pgbench"):
        with pytest.raises(UsageError, match="no file name"):
            write(Workload("w", (WorkloadQuery("../../out", "SELECT 1"),)), tmp_path / "w", form)


@pytest.mark.parametrize("sql", sql_of(__file__, "reading").splitlines())
def test_reading_queries_pass(sql):
    check(Workload("w", (WorkloadQuery("a", sql),)))


@pytest.mark.parametrize("sql", ["", *sql_of(__file__, "writing").splitlines()])
def test_everything_else_is_refused(sql):
    with pytest.raises(UsageError, match="query a of workload w"):
        check(Workload("w", (WorkloadQuery("a", sql),)))


def test_a_bad_query_is_told_by_its_id_and_place():
    queries = (WorkloadQuery("1a", "SELECT 1"), WorkloadQuery("2b", "SELECT 1\n  FORM t x"))
    with pytest.raises(UsageError, match=r'query 2b of workload w.*at or near "t" \(line 2, colum'):
        check(Workload("w", queries))


def test_tables_and_joins_are_counted():
    text = "SELECT 1 FROM a x, a y LEFT JOIN b USING (i) WHERE EXISTS (SELECT 1 FROM c)"
    queries = WorkloadQuery("a", text), WorkloadQuery("b", "SELECT ((((")
    assert [query.facts[:2] for query in queries] == [(4, 2), (None, None)]


def test_the_digest_tells_workloads_apart_whatever_their_names():
    one = Workload("w", (WorkloadQuery("a", "SELECT 1"), WorkloadQuery("b", "SELECT 2")))
    other = Workload("w", (WorkloadQuery("a", "SELECT 1b"), WorkloadQuery("", "SELECT 2")))
    assert one.digest == Workload("renamed", one.queries).digest
    assert one.digest != other.digest


#: Files of a workload, and the file and line of each of its queries.
PLACES = {
    "one file": (
        {"w.sql": "\n-- a\n/* b\n*/ SELECT 1; SELECT\n2;\n;;\nSELECT 'x\ny'\n;SELECT 3"},
        "w.sql:4 w.sql:4 w.sql:7 w.sql:9",
    ),
    "confidential": ({"w.sql": f"-- {CONFIDENTIAL}\n;\nSELECT 1;\nSELECT 2;\n"}, "w.sql:3 w.sql:4"),
    "a folder": (
        {"b.sql": "SELECT 1;\nSELECT 2", "a.sql": "\n\nSELECT 3"},
        "a.sql:3 b.sql:1 b.sql:2",
    ),
    "included": (
        {"w.sql": "\\timing\n\\i x/y.sq\nSELECT 1", "x/y.sq": "SELECT 2;\n\n\\x on\nSELECT 3\n;"},
        "y.sq:1 y.sq:4 w.sql:3",
    ),
    "answers": ({"w.sql": "-- a\n\n1||SELECT 1\n||SELECT 2"}, "w.sql:3 w.sql:4"),
    "pgbench": (
        {"w.sql": f"-- {CONFIDENTIAL}\n\\set a abs(\\\n  9)\nSELECT :a;\n\\set b 1\n\nSELECT :b"},
        "w.sql:4 w.sql:7",
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_queries_know_file_and_line(name, tmp_path):
    files, places = PLACES[name]
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    found = read(tmp_path if name == "a folder" else tmp_path / "w.sql")
    assert [query.place.rpartition("/")[2] for query in found] == places.split()
    # No file that is handed on tells where it came from, nor claims it.
    write(found, tmp_path / "w.json", "native")
    assert "place" not in (tmp_path / "w.json").read_text()
    forged = (tmp_path / "w.json").read_text().replace('"id"', '"place": "/etc/passwd:1", "id"')
    (tmp_path / "w.json").write_text(forged)
    with pytest.raises(UsageError, match="place"):
        read(tmp_path / "w.json")
