"""Runs a grid: checks it first, then runs each cell in a process; finished cells are kept."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, cast

from privbench.errors import PrivbenchError
from privbench.files import make_folder
from privbench.pipeline.progress import Reporter
from privbench.synthesizers import get, names
from privbench_lab.bench.cell import Outcome, child, key_of, reason
from privbench_lab.bench.classifiers import require_learners
from privbench_lab.bench.config import REAL, BenchConfig, Job
from privbench_lab.bench.counting import read_queries
from privbench_lab.bench.fitting import ANY_DATA, options_for
from privbench_lab.bench.inputs import digests, located
from privbench_lab.bench.networks import read_network
from privbench_lab.bench.peers import environment, peers
from privbench_lab.bench.table import Table, read_table

#: Modules that are imported before the processes of cells are forked.
_BEFORE = ["privbench_lab.bench.cell", "privbench.synthesizers.graphical", "sklearn.ensemble"]
_NO_DATABASES = "peers take single tables, not databases."
#: Seconds that a cell may run beyond its limit, to score rows that were finished just in time.
_GRACE = 60.0


@dataclass
class Prepared:
    """A grid that was checked."""

    grid: BenchConfig  # with the places of its files
    tables: dict[str, Table] = field(default_factory=dict)  # data sets of files that can be used
    inputs: dict[str, dict[str, str]] = field(default_factory=dict)  # SHA-256 by data set and name
    jobs: list[Job] = field(default_factory=list)  # cells that can be tried
    refused: list[Outcome] = field(default_factory=list)  # cells that cannot, with the reason
    lines: list[str] = field(default_factory=list)  # one line for every mistake


def prepare(grid: BenchConfig, folders: Sequence[Path], reporter: Reporter) -> Prepared:
    """Read the data, find the synthesizers and make the environments of peers.

    Data sets and synthesizers that cannot be used are named with the reason, a line each, and the
    rest of the grid is run. Paths are relative to the first of the folders that has such a file.
    """
    found, jobs = Prepared(located(grid, folders)), jobs_of(grid)
    bad_data = {}
    for name, config in grid.data.items():
        try:
            found.inputs[name] = digests(config, folders)
            _read(grid, name, found)
        except Exception as error:
            bad_data[name] = reason(error)
    bad_names = _synthesizers(grid, jobs, reporter)
    for what, reasons in (("data", bad_data), ("synthesizer", bad_names)):
        found.lines += [f"{what} {name!r}: {reason}" for name, reason in reasons.items()]
    for job in jobs:
        why = bad_data.get(job.data) or bad_names.get(job.synthesizer)
        if why is None and not _fits(grid, job):
            why = _NO_DATABASES
        if why is None:
            found.jobs.append(job)
        else:
            found.refused.append(Outcome.failed(job, why))
    for line in found.lines:
        reporter.warn(line)
    return found


def jobs_of(grid: BenchConfig) -> list[Job]:
    """All cells, the first seed of everything first."""
    found = []
    for seed in range(grid.seeds):
        for data, config in grid.data.items():
            if config.target is not None and "tstr" in grid.metrics:
                found.append(Job(data, REAL, None, seed))
            for name, settings in grid.synthesizers.items():
                if settings.data is None or data in settings.data:
                    found += [Job(data, name, epsilon, seed) for epsilon in grid.epsilon]
    return found


def _read(grid: BenchConfig, name: str, found: Prepared) -> None:
    """Read a data set of files, whose places are absolute."""
    config = found.grid.data[name]
    if config.is_database:
        return
    table = (read_table if config.bif is None else read_network)(name, config, Path())
    if config.workload is not None:
        read_queries(Path(config.workload), table.train)
    if config.target is not None and "tstr" in grid.metrics:
        require_learners(grid.classifiers, numbers=not table.classes)
    found.tables[name] = table


def _synthesizers(grid: BenchConfig, jobs: Sequence[Job], reporter: Reporter) -> dict[str, str]:
    """Check every synthesizer; return, by its name in the grid, why one cannot be used."""
    bad = {}
    for name, settings in grid.synthesizers.items():
        use = grid.use_of(name)
        try:
            if use in names():
                get(use)(options_for(settings.options, ANY_DATA))
            elif use in peers():
                if not any(_fits(grid, job) for job in jobs if job.synthesizer == name):
                    raise PrivbenchError(_NO_DATABASES)
                if grid.neighbours == "replace":
                    raise PrivbenchError("the noise of peers is that of add/remove neighbours.")
                with reporter.stage(f"environment of {use}"):
                    environment(peers()[use].python, peers()[use].pins)
            else:
                known = ", ".join([*names(), *peers()])
                raise PrivbenchError(f"no synthesizer or peer {use!r}.", remedy=f"Known: {known}.")
        except Exception as error:
            bad[name] = reason(error)
    return bad


def _fits(grid: BenchConfig, job: Job) -> bool:
    """Whether a synthesizer can take a data set: peers take no databases."""
    return not grid.data[job.data].is_database or grid.use_of(job.synthesizer) not in peers()


def run(
    prepared: Prepared,
    output: Path,
    *,
    at_once: int,
    reporter: Reporter,
) -> list[Outcome]:
    """Run the cells that are not done yet; return all outcomes, in the order of the grid.

    A cell is done if its file is complete and its data, options and metrics are still the same.
    Each of the others, failed ones included, runs in a process of its own, and writes a file into
    ``cells`` in the folder of results. After Ctrl-C finished cells stay done.
    """
    grid, cells = prepared.grid, output / "cells"
    make_folder(cells)
    done: dict[Job, Outcome] = {}
    for job in prepared.jobs:
        old = Outcome.read(job.file(cells))
        if (
            old is not None
            and old.status == "ok"
            and old.key == key_of(grid, job, prepared.inputs[job.data])
        ):
            done[job] = old
    waiting = deque(job for job in prepared.jobs if job not in done)
    if done:
        reporter.say(f"{len(done)} of {len(prepared.jobs)} cells are done already")
    pool = _Pool(cells, grid.limit + _GRACE, at_once)
    try:
        while waiting or pool.running:
            while waiting and len(pool.running) < at_once:
                job = waiting.popleft()
                table, inputs = prepared.tables.get(job.data), prepared.inputs[job.data]
                pool.start(job, (grid, job, table, inputs, cells))
            for outcome in pool.finished():
                done[outcome.job] = outcome
                if outcome.status == "failed":
                    reporter.warn(f"{outcome.job}: {outcome.message}")
                jobs = [*waiting, *(cell.job for cell in pool.running.values())]
                left = time_left(done.values(), jobs, at_once)
                reporter.advance(f"{outcome.job}; {left}", len(done), len(prepared.jobs))
    finally:
        pool.stop()
    everything = {outcome.job: outcome for outcome in prepared.refused} | done
    return [everything[job] for job in jobs_of(grid)]


def time_left(done: Iterable[Outcome], jobs: Sequence[Job], at_once: int) -> str:
    """How long cells will take, as a text: from mean times of cells of their kind, else of all."""
    took: dict[tuple[str, str], list[float]] = defaultdict(list)
    for outcome in done:
        took[outcome.job.data, outcome.job.synthesizer].append(outcome.seconds)
    usual = [seconds for part in took.values() for seconds in part]
    parts = [took.get((job.data, job.synthesizer)) or usual or [0.0] for job in jobs]
    minutes = sum(sum(part) / len(part) for part in parts) / at_once / 60
    if minutes < 1:
        return "less than a minute left"
    return f"about {minutes / 60:.1f} h left" if minutes > 90 else f"about {minutes:.0f} min left"


@dataclass(frozen=True)
class _Running:
    """A cell's process, and the folder of temporary files of it and its peers."""

    process: Any
    job: Job
    scratch: str
    started: float = field(default_factory=time.monotonic)

    def end(self) -> None:
        """Kill what is left of the cell and of what it has started; remove what they wrote."""
        if self.process.exitcode != 0:
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
        self.process.join()
        shutil.rmtree(self.scratch, ignore_errors=True)


