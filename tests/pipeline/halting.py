"""Processes that run the pipeline: up to a moment, to be killed there, at once, or as workers."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import pytest

from privbench.errors import PrivbenchError
from privbench.pipeline.fit import fit
from privbench.pipeline.progress import Reporter
from privbench.privacy.release import Release


@contextmanager
def two_workers(**more: Any) -> Iterator[Any]:
    """A cluster of Dask on this machine."""
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    memory = "distributed.worker.memory"
    with (
        dask.config.set({f"{memory}.target": False, f"{memory}.spill": False}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, **more
        ) as cluster,
    ):
        yield cluster


_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([
    "privbench.pipeline.fit", "privbench.pipeline.load", "privbench.synthesizers.independent",
])  # fmt: skip


class Watching(Reporter):
    """Keeps what is said, and acts when a stage or a step of some name begins.

    Attributes:
        said: All lines that an operator would see.
        warned: The warnings among them, each with the stages that were done before it.
    """

    def __init__(self, moment: str = "", act: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.moment, self.act = moment, act
        self.said: list[str] = []
        self.warned: list[tuple[str, list[str]]] = []

    def begin(self, name: str) -> None:
        if name == self.moment:
            self.act()

    def advance(self, what: str, done: int, total: int | None = None) -> None:
        self.begin(what)

    def say(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.said.append(text)
        self.warned.append((text, [name for name, *_ in self.stages]))


def stop() -> None:
    """The end of a command that somebody breaks off."""
    raise RuntimeError("the machine was switched off")


def _after(name: str, count: int, halt: Callable[[], None]) -> None:
    """Stop after so many calls of a method of `Release`."""
    real, seen = getattr(Release, name), []

    def wrapped(self: Release, *given: Any) -> Any:
        found = real(self, *given)
        seen.append(name)
        if len(seen) == count:
            halt()
        return found

    setattr(Release, name, wrapped)


def _run(
    channel: Connection, moment: str, command: Callable[..., Any], given: Any, named: Any
) -> None:
    def halt() -> None:
        channel.send("halted")
        time.sleep(300)

    kind, _, count = moment.partition(":")
    if kind in ("record", "store"):
        _after(kind, int(count), halt)
    command(*given, reporter=Watching(moment, halt), **named)
    channel.send("done")


def _fit(given: tuple[Any, ...]) -> str:
    try:
        fit(*given)
    except PrivbenchError as error:
        return str(error)
    return ""


def fit_at_once(*given: tuple[Any, ...]) -> list[str]:
    """Run ``pipeline.fit`` in several processes at once; what each was refused with, or nothing."""
    with ProcessPoolExecutor(len(given), _CONTEXT) as pool:
        return list(pool.map(_fit, given, timeout=120))


def kill_at(moment: str, command: Callable[..., Any], *given: Any, **named: Any) -> None:
    """Run a command in another process and kill it (SIGKILL) at a moment; see `halted_at`."""
    with halted_at(moment, command, *given, **named):
        pass


@contextmanager
def halted_at(
    moment: str, command: Callable[..., Any], *given: Any, **named: Any
) -> Iterator[None]:
    """Run ``fit`` or ``load`` in another process up to a moment, and kill it when the block ends.

    A moment is a stage, a step, or ``record:N`` and ``store:N``: after the N-th event or result of
    the release has reached the disk.
    """
    ours, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=_run, args=(theirs, moment, command, given, named))
    process.start()
    theirs.close()
    assert ours.poll(60)
    assert ours.recv() == "halted"
    try:
        yield
    finally:
        process.kill()
        process.join(30)
    assert process.exitcode == -signal.SIGKILL
