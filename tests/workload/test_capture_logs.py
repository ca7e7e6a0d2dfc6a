"""Logs of every form, as servers write them."""

import csv
import gzip
import json
import os
import re
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from bounded import bounded
from sql_files import cases, sql_of

from privbench.errors import UsageError
from privbench.workload.capture import Capture, capture_logs
from privbench.workload.capture.wrappers import LOGS

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
    (level, *text.partition("\nDETAIL:  ")[::2])
    for level, text in cases(__file__, "log_entries.txt")
]


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


SEEN = "2026-11-22 10:00:00.123 UTC [4711] ada@shop LOG:  "
BLIND = "2026-11-22 10:00:00.123 UTC [4711] LOG:  "


def _log(path: Path, *messages: str, start: str = SEEN) -> Path:
    detail = start.replace("LOG", "DETAIL")
    lines = [f"{detail if m.startswith('prepare: ') else start}{m}\n" for m in messages]
    path.write_text("".join(lines))
    return path


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
def test_plain_logs(tmp_path, prefix):
    path = tmp_path / "postgresql.log"
    path.write_text(_plain(PREFIXES[prefix]))
    for named in (prefix, None):
        _check(capture_logs([path], prefix=named))


def test_csv_json_and_gzip(tmp_path):
    _csv(tmp_path / "a.csv")
    _json(tmp_path / "a.json")
    with gzip.open(tmp_path / "a.log.gz", "wt") as file:
        file.write(_plain(PREFIXES["%m [%p] "]))
    for name in ("a.csv", "a.json", "a.log.gz"):
        _check(capture_logs([tmp_path / name]))


