"""What tests of sources and clones share: statements, questions, and what a load has to know."""

import socket

import pytest
from market import ask

from privbench.postgres.connect import connect
from privbench.postgres.ddl import dump_ddl
from privbench.postgres.introspect import introspect
from privbench.postgres.load import Loader


def plan(dsn, **choice):
    """What is known of a source: the first arguments of a load."""
    with connect(dsn) as connection:
        schema = introspect(connection, **choice)
        return schema, dump_ddl(connection, schema)


def load(target, plan, *, rows=None, **options):
    """Load a plan, with tables of rows by name."""
    with Loader(target, *plan, **options) as loader:
        for name, table in (rows or {}).items():
            loader.copy_table(name, table.column_names, table.to_batches(max_chunksize=2))
        loader.finish()
    return loader


def free_port():
    """A port of this machine that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def offered_by(server, *names):
    """The first extension of these that a server offers."""
    known = {name for (name,) in ask(server.dsn, "SELECT name FROM pg_available_extensions")}
    found = next((name for name in names if name in known), None)
    return found or pytest.skip("this server has no extension to try")
