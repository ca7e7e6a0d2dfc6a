"""Rows read by several connections, or read and counted by workers: the same model."""

import hashlib
import json
from typing import Any

import market
import numpy as np
import pytest
from halting import two_workers

from privbench import pipeline
from privbench.postgres.snapshot import Snapshot
from privbench.threads import JOBS

pytestmark = pytest.mark.slow


class SameRanks:
    """Random ranks that are the same in every fit of a test; of the system they are not."""

    def __init__(self) -> None:
        self.numbers = np.random.default_rng(1)

    def urandom(self, count: int) -> bytes:
        return self.numbers.bytes(count)


@pytest.fixture
def fitted(make_database, tmp_path, monkeypatch):
    """``fitted(where)``: hash of a seeded model of a market, whose rows are counted there."""
    source = market.create(make_database(), 700)

    def hash_of(where: str) -> str:
        monkeypatch.setattr("privbench.privacy.units.os", SameRanks())
        config = market.config(tmp_path / "ledger", epsilon=50.0, seed=3)
        output = tmp_path / f"model-{len(list(tmp_path.iterdir()))}"
        model = pipeline.fit(source, config.changed("counting", where=where), output)
        events = [event.to_json() for event in model.events]
        # Nothing of a model says where its rows were counted.
        digest = hashlib.sha256(json.dumps([model.state, events, model.config]).encode())
        for name in sorted(model.arrays):
            digest.update(name.encode() + np.ascontiguousarray(model.arrays[name]).tobytes())
        return digest.hexdigest()

    return hash_of


def test_fit_by_several_connections_gives_the_same_model(fitted, monkeypatch):
    """All tables of several pages count as large, so that each is read in parts."""
    alone, read, stream = fitted("local"), [], Snapshot.stream
    monkeypatch.setitem(Snapshot.parts.__kwdefaults__, "least", 1)

    def seen(*given: Any, **more: Any) -> Any:
        read.append(more.get("pages", (0, None)))
        return stream(*given, **more)

    monkeypatch.setattr(Snapshot, "stream", seen)
    token = JOBS.set(2)
    try:
        assert fitted("local") == alone
    finally:
        JOBS.reset(token)
    assert sum(first > 0 for first, _ in read) > 3


def test_fit_with_workers_gives_the_same_model(fitted, monkeypatch):
    here = fitted("local")
    monkeypatch.setitem(Snapshot.parts.__kwdefaults__, "least", 1)
    monkeypatch.setattr("privbench.privacy.workers.LEAST_ROWS", 50)
    with two_workers() as cluster:
        assert fitted(cluster.scheduler_address) == here
