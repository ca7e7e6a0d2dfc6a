"""Many tables: Q-error of joins on clones of a database, for several synthesizers and ε.

    python benchmarks/multi_table.py SOURCE -c CONFIG.toml -w joins.sql -w given.sql
    python benchmarks/multi_table.py ... --generate joins.sql     make that workload first
    python benchmarks/multi_table.py ... --generate mscn.sql --kind mscn    in the manner of MSCN
    python benchmarks/multi_table.py ... --epsilon 3.2,0.8 --releases 5 --judge judge.py
    python benchmarks/multi_table.py ... --model fitted.privbench --keep --quick

Fits and loads each release, in this process, into a scratch database beside the source, runs
counting queries on it, and prints medians over the releases: Q-error by workload and by number of
joins, answers of zero, rows of the tables, broken constraints, seconds of fit and of load. The
source's answers are those that the workload files state (``card||SQL``); it is asked only for
others. Each fit has a ledger of its own that goes when it is done, so nothing adds up here and no
cap holds: for data of one's own. The output and the workloads are computed from private rows:
CONFIDENTIAL.

``--judge`` names an external script that takes the DSNs of source and clone and a workload file and
prints one JSON object with ``qerror``, ``by_joins``, ``clone_zero`` and ``timeouts``; its figures
are then shown instead, and a difference from this project's own is said.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psycopg
from psycopg import conninfo, sql

from privbench.config import Config
from privbench.metrics import integrity, qerror
from privbench.pipeline import Reporter, fit, inspect, load
from privbench.postgres.connect import connect
from privbench.postgres.introspect import introspect
from privbench.workload import Workload, WorkloadQuery, generate_from_source, kinds, read, write

_POINTS = ("p50", "p75", "p90", "p95", "p99", "mean")
_SEED = 1


@dataclass(frozen=True, slots=True)
class Figures:
    """Q-error of one workload on one clone.

    Attributes:
        points: Percentiles and mean by name.
        joins: 95th percentile by number of joins.
        zeros: Queries with an answer on the source and none on the clone.
        timeouts: Queries that ended on neither side in time; they count nowhere else.
    """

    points: dict[str, float]
    joins: dict[str, float]
    zeros: int
    timeouts: int


@dataclass(frozen=True, slots=True)
class Clone:
    """One release.

    Attributes:
        figures: By workload.
        rows: By table.
        checks: How many keys, NOT NULLs and CHECKs of the source's schema were counted on it.
        broken: Rows that break one, by constraint.
        fit: Seconds.
        load: Seconds, ANALYZE included.
    """

    figures: dict[str, Figures]
    rows: dict[str, int]
    checks: int
    broken: dict[str, int]
    fit: float
    load: float


class Bench:
    """What all releases share: the source, its workloads and their true answers."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.source: str = options.source
        self.config = _config(options)
        with connect(self.source) as connection:
            self.schema = introspect(connection, self.config.database.schemas)
        self.workloads = {work.name: work for work in self._workloads()}
        if len(self.workloads) > 1:
            self.workloads["all"] = _united("all", list(self.workloads.values()))

    def _workloads(self) -> Iterator[Workload]:
        options = self.options
        if options.generate:
            path = Path(options.generate)
            if not path.exists():
                with connect(self.source) as connection:
                    plan = replace(kinds()[options.kind].plan, queries=options.queries, seed=_SEED)
                    made = generate_from_source(connection, options.kind, self.schema, plan)
                write(made, path, "card-sql")
            yield self._answered(read(path))
        for names in options.workloads:
            parts = [self._answered(read(name)) for name in names.split(",")]
            yield parts[0] if len(parts) == 1 else _united(parts[0].name, parts)

    def _answered(self, workload: Workload) -> Workload:
        """The workload with the source's answers; queries that it cannot answer in time go."""
        missing = [query for query in workload if query.card is None]
        with _counting(self.source, self.options.timeout) as connection:
            found = {query.id: _count(connection, query) for query in missing}
        queries = [
            query if query.card is not None else WorkloadQuery(query.id, query.sql, found[query.id])
            for query in workload
        ]
        return Workload(workload.name, tuple(q for q in queries if q.card is not None))

    def release(self, name: str, epsilon: float, number: int) -> Clone:
        """Fit, load and measure one clone."""
        with tempfile.TemporaryDirectory() as folder, self._scratch(name, number) as target:
            model = self.options.model or str(Path(folder, "model.privbench"))
            seconds = [0.0, 0.0]
            if not self.options.model:
                config = self._released(name, epsilon, number, Path(folder, "ledger"))
                seconds[0] = _timed(lambda: fit(self.source, config, model, reporter=Reporter()))
            seconds[1] = _timed(lambda: load(model, target, seed=number, reporter=Reporter()))
            return self._measured(target, *seconds)

    def _released(self, name: str, epsilon: float, number: int, ledger: Path) -> Config:
        privacy = {"epsilon": epsilon, "accounting": self.options.accounting}
        config = self.config.with_privacy(**privacy, delta=self.options.delta)
        if self.options.seeded:
            config = config.with_privacy(seed=number)
        update = {
            "ledger": config.ledger.model_copy(update={"path": str(ledger)}),
            "synthesizer": config.synthesizer.model_copy(update={"name": name}),
        }
        return config.model_copy(update=update)

    @contextmanager
    def _scratch(self, name: str, number: int) -> Iterator[str]:
        """An empty database on the source's server; dropped afterwards unless kept."""
        database = f"multi_table_{os.getpid()}_{name}_{number}".replace("-", "_")
        identifier = sql.Identifier(database)
        with psycopg.connect(self.source, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(identifier))
        try:
            yield conninfo.make_conninfo(self.source, dbname=database)
        finally:
            if self.options.keep:
                print(f"kept: {database}", flush=True)
            else:
                with psycopg.connect(self.source, autocommit=True) as connection:
                    drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(identifier)
                    connection.execute(drop)

    def _measured(self, target: str, fitted: float, loaded: float) -> Clone:
        with connect(target) as connection:
            clone = introspect(connection, self.config.database.schemas)
            rows = {
                t.key: integrity.row_count(connection, t) for t in self.schema if t.name in clone
            }
            checks = integrity.check(connection, self.schema, clone)
        broken = {f"{c.table} {c.kind} {c.name}": c.violations for c in checks if c.violations}
        counts = self._counts(target)
        figures = {
            name: self._figures(work, target, counts) for name, work in self.workloads.items()
        }
        return Clone(figures, rows, len(checks), broken, fitted, loaded)

    def _counts(self, target: str) -> dict[str, int | None]:
        """The clone's answers by the query's text; None where it took too long."""
        queries = {query.sql: query for work in self.workloads.values() for query in work}
        with _counting(target, self.options.timeout) as connection:
            counts = {text: _count(connection, query) for text, query in queries.items()}
        if self.options.answers:
            database = conninfo.conninfo_to_dict(target)["dbname"]
            with Path(self.options.answers).open("a", encoding="utf-8") as lines:
                for text, count in counts.items():
                    answer = {"clone": database, "true": queries[text].card, "count": count}
                    lines.write(json.dumps({**answer, "sql": text}) + "\n")
        return counts

    def _figures(self, workload: Workload, target: str, counts: dict[str, int | None]) -> Figures:
        own = _own_figures(workload, counts)
        if not self.options.judge:
            return own
        judged = _judged(self.options.judge, self.source, target, workload, self.options.timeout)
        for name, value in own.points.items():
            if abs(value - judged.points[name]) > 0.001 * value:
                print(
                    f"the judge differs: {workload.name} {name} {judged.points[name]}, not {value}"
                )
        return judged


