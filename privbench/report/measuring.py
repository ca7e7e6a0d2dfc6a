"""The measurements of a comparison besides the replay: tables, rows and statistics."""

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from privbench.arrays import Floats
from privbench.config import Config
from privbench.metrics import integrity, values
from privbench.metrics.columns import CELLS, is_public
from privbench.metrics.correlation import association, mean_difference
from privbench.metrics.fanout import FanoutPart, fanout
from privbench.metrics.fidelity import CodedColumn, TableFidelity, fidelity
from privbench.postgres.connect import Connection
from privbench.postgres.introspect import introspect
from privbench.postgres.reading import reading
from privbench.postgres.snapshot import Snapshot
from privbench.report.document import (
    ColumnPart,
    CorrelationPart,
    QueryPart,
    TablePart,
    ViewsPart,
)
from privbench.report.section_plugins import Comparison, Modelled, installed
from privbench.schema import Schema
from privbench.workload.database import refuse_computing
from privbench.workload.replay import ReplayProgress, silent

#: Most columns of a matrix; a wider one is no longer readable.
_COLUMNS = 40
_NULL, _OTHERS = "NULL", "all others"


def schema_of(dsn: str, config: Config | None) -> Schema:
    """Return the schema of a database, with the tables that the config chooses."""
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
    tell: ReplayProgress = silent,
) -> dict[str, Any]:
    """Compare tables, integrity and statistics in one snapshot of each database.

    The result has fields of a `ComparisonDocument` by name: ``tables`` are those of the source's
    schema, ``integrity`` that of the clone.
    After both snapshots are closed, distributions are compared, unless they are left out, and
    sections of other packages are measured, in short snapshots of their own. `tell` is called with
    each step, its number and the number of steps.
    """
    compared: dict[str, TableFidelity] = {}
    rows: dict[str, tuple[int, int | None]] = {}
    contents: dict[str, dict[str, Any]] = {}
    with Snapshot(source_dsn) as source, Snapshot(target_dsn) as clone:
        schema = _introspect(source.connection, config)
        clone_schema = introspect(clone.connection)
        _hold(source, schema, schema)
        _hold(clone, clone_schema, schema)
        refuse_computing(clone.connection, [table.name for table in clone_schema])
        sides = source.connection, clone.connection
        for number, table in enumerate(schema, 1):
            tell(f"read {table.key}", number, len(schema.tables))
            one = integrity.row_count(source.connection, table)
            rows[table.key] = one, None
            if table.name not in clone_schema:
                continue
            other = integrity.row_count(clone.connection, table)
            rows[table.key] = one, other
            there = [column.name for column in clone_schema.table(table.name).columns]
            size = one, other
            known = contents[table.key] = values.contents(sides, table, there, size, distributions)
            if distributions and not is_public(config, table):
                distinct = {part.name: part.source["distinct"] for part in known["values"]}
                compared[table.key] = fidelity(source, clone, table, distinct, config, size)
        checks = integrity.check(
            clone.connection, schema, clone_schema, integrity.of_users(source.connection)
        )
        fanouts = _fanouts(source, clone, schema, clone_schema)
    for number, key in enumerate(compared, 1):
        tell(f"compare {key}", number, len(compared))
        compared[key] = compared[key].measured()

    @contextmanager
    def snapshots(keys: Container[str]) -> Iterator[tuple[Snapshot, Snapshot]]:
        with Snapshot(source_dsn) as source, Snapshot(target_dsn) as clone:
            _hold(source, schema, keys)
            _hold(clone, clone_schema, keys)
            yield source, clone

    measured = Comparison(schema, compared, queries, model, snapshots)
    added = {section.name: section.collect(measured) for section in installed()}
    tables = [
        _table_part(
            table.key,
            is_public(config, table),
            rows[table.key],
            compared.get(table.key),
            contents.get(table.key, {}),
        )
        for table in schema
    ]
    return {
        "tables": tables,
        "integrity": checks,
        "views": ViewsPart(fanouts=fanouts, correlations=_correlations(compared)),
        "sections": {name: part for name, part in added.items() if part is not None},
    }


