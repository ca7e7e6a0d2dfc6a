"""The noise floor, cold runs, and load by several clients, against a real server."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest

from privbench.errors import DatabaseError, UsageError
from privbench.workload import Query, Workload, replay
from privbench.workload.replay import AGAIN, load, orders
from privbench.workload.safety import Trust
from privbench.workload.session import Before

#: What these tests call to see sessions and to wait.
TOLD = Trust.of(
    f"pg_catalog.{name}"
    for name in ("pg_sleep", "pg_backend_pid", "pg_size_bytes", "current_setting")
)


def _workload(*texts: str) -> Workload:
    return Workload("test", tuple(Query(f"q{i}", sql) for i, sql in enumerate(texts, 1)))


def test_orders_favour_no_side() -> None:
    names = ["source", "clone", AGAIN]
    for start in (0, 1):
        first = list(islice(orders(names, start), 3))
        for place in range(3):
            assert sorted(order[place] for order in first) == sorted(names)
    both = list(islice(orders(names), 6))
    follows = Counter(pair for order in both for pair in pairwise(order))
    assert len(follows) == 6
    assert len(set(follows.values())) == 1


def test_the_floor_is_a_second_part_of_the_first_side(shop: str, shop_clone: str) -> None:
    found = replay(
        _workload("SELECT count(*) FROM orders", "SELECT pg_sleep(3)", "SELECT 1"),
        {"source": shop, "clone": shop_clone},
        repeats=3,
        timeout=0.5,
        floor=True,
        trust=TOLD,
    )
    counted, sleep, one = found.results
    for result in (counted, one):
        assert set(result.answers) == {"source", "clone", AGAIN}
        assert [len(answer.seconds) for answer in result.answers.values()] == [3, 3, 3]
    assert counted.answers["source"].rows == counted.answers[AGAIN].rows == 1200
    # What timed out on the source is not waited for again.
    assert set(sleep.answers) - {AGAIN} == {"source", "clone"}
    assert AGAIN not in sleep.answers or len(sleep.answers[AGAIN].seconds) == 0
    assert set(found.sides) == {"source", "clone"}


def test_explain_is_kept_of_both_sides_but_not_of_the_floor(shop: str, shop_clone: str) -> None:
    sides = {"source": shop, "clone": shop_clone}
    found = replay(_workload("SELECT 1"), sides, repeats=1, explain=True, floor=True)
    answers = found.results[0].answers
    assert answers["source"].plan
    assert answers["clone"].plan
    assert answers[AGAIN].plan is None


def test_the_command_runs_before_each_run_and_knows_its_side(
    shop: str, shop_clone: str, tmp_path: Path
) -> None:
    log = tmp_path / "sides"
    script = f"import os; open({str(log)!r}, 'a').write(os.environ['PRIVBENCH_SIDE'] + '\\n')"
    found = replay(
        _workload("SELECT 1"),
        {"source": shop, "clone": shop_clone},
        repeats=2,
        warmup=0,
        before=Before(command=f'{sys.executable} -c "{script}"'),
    )
    assert Counter(log.read_text().splitlines()) == {"source": 2, "clone": 2}
    assert found.before.startswith("command: ")


@pytest.mark.parametrize("command", ["false", "/no/such/program", "'unclosed"])
def test_a_command_that_fails_stops_the_replay(shop: str, command: str) -> None:
    with pytest.raises(UsageError, match="command before a run"):
        replay(_workload("SELECT 1"), {"source": shop}, before=Before(command=command))


def test_a_fresh_connection_is_another_backend_with_the_same_settings(shop: str) -> None:
    asked = "SELECT pg_backend_pid() * 100 + (pg_size_bytes(current_setting('work_mem')) >> 20)"
    pids = []
    for fresh in (False, True):
        found = replay(
            _workload(*(f"{asked}::int + 0 * {i}" for i in range(3))),
            {"source": shop},
            repeats=1,
            warmup=0,
            settings={"work_mem": "7MB"},
            before=Before(fresh=fresh),
            trust=TOLD,
        )
        answers = [result.answers["source"].rows or 0 for result in found.results]
        assert {answer % 100 for answer in answers} == {7}
        pids.append(len(set(answers)))
    assert pids == [1, 3]


def test_settings_hold_again_after_a_statement_that_discards_them(shop: str) -> None:
    found = replay(
        _workload("SELECT (pg_size_bytes(current_setting('work_mem')) >> 20)::int"),
        {"source": shop},
        repeats=1,
        settings={"work_mem": "7MB"},
        before=Before(statement="DISCARD ALL"),
        trust=TOLD,
    )
    assert found.results[0].answers["source"].rows == 7
    with pytest.raises(DatabaseError, match="the statement before a run on the source"):
        replay(
            _workload("SELECT 1"), {"source": shop}, before=Before(statement="DELETE FROM items")
        )


def test_every_client_runs_every_query_once_a_round(shop: str, shop_clone: str) -> None:
    texts = ("SELECT count(*) FROM orders", "SELECT 1 / 0", "SELECT pg_sleep(0.02)")
    found = load(
        _workload(*texts).queries,
        {"source": shop, "clone": shop_clone},
        clients=3,
        rounds=2,
        warmup=1,
        floor=True,
    )
    assert set(found.rounds) == {"source", "clone", AGAIN}
    for rounds in found.rounds.values():
        assert [each.latency.shape for each in rounds] == [(3, 3), (3, 3)]
        for each in rounds:
            assert np.isnan(each.latency[:, 1]).all()  # the one that fails
            assert np.isfinite(each.latency[:, [0, 2]]).all()
            assert each.throughput == 6 / each.seconds
    assert np.isnan(found.latencies("clone")).tolist() == [False, True, False]


def test_clients_of_a_side_run_at_the_same_time(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All clients meet inside a query: none could leave it if they ran one after another."""
    meeting = threading.Barrier(3)
    from privbench.workload.session import Session

    plain = Session.run

    def run(self: Session, text: str) -> object:
        meeting.wait(timeout=20)
        return plain(self, text)

    monkeypatch.setattr(Session, "run", run)
    found = load(_workload("SELECT 1").queries, {"source": shop}, clients=3, rounds=1, warmup=0)
    assert np.isfinite(found.rounds["source"][0].latency).all()


def test_a_load_needs_clients_and_queries(shop: str) -> None:
    with pytest.raises(UsageError, match="at least one client"):
        load(_workload("SELECT 1").queries, {"source": shop}, clients=0)
    with pytest.raises(UsageError, match="one query"):
        load((), {"source": shop}, clients=1)
