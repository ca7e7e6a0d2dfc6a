"""Transactions of a load, all with the same settings and checks.

A load has one transaction, and in a resumable load a further one for each part of a large table
(`privbench.postgres.load_mark`).
"""

import contextlib
from collections.abc import Callable
from typing import Any, LiteralString, Self

import psycopg

from privbench.errors import TargetError
from privbench.postgres import target
from privbench.postgres.connect import connect
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
    # Rows whose commit is not on disk yet are not marked visible by the VACUUM that follows.
    "synchronous_commit": "on",
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


class TargetTransaction:
    """A connection to a target, in a transaction; changes that are not committed are undone.

    If a role is given, every transaction runs as this role (`target.become`).
    """

    def __init__(self, dsn: str, role: str | None = None) -> None:
        self._role = role
        self.connection = connect(dsn, lock_timeout=WAIT.get())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Roll back an open transaction, and disconnect."""
        with contextlib.suppress(psycopg.Error):
            self.connection.rollback()
        self.connection.close()

    def begin(self, first: Callable[[], None] = lambda: None) -> None:
        """Begin and prepare a transaction, before any text of the model runs in it.

        ``first`` is called before the role is taken (`target.become`).
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
        """Commit; raise a TargetError if the transaction, its settings or its role were changed."""
        with database_errors("committing the load"):
            self._require(self._began)
            self.connection.commit()

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
