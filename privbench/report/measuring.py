"""What a comparison reads of both databases besides the workload: tables, rows, statistics."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import asdict, dataclass, field, replace

from privbench.config import Config
from privbench.metrics import integrity, statistics
from privbench.metrics.columns import is_public
from privbench.metrics.fidelity import TableFidelity, fidelity
from privbench.metrics.modeltree import Modelled
from privbench.postgres.connect import Connection
from privbench.postgres.introspect import introspect
from privbench.postgres.reading import reading
from privbench.postgres.snapshot import Snapshot
from privbench.report import collect_views, parts, parts_work
from privbench.report.collect_heatmap import drawings, heatmaps
from privbench.report.document import CheckPart, QueryPart, TablePart
from privbench.report.document_parts import StatisticsPart, ViewsPart
from privbench.report.parts_work import Statistics
from privbench.schema import Schema, Table
from privbench.workload.database import refuse_computing

#: Told of a step, how many of its kind are done, and how many there are.
Tell = Callable[[str, int, int], None]


def silent(step: str, done: int, total: int) -> None:
    """Tells nobody."""


@dataclass(slots=True)
class Measured:
    """What was read."""

    tables: list[TablePart] = field(default_factory=list)  # every table of the source's schema
    # Of the compared tables, by the table's key.
    fidelity: dict[str, TableFidelity] = field(default_factory=dict)
    checks: list[CheckPart] = field(default_factory=list)  # integrity of the clone
    statistics: StatisticsPart | None = None  # agreement of ``pg_stats``
    views: ViewsPart = field(default_factory=ViewsPart)  # what pictures are drawn from


def schema_of(dsn: str, config: Config | None) -> Schema:
    """The schema of a database as the config chooses it."""
    with reading(dsn) as connection:
        return _introspect(connection, config)


def _introspect(connection: Connection, config: Config | None) -> Schema:
    chosen = (config or Config()).database
    return introspect(connection, chosen.schemas, chosen.exclude, chosen.tables)


def measure(
    source_dsn: str,
    target_dsn: str,
    config: Config | None,
    queries: Sequence[QueryPart],
    model: Modelled | None = None,
    *,
    distributions: bool = True,
    tell: Tell = silent,
) -> Measured:
    """Compare tables, integrity and statistics of one frozen moment of each database.

    Distributions are compared, and circuits of heat maps are learned, once both have been let go;
    rows are counted on these circuits in a second, short moment.

    Args:
        source_dsn: The source; only read.
        target_dsn: The clone; only read.
        config: Names the schemas, public tables and public bins.
        queries: The queries with their figures, some of which colour the heat map.
        model: The released model whose circuits the heat map draws.
        distributions: Also compare the distributions of columns and sets of columns.
        tell: Told of what is done, how many of it are, and how many there are.
    """
    found = Measured()
    rows: dict[str, tuple[int, int | None]] = {}
    known: list[tuple[Table, tuple[int, Statistics], tuple[int, Statistics]]] = []
    with Snapshot(source_dsn) as source, Snapshot(target_dsn) as clone:
        schema = _introspect(source.connection, config)
        theirs = introspect(clone.connection)
        _hold(source, schema, schema)
        _hold(clone, theirs, schema)
        refuse_computing(clone.connection, [table.name for table in theirs])
        for number, table in enumerate(schema):
            tell(f"read {table.key}", number, len(schema.tables))
            one = integrity.row_count(source.connection, table)
            rows[table.key] = one, None
            if table.name not in theirs:
                continue
            other = integrity.row_count(clone.connection, table)
            rows[table.key] = one, other
            if distributions and not is_public(config, table):
                there = [column.name for column in theirs.table(table.name).columns]
                found.fidelity[table.key] = fidelity(
                    source, clone, table, there, config, rows=(one, other)
                )
            known.append(
                (
                    table,
                    (one, statistics.read(source.connection, table, one)),
                    (other, statistics.read(clone.connection, table, other)),
                )
            )
        checks = integrity.check(
            clone.connection, schema, theirs, integrity.of_users(source.connection)
        )
        fanouts = collect_views.fanouts(source, clone, schema, theirs)
    for number, key in enumerate(found.fidelity):
        tell(f"compare {key}", number, len(found.fidelity))
        found.fidelity[key] = found.fidelity[key].measured()
    drawn = drawings(schema, found.fidelity, queries, model.tables if model else {})
    found.views = ViewsPart(
        fanouts=fanouts, correlations=collect_views.correlations(found.fidelity)
    )
    if drawn:
        with Snapshot(source_dsn) as source, Snapshot(target_dsn) as clone:
            _hold(source, schema, drawn)
            _hold(clone, theirs, drawn)
            maps = heatmaps(source, clone, schema, found.fidelity, drawn)
        found.views = found.views.model_copy(update={"heatmaps": maps})
    found.tables = [
        parts.table(
            table.key, is_public(config, table), rows[table.key], found.fidelity.get(table.key)
        )
        for table in schema
    ]
    found.checks = [CheckPart(**asdict(check)) for check in checks]
    found.statistics = parts_work.statistics_part(known)
    return found


def _hold(side: Snapshot, schema: Schema, keys: Container[str]) -> None:
    """Keep these tables as they are, and refuse those whose reading runs functions of users."""
    some = replace(schema, tables=tuple(table for table in schema if table.key in keys))
    side.hold(some)
    refuse_computing(side.connection, [table.name for table in some])
