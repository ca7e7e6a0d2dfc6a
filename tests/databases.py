"""Databases for the tests: those that a test made for itself are emptied for the next one.

``CREATE DATABASE`` copies hundreds of files and waits for checkpoints, which takes a second on a
busy machine; to drop what a test made takes a few milliseconds.
"""

import contextlib
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg import conninfo, sql
from sql_files import sql_of

from privbench.postgres.embedded import Server

_serial = itertools.count()

#: What must be as it was before anything is dropped: settings and owners of the database, other
#: sessions, and what would run code when something is dropped.
_OUTSIDE = sql_of(__file__, "database_outside")
#: What must be as it was in the end: numbers of objects, schemas, rights and comments.
_INSIDE = sql_of(__file__, "database_inside")
#: The schema public itself stays: pg_dump knows whether it is the one that a new database has.
_EMPTY = sql_of(__file__, "database_empty")
#: Nothing that a test left behind is called by an unqualified name, or waited for.
_SAFELY = "-c search_path=pg_catalog -c lock_timeout=1s -c client_min_messages=error"


def admin(server: Server, statement: str, name: str) -> None:
    """Run a statement on a database from outside."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(name)))


@dataclass(eq=False)
class Databases:
    """Databases of this process.

    Attributes:
        scopes: Scopes of the fixtures that are being set up, the innermost last.
    """

    scopes: list[str] = field(default_factory=list)
    _made: list[tuple[Server, str]] = field(default_factory=list)
    _lent: list[tuple[str, Server, str]] = field(default_factory=list)
    _free: list[tuple[Server, str]] = field(default_factory=list)
    _new: dict[str, tuple[str, str]] = field(default_factory=dict)

    def make(
        self, server: Server, name: str | None = None, *, keep: bool = False, statements: str = ""
    ) -> str:
        """DSN of a database of what the statements make.

        By name, or to keep until the end, it is always a new one.
        """
        if name or keep or not (dsn := self._emptied(server)):
            dsn = self._create(server, name or f"test_{os.getpid()}_{next(_serial)}")
        if not name and not keep:
            self._lent.append((self.scopes[-1] if self.scopes else "function", server, dsn))
        if statements:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(statements.encode())
        return dsn

    def _create(self, server: Server, name: str) -> str:
        # A copy of files is quicker than a log of them, where nothing is synced to the disk.
        quick = " STRATEGY file_copy" if server.program is not None and server.major >= 15 else ""
        admin(server, f"CREATE DATABASE {{}} TEMPLATE template0{quick}", name)
        self._made.append((server, name))
        return conninfo.make_conninfo(server.dsn, dbname=name)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
        """What a fixture makes is used for as long as the fixture is."""
        self.scopes.append(fixturedef.scope)
        try:
            return (yield)
        finally:
            self.scopes.pop()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        """Databases of a test, and those of a file after its last test, are for others."""
        yield
        last = nextitem is None or nextitem.path != item.path
        scopes = {"function", *(("class", "module") if last else ())}
        self._free += [(server, dsn) for scope, server, dsn in self._lent if scope in scopes]
        self._lent = [lent for lent in self._lent if lent[0] not in scopes]

    def _emptied(self, server: Server) -> str | None:
        """A database that is as a new one, if there is one; what cannot be emptied is let go."""
        if server.dsn not in self._new:
            pattern = self._create(server, f"test_{os.getpid()}_{next(_serial)}")
            with psycopg.connect(pattern, options=_SAFELY) as connection:
                self._new[server.dsn] = _state(connection, _OUTSIDE), _state(connection, _INSIDE)
            return pattern
        for at in [at for at, (of, _) in enumerate(self._free) if of is server][::-1]:
            _, dsn = self._free.pop(at)
            with (
                contextlib.suppress(psycopg.Error),
                psycopg.connect(dsn, options=_SAFELY, autocommit=True) as connection,
            ):
                outside, inside = self._new[server.dsn]
                if _state(connection, _OUTSIDE) == outside:
                    connection.execute(_EMPTY)
                    if _state(connection, _INSIDE) == inside:
                        return dsn
        return None

    def drop(self) -> None:
        """Drop what is on servers of others."""
        for server, name in self._made:
            # Servers of our own are stopped, and their files go: each DROP DATABASE is a
            # checkpoint. A stopped or broken server has nothing to drop.
            if server.program is None:
                with contextlib.suppress(psycopg.Error):
                    admin(server, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def _state(connection: psycopg.Connection, query: str) -> str:
    (found,) = connection.execute(query.encode()).fetchone() or ("",)
    return str(found)
