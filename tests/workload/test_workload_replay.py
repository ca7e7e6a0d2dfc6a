"""Replay against a real server."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from privbench.errors import ConnectionFailed, DatabaseError, UsageError
from privbench.workload import Query, QueryResult, Workload, replay
from privbench.workload.safety import Trust


def _workload(*texts: str) -> Workload:
    return Workload("test", tuple(Query(f"q{i}", sql) for i, sql in enumerate(texts, 1)))


def test_answers_are_counts_or_row_counts(shop: str) -> None:
    found = replay(
        _workload(
            "SELECT count(*) FROM customers",
            "SELECT country, count(*) FROM customers GROUP BY country",
            "SELECT id FROM orders WHERE id = 77",
            "SELECT note FROM items WHERE order_id = 1",
            "SELECT avg(total) FROM orders",
            "VALUES (1), (2), (3);",
            "TABLE orders -- all of it",
        ),
        {"source": shop},
        repeats=1,
        warmup=0,
    )
    assert [r.answers["source"].rows for r in found.results] == [300, 4, 77, 2, 1, 3, 1200]
    assert all(r.answers["source"].status == "ok" for r in found.results)


def test_both_sides_run_every_query_the_asked_number_of_times(shop: str, shop_clone: str) -> None:
    told: list[tuple[str, int, int]] = []
    found = replay(
        _workload("SELECT count(*) FROM orders WHERE customer_id = 5", "SELECT 1"),
        {"source": shop, "clone": shop_clone},
        repeats=3,
        warmup=2,
        on_result=lambda result, done, total: told.append((result.id, done, total)),
    )
    assert told == [("q1", 1, 2), ("q2", 2, 2)]
    for result in found.results:
        assert [len(answer.seconds) for answer in result.answers.values()] == [3, 3]
        assert all((answer.median or 0) > 0 for answer in result.answers.values())
    assert found.results[0].answers["source"].rows != found.results[0].answers["clone"].rows


def test_timeouts_and_errors_are_counted_not_fatal(shop: str, shop_clone: str) -> None:
    with psycopg.connect(shop_clone, autocommit=True) as connection:
        connection.execute("CREATE TABLE only_here ()")
    try:
        found = replay(
            _workload("SELECT pg_sleep(5)", "SELECT count(*) FROM only_here", "SELECT 1"),
            {"source": shop, "clone": shop_clone},
            repeats=1,
            timeout=0.2,
            trust=Trust.of(["pg_catalog.pg_sleep"]),
        )
    finally:
        with psycopg.connect(shop_clone, autocommit=True) as connection:
            connection.execute("DROP TABLE only_here")
    sleep, missing, one = found.results
    assert {answer.status for answer in sleep.answers.values()} == {"timeout"}
    assert sleep.answers["source"].seconds == ()
    assert missing.answers["source"].status == "error"
    assert missing.answers["source"].error == "42P01"
    assert missing.answers["clone"].rows == 0
    assert one.answers["source"].rows == 1


def test_same_settings_hold_on_both_sides(shop: str, shop_clone: str) -> None:
    odd = psycopg.conninfo.make_conninfo(shop, options="-c work_mem=7MB -c TimeZone=Asia/Tokyo")
    found = replay(
        _workload("SELECT (pg_size_bytes(current_setting('work_mem')) / 1048576)::int"),
        {"source": odd, "clone": shop_clone},
        settings={"jit": "off"},
        repeats=1,
        trust=Trust.of(["pg_catalog.pg_size_bytes", "pg_catalog.current_setting"]),
    )
    answers = found.results[0].answers
    assert answers["source"].rows == answers["clone"].rows == 7
    assert (found.settings["TimeZone"], found.settings["jit"]) == ("Asia/Tokyo", "off")
    assert found.sides["clone"].version == found.sides["clone"].settings["server_version"]


def test_a_setting_that_a_side_refuses_is_an_error(shop: str) -> None:
    with pytest.raises(DatabaseError, match="work_mem"):
        replay(_workload("SELECT 1"), {"source": shop}, settings={"work_mem": "lots"})


def test_nothing_can_be_written_even_past_the_check(
    shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privbench.workload.safety.check", lambda workload, judges: None)
    found = replay(
        _workload(
            "DELETE FROM items",
            "SELECT 1; COMMIT; DELETE FROM items",
            "SELECT set_config('transaction_read_only', 'off', false)",
            "SELECT set_config('default_transaction_read_only', 'off', false)",
            "DELETE FROM items WHERE line = 1",
        ),
        {"source": shop},
        repeats=1,
    )
    errors = [result.answers["source"].error for result in found.results]
    assert errors[0] == errors[4] == "25006"
    assert errors[1] == "42601"
    with psycopg.connect(shop) as connection:
        assert connection.execute("SELECT count(*) FROM items").fetchone() == (2400,)


def test_a_long_result_is_cut_off_and_said_so(shop: str) -> None:
    found = replay(
        _workload("SELECT * FROM generate_series(1, 3000000)", "SELECT count(*) FROM items"),
        {"source": shop},
        repeats=1,
        row_limit=10_000,
    )
    cut, after = (result.answers["source"] for result in found.results)
    assert cut.truncated
    assert cut.status == "ok"
    assert 10_000 < (cut.rows or 0) < 3_000_000
    assert (after.rows, after.truncated) == (2400, False)


def test_explain_is_kept_when_asked(shop: str) -> None:
    found = replay(_workload("SELECT count(*) FROM items"), {"source": shop}, explain=True)
    plan = found.results[0].answers["source"].plan
    assert plan[0]["Plan"]["Node Type"] == "Aggregate"
    assert "Shared Hit Blocks" in plan[0]["Plan"]


def test_a_broken_replay_is_taken_up(shop: str, tmp_path: Path) -> None:
    log = tmp_path / "replay.jsonl"
    workload = _workload("SELECT 1", "SELECT 2", "SELECT 3", "SELECT 4")

    def stop(result: QueryResult, done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(workload, {"source": shop}, on_result=stop, log=log)
    with log.open("a") as file:
        file.write('{"id": "q3", "answ')  # killed in the middle of a line
    ran: list[str] = []
    found = replay(
        workload, {"source": shop}, on_result=lambda result, *_: ran.append(result.id), log=log
    )
    assert ran == ["q3", "q4"]
    assert found.resumed == 2
    assert [result.answers["source"].rows for result in found.results] == [1, 2, 3, 4]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line.get("id") for line in lines] == [None, "q1", "q2", "q3", "q4", None]
    # A log that is done is not taken up: its figures would be old.
    again = replay(workload, {"source": shop}, log=log)
    assert again.resumed == 0


def test_a_log_of_another_replay_is_refused(shop: str, shop_clone: str, tmp_path: Path) -> None:
    log = tmp_path / "replay.jsonl"
    replay(_workload("SELECT 1"), {"source": shop}, log=log)
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-1]))  # as if broken off before the end
    with pytest.raises(UsageError, match="another replay"):
        replay(_workload("SELECT 1"), {"source": shop_clone}, log=log)
    log.write_text("no json\n")
    with pytest.raises(UsageError, match="not the log"):
        replay(_workload("SELECT 1"), {"source": shop}, log=log)


def test_wrong_use_is_refused(shop: str) -> None:
    with pytest.raises(UsageError, match="holds no query"):
        replay(_workload(), {"source": shop})
    with pytest.raises(UsageError, match="share an id"):
        replay(Workload("w", (Query("a", "SELECT 1"), Query("a", "SELECT 2"))), {"source": shop})
    with pytest.raises(UsageError, match="at least one repeat"):
        replay(_workload("SELECT 1"), {"source": shop}, repeats=0)
    with pytest.raises(UsageError, match="it is not a query"):
        replay(_workload("SELECT 1", "DELETE FROM items"), {"source": shop})


def test_a_lost_connection_says_how_to_go_on(shop: str, tmp_path: Path) -> None:
    def kill(result: QueryResult, done: int, total: int) -> None:
        with psycopg.connect(shop, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    workload = _workload("SELECT 1", "SELECT 2", "SELECT 3")
    with pytest.raises(ConnectionFailed, match="goes on where it stopped"):
        replay(workload, {"source": shop}, on_result=kill, log=tmp_path / "log")
    assert replay(workload, {"source": shop}, log=tmp_path / "log").resumed >= 1
