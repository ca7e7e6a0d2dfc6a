"""From the source's rows to the private database: streamed, encoded as it arrives.

Rows are held as codes (small integers, or grid points until their bounds are released) and row
indices of parents; key values are dropped as soon as they are matched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from psycopg import sql

from privbench.pipeline.prepare import FitPlan, TablePlan
from privbench.pipeline.progress import Reporter
from privbench.postgres.keys import match
from privbench.postgres.snapshot import Expression, Snapshot
from privbench.privacy.data import Attribute, PrivateDatabase, PrivateTable
from privbench.schema import Column, Table, TableName

_INTEGERS = frozenset({"int2", "int4", "int8", "oid"})


@dataclass(frozen=True)
class Extract:
    """What was read.

    Attributes:
        database: The private rows.
        public: Rows of public tables as text, verbatim.
    """

    database: PrivateDatabase
    public: Mapping[str, pa.Table]


@dataclass(frozen=True)
class _Raw:
    """One table before its keys are matched."""

    rows: int
    attributes: Mapping[str, Attribute]
    keys: Mapping[str, pa.ChunkedArray]


def extract(snapshot: Snapshot, plan: FitPlan, reporter: Reporter) -> Extract:
    """Read every table of the plan once.

    Args:
        snapshot: An open snapshot of the source.
        plan: What to read.
        reporter: Told of rows as they arrive.

    Raises:
        DatabaseError: The source refused.
        SchemaError: Rows contradict the catalog.
    """
    referenced = _referenced(plan)
    raw: dict[str, _Raw] = {}
    public: dict[str, pa.Table] = {}
    for item in plan.tables.values():
        keys = _key_columns(item, referenced.get(item.table.name, frozenset()))
        if item.public:
            public[item.table.key], raw[item.table.key] = _read_public(snapshot, item, keys)
        else:
            raw[item.table.key] = _read_private(snapshot, item, keys, reporter)
    tables = {}
    for item in plan.private:
        key = item.table.key
        parents = {
            fk.name: match(
                [raw[key].keys[name] for name in fk.columns],
                [raw[str(fk.ref_table)].keys[name] for name in fk.ref_columns],
            )
            for fk in item.table.foreign_keys
        }
        tables[key] = PrivateTable(raw[key].rows, raw[key].attributes, parents)
    return Extract(PrivateDatabase(plan.spec, tables), public)


def _referenced(plan: FitPlan) -> dict[TableName, frozenset[str]]:
    """Columns of each table that private tables refer to."""
    found: dict[TableName, set[str]] = {}
    for item in plan.private:
        for key in item.table.foreign_keys:
            found.setdefault(key.ref_table, set()).update(key.ref_columns)
    return {name: frozenset(columns) for name, columns in found.items()}


def _key_columns(item: TablePlan, referenced: frozenset[str]) -> list[Column]:
    own: frozenset[str] = frozenset() if item.public else item.table.key_columns
    return [column for column in item.table.columns if column.name in own | referenced]


def _key_expression(column: Column) -> sql.Composable:
    """A form in which two equal key values are equal: int8 for integers, text for the rest."""
    name = sql.Identifier(column.name)
    if column.type.base in _INTEGERS:
        return sql.SQL("{}::int8").format(name)
    if column.type.base == "numeric":
        return sql.SQL("trim_scale({}::numeric)::text").format(name)
    return sql.SQL("{}::text").format(name)


def _key_alias(column: Column) -> str:
    return f"k{column.position}"


def _batches(
    snapshot: Snapshot, table: Table, expressions: list[Expression]
) -> Iterator[pa.RecordBatch]:
    # A table whose every column is minted still has rows to count.
    return snapshot.stream(table, expressions or [(sql.SQL("true"), "present")])


def _read_private(
    snapshot: Snapshot, item: TablePlan, keys: list[Column], reporter: Reporter
) -> _Raw:
    expressions: list[Expression] = [
        (_key_expression(column), _key_alias(column)) for column in keys
    ]
    for reader in item.readers.values():
        expressions += reader.select(sql.Identifier(reader.name))
    pieces: dict[str, list[dict[str, Any]]] = {name: [] for name in item.readers}
    found: dict[str, list[pa.Array]] = {column.name: [] for column in keys}
    rows = 0
    for batch in _batches(snapshot, item.table, expressions):
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name, reader in item.readers.items():
            pieces[name].append(reader.read(arrays))
        for column in keys:
            found[column.name].append(arrays[_key_alias(column)])
        rows += batch.num_rows
        reporter.advance(f"read {item.table.key}", rows)
    attributes: dict[str, Attribute] = {}
    for name, reader in item.readers.items():
        attributes.update(reader.collect(pieces.pop(name)))
    return _Raw(rows, attributes, {c.name: _chunked(c, found[c.name]) for c in keys})


def _read_public(snapshot: Snapshot, item: TablePlan, keys: list[Column]) -> tuple[pa.Table, _Raw]:
    columns = [column for column in item.table.columns if not column.generated]
    expressions: list[Expression] = [
        (sql.SQL("{}::text").format(sql.Identifier(column.name)), f"p{column.position}")
        for column in columns
    ]
    expressions += [(_key_expression(column), _key_alias(column)) for column in keys]
    batches = list(_batches(snapshot, item.table, expressions))
    rows = sum(batch.num_rows for batch in batches)
    whole = pa.Table.from_batches(batches) if batches else None
    verbatim = pa.table(
        {
            column.name: whole[f"p{column.position}"] if whole else pa.array([], pa.string())
            for column in columns
        }
    )
    found = {
        column.name: _chunked(column, whole[_key_alias(column)].chunks if whole else [])
        for column in keys
    }
    return verbatim, _Raw(rows, {}, found)


def _chunked(column: Column, chunks: list[pa.Array]) -> pa.ChunkedArray:
    empty = pa.int64() if column.type.base in _INTEGERS else pa.string()
    return pa.chunked_array(chunks) if chunks else pa.chunked_array([], type=empty)
