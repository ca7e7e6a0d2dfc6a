"""Rows of a table as batches, as one reader of a snapshot sees them.

The server gathers the values that some pages have in a column into one text, so that a few long
answers arrive: to take in a message for every row costs more than all else that is done with it.
Rows come by COPY where that cannot be: from partitioned tables, which have no pages themselves; of
values that lie outside of the pages, which may be large; of texts in which a mark occurs.
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import LiteralString

import psycopg
import pyarrow as pa
from psycopg import errors, pq, sql

from privbench.postgres.arrow import BETWEEN, NULL, batch_of, batch_of_columns, column_types
from privbench.postgres.connect import SELECT, Connection
from privbench.postgres.failures import database_errors
from privbench.schema import Table
from privbench.threads import ahead

#: What a reader selects: an expression, and the name its column gets.
Expression = tuple[sql.Composable, str]
#: The first page of some, and one past the last; None for all that follow.
Pages = tuple[int, int | None]

#: Bytes of a batch for each of its pages: a compressed value may be many times as long as stored,
#: and no text of PostgreSQL has more than 1 GB.
_PAGE = 1 << 16
#: Before this version PostgreSQL scans a whole table for some of its pages.
_SCANS_PAGES = 140000
_GATHERED = sql.SQL("pg_catalog.string_agg(coalesce(({})::pg_catalog.text, {}), {})")
_MARKS = (sql.Literal(NULL.decode()), sql.Literal(BETWEEN.decode()))
_SIZE: LiteralString = """
SELECT pg_catalog.pg_relation_size(c.oid)
    / pg_catalog.current_setting('block_size')::pg_catalog.int8,
  CASE c.reltoastrelid WHEN 0 THEN 0
    ELSE pg_catalog.pg_relation_size(c.reltoastrelid::pg_catalog.regclass) END
