"""Computed columns of sampled rows, which a server of this process computes, if there is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from privbench.errors import DatabaseError, UsageError
from privbench.pgsql.computed import Computation
from privbench.pipeline.computed import of_model
from privbench.pipeline.decode import CloneTable
from privbench.pipeline.load import fill, set_aside
from privbench.pipeline.model import Model
from privbench.pipeline.progress import Reporter
from privbench.postgres.computed import Computing
from privbench.postgres.connect import Connection
from privbench.postgres.embedded import any_server
from privbench.postgres.load import Loader
from privbench.postgres.statement import build
from privbench.schema import TableName

#: Arrow types by PostgreSQL's; values of others stay texts.
_TYPES = {
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
}
_Values = dict[str, dict[str, pa.Array]]


def with_computed(
    model: Model, tables: list[CloneTable], seed: int | None
) -> tuple[list[CloneTable], dict[str, str]]:
    """The tables with computed columns, or without those that no server computes row by row.

    For each table without them there is a line that names them and says why.
    """
    columns, values, why = of_model(model), _Values(), "it has fewer rows, or another order, there"
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
) -> _Values:
    """The values of computed columns, for tables that have their rows in order; by table."""
    with Loader(dsn, model.schema, model.ddl, trust=False) as loader:
        repair, computing = set_aside(loader, tables, seed), Computing(loader, columns)
        computing.begin()
        fill(loader, tables, repair, Reporter())
        computing.finish(sum(item.rows for item in tables))
        found = {}
        for item in tables:
            names = _names(item, columns)
            if names and loader.table(item.table).kind == "r":
                values = _read(loader.connection, item, names)
                if all(len(array) == item.rows for array in values.values()):
                    found[item.table.key] = values
        return found


def _read(connection: Connection, item: CloneTable, names: list[str]) -> dict[str, pa.Array]:
    """Columns of a table, its rows in the order in which they lie."""
    with connection.cursor().copy(build("COPY {} ({}) TO STDOUT", item.table.name, names)) as copy:
        rows = list(copy.rows())
    types = [_TYPES.get(item.table.column(name).type.base, pa.string()) for name in names]
    return {
        name: pa.array([row[place] for row in rows], pa.string()).cast(type_)
        for place, (name, type_) in enumerate(zip(names, types, strict=True))
    }


def _extended(item: CloneTable, values: dict[str, pa.Array]) -> CloneTable:
    """A table with further columns, all of whose rows are drawn together."""

    def draw(names: Sequence[str], part: int | None) -> Iterator[pa.Table]:
        drawn, start = [name for name in names if name not in values], 0
        for batch in item.draw(drawn, part):
            of_batch = dict(zip(drawn, batch.columns, strict=True))
            arrays = [
                of_batch[n] if n in of_batch else values[n].slice(start, batch.num_rows)
                for n in names
            ]
            yield pa.Table.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])
            start += batch.num_rows

    known = {*item.columns, *values}
    columns = tuple(column.name for column in item.table.columns if column.name in known)
    return replace(item, draw=draw, columns=columns)
