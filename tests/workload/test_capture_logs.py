"""Logs of every form, as servers write them."""

from __future__ import annotations

import csv
import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from privbench.errors import UsageError
from privbench.workload.capture import Capture, capture_logs
from privbench.workload.capture.gather import normalised

# prefix, and how the lines of one session begin under it.
PREFIXES = {
    "%m [%p] ": "2026-11-22 10:00:00.123 UTC [4711] ",
    "%m [%p] %q%u@%d ": "2026-11-22 10:00:00.123 UTC [4711] ada@shop ",
    "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ": "2026-11-22 10:00:00 UTC [4711]: [7-1] "
    "user=ada,db=shop,app=psql,client=[local] ",
    "%t:%r:%u@%d:[%p]:": "2026-11-22 10:00:00 UTC:10.0.0.7(50122):ada@shop:[4711]:",
    "%t ": "2026-11-22 10:00:00 UTC ",
}
ENTRIES = [
    ("LOG", "duration: 0.210 ms  statement: SELECT a\nFROM t\n\tWHERE b = 'it''s; -- DETAIL:  x'",
     ""),
    ("LOG", "duration: 0.110 ms  parse <unnamed>: SELECT c FROM u WHERE d = $1", ""),
    ("LOG", "duration: 0.110 ms  bind <unnamed>: SELECT c FROM u WHERE d = $1",
     "parameters: $1 = 'x'"),
    ("LOG", "duration: 0.310 ms  execute <unnamed>: SELECT c FROM u WHERE d = $1 AND e = $2",
     "parameters: $1 = 'o''clock, $2', $2 = NULL"),
    ("LOG", "duration: 0.310 ms  execute S_1: select  c from u where d = $1 and e=$2",
     "Parameters: $1 = 'noon', $2 = '7'"),
    ("LOG", "statement: SELECT a FROM t WHERE b = 'other' /* from the shop */", ""),
    ("LOG", "duration: 1.5 ms", ""),
    ("LOG", "connection authorized: user=ada database=shop", ""),
    ("ERROR", 'relation "x" does not exist at character 15', ""),
    ("STATEMENT", "SELECT * FROM x", ""),
    ("LOG", "duration: 0.310 ms  statement: UPDATE t SET a = 1", ""),
    ("LOG", "duration: 0.310 ms  statement: SELECT a FROM t FOR UPDATE", ""),
    ("LOG", "duration: 0.310 ms  statement: SELECT 'open FROM t", ""),
    ("LOG", "duration: 12.1 ms  plan:\nQuery Text: SELECT p\nFROM t WHERE q = 5\nSeq Scan on t  "
     "(cost=0.00..1.01 rows=1 width=4)\n  Filter: (q = 5)", ""),
    ("LOG", 'duration: 12.1 ms  plan:\n{\n  "Query Text": "SELECT p\\nFROM t WHERE q = $1",\n'
     '  "Query Parameters": "$1 = \'6\'",\n  "Plan": {"Node Type": "Seq Scan"}\n}', ""),
    ("LOG", "duration: 12.1 ms  plan:\n<explain/>", ""),
]  # fmt: skip


def _plain(start: str) -> str:
    lines = []
    for level, message, detail in ENTRIES:
        lines.append(f"{start}{level}:  {message}".replace("\n", "\n\t"))
        if detail:
            lines.append(f"{start}DETAIL:  {detail}".replace("\n", "\n\t"))
    return "\n".join(lines) + "\n"


