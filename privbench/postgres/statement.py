"""Build and send the SQL of a load; each message holds one statement, whatever texts are in it."""

from collections.abc import Iterable
from typing import Any, LiteralString, TypeAlias

import psycopg
from psycopg import abc, sql
from psycopg.rows import TupleRow

from privbench.postgres.connect import Connection
from privbench.schema import Table, TableName

#: A value that takes the place of a field of a template.
StatementPart: TypeAlias = (
    "sql.Composable | TableName | str | int | float | Iterable[StatementPart]"
)


def build(template: LiteralString, *parts: StatementPart, **named: StatementPart) -> sql.Composed:
    """Return the SQL of a template: names are quoted, numbers are literals, several parts a list.

    >>> build("SELECT {} FROM {} LIMIT {}", ["a", "b c"], TableName("s", "t"), 7).as_string(None)
    'SELECT "a", "b c" FROM "s"."t" LIMIT 7'
    """
    composed = {name: _made(part) for name, part in named.items()}
    return sql.SQL(template).format(*map(_made, parts), **composed)


def own_rows(name: TableName, *, whole: bool) -> sql.Composed:
    """Return a table for a FROM clause, without the rows of the tables that inherit from it.

    A partitioned table (``whole``) keeps the rows of its partitions.
    """
    return build("{}" if whole else "ONLY {}", name)


def source(table: Table) -> sql.Composed:
    """Return a table of the schema for a FROM clause, see `own_rows`."""
    return own_rows(table.name, whole=table.kind == "p")


def _made(part: StatementPart) -> sql.Composable:
    match part:
        case sql.Composable():
            return part
        case TableName():
            return sql.Identifier(part.schema, part.name)
        case str():
            return sql.Identifier(part)
        case int() | float():
            return sql.Literal(part)
    return sql.SQL(", ").join(map(_made, part))


def run(
    connection: Connection, statement: abc.Query, values: abc.Params | None = None
) -> psycopg.Cursor[TupleRow]:
    """Run one statement by the extended protocol, which takes one at a time; errors are psycopg's.

    A load sends its statements through this function: ``COMMIT;`` within a text is a syntax error.
    Without values a % sign in the statement stands for itself.
    """
    # Asking for binary results is what makes psycopg use the extended protocol.
    query: Any = statement
    return connection.execute(query, values, binary=True)
