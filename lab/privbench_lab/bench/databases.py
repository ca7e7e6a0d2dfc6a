"""Benchmarks on whole databases: every release is loaded into a server of its own and compared.

The figures are Q-errors of the workload's joins, sizes of tables, and retention: the share of the
association between columns of a table and those of the table it refers to that the clone keeps;
also relative errors of aggregate queries, and SyntheRela's metrics, where the grid asks for them.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from psycopg import conninfo, sql

from privbench import pipeline
from privbench.config import Config, LedgerConfig, SynthesizerConfig
from privbench.metrics.correlation import association
from privbench.metrics.kld import Coded
from privbench.postgres.connect import SELECT, Connection, connect
from privbench.postgres.embedded import Server, any_server
from privbench.postgres.introspect import introspect
from privbench.postgres.reading import assignment, reading, users_path
from privbench.report import compare
from privbench.report.figures import learned
from privbench.report.measuring import schema_of
from privbench.schema import ForeignKey, Schema, Table
from privbench.workload import Workload, generate_from_source, kinds, read
from privbench_lab.bench.answers import compare_answers, read_aggregates
from privbench_lab.bench.classifiers import Floats
from privbench_lab.bench.config import BenchConfig, DataConfig, Job, SourceConfig
from privbench_lab.bench.fitting import options_for
from privbench_lab.bench.inputs import digest, require
from privbench_lab.bench.peers import environment, run_program
from privbench_lab.bench.relations import syntherela_figures

#: Figures of a comparison that are kept.
_KEPT = ("qerror.", "kld.", "tvd.", "rows.", "integrity.", "replay.errors")
#: The name of a database that is made.
_SOURCE = "source"
#: Versions of Python for programs that make rows.
_PYTHONS = ("3.10", "3.14")
#: Associations in the source below this are not compared: at 10,000 rows, chance alone gives
#: unrelated columns of ten values each about 0.03; half the limit would count some of that.
_STRONG = 0.1
#: Most rows of a join that are read, most bins of numbers, and most columns of each side.
_ROWS, _BINS, _COLUMNS = 200_000, 16, 12
_TIMES = frozenset({"date", "timestamp", "timestamptz"})
_ORDERED = _TIMES | {"int2", "int4", "int8", "numeric", "float4", "float8"}
_LISTED = frozenset({"text", "varchar", "bpchar", "bool"})


@dataclass(frozen=True)
class Measured:
    """What one release of a database gave."""

    figures: dict[str, float]  # by name
    inputs: dict[str, str]  # SHA-256 of what was made before the fit, by name
    versions: dict[str, str]  # of the server


def measure(grid: BenchConfig, job: Job) -> Measured:
    """Figures of one release of a database, which is only read; the ledger is temporary.

    The job's seed is that of the sampling, and also of the noise if the grid seeds it. Functions
    and triggers of a database that the grid makes are trusted, as its SQL files are.
    """
    data = grid.data[job.data]
    with tempfile.TemporaryDirectory(prefix="pb-bench-") as scratch, any_server() as server:
        folder = Path(scratch)
        dsn, inputs = data.dsn, dict[str, str]()
        if data.source is not None:
            dsn, inputs = fill(data.source, server, folder / "rows", data.sha256, grid.limit)
        assert dsn is not None
        workload, generated = _workload(data, dsn)
        inputs |= generated
        require(data.sha256, inputs)
        config = _config(grid, job, dsn, folder)
        started = time.perf_counter()
        model = folder / "model.privbench"
        pipeline.fit(dsn, config, model)
        fitted = time.perf_counter()
        pipeline.load(model, server.dsn, seed=job.seed, trust_programs=data.source is not None)
        loaded = time.perf_counter()
        document = compare(
            dsn,
            server.dsn,
            workload,
            config,
            repeats=1,
            warmup=0,
            floor=False,
            explain=False,
            distributions="kld" in grid.metrics,
        )
        figures = {
            figure: value
            for figure, value in document.figures.items()
            if value is not None and figure.startswith(_KEPT) and "[" not in figure
        }
        figures |= retention(dsn, server.dsn, schema_of(dsn, config))
        if data.answers is not None:
            queries = read_aggregates(Path(data.answers))
            with reading(dsn) as source, reading(server.dsn) as clone:
                for side in (source, clone):
                    side.execute(assignment("search_path", users_path(side)))
                figures |= compare_answers(queries, source, clone)
        if data.syntherela:
            schema = schema_of(dsn, config)
            known = {part.name for part in learned(document.tables)}
            figures |= syntherela_figures(dsn, server.dsn, schema, known, folder, grid.limit)
    figures |= {"seconds.fit": fitted - started, "seconds.sample": loaded - fitted}
    return Measured(figures, inputs, {"PostgreSQL": document.source.version})


def fill(
    config: SourceConfig, server: Server, scratch: Path, expected: Mapping[str, str], limit: float
) -> tuple[str, dict[str, str]]:
    """Make a database on the server; return its DSN, and SHA-256 of the expected files of rows.

    Programs may take ``limit`` seconds each. A PeerFailed says which of them failed, a ConfigError
    which file is not the expected one.
    """
    dsn = conninfo.make_conninfo(server.dsn, dbname=_SOURCE)
    with connect(server.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_SOURCE)))
    scratch.mkdir()
    rows = scratch if config.rows is None else Path(config.rows)
    if config.program:
        first, *words = [dsn if word == "@dsn" else word for word in config.program]
        programs = Path(sys.executable)
        if config.packages:
            programs = environment(_PYTHONS, tuple(config.packages))
        own = first.endswith(".py")
        command = [str(programs), first] if own else [str(programs.parent / first)]
        run_program([*command, *words], scratch, limit)
    files = {name: digest(scratch / name) for name in expected if (scratch / name).is_file()}
    require(expected, files)
    psql = server.program.parent / "psql" if server.program is not None else Path("psql")
    program = str(psql) if psql.exists() else "psql"
    for name in config.sql:
        run_program([program, "-qX", "-v", "ON_ERROR_STOP=1", "-f", name, dsn], rows, limit)
    with connect(dsn, autocommit=True) as connection:
        connection.execute("ANALYZE")
    return dsn, files


def _workload(config: DataConfig, dsn: str) -> tuple[Workload, dict[str, str]]:
    """The workload, and SHA-256 of the texts of a generated one."""
    if config.workload is not None:
        return read(config.workload), {}
    assert config.generate is not None
    with reading(dsn) as connection:
        plan = replace(kinds()[config.generate].plan, queries=config.queries)
        schema = introspect(connection, Config().database.schemas)
        workload = generate_from_source(connection, config.generate, schema, plan)
    return workload, {"generated workload": workload.digest}


def _config(grid: BenchConfig, job: Job, dsn: str, folder: Path) -> Config:
    """The config of one release, with a ledger in the folder."""
    settings, data = grid.synthesizers[job.synthesizer], grid.data[job.data]
    chosen = SynthesizerConfig(
        name=grid.use_of(job.synthesizer), options=options_for(settings.options, data)
    )
    base = Config.load(data.config) if data.config else Config()
    base = base.with_privacy(
        epsilon=job.epsilon,
        delta=grid.delta,
        accounting=settings.accounting or grid.accounting,
        neighbours=grid.neighbours,
        seed=job.seed if settings.seeded else None,
    ).model_copy(update={"synthesizer": chosen, "ledger": LedgerConfig(path=str(folder))})
    if data.config:
        return base
    return pipeline.inspect(dsn, base=base, lookups="public").config


def retention(source: str, clone: str, schema: Schema) -> dict[str, float]:
    """How much of the associations over keys the clone keeps.

    For every foreign key, each column of the referring rows is compared with each column of the
    rows that they refer to, by Spearman's correlation or Cramér's V. The associations that are at
    least 0.1 in the source count: ``retention.keys`` = 1 − Σ|real − clone| / Σ|real|, at least 0.
    """
    gaps, whole = 0.0, 0.0
    with reading(source) as real_side, reading(clone) as made_side:
        for table in schema:
            for key in table.foreign_keys:
                parent = schema.table(key.ref_table)
                sides = [_joined(side, key, table, parent) for side in (real_side, made_side)]
                if not any(side.empty for side in sides):
                    real, made = _strong(*sides)
                    gaps += float(np.abs(real - made).sum())
                    whole += float(np.abs(real).sum())
    return {"retention.keys": max(1 - gaps / whole, 0.0)} if whole else {}


def _joined(connection: Connection, key: ForeignKey, child: Table, parent: Table) -> pd.DataFrame:
    """Columns of both tables along a key, those of the child first; NULL is None.

    Dates and times come as seconds since 1970: Python has neither infinity nor the year 10000.
    """
    columns, named = [], []
    for side, table in (("c", child), ("p", parent)):
        for name in _columns(table):
            timed = table.column(name).type.base in _TIMES
            form = sql.SQL("pg_catalog.date_part('epoch', {})" if timed else "{}")
            named.append(form.format(sql.Identifier(side, name)))
            columns.append(f"{side}.{name}")
    if not columns:
        return pd.DataFrame()
    same = sql.SQL("{} OPERATOR(pg_catalog.=) {}")
    on = [
        same.format(sql.Identifier("c", one), sql.Identifier("p", other))
        for one, other in zip(key.columns, key.ref_columns, strict=True)
    ]
    query = SELECT + sql.SQL("{} FROM {} c JOIN {} p ON {} LIMIT {}").format(
        sql.SQL(", ").join(named),
        sql.Identifier(child.name.schema, child.name.name),
        sql.Identifier(parent.name.schema, parent.name.name),
        sql.SQL(" AND ").join(on),
        sql.Literal(_ROWS),
    )
    rows = connection.execute(query).fetchall()
    return pd.DataFrame(rows, columns=columns, dtype=object)


def _columns(table: Table) -> list[str]:
    """Columns that are compared: not keys, and of types that have an order or few values."""
    keys = {name for key in table.foreign_keys for name in key.columns}
    keys |= {name for item in (table.primary_key, *table.uniques) if item for name in item.columns}
    kinds = _ORDERED | _LISTED
    found = [c.name for c in table.columns if c.type.base in kinds and c.name not in keys]
    return found[:_COLUMNS]


def _strong(real: pd.DataFrame, made: pd.DataFrame) -> tuple[Floats, Floats]:
    """Associations of a child's with a parent's columns, in source and clone.

    Only pairs whose association in the source is at least `_STRONG` count.
    """
    coded = [_coded(real[name], made[name]) for name in real.columns]
    source, clone = association([column for column, _ in coded], [order for _, order in coded])
    child = np.array([name.startswith("c.") for name in real.columns])
    strong = np.outer(~child, child) & (np.abs(source) >= _STRONG)
    return source[strong], np.nan_to_num(clone[strong])


def _coded(real: pd.Series, made: pd.Series) -> tuple[Coded, bool]:
    """Codes of a column in source and clone, 0 for NULL, and whether it is ordered.

    Codes stand for parts of equal mass in the source, or for the source's values; all values that
    the source does not have share one code.
    """
    known = real.dropna()
    ordered = not known.map(lambda value: isinstance(value, str | bool)).any()
    values = np.sort(known.unique())
    if ordered and len(values) > _BINS:
        ranks = known.sort_values(ignore_index=True)
        values = np.unique(ranks.iloc[[len(ranks) * part // _BINS for part in range(_BINS)]])
    codes = []
    for side in (real, made):
        held = side.notna().to_numpy()
        given = side[held].to_numpy()
        places = np.searchsorted(values, given, side="right")
        found = np.zeros(len(side), np.uint32)
        # A column with only NULLs in the source counts as ordered, so that no value is looked up.
        same = ordered or values[np.maximum(places, 1) - 1] == given
        found[held] = np.where(same, places + 1, len(values) + 2)
        codes.append(found)
    return Coded(codes[0], codes[1], len(values) + 3), ordered
