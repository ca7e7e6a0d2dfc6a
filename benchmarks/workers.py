"""Seconds of counting all pair tables of one big table: here, by one Dask worker, by several.

    python benchmarks/workers.py                      4 million × 16; 1 and 2 workers
    python benchmarks/workers.py --rows 1000000 --columns 10 --workers 1,2,4

The first count of a table sends its codes to the workers, the second finds them there; both are
printed, with their ratio to this process's own count in the same run. Counts are compared. With
`--as-is` workers allocate memory as Dask has it, three times slower: docs/scale.md says why.
Needs ``pip install 'privbench[dask]'``; makes a cluster on this machine.
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

from privbench.privacy import DatabaseSpec, TableSpec
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable
from privbench.privacy.queries import Column
from privbench.privacy.queries.counting import Counter, Marginals, local
from privbench.privacy.query import Integers
from privbench.privacy.workers import Workers, WorkersCounter

#: glibc keeps blocks of memory between two steps of a count, as it does where nothing is set.
MEMORY = {"MALLOC_TRIM_THRESHOLD_": 2**27, "MALLOC_MMAP_THRESHOLD_": 2**27}


def timed(
    counter: Counter, data: PrivateDatabase, asked: Marginals
) -> tuple[list[Integers], float]:
    """A count and its seconds."""
    begun = time.perf_counter()
    found = counter(data, asked)
    return found, time.perf_counter() - begun


def main() -> None:
    """Count, compare, print."""
    parser = argparse.ArgumentParser(description="Counting here and by Dask workers.")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--columns", type=int, default=16)
    parser.add_argument("--workers", default="1,2")
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


if __name__ == "__main__":
    main()
