"""Seconds of counting all pair tables of one big table: here, by one Dask worker, by several.

    python benchmarks/workers.py                      4 million × 16; 1 and 2 workers
    python benchmarks/workers.py --rows 1000000 --columns 10 --workers 1,2,4
    python benchmarks/workers.py --model M.privbench --scale 10   seconds of drawing its clone, too

The first count of a table sends its codes to the workers, the second finds them there; both are
printed, with their ratio to this process's own count in the same run. Counts are compared. Of a
model, workers draw and decode all tables, as in `load --load-on`, without a server: "model" is what
each has to draw before its first table. Processor time is the mean of the workers,
since other work on the machine shows in the seconds. With `--as-is` workers allocate memory as Dask
has it, three times slower: docs/scale.md says why. Needs ``pip install 'privbench[dask]'``; makes a
cluster on this machine.
"""

from __future__ import annotations

import argparse
import os
import time
from itertools import combinations

import dask
import numpy as np
from distributed import LocalCluster
from scale import TABLE, make

from privbench.pipeline import Model
from privbench.pipeline.parallel import Job
from privbench.postgres.load_mark import Mark
from privbench.privacy import DatabaseSpec, TableSpec
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable
from privbench.privacy.queries import Column
from privbench.privacy.queries.counting import Counter, Marginals, local
from privbench.privacy.query import Integers
from privbench.privacy.workers import Held, Workers, WorkersCounter

#: glibc keeps blocks of memory between two steps of a count, as it does where nothing is set.
MEMORY = {"MALLOC_TRIM_THRESHOLD_": 2**27, "MALLOC_MMAP_THRESHOLD_": 2**27}


def timed(
    counter: Counter, data: PrivateDatabase, asked: Marginals
) -> tuple[list[Integers], float]:
    """A count and its seconds."""
    begun = time.perf_counter()
    found = counter(data, asked)
    return found, time.perf_counter() - begun


def drawn(job: Job, key: str) -> float:
    """Draw and decode a table in a worker; its processor time."""
    begun = time.process_time()
    for _ in job.tables[key].batches():
        pass
    return time.process_time() - begun


def tables_on(job: Held) -> float:
    """Draw in a worker what all tables need; its processor time."""
    begun = time.process_time()
    return time.process_time() - begun if job.what.tables else 0.0


def kept(job: Job) -> Job:
    """Keep the job in a worker."""
    return job


def draw(job: Job, workers: Workers) -> tuple[str, str]:
    """Seconds and processor time of what every worker draws first, and of the tables."""
    begun = time.perf_counter()
    sent = workers.submit(kept, job)
    workers.result(sent)
    there = workers.addresses()
    submit = workers._client.submit
    calls = [submit(tables_on, sent, workers=[one], pure=False) for one in there]
    first = [call.result() for call in calls]
    ready = time.perf_counter()
    largest = sorted(job.tables.values(), key=lambda item: -item.rows * len(item.columns))
    calls = [workers.submit(drawn, sent, item.table.key) for item in largest]
    tables = [workers.result(call) for call in calls]
    ended = time.perf_counter()
    return (
        f"{ready - begun:.2f} s, {sum(first) / len(there):.2f} of a processor",
        f"{ended - ready:.2f} s, {sum(tables) / len(there):.2f} of a processor",
    )


def main() -> None:
    """Count, compare, print."""
    parser = argparse.ArgumentParser(description="Counting here and by Dask workers.")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--columns", type=int, default=16)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--model", help="a model to draw a clone of")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the clone")
    parser.add_argument("--as-is", action="store_true", help="leave Dask's settings of memory")
    given = parser.parse_args()
    spilling = "distributed.worker.memory"
    dask.config.set({f"{spilling}.target": False, f"{spilling}.spill": False})
    if not given.as_is:
        dask.config.set({"distributed.nanny.pre-spawn-environ": MEMORY})
    cells = {name: Cells(*pair) for name, pair in make(given.rows, given.columns).items()}
    axes = tuple(Column(name, held.domain.size) for name, held in cells.items())
    spec = DatabaseSpec({TABLE: TableSpec(TABLE, {})})
    data = PrivateDatabase(spec, {TABLE: PrivateTable(given.rows, cells, {})})
    asked = Marginals(TABLE, axes, tuple(combinations(range(given.columns), 2)))
    here, alone = timed(local, data, asked)
    print(f"{given.rows:,} rows, {len(asked.sets)} pair tables, {os.cpu_count()} cores")
    print(f"here {alone:.2f} s")
    if given.model:
        model = Model.load(given.model)
        mark = Mark(model.digest, given.scale, 1, programs=False)
        job = Job("", None, model, mark)
        print(f"{sum(item.rows for item in job.tables.values()):,} rows of a clone")
    for count in map(int, given.workers.split(",")):
        with (
            LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as cluster,
            Workers(cluster.scheduler_address) as workers,
        ):
            counter = WorkersCounter(workers)
            for turn in ("first", "second"):
                found, seconds = timed(counter, data, asked)
                same = all(np.array_equal(*pair) for pair in zip(here, found, strict=True))
                ratio = seconds / alone
                print(f"{count} workers, {turn}: {seconds:.2f} s, × {ratio:.2f}, same: {same}")
            if given.model:
                first, tables = draw(job, workers)
                print(f"{count} workers: model {first}; tables {tables}")


if __name__ == "__main__":
    main()
