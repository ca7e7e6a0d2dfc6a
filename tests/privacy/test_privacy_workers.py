"""Counting on Dask workers: the same integers, whoever dies, and no private value in a log."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_databases import fill, queries, settled, specs, two_tables

from privbench.errors import ConfigError, ConnectionFailed, PrivbenchError
from privbench.privacy import workers as module
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries import Histogram
from privbench.privacy.stability import check
from privbench.privacy.workers import Held, Workers, WorkersCounter, guarded

distributed = pytest.importorskip("distributed")

SECRET = "the-secret-of-row-17"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as made:
        yield made


@pytest.fixture(scope="module")
def workers(cluster: Any) -> Iterator[Workers]:
    with Workers(cluster.scheduler_address) as found:
        yield found


@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_workers_count_what_this_process_counts(workers: Workers, data: Any, seed: int) -> None:
    """Every query of the small databases, in parts of five rows: units lie in several parts."""
    database = settled(fill(data.draw(specs()), 20, seed))
    asked = [query for query in queries(database.spec) if not query.reads_raw]
    here = [query.evaluate(database) for query in asked]
    there = database.copy()
    there._units = database._units
    there.counter = WorkersCounter(workers, least=5)
    for query, found in zip(asked, here, strict=True):
        assert np.array_equal(query.evaluate(there), found)


def heavy() -> PrivateDatabase:
    return two_tables([0] * 30 + [1, 2, 3], [[0, 1] * 16 + [1]], [2])


def test_a_worker_that_dies_changes_no_count(workers: Workers) -> None:
    database = heavy()
    query = Histogram.of(database.spec, "posts", ("a0",))
    expected = query.evaluate(database)
    database.counter = WorkersCounter(workers, least=4)
    assert np.array_equal(query.evaluate(database), expected)
    pids = workers._client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    assert np.array_equal(query.evaluate(database), expected)


def fail(text: str, given: Sequence[str]) -> None:
    raise ValueError(f"{text}: {given}")


def test_nothing_private_is_logged_or_told(
    workers: Workers, cluster: Any, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    """A task fails with private arguments and a private text; its worker's log is looked at too."""
    caplog.set_level(logging.DEBUG)
    call = workers.submit(fail, SECRET, workers.send([SECRET], workers.addresses()[0]))
    with pytest.raises(PrivbenchError) as caught:
        workers.result(call)
    assert "ValueError" in str(caught.value)
    written = capfd.readouterr()
    logs = str(workers._client.get_worker_logs()) + str(cluster.get_logs())
    for text in (str(caught.value), caplog.text, written.out, written.err, logs):
        assert SECRET not in text
    assert SECRET not in repr(Held(SECRET))


def test_other_versions_and_absent_schedulers_are_refused(monkeypatch: Any) -> None:
    found = guarded("0.0.0", fail)
    assert isinstance(found, ConfigError)
    assert "0.0.0" in str(found)
    monkeypatch.setattr(module, "WAIT", 1)
    with pytest.raises(ConnectionFailed, match="no Dask scheduler answers"):
        Workers("tcp://127.0.0.1:9")


def test_claims_hold_on_workers(workers: Workers) -> None:
    """The harness evaluates both neighbours by the same counter."""
    database = heavy()
    database.counter = WorkersCounter(workers, least=4)
    report = check([Histogram.of(database.spec, "posts", ("a0",))], database, every=True)
    assert report.ok
    assert report.worst_ratio == 1.0
