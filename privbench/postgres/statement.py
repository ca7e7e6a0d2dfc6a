"""How a load speaks to its target: one statement a message, so that no text can bring a second."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import abc
from psycopg.rows import TupleRow

from privbench.postgres.connect import Connection


def run(
    connection: Connection, statement: abc.Query, values: abc.Params | None = None
) -> psycopg.Cursor[TupleRow]:
    """Run one statement by the extended protocol, which takes one at a time.

    Everything that a load sends goes by here: ``COMMIT;`` within a text is an error of syntax.

    Args:
        connection: To the target.
        statement: One statement. Without values a % sign in it stands for itself.
        values: Its parameters.

    Raises:
        psycopg.Error: The server refused, also what holds several statements.
    """
    # Asking for binary results is what makes psycopg use the extended protocol.
    query: Any = statement
    return connection.execute(query, values, binary=True)
