"""Replay on a real server: answers, the noise floor and cold runs."""

import json
import sys
from collections import Counter
from itertools import islice, pairwise

import psycopg
import pytest
from bounded import bounded
from market import execute
from sql_files import cases

from privbench.errors import ConnectionFailed, DatabaseError, UsageError
from privbench.workload import Workload, WorkloadQuery, replay
from privbench.workload.replay import AGAIN, orders

#: What these tests call to see sessions and to wait.
TOLD = tuple(
    f"pg_catalog.{name}"
    for name in ("pg_sleep", "pg_backend_pid", "pg_size_bytes", "current_setting")
)


def _workload(*texts):
    return Workload("test", tuple(WorkloadQuery(f"q{i}", sql) for i, sql in enumerate(texts, 1)))


def _alone(dsn, *texts, **options):
    """The answers of one database that runs each query once."""
    found = replay(_workload(*texts), {"source": dsn}, repeats=1, warmup=0, **options)
    return [result["source"] for result in found.results]


def test_answers_are_counts_or_row_counts(shop):
    rows, texts = zip(*cases(__file__, "answers"), strict=True)
    found = [(answer.rows, answer.status) for answer in _alone(shop, *texts)]
    assert found == [(int(number), "ok") for number in rows]


def _both(shop, shop_clone, *texts, **options):
    return replay(_workload(*texts), {"source": shop, "clone": shop_clone}, **options)


def test_both_sides_run_every_query_the_asked_number_of_times(shop, shop_clone):
    told = []
    texts = ("SELECT count(*) FROM orders WHERE customer_id = 5", "SELECT 1")
    options = {"repeats": 3, "warmup": 2, "tell": lambda *step: told.append(step)}
    one, other = _both(shop, shop_clone, *texts, **options).results
    assert told == [("queries", 1, 2), ("queries", 2, 2)]
    for result in (one, other):
        assert [len(answer.seconds) for answer in result.values()] == [3, 3]
        assert all((answer.median or 0) > 0 for answer in result.values())
    assert one["source"].rows != one["clone"].rows


def test_timeouts_and_errors_are_counted_not_fatal(shop, shop_clone):
    texts = ("SELECT pg_sleep(5)", "SELECT count(*) FROM only_here", "SELECT 1")
    execute(shop_clone, "CREATE TABLE only_here ()")
    try:
        found = _both(shop, shop_clone, *texts, repeats=1, timeout=0.2, functions=TOLD)
    finally:
        execute(shop_clone, "DROP TABLE only_here")
    sleep, missing, one = found.results
    assert {answer.status for answer in sleep.values()} == {"timeout"}
    assert sleep["source"].seconds == ()
    assert (missing["source"].status, missing["source"].error) == ("error", "42P01")
    assert (missing["clone"].rows, one["source"].rows) == (0, 1)


_MEGABYTES = "SELECT (pg_size_bytes(current_setting('work_mem')) / 1048576)::int"


@pytest.mark.parametrize("statement", [None, "DISCARD ALL"])
def test_same_settings_hold_on_both_sides(shop, shop_clone, statement):
    options = "-c work_mem=7MB -c TimeZone=Asia/Tokyo -c bytea_output=escape"
    odd = psycopg.conninfo.make_conninfo(shop, options=options)
    more = {"settings": {"jit": "off"}, "repeats": 1, "statement": statement, "functions": TOLD}
    found = _both(odd, shop_clone, _MEGABYTES, "SELECT length('A'::bytea::text)", **more)
    same, own = found.results
    assert same["source"].rows == same["clone"].rows == 7
    assert (found.settings["TimeZone"], found.settings["jit"]) == ("Asia/Tokyo", "off")
    # What is not the same on both sides is each database's own.
    assert (own["source"].rows, own["clone"].rows) == (1, 4)
    assert found.sides["clone"].version == found.sides["clone"].settings["server_version"]


def test_nothing_can_be_written_even_past_the_check(shop, monkeypatch):
    monkeypatch.setattr("privbench.workload.safety.check", lambda workload, judges: None)
    answers = _alone(
        shop,
        "DELETE FROM items",
        "SELECT 1; COMMIT; DELETE FROM items",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT set_config('default_transaction_read_only', 'off', false)",
        "DELETE FROM items WHERE line = 1",
        "SELECT count(*) FROM items",
    )
    assert [answer.error for answer in answers][::4] == ["25006", "25006"]
    assert answers[1].error == "42601"
    assert answers[5].rows == 2400


def test_a_long_result_is_cut_off_and_said_so(shop, monkeypatch):
    monkeypatch.setattr("privbench.workload.session.MOST_ROWS", 10_000)
    texts = ("SELECT * FROM generate_series(1, 3000000)", "SELECT count(*) FROM items")
    cut, after = _alone(shop, *texts)
    assert cut.truncated
    assert cut.status == "ok"
    assert 10_000 < (cut.rows or 0) < 3_000_000
    assert (after.rows, after.truncated) == (2400, False)


def test_rows_of_megabytes_do_not_fill_the_memory(shop):
    text = "SELECT repeat('x', 5000000) FROM generate_series(1, 200)"

    def run():
        (answer,) = _alone(shop, text)
        assert (answer.rows, answer.truncated) == (200, False)

    _alone(shop, "SELECT 1")  # The process that parses SQL starts before memory is limited.
    bounded(run, memory=1 << 29)


def test_a_plan_too_deep_to_be_read_is_left_out(shop):
    text = "SELECT 1" + " EXCEPT SELECT 2" * 1200
    (answer,) = _alone(shop, text, explain=True)
    assert (answer.rows, answer.plan) == (1, None)