def _config(options: argparse.Namespace) -> Config:
    """The config file, or else what `inspect` proposes."""
    if options.config:
        return Config.load(options.config)
    return inspect(options.source, lookups=options.lookups).config


def _united(name: str, workloads: list[Workload]) -> Workload:
    queries = [
        WorkloadQuery(f"{work.name}/{query.id}", query.sql, query.card)
        for work in workloads
        for query in work
    ]
    return Workload(name, tuple(queries))


@contextmanager
def _counting(dsn: str, timeout: float) -> Iterator[psycopg.Connection]:
    with connect(dsn, autocommit=True) as connection:
        connection.execute(f"SET statement_timeout = '{round(timeout * 1000)}'".encode())
        connection.execute("SET default_transaction_read_only = on")
        yield connection


def _count(connection: psycopg.Connection, query: WorkloadQuery) -> int | None:
    with suppress(psycopg.errors.QueryCanceled):
        row = connection.execute(query.sql.encode()).fetchone()
        return int(row[0]) if row else 0
    return None


def _judged(judge: Path, source: str, target: str, workload: Workload, timeout: float) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "workload.sql")
        write(workload, path, "card-sql")
        command = [sys.executable, str(judge), source, target, str(path)]
        command += ["--timeout", f"{timeout:.0f}"]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(ran.stdout)
    for complaint in ("card_mismatch", "failed"):
        if found.get(complaint):
            print(f"the judge says of {workload.name}: {complaint} {found[complaint]}", flush=True)
    by_joins = {joins: part["p95"] for joins, part in found["by_joins"].items()}
    points = {name: found["qerror"][name] for name in _POINTS}
    return Figures(points, by_joins, found["clone_zero"], found["timeouts"])


