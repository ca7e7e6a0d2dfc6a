"""Seconds and memory of `fit` and `load`, against copies of the same rows in the same run.

    python benchmarks/throughput.py                  ten million rows in one table
    python benchmarks/throughput.py --rows 1000000   fewer
    python benchmarks/throughput.py --source postgresql:///imdb --config schemas/imdb/imdb.toml

Makes a table of six columns on an embedded PostgreSQL, or takes a database that is there; fits a
model and loads it, stage by stage, by several connections and then by one (``--one-transaction``);
copies the same rows by `pg_dump | psql`, and by `pg_dump -Fd` and `pg_restore` with several jobs,
each with ANALYZE. It does all of this three times, and prints medians, and the least and largest
ratio. Memory is the peak of the Python process within each stage; the server's own is not counted.
The databases that it makes beside a source, ``privbench_throughput_...``, are dropped in the end. A
release of a source counts in a ledger of its own alone, and its model stays in ``benchmarks/out``:
use no private database.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import psycopg
from psycopg import conninfo, sql

from privbench.config import Config
from privbench.pipeline.fit import fit
from privbench.pipeline.load import load
from privbench.pipeline.model import Model
from privbench.pipeline.progress import Reporter
from privbench.postgres import binaries
from privbench.postgres.embedded import any_server
from privbench.privacy.data import CACHE_BYTES
from privbench.threads import JOBS

SINGLE = "load --one-transaction"
OUT = Path(__file__).parent / "out"
MODEL = OUT / "throughput.privbench"

#: MiB that a fit takes whatever the number of its rows, by fits of 9 and of 19 million rows.
FIXED = 430

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

    def end(self, name: str, seconds: float, peak: float) -> None:
        """Say how it went."""
        print(f"  {name}: {seconds:.1f} s, {peak:.0f} MiB", flush=True)


def main() -> None:
    """Run the benchmark."""
    options = _options()
    OUT.mkdir(exist_ok=True)
    with ExitStack() as stack:
        if options.source:
            source, config = options.source, Config.load(options.config)
        else:
            source = stack.enter_context(any_server()).dsn
            config = Config.loads(CONFIG)
        if not options.source:
            (source,) = stack.enter_context(_databases(source, ["table"]))
            _timed("make the table", lambda: _fill(source, options.rows))
        with psycopg.connect(source) as connection:
            major = connection.info.server_version // 10_000
        of_source = _count(source)
        runs = [_run(source, config, options, major, of_source) for _ in range(options.runs)]
    for steps in runs:
        _memory(Model.load(MODEL), of_source, steps)
    _report(options, major, runs, sum(of_source.values()))


def _run(
    source: str,
    config: Config,
    options: argparse.Namespace,
    major: int,
    of_source: dict[str, int],
) -> list[Measured]:
    """Make clones, in a process of its own for its peak of memory, and copies."""
    spawned = multiprocessing.get_context("spawn")
    with _databases(source, ["clone", "single", "copy", "restored"]) as places:
        clone, single, copy, restored = places
        with ProcessPoolExecutor(1, spawned) as process:
            steps = process.submit(_privbench, source, clone, single, config, options).result()
        steps += [
            _timed("pg_dump | psql", lambda: _dump_restore(major, source, copy)),
            _timed("its ANALYZE", lambda: _analyze(copy)),
            _timed(
                f"pg_dump -Fd -j{options.jobs}, pg_restore",
                lambda: _directory_restore(major, source, restored, options.jobs),
            ),
            _timed("their ANALYZE", lambda: _analyze(restored)),
        ]
        if (rows := _count(copy)) != of_source:
            raise SystemExit(f"pg_dump | psql copied the rows {rows} of {of_source}")
    return steps


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--source", help="DSN of a database to take instead of the made table")
    parser.add_argument("--config", help="its configuration")
    parser.add_argument("--epsilon", type=float, default=3.2)
    parser.add_argument("--synthesizer", default=None)
    parser.add_argument("--jobs", type=int, default=2, help="connections to source and target")
    parser.add_argument("--runs", type=int, default=3, help="figures are their medians")
    options = parser.parse_args()
    if bool(options.source) != bool(options.config):
        parser.error("--source and --config go together.")
    return options


@contextmanager
def _databases(dsn: str, places: list[str]) -> Iterator[list[str]]:
    names = [f"privbench_throughput_{name}" for name in places]
    with ExitStack() as stack:
        connection = stack.enter_context(psycopg.connect(dsn, autocommit=True))
        for name in names:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            drop = sql.SQL("DROP DATABASE {}").format(sql.Identifier(name))
            stack.callback(connection.execute, drop)
        yield [conninfo.make_conninfo(dsn, dbname=name) for name in names]


def _fill(dsn: str, rows: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SELECT setseed(0.5)")
        connection.execute(TABLE)
        connection.execute(ROWS, [rows])
        connection.execute("VACUUM ANALYZE sale")


def _privbench(
    source: str, clone: str, single: str, config: Config, options: argparse.Namespace
) -> list[Measured]:
    # A ledger of its own, made anew: a benchmark must not be stopped by what earlier ones spent.
    ledger = config.ledger.model_copy(update={"path": str(OUT / f"ledger-{time.time_ns()}")})
    config = config.with_privacy(epsilon=options.epsilon).model_copy(update={"ledger": ledger})
    if options.synthesizer:
        section = config.synthesizer.model_copy(update={"name": options.synthesizer})
        config = config.model_copy(update={"synthesizer": section})
    JOBS.set(options.jobs)
    steps = []
    for command in ("fit", "load", SINGLE):
        reporter = PeakReporter()
        begun = time.perf_counter()
        if command == "fit":
            fit(source, config, MODEL, reporter=reporter)
        else:
            one = command == SINGLE
            target = single if one else clone
            load(MODEL, target, seed=1, one_transaction=one, reporter=reporter)
        seconds = time.perf_counter() - begun
        steps += [Measured(f"{command}: {name}", *more) for name, *more in reporter.stages]
        steps.append(Measured(command, seconds, max(peak for *_, peak in reporter.stages)))
    return steps


def _timed(step: str, work: Callable[[], None]) -> Measured:
    print(f"{step} ...", flush=True)
    begun = time.perf_counter()
    work()
    return Measured(step, time.perf_counter() - begun, None)


def _analyze(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ANALYZE")


def _dump_restore(major: int, source: str, copy: str) -> None:
    command = [_program("pg_dump", major), "--no-owner", "--dbname", source]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as sender:
        receiver = [_program("psql", major), "--quiet", "--no-psqlrc", "--output", os.devnull]
        subprocess.run(
            [*receiver, "--set", "ON_ERROR_STOP=1", "--dbname", copy],
            stdin=sender.stdout,
            check=True,
        )
    if sender.returncode:
        raise SystemExit(f"pg_dump failed with exit code {sender.returncode}")


def _directory_restore(major: int, source: str, target: str, jobs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="privbench-throughput-") as folder:
        place, several = str(Path(folder, "dump")), f"--jobs={jobs}"
        dump = [_program("pg_dump", major), "-Fd", several, "--no-owner", "-f", place]
        subprocess.run([*dump, "--dbname", source], check=True)
        restore = [_program("pg_restore", major), several, "--no-owner", "--dbname", target]
        subprocess.run([*restore, place], check=True)


def _program(name: str, major: int) -> str:
    directories = [*binaries.package_directories(), *binaries.machine_directories()]
    fitting = [item for item in binaries.find(name, directories) if item.major >= major]
    if not fitting:
        raise SystemExit(f"no {name} of version {major} or later was found")
    return str(min(fitting, key=lambda item: item.major).path)


def _count(dsn: str) -> dict[str, int]:
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_catalog.pg_class"
            " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        ).fetchall()
        count = sql.SQL("SELECT count(*) FROM {}")
        rows = {}
        for (name,) in tables:
            counted = connection.execute(count.format(sql.Identifier("public", name))).fetchone()
            rows[f"public.{name}"] = int(counted[0]) if counted else 0
    return rows


def _memory(model: Model, rows: dict[str, int], steps: list[Measured]) -> None:
    """Print the peak of a fit beside that of the formula in docs/scale.md."""
    keys = {table.key: len(table.foreign_keys) for table in model.schema}
    total = 0
    for table, private in model.tables.items():
        domains = [item for codec in private.codecs.values() for item in codec.domains.values()]
        codes = sum(domain.dtype.itemsize for domain in domains)
        total += rows[table] * (4 * keys[table] + codes + (6 if private.own else 0))
    peaks = [step.peak_mib for step in steps if step.step.startswith("fit: ") and step.peak_mib]
    least = FIXED + total / 2**20
    print(
        f"a fit took {max(peaks):.0f} MiB; by the formula, of {total / sum(rows.values()):.1f} "
        f"bytes a row, {least:.0f} to {least + CACHE_BYTES / 2**20:.0f} MiB"
    )


def _report(options: argparse.Namespace, major: int, runs: list[list[Measured]], rows: int) -> None:
    ratios: dict[str, list[float]] = {}
    for steps in runs:
        seconds = {step.step: step.seconds for step in steps}
        *_, plain, analyze, several, again = seconds.values()
        ours = seconds["fit"] + seconds["load"]
        for name, ratio in (
            ("fit + load by pg_dump | psql", ours / plain),
            ("fit + load by pg_dump | psql with ANALYZE", ours / (plain + analyze)),
            ("fit + load by pg_dump -Fd and pg_restore with ANALYZE", ours / (several + again)),
            (f"{SINGLE} by load", seconds[SINGLE] / seconds["load"]),
        ):
            ratios.setdefault(name, []).append(ratio)
    print(f"\n{rows:,} rows; PostgreSQL {major}; {os.cpu_count()} CPUs; medians of {len(runs)}")
    print(f"{'step':<36}{'seconds':>10}{'peak MiB':>10}")
    for several_runs in zip(*runs, strict=True):
        peaks = [step.peak_mib for step in several_runs if step.peak_mib is not None]
        peak = f"{median(peaks):.0f}" if peaks else ""
        middle = median(step.seconds for step in several_runs)
        print(f"{several_runs[0].step:<36}{middle:>10.1f}{peak:>10}")
    for name, each in ratios.items():
        print(f"{name}: {median(each):.2f} ({min(each):.2f} to {max(each):.2f})")
    document = {
        "source": options.source,
        "jobs": options.jobs,
        "epsilon": options.epsilon,
        "synthesizer": options.synthesizer,
        "postgresql": major,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "rows": rows,
        "ratios": ratios,
        "runs": [[asdict(step) for step in steps] for steps in runs],
    }
    path = OUT / "throughput.json"
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
