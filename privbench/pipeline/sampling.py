"""The command ``sample``: write a model's clone as files; needs neither source nor database."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as papq
from psycopg import sql

from privbench.encoding import unkept
from privbench.errors import DatabaseError, UsageError
from privbench.files import file_errors, replacing
from privbench.pgsql.computed import Computation
from privbench.pipeline.computed import of_model
from privbench.pipeline.decode import CloneTable, decode
from privbench.pipeline.load import check_scale, fill, set_aside
from privbench.pipeline.model import Model
from privbench.pipeline.progress import Reporter
from privbench.postgres.computed import Computing
from privbench.postgres.csvtext import csv_blocks, stops_psql
from privbench.postgres.embedded import any_server
from privbench.postgres.load import Loader
from privbench.postgres.patterns import choose
from privbench.postgres.stream import stream
from privbench.schema import Column, TableName, quoted
from privbench.sources.types import type_of

_CUT = r" (a text has the line \., which psql before version 18 takes for the end of the rows)"
#: Longest name of a file; for longer names, the schema is a folder and the table a file in it.
_LONGEST = 255
_ARROW = {
    "date": pa.date32(), "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"), "text": pa.string(),
}  # fmt: skip
_KINDS = {
    "bool": "bool", "int2": "int16", "int4": "int32", "int8": "int64", "float4": "float32",
    "float8": "float64", "date": "date", "timestamp": "timestamp", "timestamptz": "timestamptz",
}  # fmt: skip
#: Bytes of a batch in which computed columns are read.
_BATCH_BYTES = 1 << 20
_DEVICES = frozenset({
    "con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10)),
})  # fmt: skip


def sample(
    model: str | Path | Model,
    output: str | Path,
    *,
    file_format: Literal["csv", "parquet"] = "csv",
    scale: float = 1.0,
    seed: int | None = None,
    force: bool = False,
    schemas: Sequence[str] = (),
    tables: Sequence[str] = (),
    excluded: Sequence[str] = (),
    reporter: Reporter | None = None,
) -> list[str]:
    """Write a model's clone as files, one per table; returns a line of text for each.

    Rows are written as drawn; the last lines of the result name rules that they may break.

    The directory is created if it does not exist. It has to be empty, unless `force` allows files
    of the same names to be replaced. CSV files have a header; NULL is an empty field, an empty text
    is ``""``. Tables are chosen as by `patterns.choose`, and all if none is named.
    """
    teller = reporter or Reporter()
    folder = _empty(Path(output), force)
    with teller.stage("sample"):
        loaded = model if isinstance(model, Model) else Model.load(model)
        every = [table.name for table in loaded.schema]
        known = sorted({name.schema for name in every})
        _, chosen, _ = choose(every, known, schemas or None, tables or None, excluded)
        drawn, absent = _with_computed(
            loaded, decode(loaded, scale=check_scale(scale), seed=seed), seed
        )
        drawn = [item for item in drawn if item.table.name in chosen]
    lines = [] if loaded.promise.private else [loaded.promise.sentence()]
    with teller.stage("write"):
        names = file_names([item.table.name for item in drawn], file_format)
        for item in drawn:
            if file_format == "parquet" and not item.columns:
                lines.append(f"{item.table.key}: no file, since readers of Parquet want columns")
                continue
            path = folder / names[item.table.name]
            path.parent.mkdir(exist_ok=True)
            with replacing(path) as file:
                cut = _write_rows(item, file, file_format)
            lines.append(f"{path}: {item.rows:,} rows{_CUT if cut else ''}")
    lines += [absent[item.table.key] for item in drawn if item.table.key in absent]
    return lines + _unrepaired(loaded, drawn)


def sample_tables(model: Model, scale: float, seed: int | None) -> dict[str, pa.Table]:
    """Return a model's synthetic tables as Arrow tables by name, without repairs by a load."""
    result = {}
    tables = decode(model, scale=check_scale(scale), seed=seed)
    for item in _with_computed(model, tables, seed)[0]:
        batches = [batch.rename_columns(list(item.columns)) for batch in item.batches()]
        empty = pa.table({name: pa.nulls(0) for name in item.columns})
        result[item.table.key] = _in_arrow_types(pa.concat_tables(batches or [empty]), item)
    return result


