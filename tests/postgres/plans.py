"""What tests of sources and clones share: statements, questions, and what a load has to know."""

from __future__ import annotations

from typing import Any

from privbench.postgres.connect import connect
from privbench.postgres.ddl import Ddl, dump_ddl
from privbench.postgres.introspect import introspect
from privbench.schema import Schema


def script(dsn: str, text: str) -> str:
    """Run statements in a database; its DSN."""
    with connect(dsn, autocommit=True) as connection:
        connection.execute(text.encode())
    return dsn


def ask(dsn: str, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    with connect(dsn, autocommit=True) as connection:
        found = connection.execute(query.encode())
        return found.fetchall() if found.description else []


def plan(dsn: str, **choice: Any) -> tuple[Schema, Ddl]:
    """What is known of a source: the first arguments of a load."""
    with connect(dsn) as connection:
        schema = introspect(connection, **choice)
        return schema, dump_ddl(connection, schema)
