"""A session on one database of a replay: its settings, and one timed run.

A run's time is measured on the client with a monotonic clock, from sending the query to having
received its last row: what an application waits for, network and result transfer included. Rows
arrive in libpq's chunks and are counted there; none becomes a Python object, and the client's
memory stays bounded. A server-side cursor was not chosen because it changes what is measured:
PostgreSQL plans cursors for the first rows and never in parallel.
"""

import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import errors, pq, sql

from privbench.errors import DatabaseError, UsageError
from privbench.options import ReplayOptions
from privbench.postgres.failures import database_errors, describe
from privbench.postgres.load_mark import refuse_unfinished
from privbench.postgres.reading import VALUES, assignment, begin, reading, users_path
from privbench.postgres.stream import next_result
from privbench.workload import questions
from privbench.workload.questions import ask
from privbench.workload.results import QueryAnswer, Side

#: Session settings that affect plans, results or their text. They are read from the first side and
#: set on every side.
ALIGNED = (
    "search_path", "TimeZone", "DateStyle", "IntervalStyle", "extra_float_digits",
    "work_mem", "hash_mem_multiplier", "temp_buffers", "effective_cache_size",
    "seq_page_cost", "random_page_cost", "cpu_tuple_cost", "cpu_index_tuple_cost",
    "cpu_operator_cost", "parallel_setup_cost", "parallel_tuple_cost",
    "min_parallel_table_scan_size", "min_parallel_index_scan_size",
    "max_parallel_workers_per_gather", "max_parallel_workers",
    "from_collapse_limit", "join_collapse_limit", "geqo", "geqo_threshold", "geqo_effort",
    "constraint_exclusion", "cursor_tuple_fraction", "plan_cache_mode", "row_security",
    "jit", "jit_above_cost", "jit_inline_above_cost", "jit_optimize_above_cost",
    "enable_bitmapscan", "enable_gathermerge", "enable_hashagg", "enable_hashjoin",
    "enable_incremental_sort", "enable_indexonlyscan", "enable_indexscan", "enable_material",
    "enable_memoize", "enable_mergejoin", "enable_nestloop", "enable_parallel_append",
    "enable_parallel_hash", "enable_partition_pruning", "enable_partitionwise_aggregate",
    "enable_partitionwise_join", "enable_seqscan", "enable_sort", "enable_tidscan",
)  # fmt: skip

#: Settings of the server that a session cannot change; they are recorded for the report.
RECORDED = (
    "server_version", "shared_buffers", "max_worker_processes", "block_size", "io_method",
    "effective_io_concurrency", "huge_pages", "data_checksums", "server_encoding",
)  # fmt: skip

#: Most rows of a result that are fetched.
MOST_ROWS = 1_000_000

_INTEGERS = {20, 21, 23}
#: Rows that are in memory at a time: a row may have megabytes. Narrow rows take a tenth longer than
#: by thousands, and half as long as one by one.
_CHUNK = 16
_TIMEOUT = "57014"


def _run_command(command: str, side: str) -> None:
    """Run the user's command before a run."""
    try:
        # The user's own command, without a shell.
        process = subprocess.run(  # noqa: S603
            shlex.split(command),
            env={**os.environ, "PRIVBENCH_SIDE": side},
            capture_output=True,
            check=False,
        )
    except (OSError, ValueError, IndexError):
        raise UsageError(f"the command before a run, {command!r}, cannot be run.") from None
    if process.returncode:
        raise UsageError(
            f"the command before a run, {command!r}, ended with exit code {process.returncode} on"
            f" the {side}."
        )


