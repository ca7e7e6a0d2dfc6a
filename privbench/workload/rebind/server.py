"""What the clone's server says of a query: types of its parameters, and whether it would run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import psycopg
from psycopg import pq

from privbench.postgres.connect import Connection
from privbench.postgres.failures import describe
from privbench.postgres.reading import assignment, users_path

Found = TypeVar("Found")


class Planner:
    """Asks a server about queries without running them.

    Args:
        connection: To the clone; only read.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._path = users_path(connection)

    def types(self, text: str) -> list[str]:
        """The types of ``$1``, ``$2``, … as the server infers them; none where it cannot."""
        try:
            oids = self._safely(lambda: self._described(text))
        except psycopg.Error:
            return []
        found = self._connection.execute(
            "SELECT pg_catalog.format_type(o.oid, NULL)"
            " FROM pg_catalog.unnest(%s::pg_catalog.oid[]) WITH ORDINALITY AS o(oid, place)"
            " ORDER BY o.place",
            [oids],
        )
        return [str(name) for (name,) in found.fetchall()]

    def fault(self, text: str) -> str | None:
        """Why the server would not run a query, in words that hold no literal; None if it would."""
        try:
            self._safely(lambda: self._connection.execute(f"EXPLAIN {text}".encode()))
        except psycopg.Error as error:
            return describe(error)
        return None

    def _described(self, text: str) -> list[int]:
        """The parameters' types of the statement, prepared without a name that would stay."""
        server = self._connection.pgconn
        for result in (server.prepare(b"", text.encode()), server.describe_prepared(b"")):
            if result.status != pq.ExecStatus.COMMAND_OK:
                raise psycopg.errors.error_from_result(result)
        return [result.param_type(place) for place in range(result.nparams)]

    def _safely(self, ask: Callable[[], Found]) -> Found:
        with self._connection.transaction(force_rollback=True):
            self._connection.execute(assignment("search_path", self._path))
            return ask()