class _Pool:
    """Processes of cells that run now."""

    def __init__(self, cells: Path, limit: float, at_once: int) -> None:
        self._context: Any = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_BEFORE)
        # Cells share the cores: with more threads than cores, they would wait for one another.
        os.environ.setdefault("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // at_once, 1)))
        self._cells, self._limit = cells, limit
        self.running: dict[int, _Running] = {}

    def start(self, job: Job, arguments: tuple[Any, ...]) -> None:
        """Start a cell; its old file is removed first, so that a cell that dies leaves none."""
        job.file(self._cells).unlink(missing_ok=True)
        scratch = tempfile.mkdtemp(prefix="pb-cell-")
        # A database server in the folder may run under another account, which must be able to
        # enter.
        os.chmod(scratch, 0o711)  # noqa: S103
        # The process is no daemon, since daemons may have no children, and peers are its children.
        process = self._context.Process(target=child, args=(*arguments, scratch))
        process.start()
        self.running[process.sentinel] = _Running(process, job, scratch)

    def finished(self) -> list[Outcome]:
        """Wait at most a second for cells to end; kill late ones; return the outcomes of both."""
        found = []
        for sentinel in wait(list(self.running), timeout=1.0):
            cell = self.running.pop(cast("int", sentinel))
            cell.end()
            found.append(self._outcome(cell.job, cell.process.exitcode))
        for sentinel, cell in list(self.running.items()):
            if time.monotonic() - cell.started > self._limit:
                self.running.pop(sentinel).end()
                found.append(Outcome.failed(cell.job, f"stopped after {self._limit:.0f} s."))
        return found

    def _outcome(self, job: Job, code: int) -> Outcome:
        path = job.file(self._cells)
        log = path.with_suffix(".log")
        outcome = Outcome.read(path)
        if outcome is None:
            said = log.read_text(errors="replace").split("\n") if log.exists() else []
            last = next((line for line in reversed(said) if line.strip()), "")
            return Outcome.failed(job, f"its process died (exit code {code}). {last}")
        log.unlink(missing_ok=True)
        return outcome

    def stop(self) -> None:
        """Kill all running cells."""
        for cell in self.running.values():
            cell.end()
        self.running.clear()