def _csv(path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        for level, message, detail in ENTRIES:
            row = [""] * 26
            row[0], row[2], row[11], row[13], row[14] = "2026-11-22", "shop", level, message, detail
            writer.writerow(row)


def _json(path: Path) -> None:
    lines = [
        json.dumps({"dbname": "shop", "error_severity": level, "message": message}
                   | ({"detail": detail} if detail else {}))
        for level, message, detail in ENTRIES
    ]  # fmt: skip
    path.write_text("\n".join(lines) + '\n{"error_severity": "LOG", "mess')


def _check(found: Capture) -> None:
    assert found.workload.confidential
    assert [query.weight for query in found.workload] == [2.0, 2.0, 2.0]
    assert found.calls == 6
    (bound,) = (q for q in found.workload if q.template and "d = $1" in q.template)
    values, end = bound.parameters, bound.sql.replace(" ", "").lower().partition("where")[2]
    assert (values, end) in (
        (("o'clock, $2", None), "d='o''clock,$2'ande=null"),
        (("noon", "7"), "d='noon'ande='7'"),
    )
    (quoted,) = (q.sql for q in found.workload if "FROM t" in q.sql and "b =" in q.sql)
    assert quoted in (
        "SELECT a\nFROM t\n\tWHERE b = 'it''s; -- DETAIL:  x'",
        "SELECT a FROM t WHERE b = 'other' /* from the shop */",
    )
    assert found.skipped == {
        "it is a parse or bind step, not a run": 2,
        "it is not a query but UPDATE": 1,
        "it writes or locks rows": 1,
        "it cannot be read": 1,
        "its plan is logged as XML or YAML": 1,
    }


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("named", [True, False])
def test_plain_logs(tmp_path: Path, prefix: str, named: bool) -> None:
    path = tmp_path / "postgresql.log"
    path.write_text(_plain(PREFIXES[prefix]))
    _check(capture_logs([path], prefix=prefix if named else None))


def test_csv_json_and_gzip(tmp_path: Path) -> None:
    _csv(tmp_path / "a.csv")
    _check(capture_logs([tmp_path / "a.csv"]))
    _json(tmp_path / "a.json")
    _check(capture_logs([tmp_path / "a.json"]))
    with gzip.open(tmp_path / "a.log.gz", "wt") as file:
        file.write(_plain(PREFIXES["%m [%p] "]))
    _check(capture_logs([tmp_path / "a.log.gz"]))


def test_several_logs_are_one_workload_of_each_database(tmp_path: Path) -> None:
    _csv(tmp_path / "a.csv")
    _json(tmp_path / "b.json")
    found = capture_logs([tmp_path / "a.csv", tmp_path / "b.json"], samples=2)
    assert found.calls == 12
    assert [(query.id, query.weight) for query in found.workload] == [
        (f"c{number}{sample}", 2.0) for number in (1, 2, 3) for sample in ("", ".2")
    ]
    assert len({query.sql for query in found.workload}) == 6
    bank = _log(
        tmp_path / "b.log", "statement: SELECT 1 FROM t", start=SEEN.replace("shop", "bank")
    )
    found = capture_logs([tmp_path / "a.csv", bank], database="bank")
    assert [query.sql for query in found.workload] == ["SELECT 1 FROM t"]
    assert found.skipped["it ran in another database"] == 9


def test_a_statement_logged_with_its_plan_counts_once(tmp_path: Path) -> None:
    text = "SELECT p FROM t WHERE q = 5"
    plan = (
        f"duration: 1.1 ms  plan:\n\tQuery Text: {text}\n\tSeq Scan on t  (cost=0.00..1.01 rows=1)"
    )
    told = [plan, f"duration: 1.2 ms  statement: {text}"]
    assert capture_logs([_log(tmp_path / "a.log", *[*told, *told, *told])]).calls == 3
    assert capture_logs([_log(tmp_path / "a.log", plan, plan, *told)]).calls == 3


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    def peak(lines: int) -> int:
        texts = (f"statement: SELECT a FROM t WHERE b = {number}" for number in range(lines))
        path = _log(tmp_path / "big.log", *texts)
        tracemalloc.start()
        capture_logs([path])
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(200)
    assert peak(2500) < 1.2 * peak(500) + 2**17


def test_what_no_log_tells_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the log"):
        capture_logs([tmp_path / "none.log"])
    strange = _log(tmp_path / "strange.log", "statement: SELECT a FROM t", start="<4711> LOG:  ")
    with pytest.raises(UsageError, match="--prefix"):
        capture_logs([strange])
    assert capture_logs([strange], prefix="<%p> ").calls == 1
    twice = _log(tmp_path / "twice.log", "statement: SELECT a FROM t", start="shop ada@shop LOG:  ")
    assert capture_logs([twice], prefix="%d %q%u@%d %q", database="shop").calls == 1
    with pytest.raises(UsageError, match="no escape %Z"):
        capture_logs([strange], prefix="<%Z> ")
    quiet = _log(tmp_path / "quiet.log", "database system is ready")
    with pytest.raises(UsageError, match="log_min_duration_statement"):
        capture_logs([quiet])
    path = _log(tmp_path / "a.log", "statement: SELECT a FROM t")
    assert capture_logs([path], database="shop").calls == 1
    with pytest.raises(UsageError, match=r"'shap'.*They name these: shop"):
        capture_logs([path], database="shap")
    blind = _log(tmp_path / "b.log", "statement: SELECT a FROM t", start=BLIND)
    with pytest.raises(UsageError, match="put %d into log_line_prefix"):
        capture_logs([blind], database="shop")


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("SELECT A1,  x_2 FROM T\nWHERE b = 'it''s' AND c<$1 LIMIT .5e3;",
         "select a1,x_2 from t where b=? and c<? limit ?"),
        (r"SELECT E'it\'s 5' || $tag$ 'x' $$ $tag$ || 1_000 -- '5", "select e?||?||?"),
        ('SELECT "A 5 ", a$1 /* 5 \' */ FROM t5', 'select "A 5 ",a$1 from t5'),
    ],
)  # fmt: skip
def test_normal_texts_hold_no_constants(text: str, normal: str) -> None:
    assert normalised(text) == normal


