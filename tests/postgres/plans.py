"""What tests of sources and clones share: statements, questions, and what a load has to know."""

import socket
from typing import Any

import pytest
from market import ask

from privbench.postgres.connect import connect
from privbench.postgres.ddl import Ddl, dump_ddl
from privbench.postgres.introspect import introspect
from privbench.postgres.load import Loader
from privbench.schema import Schema


def plan(dsn: str, **choice: Any) -> tuple[Schema, Ddl]:
    """What is known of a source: the first arguments of a load."""
    with connect(dsn) as connection:
        schema = introspect(connection, **choice)
        return schema, dump_ddl(connection, schema)


def load(target: str, plan: tuple[Schema, Ddl], *, rows: Any = None, **options: Any) -> Loader:
    """Load a plan, with tables of rows by name."""
    with Loader(target, *plan, **options) as loader:
        for name, table in (rows or {}).items():
            loader.copy_table(name, table.column_names, table.to_batches(max_chunksize=2))
        loader.finish()
    return loader


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def offered_by(server: Any, *names: str) -> str:
    """The first extension of these that a server offers."""
    known = {name for (name,) in ask(server.dsn, "SELECT name FROM pg_available_extensions")}
    found = next((name for name in names if name in known), None)
    return found or pytest.skip("this server has no extension to try")