def _own_figures(workload: Workload, counts: dict[str, int | None]) -> Figures:
    done = [(query, n) for query in workload if (n := counts[query.sql]) is not None]
    joins = [query.joins for query, _ in done]
    report = qerror.report([query.card or 0 for query, _ in done], [n for _, n in done], joins)
    points = {} if report.overall is None else report.overall.model_dump()
    return Figures(
        {name: points.get(name, float("nan")) for name in _POINTS},
        {joins: part.p95 for joins, part in report.by_joins.items()},
        report.clone_zero,
        len(workload) - len(done),
    )


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main() -> None:
    """Run the benchmark."""
    options = _options()
    bench = Bench(options)
    print(", ".join(f"{w.name}: {len(w)} queries" for w in bench.workloads.values()))
    results = []
    for epsilon in (float(part) for part in options.epsilon.split(",")):
        for name in options.synthesizers.split(","):
            clones = [bench.release(name, epsilon, i) for i in range(options.releases)]
            _show(bench, name, epsilon, clones)
            results.append(
                {"synthesizer": name, "epsilon": epsilon, "clones": [asdict(c) for c in clones]}
            )
    if options.output:
        document = {"accounting": options.accounting, "results": results}
        Path(options.output).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", help="DSN; may create databases")
    parser.add_argument("-c", "--config", help="else the roles that inspect proposes")
    parser.add_argument("--lookups", choices=("private", "public"), default="private")
    parser.add_argument(
        "-w", "--workloads", action="append", default=[], help="a file, or several as one: A,B"
    )
    parser.add_argument("--generate", metavar="FILE", help="a workload, made if it is not there")
    parser.add_argument("--kind", choices=("joins", "mscn", "sam"), default="joins")
    parser.add_argument("--queries", type=int, default=400, help="of a generated workload")
    parser.add_argument("--synthesizers", default="privbench,independent,privbench-paper")
    parser.add_argument("--epsilon", default="3.2,0.8")
    parser.add_argument("--accounting", choices=("auto", "pure", "zcdp"), default="auto")
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--releases", type=int, default=5)
    parser.add_argument("--seeded", action="store_true", help="noise by the release's number")
    parser.add_argument("--quick", action="store_true", help="one release of the first choice")
    parser.add_argument("--model", help="a model file: nothing is fitted")
    parser.add_argument("--keep", action="store_true", help="keep the clones")
    parser.add_argument("--judge", type=Path, help="external script for the figures")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for each query")
    parser.add_argument("--answers", metavar="FILE", help="append each query's answers, as JSON")
    parser.add_argument("-o", "--output", metavar="FILE", help="all figures, as JSON")
    options = parser.parse_args()
    if options.quick or options.model:
        options.releases = 1
        options.epsilon = options.epsilon.partition(",")[0]
        options.synthesizers = options.synthesizers.partition(",")[0]
    if not options.workloads and not options.generate:
        parser.error("give -w or --generate")
    return options


def _show(bench: Bench, name: str, epsilon: float, clones: list[Clone]) -> None:
    joins = sorted({j for c in clones for f in c.figures.values() for j in f.joins})
    head = "".join(f"{point:>9s}" for point in _POINTS) + "".join(
        f"{f'p95@{j}':>9s}" for j in joins
    )
    seconds = [_median([c.fit for c in clones]), _median([c.load for c in clones])]
    what = bench.options.model or f"{name}, ε = {epsilon:g} {bench.options.accounting}"
    print(f"\n{what}, {len(clones)} releases: fit {seconds[0]:.1f} s, load {seconds[1]:.1f} s")
    print(f"{'workload':24s}{head}{'zeros':>7s}{'late':>6s}")
    for work in bench.workloads:
        parts = [clone.figures[work] for clone in clones]
        cells = [_median([part.points[point] for part in parts]) for point in _POINTS]
        cells += [_median([part.joins.get(j, float("nan")) for part in parts]) for j in joins]
        zeros, late = _median([p.zeros for p in parts]), _median([p.timeouts for p in parts])
        print(f"{work[:23]:24s}{''.join(map(_cell, cells))}{zeros:7.0f}{late:6.0f}")
    print("rows: " + ", ".join(_rows(bench, key, clones) for key in clones[0].rows))
    broken = sorted({fault for clone in clones for fault in clone.broken})
    said = ", ".join(broken) if broken else "nothing"
    print(f"broken of {clones[0].checks} constraints: {said}", flush=True)


def _rows(bench: Bench, key: str, clones: list[Clone]) -> str:
    return f"{key.partition('.')[2]} {_median([clone.rows[key] for clone in clones]):.0f}"


def _cell(value: float) -> str:
    return f"{value:9.2f}" if value < 1e5 else f"{value:9.1e}"


def _median(values: list[float] | list[int]) -> float:
    return float(statistics.median(values))


if __name__ == "__main__":
    main()
