"""One cell of the grid: a release, its figures, and the file that keeps them."""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from privbench import __version__
from privbench.errors import PrivbenchError
from privbench.files import write_text
from privbench.postgres import embedded
from privbench_lab.bench import similarity
from privbench_lab.bench.classifiers import score
from privbench_lab.bench.config import BenchConfig, Job
from privbench_lab.bench.counting import read_queries
from privbench_lab.bench.fitting import Made, release
from privbench_lab.bench.inputs import FILES
from privbench_lab.bench.machine import machine, versions
from privbench_lab.bench.networks import network_figures
from privbench_lab.bench.peers import peers, run
from privbench_lab.bench.table import Table


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a cell."""

    job: Job  # which cell
    status: Literal["ok", "failed"]  # ``failed`` where there are no figures
    figures: dict[str, float]  # by name
    message: str = ""  # why it failed, one line
    private: bool = True  # whether noise was drawn from the operating system's entropy
    seconds: float = 0.0  # of the whole cell, scoring included
    key: str = ""  # hash of everything that the figures follow from
    protocol: str = ""  # SHA-256 of the grid's file
    inputs: dict[str, str] = field(default_factory=dict)  # SHA-256 of files and workloads, by name
    versions: dict[str, str] = field(default_factory=dict)  # of the programs that ran, by name
    machine: dict[str, str] = field(default_factory=dict)  # what it ran on

    @classmethod
    def failed(cls, job: Job, message: str) -> Self:
        """An outcome without figures."""
        return cls(job, "failed", {}, " ".join(message.split())[:400])

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_text(path, json.dumps(asdict(self), indent=1, allow_nan=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The outcome that `save` wrote; None where there is none, or no whole one."""
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{**raw, "job": Job(**raw["job"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None


def reason(error: Exception) -> str:
    """Why something failed, for people; errors that are not privbench's begin with their type."""
    return str(error) if isinstance(error, PrivbenchError) else f"{type(error).__name__}: {error}"


def key_of(grid: BenchConfig, job: Job, inputs: Mapping[str, str]) -> str:
    """Hash of everything that a cell's figures depend on; if it changes, the cell is run again.

    Of a protocol that is its whole file, so that no threshold is chosen after the figures.
    """
    data = grid.data[job.data]
    settings = grid.synthesizers.get(job.synthesizer)
    common = {"delta", "accounting", "neighbours", "metrics", "ways", "classifiers", "cells"}
    left_out = dict.fromkeys(("published", *FILES), True)
    places: dict[str, Any] = {**left_out, "source": {"sql", "rows", "program"}}
    parts: dict[str, Any] = {
        "version": __version__,
        "job": asdict(job),
        "grid": grid.model_dump(mode="json", include=common),
        "data": data.model_dump(mode="json", exclude=places),
        "program": data.source.program[1:] if data.source else [],
        "synthesizer": settings.model_dump(mode="json", exclude={"published", "data"})
        if settings
        else None,
        "files": dict(inputs),
        "protocol": grid.digest if grid.thresholds else "",
    }
    peer = peers().get(grid.use_of(job.synthesizer))
    if peer is not None:
        parts["peer"] = [peer.pins, peer.call, peer.script]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def run_cell(
    grid: BenchConfig, job: Job, table: Table | None, inputs: Mapping[str, str]
) -> Outcome:
    """Make and score one release, of a database if ``table`` is None; errors are outcomes too."""
    started = time.perf_counter()
    try:
        found = _run(grid, job, table)
    except Exception as error:
        found = Outcome.failed(job, reason(error))
    return replace(
        found,
        figures={name: value for name, value in found.figures.items() if math.isfinite(value)},
        seconds=time.perf_counter() - started,
        key=key_of(grid, job, inputs),
        protocol=grid.digest,
        inputs={**inputs, **found.inputs},
        versions={**versions(), **found.versions},
        machine=machine(),
    )


def _run(grid: BenchConfig, job: Job, table: Table | None) -> Outcome:
    if table is None:
        from privbench_lab.bench.databases import measure

        found = measure(grid, job)
        private = not grid.synthesizers[job.synthesizer].seeded
        return Outcome(
            job, "ok", found.figures, private=private, inputs=found.inputs, versions=found.versions
        )
    if job.epsilon is None:
        return Outcome(job, "ok", score(table, table.train, grid.classifiers, job.seed))
    peer = peers().get(grid.use_of(job.synthesizer))
    if peer is None:
        made = release(table, grid, job.synthesizer, job.epsilon, job.seed)
    else:
        cells = grid.synthesizers[job.synthesizer].cells or grid.cells
        at = job.epsilon, grid.delta, job.seed
        made = run(peer, table, *at, cells=cells, limit=grid.limit)
    figures = figures_of(grid, table, made, job.seed)
    return Outcome(job, "ok", figures, private=made.private)


def figures_of(grid: BenchConfig, table: Table, made: Made, seed: int) -> dict[str, float]:
    """All figures of synthetic rows for the metrics that the grid names."""
    rows, wanted = made.rows, grid.metrics
    found = {"seconds.fit": made.fit, "seconds.sample": made.sample, "rows.made": float(len(rows))}
    if "tstr" in wanted and table.target is not None:
        found |= score(table, rows, grid.classifiers, seed)
    if "pmse" in wanted:
        found |= similarity.propensity(table, rows)
    if "columns" in wanted:
        found |= similarity.single_columns(table, rows)
    if "kld" in wanted:
        found |= similarity.marginals(table, rows, grid.ways)
    if "qerror" in wanted:
        workload = table.config.workload
        queries = read_queries(Path(workload), table.train) if workload else None
        found |= similarity.counting(table, rows, queries)
    if "loglik" in wanted:
        found |= similarity.held_out(made)
    if "network" in wanted:
        found |= network_figures(made, seed)
    return found


def child(
    grid: BenchConfig,
    job: Job,
    table: Table | None,
    inputs: Mapping[str, str],
    cells: Path,
    scratch: str,
) -> None:
    """Run the cell in this process, as leader of a process group: stopping it stops its peers.

    It ends with the process that started it, however that one ends. Temporary files of it and its
    peers, which may have rows, are in ``scratch``.
    """
    os.setsid()
    threading.Thread(target=_end_with_parent, args=(scratch,), daemon=True).start()
    os.environ["TMPDIR"] = tempfile.tempdir = scratch
    path = job.file(cells)
    with path.with_suffix(".log").open("w", encoding="utf-8") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    outcome = run_cell(grid, job, table, inputs)
    shutil.rmtree(scratch, ignore_errors=True)
    outcome.save(path)


def _end_with_parent(scratch: str) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    embedded.end_servers()
    shutil.rmtree(scratch, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)
