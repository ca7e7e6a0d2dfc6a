"""Read the rows of a table as batches, by COPY in CSV, on one connection of a snapshot.

The text form is used, not the binary one: it needs no knowledge of types beyond numbers and
booleans, so no query about types is sent to the server, and the output function of each type
prints its values.
"""

import re
import select
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import psycopg
import pyarrow as pa
from psycopg import errors, pq, sql

from privbench.domain import PublicValues
from privbench.errors import DatabaseError
from privbench.postgres.connect import SELECT, Connection
from privbench.postgres.csvtext import read_csv
from privbench.postgres.failures import NO_TEXT, database_errors
from privbench.postgres.packed import packed, packing
from privbench.postgres.statement import build, source
from privbench.schema import Table
from privbench.threads import ahead

#: An expression to select, and the name of its column.
SelectItem = tuple[sql.Composable, str]

#: Arrow types by the OID of the PostgreSQL type, which is the same on every server.
_TYPES: Mapping[int, pa.DataType] = MappingProxyType(
    {
        16: pa.bool_(),
        20: pa.int64(),
        21: pa.int16(),
        23: pa.int32(),
        700: pa.float32(),
        701: pa.float64(),
    }
)
_UNREADABLE = re.compile(r"column #(\d+)")


def stream(
    reader: Connection,
    table: Table,
    expressions: Sequence[SelectItem],
    batch_bytes: int,
    pages: tuple[int, int | None] = (0, None),
    known: Mapping[str, PublicValues] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield batches, at least one, of the rows of a locked table in physical order.

    Args:
        reader: A connection of the snapshot that nothing else uses meanwhile.
        table: The table.
        expressions: SQL expressions to select, with the names of the batch's columns.
        batch_bytes: About how large a batch is to be.
        pages: Which pages to read.
        known: What is publicly known of the values of some expressions, by name. Rows may then be
            sent packed: as dictionaries, or in batches of another size (see
            `privbench.postgres.packed`).

    Raises:
        DatabaseError: The server refused, or bytes are no UTF-8 text.
    """
    names = [name for _, name in expressions]
    statement = _select(table, [expression for expression, _ in expressions], pages)
    with database_errors("reading rows", table.key):
        types = _types(reader, statement)
        if known is not None and table.kind == "r":
            form = packing(reader, expressions, types, known)
            if form is not None:
                yield from ahead(packed(reader, form, source(table), names, pages))
                return
        block = None
        for block in ahead(_blocks(reader, statement, batch_bytes)):
            yield _batch(block, types, names, table.key)
        if block is None:
            yield _batch(b"", types, names, table.key)


def _types(connection: Connection, statement: sql.Composable) -> list[pa.DataType]:
    """The Arrow types of the columns of a SELECT; types that Arrow lacks are read as text."""
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("{} LIMIT 0").format(statement))
        return [_TYPES.get(column.type_code, pa.string()) for column in cursor.description or ()]


def _batch(
    block: bytes, types: Sequence[pa.DataType], names: Sequence[str], table: str
) -> pa.RecordBatch:
    """Whole rows of ``COPY … (FORMAT csv)`` as a batch; a cell without quotes and text is NULL.

    Bytes that are no UTF-8 text, as a database in SQL_ASCII can hold, are a DatabaseError. Names
    are those of a reader, which begin with the name of the table's column.
    """
    if not block:
        return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in types], list(names))
    try:
        read = read_csv(pa.py_buffer(block), types)
    except pa.ArrowInvalid as error:
        match = _UNREADABLE.search(str(error))
        raise DatabaseError(
            "rows hold bytes that are no UTF-8 text.",
            table=table,
            column=names[int(match[1])] if match else None,
            remedy=NO_TEXT,
        ) from None
    (batch,) = read.combine_chunks().to_batches()
    return pa.RecordBatch.from_arrays(batch.columns, list(names))


def _select(
    table: Table, expressions: Sequence[sql.Composable], pages: tuple[int, int | None]
) -> sql.Composable:
    # PostgreSQL truncates long names, so the server gets short ones.
    columns = [build("{} AS {}", item, f"c{place}") for place, item in enumerate(expressions)]
    rows = build("{}{} FROM {}", SELECT, columns, source(table))
    ends = (("ctid >= '({},0)'", pages[0] or None), ("ctid < '({},0)'", pages[1]))
    conditions = [
        sql.SQL(text).format(sql.Literal(page)) for text, page in ends if page is not None
    ]
    return (
        sql.SQL(" WHERE ").join([rows, sql.SQL(" AND ").join(conditions)]) if conditions else rows
    )


def _blocks(connection: Connection, statement: sql.Composable, batch_bytes: int) -> Iterator[bytes]:
    """Whole rows as CSV, gathered into blocks."""
    command = sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(statement)
    server = connection.pgconn
    server.send_query_params(command.as_bytes(connection), None)
    _result(connection, pq.ExecStatus.COPY_OUT)
    block = bytearray()
    # Handling one message per row takes 0.13 µs here: twice as long if each becomes an object that
    # is kept, and six times as long in psycopg.
    while True:
        length, row = server.get_copy_data(1)
        if length > 0:
            block += row
            if len(block) < batch_bytes:
                continue
        elif length == 0:
            _wait(server)
            continue
        if block:
            yield block
            block = bytearray()
        if length < 0:
            break
    _result(connection, pq.ExecStatus.COMMAND_OK)


def _result(connection: Connection, status: pq.ExecStatus) -> None:
    """Take the next result; a psycopg.Error unless it has this status."""
    server = connection.pgconn
    result = next_result(server)
    if result is None or result.status != status:
        raise errors.error_from_result(result) if result else psycopg.OperationalError()
    if status == pq.ExecStatus.COMMAND_OK:
        server.get_result()


def next_result(server: pq.abc.PGconn) -> pq.abc.PGresult | None:
    """Wait for the next result; an interruption ends the wait."""
    server.flush()
    while server.is_busy():
        _wait(server)
    return server.get_result()


def _wait(server: pq.abc.PGconn) -> None:
    """Wait for data of the server; other threads run meanwhile; an interruption ends the wait."""
    arrivals = select.poll()
    arrivals.register(server.socket, select.POLLIN)
    # A signal just before the call does not end it, so its handler runs after a second at most.
    arrivals.poll(1000)
    server.consume_input()
