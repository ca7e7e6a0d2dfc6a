"""Compare a clone with its source: replay a workload on both, measure, and report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from privbench.config import Config
from privbench.metrics import integrity
from privbench.metrics.columns import is_public
from privbench.metrics.fidelity import TableFidelity, fidelity
from privbench.postgres.connect import Connection, connect
from privbench.postgres.introspect import introspect
from privbench.postgres.snapshot import Snapshot
from privbench.report import collect_views, figures, files, parts
from privbench.report.document import (
    CheckPart,
    ComparisonDocument,
    QueryPart,
    TablePart,
    WorkloadPart,
)
from privbench.report.document_views import ViewsPart
from privbench.report.gates import Gate, parse
from privbench.schema import Schema, Table
from privbench.workload import Replay, Workload, read, replay
from privbench.workload.replay import OnResult


def compare(
    source_dsn: str,
    target_dsn: str,
    workload: Workload | str | Path,
    config: Config | None = None,
    out_dir: str | Path | None = None,
    gates: Sequence[str] = (),
    *,
    repeats: int = 3,
    warmup: int = 1,
    timeout: float = 60.0,
    floor: bool = False,
    junit: str | Path | None = None,
    on_result: OnResult | None = None,
) -> ComparisonDocument:
    """Run a workload on source and clone, measure how close they are, and write the report.

    The result is CONFIDENTIAL: it holds exact figures of the source (P1), and no release may
    depend on it (P2). A comparison that was broken off goes on where it stopped when it is started
    again with the same ``out_dir``.

    Args:
        source_dsn: The source; only read.
        target_dsn: The clone; only read.
        workload: The workload, or where it is.
        config: Names the schemas, public tables and public bins.
        out_dir: Where comparison.json, report.html, report.md and the replay's log go; None
            writes nothing.
        gates: Conditions under which the comparison fails: ``qerror.p95 > 5``.
        repeats: Timed runs of a query on each side.
        warmup: Untimed runs before them.
        timeout: Seconds that one run may take.
        floor: Also run the source against itself, which shows how much of the runtime discrepancy
            is the machine's noise.
        junit: Where to write gates and integrity checks as JUnit XML.
        on_result: Told of every query that ran.

    Returns:
        The document. A failed gate raises nothing here: see `ComparisonDocument.failed` and
        `privbench.report.gates.enforce`.

    Raises:
        UsageError: A gate, the workload or the config is wrong.
        DatabaseError: A database refused.
    """
    wanted = parse(gates)
    queries = workload if isinstance(workload, Workload) else read(workload)
    folder = files.prepare(out_dir)
    _check_gates(wanted, _schema(source_dsn, config))
    ran = replay(
        queries,
        {parts.SOURCE: source_dsn, parts.CLONE: target_dsn},
        repeats,
        warmup,
        timeout,
        on_result,
        log=files.log(folder),
        finish=False,
    )
    noise = _floor(queries, source_dsn, ran, folder) if floor else None
    answered = parts.queries(queries, ran)
    tables, found, checks, views = _measure(source_dsn, target_dsn, config, answered)
    document = _document(queries, ran, noise, tables, found, checks)
    document = document.model_copy(update={"views": views})
    checked = [gate.check(document.figures) for gate in wanted]
    document = document.model_copy(update={"gates": checked})
    files.write(document, folder, Path(junit) if junit else None)
    return document


def _schema(dsn: str, config: Config | None) -> Schema:
    with connect(dsn) as connection:
        return _introspect(connection, config)


def _introspect(connection: Connection, config: Config | None) -> Schema:
    database = config.database if config else None
    return introspect(
        connection,
        database.schemas if database else None,
        database.exclude if database else (),
    )


def _check_gates(wanted: Iterable[Gate], schema: Schema) -> None:
    """Refuse an unknown figure before the long work, not after it."""
    known = dict.fromkeys(figures.names(table.key for table in schema))
    for gate in wanted:
        gate.check(known)


def _floor(queries: Workload, dsn: str, ran: Replay, folder: Path | None) -> Replay:
    return replay(
        queries,
        {parts.SOURCE: dsn, "source again": dsn},
        ran.repeats,
        ran.warmup,
        ran.timeout,
        log=files.log(folder, "floor"),
        finish=False,
    )


def _measure(
    source_dsn: str, target_dsn: str, config: Config | None, queries: list[QueryPart]
) -> tuple[list[TablePart], list[TableFidelity], list[CheckPart], ViewsPart]:
    """Tables, fidelity of the private ones, integrity checks, and what pictures show."""
    with Snapshot(source_dsn) as source, Snapshot(target_dsn) as clone:
        schema = _introspect(source.connection, config)
        theirs = introspect(clone.connection)
        tables: list[TablePart] = []
        by_key: dict[str, TableFidelity] = {}
        for table in schema:
            part, compared = _table(source, clone, table, theirs, config)
            tables.append(part)
            if compared is not None:
                by_key[table.key] = compared
        checks = integrity.check(clone.connection, schema, theirs)
        views = collect_views.collect(source, clone, schema, theirs, by_key, queries)
    return tables, list(by_key.values()), [CheckPart(**asdict(check)) for check in checks], views


def _table(
    source: Snapshot, clone: Snapshot, table: Table, theirs: Schema, config: Config | None
) -> tuple[TablePart, TableFidelity | None]:
    rows = integrity.row_count(source.connection, table)
    public = is_public(config, table)
    if table.name not in theirs:
        return parts.table(table.key, public, (rows, None), None), None
    copied = integrity.row_count(clone.connection, table)
    there = [column.name for column in theirs.table(table.name).columns]
    compared = None if public else fidelity(source, clone, table, there, config)
    return parts.table(table.key, public, (rows, copied), compared), compared


def _document(
    queries: Workload,
    ran: Replay,
    noise: Replay | None,
    tables: list[TablePart],
    found: list[TableFidelity],
    checks: list[CheckPart],
) -> ComparisonDocument:
    answered = parts.queries(queries, ran)
    qerror = parts.qerrors(answered)
    runtime = parts.runtimes(answered, noise)
    replay_part = parts.replay_part(ran, answered)
    return ComparisonDocument(
        privbench=version("privbench"),
        created=datetime.now(UTC).replace(microsecond=0),
        source=parts.side(ran.sides[parts.SOURCE]),
        clone=parts.side(ran.sides[parts.CLONE]),
        workload=WorkloadPart(name=queries.name, queries=len(queries), digest=queries.digest),
        replay=replay_part,
        qerror=qerror,
        runtime=runtime,
        tables=tables,
        integrity=checks,
        queries=answered,
        figures=figures.collect(qerror, runtime, replay_part, tables, found, checks),
    )
