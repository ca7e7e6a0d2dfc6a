"""Seconds and memory of `fit` and `load` on one big table, against `pg_dump | psql` of the same.

    python benchmarks/throughput.py                  ten million rows
    python benchmarks/throughput.py --rows 1000000   fewer
    python benchmarks/throughput.py --synthesizer independent

Makes a table of six columns on an embedded PostgreSQL, fits a model and loads it, stage by stage,
copies the same table with `pg_dump | psql` in the same run, and prints the ratio. Memory is the
peak of the Python process within each stage; the server's own is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg
from psycopg import conninfo, sql

from privbench.config import Config
from privbench.pipeline.fit import fit
from privbench.pipeline.load import load
from privbench.pipeline.progress import Reporter, StageTime
from privbench.postgres import binaries
from privbench.postgres.embedded import Server, any_server

OUT = Path(__file__).parent / "out"

#: Skewed, correlated, with NULLs: a key, two numbers, a category, a day and a flag.
TABLE = """
CREATE TABLE sale (
    id bigint PRIMARY KEY,
    region smallint NOT NULL,
    amount integer,
    status text NOT NULL,
    sold date NOT NULL,
    online boolean NOT NULL
)
"""

ROWS = """
INSERT INTO sale
SELECT id,
       region,
       CASE WHEN random() < 0.05 THEN NULL
            ELSE least(9999, (40 * (1 + region) * -ln(1 - random()))::integer) END,
       CASE WHEN region < 3 AND random() < 0.4 THEN 'returned'
            WHEN random() < 0.8 THEN 'paid'
            WHEN random() < 0.7 THEN 'open'
            ELSE 'cancelled' END,
       date '2020-01-01' + (2000 * sqrt(random()))::integer,
       random() < 0.2 + region * 0.02
FROM (SELECT id, (25 * power(random(), 3))::smallint AS region
      FROM generate_series(1, %s) AS id) AS base
"""

CONFIG = """
[database]
identity = "throughput"

[tables."public.sale"]
own = []

[tables."public.sale".columns.region]
kind = "range"
min = 0
max = 25

[tables."public.sale".columns.amount]
kind = "range"
min = 0
max = 9999
bins = 100

[tables."public.sale".columns.status]
kind = "categories"
values = ["open", "paid", "returned", "cancelled"]

[tables."public.sale".columns.sold]
kind = "range"
min = "2020-01-01"
max = "2025-12-31"
bins = 72
"""


@dataclass(frozen=True)
class Measured:
    """One step: what it was, how long it took, and the peak of the process's memory."""

    step: str
    seconds: float
    peak_mib: float | None


class PeakReporter(Reporter):
    """Takes the peak of memory within each stage, where the kernel lets it be reset."""

    def begin(self, name: str) -> None:
        """Forget earlier peaks."""
        print(f"  {name} ...", flush=True)
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")

    def end(self, stage: StageTime) -> None:
        """Say how it went."""
        print(f"  {stage.name}: {stage.seconds:.1f} s, {stage.peak_mib:.0f} MiB", flush=True)


def main() -> None:
    """Run the benchmark."""
    options = _options()
    OUT.mkdir(exist_ok=True)
    with any_server() as server:
        source, clone, copy = _databases(server)
        steps = [_timed("make the table", lambda: _fill(source, options.rows))]
        steps += _privbench(source, clone, options)
        steps.append(_timed("pg_dump | psql", lambda: _dump_restore(server, source, copy)))
        counts = {name: _count(dsn) for name, dsn in (("clone", clone), ("copy", copy))}
    if counts["copy"] != options.rows:
        raise SystemExit(f"pg_dump | psql copied {counts['copy']} rows of {options.rows}")
    _report(options, server.major, steps, counts)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--epsilon", type=float, default=3.2)
    parser.add_argument("--synthesizer", default=None)
    return parser.parse_args()


def _databases(server: Server) -> list[str]:
    names = ("source", "clone", "copy")
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for name in names:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return [conninfo.make_conninfo(server.dsn, dbname=name) for name in names]


def _fill(dsn: str, rows: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SELECT setseed(0.5)")
        connection.execute(TABLE)
        connection.execute(ROWS, [rows])
        connection.execute("VACUUM ANALYZE sale")


def _privbench(source: str, clone: str, options: argparse.Namespace) -> list[Measured]:
    config = Config.loads(CONFIG).with_privacy(epsilon=options.epsilon)
    # A ledger of its own, made anew: a benchmark must not be stopped by what earlier ones spent.
    folder = OUT / f"ledger-{time.time_ns()}"
    config = config.model_copy(
        update={"ledger": config.ledger.model_copy(update={"path": str(folder)})}
    )
    if options.synthesizer:
        section = config.synthesizer.model_copy(update={"name": options.synthesizer})
        config = config.model_copy(update={"synthesizer": section})
    model = OUT / "throughput.privbench"
    steps = []
    for command in ("fit", "load"):
        reporter = PeakReporter()
        begun = time.perf_counter()
        if command == "fit":
            fit(source, config, model, reporter=reporter)
        else:
            load(model, clone, reporter=reporter)
        seconds = time.perf_counter() - begun
        steps += [Measured(f"{command}: {s.name}", s.seconds, s.peak_mib) for s in reporter.stages]
        steps.append(Measured(command, seconds, max(s.peak_mib for s in reporter.stages)))
    return steps


def _timed(step: str, work: Callable[[], None]) -> Measured:
    print(f"{step} ...", flush=True)
    begun = time.perf_counter()
    work()
    return Measured(step, time.perf_counter() - begun, None)


def _dump_restore(server: Server, source: str, copy: str) -> None:
    directories = [*binaries.package_directories(), *binaries.machine_directories()]
    dump, psql = (_program(name, server.major, directories) for name in ("pg_dump", "psql"))
    command = [dump, "--no-owner", "--dbname", source]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as sender:
        receiver = [psql, "--quiet", "--no-psqlrc", "--output", os.devnull]
        subprocess.run(
            [*receiver, "--set", "ON_ERROR_STOP=1", "--dbname", copy],
            stdin=sender.stdout,
            check=True,
        )
    if sender.returncode:
        raise SystemExit(f"pg_dump failed with exit code {sender.returncode}")


def _program(name: str, major: int, directories: list[Path]) -> str:
    fitting = [item for item in binaries.find(name, directories) if item.major >= major]
    if not fitting:
        raise SystemExit(f"no {name} of version {major} or later was found")
    return str(min(fitting, key=lambda item: item.major).path)


def _count(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT count(*) FROM sale").fetchone()
    assert row is not None
    return int(row[0])


def _report(
    options: argparse.Namespace, major: int, steps: list[Measured], counts: dict[str, int]
) -> None:
    by_name = {step.step: step.seconds for step in steps}
    ratio = (by_name["fit"] + by_name["load"]) / by_name["pg_dump | psql"]
    print(f"\n{options.rows:,} rows, 6 columns; PostgreSQL {major}; {os.cpu_count()} CPUs")
    print(f"{'step':<28}{'seconds':>10}{'peak MiB':>10}")
    for step in steps:
        peak = "" if step.peak_mib is None else f"{step.peak_mib:.0f}"
        print(f"{step.step:<28}{step.seconds:>10.1f}{peak:>10}")
    print(f"fit + load takes {ratio:.2f} times as long as pg_dump | psql")
    document = {
        "rows": options.rows,
        "epsilon": options.epsilon,
        "synthesizer": options.synthesizer,
        "postgresql": major,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "counts": counts,
        "ratio": ratio,
        "steps": [asdict(step) for step in steps],
    }
    path = OUT / "throughput.json"
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
