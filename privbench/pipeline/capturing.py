"""``workload capture``: what a server ran."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from privbench.errors import UsageError
from privbench.postgres.reading import reading
from privbench.workload.capture import Capture, capture_logs, capture_statements


def capture(
    dsn: str | None = None,
    *,
    logs: Sequence[str | Path] = (),
    prefix: str | None = None,
    database: str | None = None,
    samples: int = 1,
    seed: int = 0,
) -> Capture:
    """Capture a workload from pg_stat_statements or from logs; reads no table of users.

    Args:
        dsn: The database whose statements are wanted; without logs.
        logs: Log files; without a DSN.
        prefix: ``log_line_prefix`` of plain logs; by default common ones are tried.
        database: Only statements of this database, of logs.
        samples: How many executions of a text become queries, of logs.
        seed: Decides which executions.

    Returns:
        The workload: CONFIDENTIAL, its literals are those of the server's users.

    Raises:
        UsageError: Neither or both of DSN and logs are given, or there is no query.
        AccessDenied: A right is missing.
        DatabaseError: The server refused.
    """
    if (dsn is None) == (not logs):
        raise UsageError(
            "a workload is captured from a database or from logs.",
            remedy="Give either a DSN or --log FILE, one or more times.",
        )
    if samples < 1:
        raise UsageError("--samples must be at least 1.")
    if dsn is None:
        return capture_logs(logs, prefix=prefix, database=database, samples=samples, seed=seed)
    with reading(dsn) as connection:
        return capture_statements(connection)