def test_a_broken_replay_is_taken_up(shop, tmp_path):
    log = tmp_path / "replay.jsonl"
    workload = _workload("SELECT 1", "SELECT 2", "SELECT 3", "SELECT 4")

    def stop(step, done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(workload, {"source": shop}, tell=stop, log=log)
    with log.open("a") as file:
        file.write('{"id": "q3", "answ')  # killed in the middle of a line
    ran = []
    found = replay(
        workload, {"source": shop}, tell=lambda step, done, total: ran.append(done), log=log
    )
    assert ran == [3, 4]
    assert found.resumed == 2
    assert [result["source"].rows for result in found.results] == [1, 2, 3, 4]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line.get("id") for line in lines] == [None, "q1", "q2", "q3", "q4", None]
    # A log that is done is not taken up: its figures would be old.
    again = replay(workload, {"source": shop}, log=log)
    assert again.resumed == 0


def test_a_log_of_another_replay_is_refused(shop, shop_clone, tmp_path):
    log = tmp_path / "replay.jsonl"
    replay(_workload("SELECT 1"), {"source": shop}, log=log)
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-1]))  # as if broken off before the end
    with pytest.raises(UsageError, match="another replay"):
        replay(_workload("SELECT 1"), {"source": shop_clone}, log=log)
    for text in ("no json\n", f"{lines[0]}3\n"):
        log.write_text(text)
        with pytest.raises(UsageError, match="not the log"):
            replay(_workload("SELECT 1"), {"source": shop}, log=log)


@pytest.mark.parametrize(
    ("said", "texts", "options"),
    [
        ("at least one repeat", ("SELECT 1",), {"repeats": 0}),
        ("it is not a query", ("SELECT 1", "DELETE FROM items"), {}),
        ("setting work_mem = lots", ("SELECT 1",), {"settings": {"work_mem": "lots"}}),
        ("the statement before a run on the source", ("SELECT 1",),
         {"statement": "DELETE FROM items"}),
        *(("command before a run", ("SELECT 1",), {"command": text})
          for text in ("false", "/no/such/program", "'unclosed")),
    ],
)  # fmt: skip
def test_wrong_use_is_refused(said, texts, options, shop):
    with pytest.raises((UsageError, DatabaseError), match=said):
        replay(_workload(*texts), {"source": shop}, **options)


def test_queries_that_share_an_id_are_refused(shop):
    one = WorkloadQuery("a", "SELECT 1")
    with pytest.raises(UsageError, match="share an id"):
        replay(Workload("w", (one, one)), {"source": shop})


def test_a_lost_connection_says_how_to_go_on(shop, tmp_path):
    def kill(step, done, total):
        execute(
            shop,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )

    workload = _workload("SELECT 1", "SELECT 2", "SELECT 3")
    with pytest.raises(ConnectionFailed, match="goes on where it stopped"):
        replay(workload, {"source": shop}, tell=kill, log=tmp_path / "log")
    assert replay(workload, {"source": shop}, log=tmp_path / "log").resumed >= 1


def test_orders_favour_no_side():
    names = ["source", "clone", AGAIN]
    for start in (0, 1):
        first = list(islice(orders(names, start), 3))
        for place in range(3):
            assert sorted(order[place] for order in first) == sorted(names)
    both = list(islice(orders(names), 6))
    follows = Counter(pair for order in both for pair in pairwise(order))
    assert len(follows) == 6
    assert len(set(follows.values())) == 1


def test_the_floor_is_a_second_part_of_the_first_side_without_a_plan(shop, shop_clone):
    texts = ("SELECT count(*) FROM orders", "SELECT pg_sleep(3)", "SELECT 1")
    options = {"repeats": 3, "timeout": 0.5, "explain": True, "floor": True, "functions": TOLD}
    found = _both(shop, shop_clone, *texts, **options)
    counted, sleep, one = found.results
    for side in ("source", "clone"):
        plan = counted[side].plan[0]["Plan"]
        assert plan["Node Type"] == "Aggregate"
        assert "Shared Hit Blocks" in plan
    assert counted[AGAIN].plan is None
    for result in (counted, one):
        assert set(result) == {"source", "clone", AGAIN}
        assert [len(answer.seconds) for answer in result.values()] == [3, 3, 3]
    assert counted["source"].rows == counted[AGAIN].rows == 1200
    # What timed out on the source is not waited for again.
    assert set(sleep) - {AGAIN} == {"source", "clone"}
    assert AGAIN not in sleep or len(sleep[AGAIN].seconds) == 0
    assert set(found.sides) == {"source", "clone"}


def test_the_command_runs_before_each_run_and_knows_its_side(shop, shop_clone, tmp_path):
    log = tmp_path / "sides"
    script = f"import os; open({str(log)!r}, 'a').write(os.environ['PRIVBENCH_SIDE'] + '\\n')"
    command = f'{sys.executable} -c "{script}"'
    found = _both(shop, shop_clone, "SELECT 1", repeats=2, warmup=0, command=command)
    assert Counter(log.read_text().splitlines()) == {"source": 2, "clone": 2}
    assert found.before.startswith("command: ")


def test_a_fresh_connection_is_another_backend_with_the_same_settings(shop):
    asked = "SELECT pg_backend_pid() * 100 + (pg_size_bytes(current_setting('work_mem')) >> 20)"
    texts = [f"{asked}::int + 0 * {i}" for i in range(3)]
    for fresh, backends in ((False, 1), (True, 3)):
        answers = _alone(shop, *texts, settings={"work_mem": "7MB"}, cold=fresh, functions=TOLD)
        rows = {answer.rows or 0 for answer in answers}
        assert {row % 100 for row in rows} == {7}
        assert len(rows) == backends
