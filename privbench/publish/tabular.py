"""Write rows as files, chunk by chunk: CSV as PostgreSQL prints it, and Parquet with types.

The Parquet file of a chunk is made from its CSV file, so that both hold the same rows. A column
whose values do not all fit its Arrow type (``infinity``, a year before Christ) is text.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as papq
from psycopg import sql

from privbench.errors import ModelError
from privbench.pipeline.sampling import arrow_type, kind_of
from privbench.postgres.connect import Connection
from privbench.postgres.csvtext import read_csv, stops_psql
from privbench.postgres.failures import database_errors
from privbench.schema import Column, Table, quoted

#: Most rows and most bytes of a file. Twice as many would need twice the memory to read a file;
#: half as many would give twice the number of files.
CHUNK_ROWS, CHUNK_BYTES = 250_000, 128 * 2**20

_BROKEN = re.compile(r"column #(\d+)")


def copy_out(
    connection: Connection, table: Table, columns: Sequence[str], folder: Path
) -> list[int]:
    """Write columns of a table as CSV files with headers; returns the number of rows of each file.

    The files are ``00001.csv`` and so on, at least one. There must be at least one column, and the
    connection must have settings with which every server prints values alike.
    """
    listed = sql.SQL(", ").join(sql.Identifier(name) for name in columns)
    named = sql.Identifier(table.name.schema, table.name.name)
    statement = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv)").format(listed, named)
    counts: list[int] = []
    with (
        database_errors("reading rows", table.key),
        connection.cursor() as cursor,
        cursor.copy(statement) as copy,
    ):
        # Each message of the protocol is one row.
        rows = iter(copy)
        row = next(rows, None)
        while row is not None or not counts:
            counts.append(0)
            with (folder / f"{len(counts):05d}.csv").open("wb") as file:
                file.write(_head(columns))
                while row is not None and counts[-1] < CHUNK_ROWS and file.tell() < CHUNK_BYTES:
                    file.write(row)
                    counts[-1] += 1
                    row = next(rows, None)
    return counts


def _head(names: Sequence[str]) -> bytes:
    return ",".join(map(quoted, names)).encode() + b"\n"


def read_chunk(path: Path, names: Sequence[str], kinds: Sequence[str]) -> pa.Table:
    """Read the rows of a CSV file with a header; an empty cell without quotes is NULL.

    pyarrow.ArrowInvalid is raised if a cell does not fit its column's type, or a row has another
    number of columns; a ModelError if the header differs, or psql may read other rows.
    """
    data, head = path.read_bytes(), _head(names)
    types = [arrow_type(kind) for kind in kinds]
    if not data.startswith(head):
        raise ModelError(f"the first line of {path.name} does not name the table's columns.")
    if b"\0" in data or stops_psql(data):
        raise ModelError(
            f"{path.name} has a text with the line \\., which psql before version 18 takes for the "
            "end of the rows, or with a NUL."
        )
    if len(data) == len(head):
        return pa.table([pa.array([], kind) for kind in types], list(names))
    rows = read_csv(pa.py_buffer(data).slice(len(head)), types)
    return rows.rename_columns(list(names))


def write_parquet(files: Sequence[Path], columns: Sequence[Column]) -> list[str]:
    """Write a Parquet file beside every CSV file of a table.

    Returns the type of every column; a column with a value that does not fit its type is text.
    """
    names, kinds = [column.name for column in columns], [kind_of(column) for column in columns]
    for path in files:
        while True:
            try:
                read_chunk(path, names, kinds)
                break
            except pa.ArrowInvalid as error:
                match = _BROKEN.search(str(error))
                if match is None or kinds[int(match[1])] == "text":
                    raise ModelError(f"{path.name} cannot be read again.") from None
                kinds[int(match[1])] = "text"
    for path in files:
        chunk = read_chunk(path, names, kinds)
        papq.write_table(chunk, path.with_suffix(".parquet"), compression="zstd")
    return kinds