def _with_computed(
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
    complete, lines = [], {}
    for item in tables:
        key, names = item.table.key, _computed_of(item, columns)
        some = item.without(names)
        if key in values:
            some = _extended(some, values[key])
        elif names:
            lines[key] = f"{key}: left out, since only a load computes {', '.join(names)}: {why}"
        complete.append(some)
    return complete, lines


def _computed_of(item: CloneTable, columns: Sequence[Computation]) -> list[str]:
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
        computed_tables = {}
        for item in tables:
            names, table = _computed_of(item, columns), loader.table(item.table)
            if names and table.kind == "r":
                read = [(sql.Identifier(name), name) for name in names]
                values = pa.Table.from_batches(stream(loader.connection, table, read, _BATCH_BYTES))
                if values.num_rows == item.rows:
                    computed_tables[table.key] = values
        return computed_tables


def _extended(item: CloneTable, values: pa.Table) -> CloneTable:
    """A table with further columns, all of whose rows are drawn together."""

    def draw(names: Sequence[str]) -> Iterator[pa.Table]:
        drawn, start = [name for name in names if name not in values.column_names], 0
        for batch in item.draw(drawn):
            arrays = dict(zip(drawn, batch.columns, strict=True))
            more = values.slice(start, batch.num_rows)
            arrays |= zip(more.column_names, more.columns, strict=True)
            yield pa.Table.from_arrays([arrays[name] for name in names], names=list(names))
            start += batch.num_rows

    known = {*item.columns, *values.column_names}
    columns = tuple(column.name for column in item.table.columns if column.name in known)
    return replace(item, draw=draw, columns=columns)


def _unrepaired(model: Model, tables: list[CloneTable]) -> list[str]:
    """Rules that rows in files may break, since only a load into a database checks these rules."""
    lines = [line for item in tables if not item.public for line in unkept(item.table)]
    rules = [f"{line.table} ({line.column or line.how}): {line.why}" for line in lines]
    written = {f"{item.table.name.schema}.{item.table.name.name}" for item in tables}
    rules += [f"{table}: {rule}" for table, rule in model.ddl.overlaps() if table in written]
    head = "As drawn: rows of these files may break rules that `load` repairs in a database:"
    return [head, *(f"  {line}" for line in rules)] if rules else []


def _empty(folder: Path, force: bool) -> Path:
    with file_errors(f"cannot use {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        if not force and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty.", remedy="Name a new one, or use --force.")
    return folder


def file_name(table: TableName, file_format: Literal["csv", "parquet"]) -> str:
    """Return a table's file, such as ``public.users.csv``; explained by `privbench sample --help`.

    ASCII letters, digits, ``_``, ``-`` and ``$`` stay. Every other byte of the UTF-8 names, also a
    dot within a name, becomes ``%XX``. So no two tables share a file, and names can be decoded.

    >>> file_name(TableName("public", "A/b"), "csv"), file_name(TableName("..", "é"), "csv")
    ('public.A%2Fb.csv', '%2E%2E.%C3%A9.csv')
    """
    schema, name = _spelled(table.schema), _spelled(table.name)
    full = f"{schema}.{name}.{file_format}"
    return full if len(full) <= _LONGEST else f"{schema}/{name}.{file_format}"


def file_names(
    tables: Sequence[TableName], file_format: Literal["csv", "parquet"]
) -> dict[TableName, str]:
    """Return the files of tables; they also differ on file systems that ignore case.

    In names that differ in case alone, capital letters become ``%XX`` too.
    """
    plain = {table: file_name(table, file_format) for table in tables}
    folded = Counter(name.lower() for name in plain.values())
    return {
        table: name if folded[name.lower()] == 1 else _small(name) for table, name in plain.items()
    }


def _spelled(name: str) -> str:
    quoted = quote(name, safe="$").replace(".", "%2E").replace("~", "%7E")
    # Windows takes these names for devices, even with a suffix.
    return f"%{ord(quoted[0]):02X}{quoted[1:]}" if quoted.lower() in _DEVICES else quoted


def _small(name: str) -> str:
    """A file's name with ``%XX`` for capital letters, except those within a ``%XX``."""
    return re.sub(r"%..|[A-Z]", lambda m: m[0] if m[0][0] == "%" else f"%{ord(m[0]):02X}", name)


def _write_rows(item: CloneTable, file: BinaryIO, file_format: Literal["csv", "parquet"]) -> bool:
    """Write the rows of a table; returns whether psql would cut them off."""
    names, cut = list(item.columns), False
    if file_format == "csv":
        head = f"{','.join(map(quoted, names))}\n".encode()
        file.write(head)
        cut = stops_psql(head)
        for block in csv_blocks(item.batches(), len(names)):
            file.write(block)
            cut = cut or stops_psql(memoryview(block).tobytes())
        return cut
    stated = {"privbench.table": item.table.key, "privbench.keys": json.dumps(_keys(item))}
    plain = set[str]()
    while odd := _write_parquet(item, file, stated, plain):
        plain |= odd
        file.seek(0)
        file.truncate()
    return cut


def _write_parquet(
    item: CloneTable, file: BinaryIO, stated: dict[str, str], plain: Set[str]
) -> set[str]:
    """Write rows, ``plain`` columns as drawn; returns columns that have two types, none if all fit.

    A column whose values do not all fit its Arrow type, as infinity does not, is text.
    """
    batches = (_in_arrow_types(batch, item, plain) for batch in item.batches())
    empty = pa.table([pa.array([], pa.string())] * len(item.columns), list(item.columns))
    first = next(batches, _in_arrow_types(empty, item))
    with papq.ParquetWriter(file, first.schema.with_metadata(stated)) as writer:
        for batch in chain([first], batches):
            # What has two types as it is drawn is an error, which writing raises.
            if odd := {one.name for one in set(batch.schema) ^ set(first.schema)} - plain:
                return odd
            writer.write_table(batch)
    return set()


def _in_arrow_types(rows: pa.Table, item: CloneTable, plain: Set[str] = frozenset()) -> pa.Table:
    """Rows by name, each column in the Arrow type of its own if that holds all its values."""
    arrays = dict(zip(item.columns, rows.columns, strict=True))
    for name in arrays.keys() - plain:
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
            arrays[name] = _converted(arrays[name], item.table.column(name))
    return pa.table(arrays)


def kind_of(column: Column) -> str:
    """Return the type of a column in Parquet, if all its values fit."""
    precision, scale = column.type.precision or 0, column.type.scale or 0
    if column.type.base == "numeric" and 0 <= scale <= precision <= 38 and precision:
        return f"decimal({precision},{scale})"
    return _KINDS.get(column.type.base, "text")


def arrow_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a kind."""
    if kind.startswith("decimal("):
        return pa.decimal128(*map(int, kind[8:-1].split(",")))
    return _ARROW.get(kind) or pa.type_for_alias(kind)


def _converted(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    of = column.type
    if of.kind != "b" or of.extension:
        return values
    if (kind := kind_of(column)) != "text":
        return values.cast(arrow_type(kind))
    if of.base == "time" and values.type == pa.string():
        days = pc.binary_join_element_wise("2000-01-01", values, " ")
        return days.cast(pa.timestamp("us")).cast(pa.time64("us"))
    if of.base in ("bytea", "uuid") and values.type == pa.string():
        # Both are digits of base 16, that of an uuid with hyphens.
        texts = (text and text.removeprefix("\\x").replace("-", "") for text in values.to_pylist())
        found = [None if text is None else bytes.fromhex(text) for text in texts]
        if of.base == "bytea":
            return pa.chunked_array([pa.array(found, pa.binary())])
        held = pa.array(found, pa.binary(16))
        return pa.chunked_array([pa.ExtensionArray.from_storage(pa.uuid(), held)])
    return values


def _keys(item: CloneTable) -> dict[str, Any]:
    """Keys of a table and types of columns that are texts, as `sources.keys` reads them."""
    table, there = item.table, {*item.columns}
    types = {column.name: type_of(column.type.sql) for column in table.columns}
    foreign = [
        {"columns": key.columns, "table": str(key.ref_table), "references": key.ref_columns}
        for key in table.foreign_keys
        if there.issuperset(key.columns) and not (key.declared or key.when)
    ]
    primary, *unique = (
        [*columns] if there.issuperset(columns) else []
        for columns in (table.primary_columns, *(item.columns for item in table.unique_sets))
    )
    return {
        "columns": {name: types[name] for name in item.columns if types[name]},
        "primary_key": primary,
        "unique": [columns for columns in unique if columns],
        "not_null": [c.name for c in table.columns if c.not_null and c.name in there],
        "foreign_keys": foreign,
    }