SEEN = "2026-11-22 10:00:00.123 UTC [4711] ada@shop LOG:  "
BLIND = "2026-11-22 10:00:00.123 UTC [4711] LOG:  "


def _log(path: Path, *messages: str, start: str = SEEN) -> Path:
    lines = [
        f"{start.replace('LOG', 'DETAIL') if message.startswith('prepare: ') else start}{message}\n"
        for message in messages
    ]
    path.write_text("".join(lines))
    return path


def test_several_files_patterns_and_folders(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        _log(tmp_path / f"pg-{number}.log", f"statement: SELECT a FROM t{'x' * number}")
    (tmp_path / "pg-4.log").touch()
    (tmp_path / "notes.txt").write_text("no log\n")
    _log(tmp_path / "pg-5.log.1", "statement: SELECT a FROM rotated")
    one, two = tmp_path / "pg-1.log", tmp_path / "pg-[23].log"
    assert capture_logs([one, two]).calls == 3
    assert capture_logs([tmp_path]).calls == 4
    for nothing in ("none-*.log", "none.log"):
        with pytest.raises(UsageError, match="none"):
            capture_logs([tmp_path / nothing])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no log in"):
        capture_logs([tmp_path / "empty"])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("turned", [False, True])
def test_samples_have_their_parameters_where_any_has(
    tmp_path: Path, seed: int, turned: bool
) -> None:
    messages = ["execute s: SELECT a FROM t WHERE b = $1"] * 5
    messages.insert(len(messages) * turned, "statement: SELECT a FROM t WHERE b = 7")
    found = capture_logs([_log(tmp_path / "a.log", *messages)], samples=2, seed=seed)
    assert found.calls == 6
    assert [query.sql for query in found.workload] == ["SELECT a FROM t WHERE b = 7"]


@pytest.mark.parametrize(
    ("messages", "sql"),
    [
        (["statement: COPY (SELECT a FROM t WHERE (b = 1)) TO STDOUT (FORMAT csv)"],
         "SELECT a FROM t WHERE (b = 1)"),
        (["statement: declare c no scroll cursor with hold for SELECT a FROM t"],
         "SELECT a FROM t"),
        (["statement: EXECUTE p (5, 'it''s', NULL)",
          "prepare: PREPARE p (int, text, int) AS SELECT a FROM t WHERE b=$1 AND c=$2 AND d=$3"],
         "SELECT a FROM t WHERE b='5' AND c='it''s' AND d=NULL"),
        (["statement: EXECUTE p", "prepare: PREPARE p AS SELECT a FROM t"], "SELECT a FROM t"),
    ],
)  # fmt: skip
def test_statements_around_a_query_give_it(tmp_path: Path, messages: list[str], sql: str) -> None:
    found = capture_logs([_log(tmp_path / "a.log", *messages)])
    assert [query.sql for query in found.workload] == [sql]
    assert found.skipped == {}


def test_what_is_left_out_is_counted_by_kind(tmp_path: Path) -> None:
    texts = ["INSERT INTO t VALUES (1)", "/* x */ insert into u values (2)", "SET x = 1", "PREPARE"]
    path = _log(tmp_path / "a.log", *(f"statement: {text}" for text in texts))
    assert capture_logs([path]).skipped == {
        "it is not a query but INSERT": 2,
        "it is not a query but SET": 1,
        "it is not a query but PREPARE": 1,
    }
