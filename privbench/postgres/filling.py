"""Transactions that fill a target, and how they are prepared.

A load is one of them, or several: then every part of a large table is copied in a transaction of
its own (`privbench.postgres.unfinished`). Each is prepared here, whoever opens it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, LiteralString, Self

import psycopg

from privbench.errors import TargetError
from privbench.pgsql import SETTINGS
from privbench.postgres import target
from privbench.postgres.connect import connect
from privbench.postgres.failures import database_errors
from privbench.postgres.reading import PRINTING, WAIT, assignment
from privbench.postgres.statement import run

_SETTINGS = {
    **PRINTING,
    # How the server reads a text: with other settings it could see other statements in it.
    **SETTINGS,
    "search_path": "",
    "check_function_bodies": "off",
    "client_min_messages": "warning",
    "xmloption": "content",
    "row_security": "off",
    # Rows whose commit is not on disk yet are not marked visible by the VACUUM that follows.
    "synchronous_commit": "on",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
#: What no text of a model may change: the transaction, how texts are read, the role, and whether
#: there are temporary objects, which would come before the system's own of the same name.
_STATE: LiteralString = """
SELECT pg_catalog.txid_current(), pg_catalog.current_setting('search_path'),
  pg_catalog.current_setting('standard_conforming_strings'),
  pg_catalog.current_setting('backslash_quote'), pg_catalog.current_setting('client_encoding'),
  current_user, pg_catalog.pg_my_temp_schema()
"""


class Filling:
    """A connection to a target, in a transaction; what is not committed is undone.

    In every transaction it goes on as a role, if one is given (`target.become`).
    """

    def __init__(self, dsn: str, role: str | None = None) -> None:
        self._role = role
        self.connection = connect(dsn, lock_timeout=WAIT.get())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Undo what is not finished, and disconnect."""
        with contextlib.suppress(psycopg.Error):
            self.connection.rollback()
        self.connection.close()

    def begin(self, first: Callable[[], None] = lambda: None) -> None:
        """Prepare a transaction; nothing of the model's has run in it yet.

        Something may have to be done first, before the role is taken (`target.become`).
        """
        with database_errors("preparing the target"):
            for name, value in _SETTINGS.items():
                run(self.connection, assignment(name, value))
        first()
        if self._role is not None:
            target.become(self.connection, self._role)
        with database_errors("reading the settings"):
            self._began = self._state()

    def commit(self) -> None:
        """Commit; TargetError if something has left the transaction, its settings or its role."""
        with database_errors("committing the load"):
            self._require(self._began)
            self.connection.commit()

    def _state(self) -> tuple[Any, ...]:
        (state,) = run(self.connection, _STATE).fetchall()
        return state

    def _require(self, state: tuple[Any, ...]) -> None:
        """Refuse to go on in another transaction, or under other settings or another role."""
        if self._state()[:-1] != state[:-1]:
            raise TargetError(
                "something in the model's DDL has left the transaction of the load, its settings "
                "or its role: nothing in the target can be relied on.",
                remedy="Drop the target, and trust nothing that this model has made.",
            )
