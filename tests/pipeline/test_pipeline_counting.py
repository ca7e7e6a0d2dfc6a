"""Rows read by several connections, or read and counted by workers: the same model."""

import hashlib
import json
from typing import Any

import market
import numpy as np
import pytest

from privbench import pipeline
from privbench.postgres.snapshot import Snapshot
from privbench.threads import JOBS


class SameRanks:
    """Random ranks that are the same in every fit of a test; of the system they are not."""

    def __init__(self) -> None:
        self.numbers = np.random.default_rng(1)

    def urandom(self, count: int) -> bytes:
        return self.numbers.bytes(count)


def fitted(source: str, where: str, folder: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Hash of a seeded model."""
    monkeypatch.setattr("privbench.privacy.units.os", SameRanks())
    config = market.config(folder / "ledger", epsilon=50.0, seed=3).changed("counting", where=where)
    model = pipeline.fit(source, config, folder / f"model-{len(where)}")
    events = [event.to_json() for event in model.events]
    whole = hashlib.sha256(json.dumps([model.state, events, model.config]).encode())
    for name in sorted(model.arrays):
        whole.update(name.encode() + np.ascontiguousarray(model.arrays[name]).tobytes())
    return whole.hexdigest()


@pytest.mark.slow
def test_fit_by_several_connections_gives_the_same_model(make_database, tmp_path, monkeypatch):
    """All tables of several pages count as large, so that each is read in parts."""
    source = market.create(make_database(), 700)
    alone = fitted(source, "local", tmp_path / "alone", monkeypatch)
    monkeypatch.setitem(Snapshot.parts.__kwdefaults__, "least", 1)
    read, stream = [], Snapshot.stream

    def seen(*given: Any, **more: Any) -> Any:
        read.append(more.get("pages", (0, None)))
        return stream(*given, **more)

    monkeypatch.setattr(Snapshot, "stream", seen)
    token = JOBS.set(2)
    try:
        assert fitted(source, "local", tmp_path / "several", monkeypatch) == alone
    finally:
        JOBS.reset(token)
    assert sum(first > 0 for first, _ in read) > 3


@pytest.mark.slow
def test_fit_with_workers_gives_the_same_model(make_database, tmp_path, monkeypatch):
    """All tables count as large, so that workers read and count every one.

    The model says nothing of where rows were counted, either.
    """
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    source = market.create(make_database(), 400)
    here = fitted(source, "local", tmp_path, monkeypatch)
    monkeypatch.setitem(Snapshot.parts.__kwdefaults__, "least", 1)
    monkeypatch.setattr("privbench.privacy.workers.LEAST_ROWS", 50)
    memory = "distributed.worker.memory"
    with (
        dask.config.set({f"{memory}.target": False, f"{memory}.spill": False}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
    ):
        assert fitted(source, cluster.scheduler_address, tmp_path, monkeypatch) == here