def _hold(side: Snapshot, schema: Schema, keys: Container[str]) -> None:
    """Protect these tables from changes, and refuse any whose reading calls a user's function."""
    side.hold(schema, keys)
    refuse_computing(side.connection, [table.name for table in schema if table.key in keys])


def _fanouts(
    source: Snapshot, clone: Snapshot, schema: Schema, clone_schema: Schema
) -> list[FanoutPart]:
    """Fan-outs along the keys that both sides have."""
    return [
        fanout(source.connection, clone.connection, key, table, schema.table(key.ref_table))
        for table in schema
        for key in table.foreign_keys
        if key.ref_table in schema and integrity.has_key(clone_schema, key)
    ]


def _correlations(compared: Mapping[str, TableFidelity]) -> list[CorrelationPart]:
    """Associations of the columns of the compared tables, by key."""
    return [
        _correlation(key, table_fidelity)
        for key, table_fidelity in compared.items()
        if len(table_fidelity.columns) > 1 and table_fidelity.rows
    ]


def _correlation(table: str, compared: TableFidelity) -> CorrelationPart:
    columns = compared.columns[:_COLUMNS]
    ordered = [column.ordered for column in columns]
    real, clone = association(columns, ordered)
    return CorrelationPart(
        table=table,
        columns=[column.name for column in columns],
        ordered=ordered,
        real=_matrix(real),
        clone=_matrix(clone),
        mean_difference=mean_difference(real, clone),
        left_out=[column.name for column in compared.columns[_COLUMNS:]],
    )


def _matrix(matrix: Floats) -> list[list[float | None]]:
    rows = np.round(matrix, 4).tolist()
    return [[None if value != value else value for value in row] for row in rows]


def _table_part(
    name: str,
    public: bool,
    rows: tuple[int, int | None],
    compared: TableFidelity | None,
    contents: dict[str, Any],
) -> TablePart:
    """One table; ``compared`` is None where it is not compared."""
    histograms = contents.pop("histograms", {})
    return TablePart(
        name=name,
        public=public,
        source_rows=rows[0],
        clone_rows=rows[1],
        divergence={str(way): part for way, part in compared.divergence.items()}
        if compared
        else {},
        columns=[_column(column, histograms) for column in compared.columns] if compared else [],
        left_out=compared.left_out if compared else {},
        shares=compared.shares if compared else (1.0, 1.0),
        **contents,
    )


def _column(column: CodedColumn, histograms: Mapping[str, Mapping[str, Any]]) -> ColumnPart:
    """Shares by cell; where there are many, those of the histogram."""
    real, clone = (side / max(int(side.sum()), 1) for side in column.counts())
    shares, labels = _shown(column, np.stack([real, clone]))
    by_cell = {
        "how": column.plan.how,
        "labels": labels,
        "real": shares[0].tolist(),
        "clone": shares[1].tolist(),
    }
    return ColumnPart(
        name=column.name,
        tvd=float(0.5 * np.abs(real - clone).sum()),
        **histograms.get(column.name, by_cell),
    )


def _shown(column: CodedColumn, both: Floats) -> tuple[Floats, list[str]]:
    """Shares, shape (2, cells), and labels of the cells to show: NULL last, rare values joined."""
    places = np.flatnonzero(both.sum(axis=0) > 0)
    values = places[places > 0]
    keep = values
    if not column.plan.edges and len(values) > CELLS:
        largest = np.argsort(-both[:, values].sum(axis=0), kind="stable")[: CELLS - 1]
        keep = np.sort(values[largest])
    rest = np.setdiff1d(values, keep)
    shares, names = [both[:, keep]], [column.labels[place - 1] for place in keep]
    if len(rest):
        shares.append(both[:, rest].sum(axis=1, keepdims=True))
        names.append(_OTHERS)
    if both[:, 0].sum() > 0:
        shares.append(both[:, :1])
        names.append(_NULL)
    return np.concatenate(shares, axis=1), names
