"""What the clone's server says of a query: types of its parameters, and whether it would run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import psycopg

from privbench.postgres.connect import Connection
from privbench.postgres.failures import describe

Found = TypeVar("Found")

_NAME = "privbench_types"


class Planner:
    """Asks a server about queries without running them.

    Args:
        connection: To the clone, in autocommit mode.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def types(self, text: str) -> list[str]:
        """The types of ``$1``, ``$2``, … as the server infers them; none where it cannot."""

        def asked() -> list[str]:
            self._connection.execute(f"PREPARE {_NAME} AS {text}".encode())
            row = self._connection.execute(
                "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = %s",
                [_NAME],
            ).fetchone()
            self._connection.execute(f"DEALLOCATE {_NAME}".encode())
            return list(row[0]) if row else []

        try:
            return self._safely(asked)
        except psycopg.Error:
            return []

    def fault(self, text: str) -> str | None:
        """Why the server would not run a query, in words that hold no literal; None if it would."""
        try:
            self._safely(lambda: self._connection.execute(f"EXPLAIN {text}".encode()))
        except psycopg.Error as error:
            return describe(error)
        return None

    def _safely(self, ask: Callable[[], Found]) -> Found:
        with self._connection.transaction(force_rollback=True):
            self._connection.execute("SET TRANSACTION READ ONLY")
            return ask()