DAY = "2026-11-22T10:00:00.123456789Z"
#: How collectors of logs hand on a line of the server's.
WRAPPERS = {
    "CloudWatch": lambda line: f"{DAY} {line}",
    "aws logs tail": lambda line: f"2026-11-22T10:00:00+00:00 db-1.0 {line}",
    "docker compose": lambda line: f"db-1  | {line}",
    "kubectl --prefix": lambda line: f"[pod/pg-0/postgres] {line}",
    "CRI": lambda line: f"{DAY} stderr P {line[:-1]}\n{DAY} stderr F {line[-1:]}",
    "CRI around docker": lambda line: f"{DAY} stderr F {json.dumps({'log': line})}\n",
    "syslog": lambda line: f"Nov 22 10:00:00 db1 postgres[57]: [3-1] {line}".replace("\t", "#011"),
    "RFC 5424": lambda line: f"<134>1 {DAY} db1 postgres 57 - - [3-1] {line}",
    "docker json-file": lambda line: json.dumps({"log": line, "stream": "stderr"}) + "\n",
    "docker json-file, in pieces": lambda line: "".join(
        json.dumps({"log": piece}) + "\n" for piece in (line[:9], line[9:])
    ),
    "Cloud SQL": lambda line: (
        json.dumps({"insertId": "s", "textPayload": line.rstrip("\n")}) + "\n"
    ),
    "Cloud SQL, pretty": lambda line: (
        "[\n" * line.startswith("2026-11-22 10:00:00.123 UTC [1] ")
        + f'  {{\n    "textPayload": {json.dumps(line[:-1])},\n    "severity": "INFO"\n  }},\n'
    ),
    "journald": lambda line: json.dumps({"MESSAGE": line.rstrip("\n")}) + "\n",
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_what_collectors_put_around_a_line_is_taken_off(tmp_path, name):
    lines = _plain(PREFIXES["%m [%p] %q%u@%d "]).splitlines(keepends=True)
    lines.insert(0, "2026-11-22 10:00:00.123 UTC [1] LOG:  ready\n")
    (tmp_path / "a.log").write_text("".join(map(WRAPPERS[name], lines)))
    _check(capture_logs([tmp_path / "a.log"], database="shop"))


def test_records_within_objects_are_entries(tmp_path):
    record = {"error_severity": "LOG", "database_name": "shop", "message": "execute s: SELECT a "
              "FROM t WHERE b = $1", "detail": "parameters: $1 = '7'"}  # fmt: skip
    start = "2026-11-22 10:00:00 UTC-66b.1a-LOG:  "
    azure = {"errorLevel": "LOG", "message": start + record["message"], "detail": record["detail"]}
    for inner in ({"record": record}, {"properties": azure}):
        lines = [{"level": "info", "msg": "starting"}, inner, inner]
        (tmp_path / "a.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (query,) = capture_logs([tmp_path / "a.json"]).workload
        assert (query.sql, query.weight) == ("SELECT a FROM t WHERE b = '7'", 2)


def test_syslog_cuts_long_lines_at_blanks(tmp_path):
    start = "Nov 22 10:00:00 db1 postgres[57]: "
    (tmp_path / "a.log").write_text(
        f"{start}[3-1] user=ada,db=shop LOG:  execute s: SELECT a\n{start}[3-2]  FROM t\n"
        f"{start}[3-3] #011WHERE b = $1\n{start}[3-4] user=ada,db=shop DETAIL:  parameters:\n"
        f"{start}[3-5]  $1 = '7'\n"
    )
    (query,) = capture_logs([tmp_path / "a.log"], database="shop").workload
    assert query.sql == "SELECT a FROM t\nWHERE b = '7'"


@pytest.mark.parametrize("language", LOGS["languages"])
def test_logs_in_the_languages_of_the_server(tmp_path, language):
    said = LOGS["languages"][language]
    messages = ["LOG:  statement: SELECT a FROM t WHERE b = 7", "ERROR:  x", "STATEMENT:  SELECT",
                "LOG:  parse <unnamed>: SELECT c FROM u WHERE d = $1",
                "LOG:  execute <unnamed>: SELECT c FROM u WHERE d = $1",
                "DETAIL:  parameters: $1 = '8'", "LOG:  x"]  # fmt: skip
    for english in sorted(said, key=len, reverse=True):
        messages = [re.sub(rf"\b{english}\b(?=[: ])", said[english], m, count=1) for m in messages]
    (tmp_path / "a.log").write_text("".join(SEEN[:-6] + line + "\n" for line in messages))
    assert {query.sql for query in capture_logs([tmp_path / "a.log"]).workload} == {
        "SELECT a FROM t WHERE b = 7", "SELECT c FROM u WHERE d = '8'"
    }  # fmt: skip


def test_several_formats_of_one_log_count_once(tmp_path):
    plain = _plain(PREFIXES["%m [%p] "])
    for name in ("pg.log", "pg.log.1", "other.log"):
        (tmp_path / name).write_text(plain)
    (tmp_path / "other.csv").touch()
    _csv(tmp_path / "pg.csv")
    _json(tmp_path / "pg.json")
    assert capture_logs([tmp_path]).calls == 18
    _check(capture_logs([tmp_path / "pg.log", tmp_path / "pg.*v", tmp_path / "pg.json"]))


def test_values_that_the_log_cut_are_not_known(tmp_path):
    one, cut = (
        "\nDETAIL:  parameters: $1 = 'aaaa', $2 = '7'",
        "\nDETAIL:  Parameters: $1 = 'aa...'",
    )
    for details in ((cut, one, cut), (cut, cut, one), (cut,)):
        lines = (f"execute s: SELECT a FROM t WHERE b = $1 AND c = $2{text}" for text in details)
        text = "".join(f"{SEEN}{line}\n".replace("DETAIL", SEEN[:-6] + "DETAIL") for line in lines)
        (tmp_path / "a.log").write_text(text)
        (query,) = capture_logs([tmp_path / "a.log"]).workload
        assert query.weight == len(details)
        assert ("'aaaa'" in query.sql, "$1" in query.sql) == (one in details, one not in details)


def test_several_logs_are_one_workload_of_each_database(tmp_path):
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


def test_a_statement_logged_with_its_plan_counts_once(tmp_path):
    text = "SELECT p FROM t WHERE q = 5"
    plan = (
        f"duration: 1.1 ms  plan:\n\tQuery Text: {text}\n\tSeq Scan on t  (cost=0.00..1.01 rows=1)"
    )
    told = [plan, f"duration: 1.2 ms  statement: {text}"]
    for messages in ([*told, *told, *told], [plan, plan, *told]):
        assert capture_logs([_log(tmp_path / "a.log", *messages)]).calls == 3


def test_memory_does_not_grow_with_the_log(tmp_path):
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


_BOUND = "execute <unnamed>: SELECT a FROM t WHERE b = $1\nDETAIL:  parameters: "
_JSON = "duration: 1 ms  plan:\n\t"
_PREPARED = "\nDETAIL:  prepare: PREPARE p AS SELECT a FROM t"
_N = 100_000
#: Texts that any user of a database can write into its log, and why each is left out, if it is.
HEAVY = {
    "comments": ("statement: " + "/**/" * 40 + " INSERT INTO t VALUES (1)", "but INSERT"),
    "many comments": ("statement: " + "/**/" * _N + " INSERT", "but INSERT"),
    "comments that do not end": ("statement: " + "/*" * _N + " SELECT", "it is not a query"),
    "nested comments": ("statement: " + "/*" * _N + "*/" * _N + "DROP", "but DROP"),
    "lines of comments": ("statement: " + "--\n\t" * _N + "SET a", "but SET"),
    "blanks": ("statement: " + " " * 10 * _N + "!", "it is not a query"),
    "parentheses": ("statement: " + "(" * 10 * _N + "!", "it is not a query"),
    "a long query": ("statement: SELECT " + "1 + " * 8 * _N + "1 FROM t", "it cannot be read"),
    "many parameters": ("statement: SELECT " + "$1 + " * _N + "1 FROM t", "it cannot be read"),
    "a great number": (f"{_BOUND}$300000000 = '1'", ""),
    "a number with many digits": (f"{_BOUND}${'9' * _N} = '1'", ""),
    "a gap": (f"{_BOUND}$1 = '1', $99999 = '1'", ""),
    "quotes": (_BOUND + "$1 = '" + "''" * 10 * _N, ""),
    "a long value": (_BOUND + "$1 = '" + "a" * (12 << 20) + "'", ""),
    "signs of parameters": (_BOUND + "$1 = '" * _N, ""),
    "constants": (
        "statement: EXECUTE p (" + "1," * 5 * _N + f"1){_PREPARED}",
        "",
    ),
    "a constant of quotes": (
        "statement: EXECUTE p ('" + "''" * 5 * _N + f"x){_PREPARED}",
        "",
    ),
    "a deep plan": (_JSON + '{"Query Text": ' + "[" * _N, "XML or YAML"),
    "a plan without an end": (_JSON + "Query Text: " + "Query Parameters: (\n\t" * _N, "XML"),
    "COPY": ("statement: COPY (" + ")     " * _N, "but COPY"),
    "DECLARE": ("statement: DECLARE c" + " NO" * _N + " " * _N, "but DECLARE"),
    "PREPARE": ("statement: PREPARE " + "p" * _N + " " * _N + "(" * _N, "but PREPARE"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEAVY)
def test_no_statement_in_a_log_takes_more_than_its_length(tmp_path, name):
    text, reason = HEAVY[name]
    message, _, detail = text.partition("\nDETAIL:  ")
    lines = f"{SEEN}{message}\n" + (f"{SEEN.replace('LOG', 'DETAIL')}{detail}\n" if detail else "")
    (tmp_path / "a.log").write_text(f"{lines}{SEEN}statement: SELECT c FROM u\n")

    def capture():
        found = capture_logs([tmp_path / "a.log"])
        assert "SELECT c FROM u" in [query.sql for query in found.workload]
        assert len(found.workload) + len(found.skipped) == 2
        assert reason in "".join(found.skipped)

    bounded(capture)


_LINE = "2026-11-22 10:00:00 UTC [1]: [1-1] user="
_PADDED = "%m %-30u %-30a|%-9d "


@pytest.mark.parametrize(("prefix", "line"), [
    (None, _LINE + ",db=,app=,client= " * _N),
    (_PADDED, "2026-11-22 10:00:00.123 UTC " + "a" + " " * _N + " |" * _N),
    (None, "[" * _N),
    (None, '{"error_severity": ' + "[" * _N),
    (None, '"' + "a" * 2 * _N + '",' * 30),
    (None, "x" * (1 << 25)),
])  # fmt: skip
def test_no_line_of_a_log_takes_more_than_its_length(tmp_path, prefix, line):
    start = "2026-11-22 10:00:00.123 UTC ada  psql |shop LOG:  " if prefix else SEEN
    whole = f"{start}statement: SELECT c FROM u\n"
    (tmp_path / "a.log").write_text(f"{whole}{line}\n{whole}{line}")
    (tmp_path / "b.log").write_text(f"{line}\n{whole}")

    def capture():
        found = capture_logs([tmp_path / "a.log"], prefix=prefix)
        assert found.calls + sum(found.skipped.values()) == 2
        # Too long a first line hides how the others begin.
        with suppress(UsageError):
            assert capture_logs([tmp_path / "b.log"], prefix=prefix).calls == 1

    bounded(capture)


def test_a_damaged_log_is_no_crash(tmp_path):
    good = {"error_severity": "LOG", "message": "statement: SELECT a FROM t"}
    odd = [good | {"dbname": name, "application_name": name} for name in ([], {}, 3, None)]
    lines = [json.dumps(item) for item in (good, *odd)]
    (tmp_path / "a.json").write_text("\n".join([*lines, "[" * _N, "9" * _N]))
    assert capture_logs([tmp_path / "a.json"]).calls == 5
    whole = gzip.compress(_plain(BLIND[:-6]).encode())
    (tmp_path / "a.log.gz").write_bytes(whole[:-20])
    (tmp_path / "b.log.gz").write_bytes(whole[:40] + b"\xff" * 40 + whole[80:])
    for name in ("a.log.gz", "b.log.gz"):
        with pytest.raises(UsageError, match=r"is damaged|cannot read"):
            capture_logs([tmp_path / name])
    os.mkfifo(tmp_path / "pipe.log")
    for path in (tmp_path / "pipe.log", tmp_path / "p*.log"):
        with pytest.raises(UsageError, match="is no plain file"):
            capture_logs([path])


def test_what_no_log_tells_is_said(tmp_path):
    text = "statement: SELECT a FROM t"
    strange = _log(tmp_path / "strange.log", text, start="<4711> LOG:  ")
    twice = _log(tmp_path / "twice.log", text, start="shop ada@shop LOG:  ")
    plain = _log(tmp_path / "a.log", text)
    for path, prefix, database in (
        (strange, "<%p> ", None), (twice, "%d %q%u@%d %q", "shop"), (plain, None, "shop")
    ):  # fmt: skip
        assert capture_logs([path], prefix=prefix, database=database).calls == 1
    for path, prefix, said in (
        (tmp_path / "none.log", None, "cannot read the log"),
        (strange, None, "--prefix"),
        (strange, "<%Z> ", "no escape %Z"),
        (_log(tmp_path / "quiet.log", "system is ready"), None, "log_min_duration_statement"),
        (plain, None, r"'shap'.*They name these: shop"),
        (_log(tmp_path / "b.log", text, start=BLIND), None, "put %d into log_line_prefix"),
    ):
        with pytest.raises(UsageError, match=said):
            capture_logs([path], prefix=prefix, database="shap")


def test_texts_that_differ_in_constants_comments_and_layout_are_one(tmp_path):
    same = (
        "SELECT A1,  x FROM T\n\tWHERE b = 'it''s' AND c<5 LIMIT .5e3;",
        r"select a1, x /* '5 */ from t where b = E'it\'s 5' and c < 1_000 limit 7",
        "select a1,x from t where b=$tag$ x $$ $tag$ and c<$1 limit B'1' -- 5",
    )
    others = ('SELECT "A1" FROM T', 'SELECT "a1" FROM T', "SELECT a$1 FROM T", "SELECT a1 FROM T")
    path = _log(tmp_path / "a.log", *(f"statement: {text}" for text in (*same, *others)))
    assert [q.weight for q in capture_logs([path]).workload] == [3, 1, 1, 1, 1]


def test_several_files_patterns_and_folders(tmp_path):
    for number in (1, 2, 3):
        _log(tmp_path / f"pg-{number}.log", f"statement: SELECT a FROM t{'x' * number}")
    (tmp_path / "pg-4.log").touch()
    (tmp_path / "notes.txt").write_text("no log\n")
    _log(tmp_path / "pg-5.log.1", "statement: SELECT a FROM rotated")
    (tmp_path / "empty").mkdir()
    one, two = tmp_path / "pg-1.log", tmp_path / "pg-[23].log"
    assert capture_logs([one, two]).calls == 3
    assert capture_logs([tmp_path]).calls == 4
    for nothing in ("none-*.log", "none.log", "empty"):
        with pytest.raises(UsageError, match=nothing[:4]):
            capture_logs([tmp_path / nothing])


@pytest.mark.parametrize("turned", [False, True])
def test_samples_have_their_parameters_where_any_has(tmp_path, turned):
    messages = ["execute s: SELECT a FROM t WHERE b = $1"] * 5
    messages.insert(len(messages) * turned, "statement: SELECT a FROM t WHERE b = 7")
    path = _log(tmp_path / "a.log", *messages)
    for seed in range(4):
        found = capture_logs([path], samples=2, seed=seed)
        assert found.calls == 6
        assert [query.sql for query in found.workload] == ["SELECT a FROM t WHERE b = 7"]


#: Of ``writing.sql``, what writes rows of tables.
WRITES = (
    *("DELETE FROM t", "INSERT INTO t VALUES (1)", "UPDATE t SET a = 1"),
    "WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone",
    "SELECT * FROM t FOR UPDATE",
)
AROUND = {text: said.split("\n") for text, said in cases(__file__, "log_around")}


def test_sessions_keep_their_order_and_whole_transactions(tmp_path):
    steps = [line.split(" ", 1) for line in sql_of(__file__, "sessions.txt").splitlines()]
    start, lines = PREFIXES["%m [%p] %q%u@%d "], list[str]()
    for process, text in steps:
        begin = start.replace("4711", process)
        message, _, values = text.partition(" <- ")
        lines.append(f"{begin}LOG:  {message}\n".replace("\\n", "\n\t"))
        lines += [f"{begin}DETAIL:  parameters: {values}\n"] * bool(values)
    (tmp_path / "a.log").write_text("".join(lines))
    found = capture_logs([tmp_path / "a.log"], sessions=True, writes=True)
    assert found.workload.confidential
    assert [f"{query.id}: {query.sql}" for query in found.workload] == sql_of(
        __file__, "sessions_captured.txt"
    ).splitlines()
    assert found.calls == len(found.workload)
    reads = capture_logs([tmp_path / "a.log"], sessions=True).workload
    assert [query.sql for query in reads] == [
        query.sql
        for query in found.workload
        if query.sql.startswith("SELECT") and "FOR" not in query.sql
    ]


def test_writes_are_judged(tmp_path):
    """Of the texts that no replay runs, those are captured that write rows and do nothing else."""
    texts = [*sql_of(__file__, "writing").splitlines(), *sql_of(__file__, "writes").splitlines()]
    wanted = [text for text in texts if "-- kept" in text or text in WRITES]
    path = _log(tmp_path / "a.log", *(f"statement: {text}" for text in texts))
    assert [query.sql for query in capture_logs([path], writes=True).workload] == wanted
    assert not set(wanted) & {query.sql for query in capture_logs([path]).workload}


def test_statements_around_a_query_give_it_and_others_are_counted(tmp_path):
    for text, messages in AROUND.items():
        found = capture_logs([_log(tmp_path / "a.log", *messages)])
        assert [query.sql for query in found.workload] == [text]
        assert found.skipped == {}
    texts = ["INSERT INTO t VALUES (1)", "/* x */ insert into u values (2)", "SET x = 1", "PREPARE"]
    path = _log(tmp_path / "a.log", *(f"statement: {text}" for text in texts))
    assert capture_logs([path]).skipped == {
        "it is not a query but INSERT": 2,
        "it is not a query but SET": 1,
        "it is not a query but PREPARE": 1,
    }
