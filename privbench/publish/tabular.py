"""Rows as files: CSV as PostgreSQL prints them, and Parquet with types, chunk by chunk.

The Parquet file of a chunk is read from its CSV file, so that both hold the same rows. A column
whose values do not all fit its Arrow type (``infinity``, a year before Christ) is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as papq
from psycopg import sql
from pyarrow import csv

from privbench.errors import ModelError
from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.schema import Column, Table

#: Rows and bytes after which the next file begins. Twice as many is twice the memory that a
#: reader of one file needs; half as many is twice the number of files.
CHUNK_ROWS, CHUNK_BYTES = 250_000, 128 * 2**20

_ARROW = {
    "bool": pa.bool_(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "text": pa.string(),
}
_KINDS = {
    "bool": "bool",
    "int2": "int16",
    "int4": "int32",
    "int8": "int64",
    "float4": "float32",
    "float8": "float64",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
}
_BROKEN = re.compile(r"column #(\d+)")


def kind_of(column: Column) -> str:
    """What a column is in Parquet, if all its values fit."""
    kind = column.type
    if kind.base == "numeric" and kind.precision is not None and kind.scale is not None:
        if kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
            return f"decimal({kind.precision},{kind.scale})"
        return "text"
    return _KINDS.get(kind.base, "text")


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a kind."""
    if kind.startswith("decimal("):
        precision, scale = kind.removeprefix("decimal(").rstrip(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return _ARROW[kind]


def copy_out(
    connection: Connection, table: Table, columns: Sequence[str], files: Iterable[Path]
) -> list[int]:
    """Write a table's rows as CSV files with headers.

    Args:
        connection: Under settings by which values print alike everywhere.
        table: The table.
        columns: Which columns, at least one.
        files: Where the first, second, … file goes; as many are taken as are needed, at least one.

    Returns:
        Rows of each file.

    Raises:
        DatabaseError: The server refused.
    """
    listed = sql.SQL(", ").join(sql.Identifier(name) for name in columns)
    named = sql.Identifier(table.name.schema, table.name.name)
    statement = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv)").format(listed, named)
    head = ",".join('"' + name.replace('"', '""') + '"' for name in columns).encode() + b"\n"
    places, counts = iter(files), [0]
    file = next(places).open("wb")
    try:
        file.write(head)
        size = 0
        with database_errors("reading rows", table.key), connection.cursor() as cursor:
            with cursor.copy(statement) as copy:
                # The protocol brings one row a message.
                for row in copy:
                    if counts[-1] >= CHUNK_ROWS or size >= CHUNK_BYTES:
                        file.close()
                        file = next(places).open("wb")
                        file.write(head)
                        counts.append(0)
                        size = 0
                    file.write(row)
                    counts[-1] += 1
                    size += len(row)
    finally:
        file.close()
    return counts


def read_chunk(path: Path, names: Sequence[str], kinds: Sequence[str]) -> pa.Table:
    """The rows of a CSV file with a header, an empty cell without quotes being NULL.

    Raises:
        pyarrow.ArrowInvalid: A cell does not fit its column's type, or a row has other columns.
        ModelError: The header is another.
    """
    places = [f"c{place}" for place in range(len(names))]
    data = path.read_bytes()
    head = ",".join('"' + name.replace('"', '""') + '"' for name in names).encode() + b"\n"
    if not data.startswith(head):
        raise ModelError("the file's first line does not name the table's columns.")
    types = [arrow_type(kind) for kind in kinds]
    if len(data) == len(head):
        return pa.table([pa.array([], kind) for kind in types], list(names))
    found = csv.read_csv(
        pa.BufferReader(pa.py_buffer(data).slice(len(head))),
        csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=places),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict(zip(places, types, strict=True)),
            null_values=[""],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return found.rename_columns(list(names))


def settle_kinds(paths: Iterable[Path], names: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """The kinds that hold for every value of all files: where one does not fit, text.

    Raises:
        ModelError: A file cannot be read even so.
    """
    settled = list(kinds)
    for path in paths:
        while True:
            try:
                read_chunk(path, names, settled)
                break
            except pa.ArrowInvalid as error:
                found = _BROKEN.search(str(error))
                if found is None or settled[int(found[1])] == "text":
                    raise ModelError(f"{path.name} cannot be read again.") from None
                settled[int(found[1])] = "text"
    return settled


def write_parquet(source: Path, target: Path, names: Sequence[str], kinds: Sequence[str]) -> None:
    """Write the rows of a CSV file as Parquet."""
    papq.write_table(read_chunk(source, names, kinds), target, compression="zstd")


def where_sequences_stand(
    connection: Connection, names: Iterable[tuple[str, str]]
) -> list[tuple[str, str, int, bool]]:
    """Schema, name, last value and whether it was given out, of each sequence.

    Raises:
        DatabaseError: The server refused.
    """
    found = []
    with database_errors("reading sequences"):
        for schema, name in names:
            statement = sql.SQL("SELECT last_value, is_called FROM {}")
            row = connection.execute(statement.format(sql.Identifier(schema, name))).fetchone()
            if row is None:
                raise psycopg.DataError("a sequence without a row")
            found.append((schema, name, int(row[0]), bool(row[1])))
    return found