FROM pg_catalog.pg_class c WHERE c.oid = %s::pg_catalog.regclass
"""


def stream(
    reader: Connection,
    table: Table,
    expressions: Sequence[Expression],
    batch_bytes: int,
    pages: Pages = (0, None),
) -> Iterator[pa.RecordBatch]:
    """Batches of a table's rows in the order they lie in, at least one.

    Args:
        reader: A connection of the snapshot that nothing else uses meanwhile.
        table: The table, which is locked.
        expressions: What to select, with the names of the batch's columns.
        batch_bytes: About how large a batch is to be.
        pages: Which pages to read.

    Raises:
        DatabaseError: The server refused, or bytes are no UTF-8 text.
    """
    names = [name for _, name in expressions]
    chosen = [expression for expression, _ in expressions]
    with database_errors("reading rows", table.key):
        found = column_types(reader, _select(table, chosen, pages))
        types = [kind or pa.string() for kind in found]
        seen = False
        for answer in ahead(_Reading(reader, table, chosen, found).answers(pages, batch_bytes)):
            seen = True
            if isinstance(answer, bytes):
                yield batch_of(answer, types, names, table.key)
            else:
                yield batch_of_columns(answer, types, names, table.key)
        if not seen:
            yield batch_of(b"", types, names, table.key)


def size_of(connection: Connection, table: Table) -> tuple[int, int]:
    """Pages of a table, and bytes of its values that lie outside of them.

    They decide how rows are read, by `COPY` or as texts and how many at a time, and nothing else:
    the same rows come in the same order.

    Raises:
        DatabaseError: The server refused.
    """
    name = sql.Identifier(table.name.schema, table.name.name).as_string(None)
    with database_errors("asking for the size of a table", table.key):
        row = connection.execute(_SIZE, [name]).fetchone()
    return (int(row[0]), int(row[1])) if row else (0, 0)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What is read of a table, with the types of its columns as `column_types` gives them."""

    reader: Connection
    table: Table
    chosen: Sequence[sql.Composable]
    types: Sequence[pa.DataType | None]

    def answers(self, pages: Pages, batch_bytes: int) -> Iterator[bytes | list[bytes]]:
        """Rows as CSV, or a text of all values for each column."""
        parts = self._parts(pages, batch_bytes)
        if not parts:
            yield from _blocks(self.reader, _select(self.table, self.chosen, pages), batch_bytes)
        for part in parts:
            columns = self._gathered(part)
            if columns is None:
                statement = _select(self.table, self.chosen, part)
                yield from _blocks(self.reader, statement, batch_bytes)
            elif columns:
                yield columns

    def _parts(self, pages: Pages, batch_bytes: int) -> list[Pages]:
        """The pages whose values are gathered at a time; none where rows have to come by COPY."""
        if self.table.kind == "p" or None in self.types:
            return []
        size, outside = size_of(self.reader, self.table)
        if outside and pa.string() in self.types:
            return []
        first, last = pages
        end = size if last is None else last
        step = max(batch_bytes // _PAGE, 1)
        parts = [*pairwise([*range(first, max(end, first + 1), step), last])]
        scans = len(parts) > 1 and self.reader.info.server_version < _SCANS_PAGES
        return [] if scans else parts

    def _gathered(self, pages: Pages) -> list[bytes] | None:
        """A text of all values for each column, none without rows; None if values hold marks."""
        asked: list[sql.Composable] = [sql.SQL("pg_catalog.count(*)")]
        for item, kind in zip(self.chosen, self.types, strict=True):
            # Only texts can hold a mark: one NULL too many tells of theirs.
            counted = item if kind == pa.string() else sql.SQL("*")
            asked.append(_GATHERED.format(item, *_MARKS))
            asked.append(sql.SQL("pg_catalog.count({})").format(counted))
        with self.reader.cursor() as cursor:
            cursor.execute(sql.Composed([_select(self.table, asked, pages)]))
            answer = cursor.pgresult
            assert answer is not None
            rows, *found = [answer.get_value(0, place) or b"" for place in range(len(asked))]
        texts, counts = found[::2], found[1::2]
        if not int(rows):
            return []
        for text, count, kind in zip(texts, counts, self.types, strict=True):
            nulls = text.count(NULL) if kind == pa.string() else 0
            if text.count(BETWEEN) != int(rows) - 1 or nulls != int(rows) - int(count):
                return None
        return texts


def source(table: Table) -> sql.Composable:
    """A table without those that inherit from it, or a partitioned one as a whole."""
    name = sql.Identifier(table.name.schema, table.name.name)
    return name if table.kind == "p" else sql.SQL("ONLY {}").format(name)


def _select(table: Table, expressions: Sequence[sql.Composable], pages: Pages) -> sql.Composable:
    # PostgreSQL would cut long names off, so the server sees short ones.
    columns = [
        sql.SQL("{} AS {}").format(expression, sql.Identifier(f"c{position}"))
        for position, expression in enumerate(expressions)
    ]
    rows = SELECT + sql.SQL("{} FROM {}").format(sql.SQL(", ").join(columns), source(table))
    ends = (("ctid >= '({},0)'", pages[0] or None), ("ctid < '({},0)'", pages[1]))
    held = [sql.SQL(text).format(sql.Literal(page)) for text, page in ends if page is not None]
    return sql.SQL(" WHERE ").join([rows, sql.SQL(" AND ").join(held)]) if held else rows


def _blocks(connection: Connection, statement: sql.Composable, batch_bytes: int) -> Iterator[bytes]:
    """Whole rows as CSV, gathered into blocks.

    The server sends each row as a message. They are taken from libpq itself, which costs a quarter
    of a microsecond a row; psycopg's own loop costs three times that.
    """
    command = sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(statement)
    server = connection.pgconn
    server.send_query_params(command.as_bytes(connection), None)
    _result(connection, pq.ExecStatus.COPY_OUT)
    rows, size = [], 0
    while True:
        length, row = server.get_copy_data(1)
        if length > 0:
            rows.append(bytes(row))
            size += length
            if size < batch_bytes:
                continue
        elif length == 0:
            wait(server)
            continue
        if rows:
            yield b"".join(rows)
            rows, size = [], 0
        if length < 0:
            break
    _result(connection, pq.ExecStatus.COMMAND_OK)


def _result(connection: Connection, status: pq.ExecStatus) -> None:
    """The next result, which has this status.

    Raises:
        psycopg.Error: It is an error.
    """
    server = connection.pgconn
    server.flush()
    while server.is_busy():
        wait(server)
    result = server.get_result()
    if result is None or result.status != status:
        raise errors.error_from_result(result) if result else psycopg.OperationalError()
    if status == pq.ExecStatus.COMMAND_OK:
        server.get_result()


def wait(server: pq.abc.PGconn) -> None:
    """Take in what the server sends next; threads go on meanwhile, interruptions are heard.

    Raises:
        psycopg.OperationalError: The connection was lost.
    """
    arrivals = select.poll()
    arrivals.register(server.socket, select.POLLIN)
    # A signal that arrives just before the call does not end it: its handler runs after a second.
    arrivals.poll(1000)
    server.consume_input()