class ReplaySession:
    """A connection of its own on which queries are timed."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.connection = reading(dsn)
        refuse_unfinished(self.connection)
        # Queries of users read and print values under the database's own settings.
        with database_errors("asking for settings"):
            query = (
                "SELECT s.name, s.reset_val FROM pg_catalog.pg_settings s"
                " WHERE pg_catalog.lower(s.name) = ANY(%s::pg_catalog.text[])"
            )
            settings = self.connection.execute(query, [list(VALUES)]).fetchall()
        self._own: Mapping[str, str] = dict(settings)
        self._aligned: Mapping[str, str] = self._own

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def prepare(self, options: ReplayOptions, side: str) -> None:
        """Take the steps that come before a run, in the order of the options."""
        if options.command is not None:
            _run_command(options.command, side)
        if options.cold:
            self.close()
            self.connection = reading(self.dsn)
        if options.statement:
            with database_errors(f"the statement before a run on the {side}"):
                self._before(options.statement)

    def _before(self, statement: str) -> None:
        """``DISCARD ALL`` is refused in a transaction; all else runs in one, rolled back."""
        alone = statement.strip(" ;\n").upper().split() == ["DISCARD", "ALL"]
        begin(self.connection, self._aligned)
        if alone:
            self._rollback()
        self.connection.autocommit = alone
        try:
            self.connection.execute(statement.encode())
        finally:
            self._rollback()
            self.connection.autocommit = False

    def settings(self, names: tuple[str, ...]) -> dict[str, str]:
        """Return the present values of those settings that the server knows."""
        with self._begun():
            rows = self.connection.execute(
                "SELECT s.name, pg_catalog.current_setting(s.name) FROM pg_catalog.pg_settings s"
                " WHERE s.name = ANY(%s::pg_catalog.text[])",
                [list(names)],
            )
            values = dict(rows.fetchall())
            if "search_path" in values:
                values["search_path"] = users_path(self.connection)
            return values

    def align(self, settings: Mapping[str, str], timeout: float) -> None:
        """Apply the settings, including a search path, and the time-out to every run."""
        with self._begun():
            for name, value in settings.items():
                try:
                    self.connection.execute(assignment(name, value))
                except psycopg.Error:
                    raise DatabaseError(
                        f"the server refuses the setting {name} = {value}.",
                        remedy="Both sides must run with the same settings.",
                    ) from None
        limits = {"statement_timeout": str(max(1, round(timeout * 1000))), "lock_timeout": "0"}
        self._aligned = {**self._own, **settings, **limits}

    def describe(self) -> Side:
        """Return name, version, fixed settings and role of the database."""
        with self._begun():
            (row,) = ask(self.connection, questions.SIDE)
        fixed = self.settings(RECORDED)
        return Side(row.database, row.version, fixed, row.catalog, row.role, tuple(row.powers))

    def run(self, text: str) -> QueryAnswer:
        """Execute a query once in a READ ONLY transaction; a run that failed is timed as well."""
        with self._begun(self._aligned):
            return self._timed(text)

    def explain(self, text: str) -> Any:
        """Return the query's EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON).

        None if it fails or is too deep.
        """
        statement = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {}").format(sql.SQL(text))
        try:
            with self._begun(self._aligned), self.connection.cursor(binary=True) as cursor:
                row = cursor.execute(statement).fetchone()
            plan = row[0] if row else None
            return json.loads(plan) if isinstance(plan, str) else plan
        except (psycopg.Error, RecursionError):
            return None

    @contextmanager
    def _begun(self, settings: Mapping[str, str] | None = None) -> Iterator[None]:
        """A READ ONLY transaction that is rolled back."""
        try:
            begin(self.connection, settings or self._own)
            yield
        finally:
            self._rollback()

    def _rollback(self) -> None:
        if not self.connection.closed:
            self.connection.rollback()

    def _timed(self, text: str) -> QueryAnswer:
        server = self.connection.pgconn
        begin = time.perf_counter()
        try:
            server.send_query_params(text.encode(self.connection.info.encoding), None)
            server.set_chunked_rows_mode(_CHUNK)
            run = self._fetched(server)
        except KeyboardInterrupt:
            # Results that still arrive are dropped: a cancellation may reach the server too late.
            with suppress(psycopg.Error):
                self.connection.cancel_safe(timeout=10)
            self.connection.close()
            raise
        return replace(run, seconds=(time.perf_counter() - begin,))

    def _fetched(self, server: pq.abc.PGconn) -> QueryAnswer:
        """Fetch a result to its end or to the row limit."""
        rows, number, truncated, failure = 0, None, False, None
        while (result := next_result(server)) is not None:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                failure = errors.error_from_result(result)
                continue
            if rows == 0 and result.ntuples == 1:
                number = _integer(result)
            rows += result.ntuples
            result.clear()
            if rows > MOST_ROWS and not truncated:
                truncated = True
                self.connection.cancel_safe(timeout=10)
        # The cancellation at the row limit is no error.
        if failure is None or truncated:
            single = rows == 1 and number is not None
            return QueryAnswer("ok", number if single else rows, truncated=truncated)
        code = failure.sqlstate or "08000"
        return QueryAnswer(
            "timeout" if code == _TIMEOUT else "error", error=code, message=describe(failure)
        )


def _integer(result: pq.abc.PGresult) -> int | None:
    """The number of a single integer cell."""
    if result.nfields != 1 or result.ftype(0) not in _INTEGERS:
        return None
    value = result.get_value(0, 0)
    return None if value is None else int(value)


def summarise(runs: list[QueryAnswer], warmup: int, plan: Any = None) -> QueryAnswer:
    """Join the runs of one query on one database; the first ``warmup`` runs are not timed."""
    return replace(
        runs[-1],
        rows=next((run.rows for run in runs if run.status == "ok"), None),
        seconds=tuple(run.seconds[0] for run in runs[warmup:] if run.status == "ok"),
        truncated=any(run.truncated for run in runs),
        plan=plan,
    )
