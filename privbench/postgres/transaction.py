"""Transactions of a load, all with the same settings and checks.

A load has one transaction, or one for each of its steps (`privbench.postgres.load_mark`).
"""

import contextlib
from collections.abc import Iterator
from typing import Any, LiteralString, Self

import psycopg

from privbench.errors import TargetError
from privbench.postgres import target
from privbench.postgres.connect import Connection, connect
from privbench.postgres.failures import database_errors
from privbench.postgres.reading import TEXTS, WAIT, assignment
from privbench.postgres.statement import run

_SETTINGS = {
    # Under others the server might find other statements or values in a text.
    **TEXTS,
    "search_path": "",
    "check_function_bodies": "off",
    "client_min_messages": "warning",
    "row_security": "off",
    # pg_dump sets it once for all statements after it; here several sessions run these.
    "default_tablespace": "",
    # Compiling a query on the catalog takes a hundred times as long as running it.
    "jit": "off",
    # Rows whose commit is not on disk yet are not marked visible by the VACUUM that follows.
    "synchronous_commit": "on",
    # Repairs number rows as they are read: from the first page on, even if another scan broke off.
    "synchronize_seqscans": "off",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
#: The state that no text of a model may change: the transaction, the settings by which texts are
#: parsed, the role, and whether there is a temporary schema, whose objects would hide the system's.
_STATE: LiteralString = """
SELECT pg_catalog.txid_current(), pg_catalog.current_setting('search_path'),
  pg_catalog.current_setting('standard_conforming_strings'),
  pg_catalog.current_setting('backslash_quote'), pg_catalog.current_setting('client_encoding'),
  current_user, pg_catalog.pg_my_temp_schema()
"""
#: The first server version in which a session can flush its statistics.
_FLUSHES = 150_000


class TargetTransaction:
    """A connection to a target, in a transaction; changes that are not committed are undone.

    If a role is given, every transaction runs as this role (`target.become`).
    """

    def __init__(self, dsn: str, role: str | None = None) -> None:
        self._role = role
        self.connection = connect(dsn, lock_timeout=WAIT.get())
        # Under a stricter default of the role or the database, a transaction would not see what
        # the other ones of its load have committed since it began.
        self.connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Roll back an open transaction, and disconnect."""
        with contextlib.suppress(psycopg.Error):
            self.connection.rollback()
        self.connection.close()

    def begin(self) -> None:
        """Begin and prepare a transaction, before any text of the model runs in it."""
        with database_errors("preparing the target"):
            for name, value in _SETTINGS.items():
                run(self.connection, assignment(name, value))
        self._enter()
        if self._role is not None:
            target.become(self.connection, self._role)
        with database_errors("reading the settings"):
            self._began = self._state()

    def commit(self) -> None:
        """Commit; raise a TargetError if the transaction, its settings or its role were changed."""
        with database_errors("committing the load"):
            self._require(self._began)
            self.connection.commit()

    def _enter(self) -> None:
        """Prepare every transaction, before the role is taken; subclasses say how."""

    @contextlib.contextmanager
    def keeping(self) -> Iterator[None]:
        """A context for the model's DDL, which must not change transaction, settings or role.

        Raises a TargetError if it does, or makes temporary objects.
        """
        before = self._state()
        yield
        self._require(before)
        if self._state()[-1] != before[-1]:
            raise TargetError(
                "the model's DDL makes temporary objects, which could stand in for the system's.",
                remedy="Trust nothing that this model has made.",
            )

    def _state(self) -> tuple[Any, ...]:
        (state,) = run(self.connection, _STATE).fetchall()
        return state

    def _require(self, state: tuple[Any, ...]) -> None:
        """Refuse to continue in another transaction, or under other settings or another role."""
        if self._state()[:-1] != state[:-1]:
            raise TargetError(
                "something in the model's DDL has left the transaction of the load, its settings "
                "or its role: nothing in the target can be relied on.",
                remedy="Drop the target, and trust nothing that this model has made.",
            )


def flush_statistics(connection: Connection) -> None:
    """Have the server count what the transaction changes when it ends, and not up to 10 s later.

    A later count than that of an ANALYZE or VACUUM would have autovacuum do these again.
    """
    if connection.info.server_version >= _FLUSHES:
        run(connection, "SELECT pg_catalog.pg_stat_force_next_flush()")
