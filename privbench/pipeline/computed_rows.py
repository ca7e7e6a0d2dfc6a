"""Computed columns of sampled rows, which a server of this process computes, if there is one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from psycopg import sql

from privbench.errors import DatabaseError, UsageError
from privbench.pgsql.computed import Computation
from privbench.pipeline.computed import of_model
from privbench.pipeline.decode import CloneTable
from privbench.pipeline.load import fill, set_aside
from privbench.pipeline.model import Model
from privbench.pipeline.progress import Reporter
from privbench.postgres.computed import Computing
from privbench.postgres.embedded import any_server
from privbench.postgres.load import Loader
from privbench.postgres.stream import stream
from privbench.schema import TableName

_BATCH_BYTES = 1 << 20


def with_computed(
    model: Model, tables: list[CloneTable], seed: int | None
) -> tuple[list[CloneTable], dict[str, str]]:
    """The tables with computed columns, or without those that no server computes row by row.

    For each table without them there is a line that names them and says why.
    """
    columns, why = of_model(model), "it has fewer rows, or another order, there"
    values: dict[str, pa.Table] = {}
    try:
        if columns:
            with any_server() as server:
                values = _computed(server.dsn, model, tables, columns, seed)
    except (UsageError, DatabaseError) as error:
        why = error.message
    found, lines = [], {}
    for item in tables:
        key, names = item.table.key, _names(item, columns)
        some = item.without(names)
        if key in values:
            some = _extended(some, values[key])
        elif names:
            lines[key] = f"{key}: left out, since only a load computes {', '.join(names)}: {why}"
        found.append(some)
    return found, lines


def _names(item: CloneTable, columns: Sequence[Computation]) -> list[str]:
    return [c.column for c in columns if TableName(*c.table) == item.table.name]


def _computed(
    dsn: str,
    model: Model,
    tables: list[CloneTable],
    columns: Sequence[Computation],
    seed: int | None,
) -> dict[str, pa.Table]:
    """The values of computed columns, for tables that have their rows in order; by table."""
    with Loader(dsn, model.schema, model.ddl, trust=False) as loader:
        repair, computing = set_aside(loader, tables, seed), Computing(loader, columns)
        computing.begin()
        fill(loader, tables, repair, Reporter())
        computing.finish(sum(item.rows for item in tables))
        found = {}
        for item in tables:
            names, table = _names(item, columns), loader.table(item.table)
            if names and table.kind == "r":
                read = [(sql.Identifier(name), name) for name in names]
                values = pa.Table.from_batches(stream(loader.connection, table, read, _BATCH_BYTES))
                if values.num_rows == item.rows:
                    found[table.key] = values
        return found


def _extended(item: CloneTable, values: pa.Table) -> CloneTable:
    """A table with further columns, all of whose rows are drawn together."""

    def draw(names: Sequence[str], part: int | None) -> Iterator[pa.Table]:
        drawn, start = [name for name in names if name not in values.column_names], 0
        for batch in item.draw(drawn, part):
            arrays = dict(zip(drawn, batch.columns, strict=True))
            more = values.slice(start, batch.num_rows)
            arrays |= zip(more.column_names, more.columns, strict=True)
            yield pa.Table.from_arrays([arrays[name] for name in names], names=list(names))
            start += batch.num_rows

    known = {*item.columns, *values.column_names}
    columns = tuple(column.name for column in item.table.columns if column.name in known)
    return replace(item, draw=draw, columns=columns)
