"""``workload rebind``: a workload with the literals of synthetic rows."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from privbench.errors import UsageError
from privbench.pipeline.generating import sampled_tables
from privbench.pipeline.model import Model
from privbench.postgres.connect import Connection, connect, same_database
from privbench.postgres.introspect import introspect
from privbench.workload import read
from privbench.workload.generators.database import DatabaseRows
from privbench.workload.generators.memory import MemoryRows, MemoryTables
from privbench.workload.rebind import Planner, Rebinding, SourceRanks
from privbench.workload.rebind import rebind as rebind_workload


def rebind(
    workload: str | Path,
    *,
    model: str | Path | None = None,
    on: str | None = None,
    match: str | None = None,
    seed: int = 0,
) -> Rebinding:
    """Replace the literals of a workload by values of synthetic rows.

    Args:
        workload: A file or folder in any known format.
        model: The model to draw rows from; where a clone is given too, rows are the clone's.
        on: The clone: its rows give the literals and its server checks the queries.
        match: The source: literals keep the rank that they have there. CONFIDENTIAL.
        seed: Of the draws.

    Raises:
        UsageError: Neither model nor clone is given, the clone is the source, or no query of the
            workload can be bound.
        ModelError: The model is damaged.
        DatabaseError: A server refused.
    """
    queries = read(workload)
    with ExitStack() as stack:
        clone = stack.enter_context(_reading(on)) if on is not None else None
        source = stack.enter_context(_reading(match)) if match is not None else None
        if clone is not None and source is not None and same_database(clone, source):
            raise UsageError("the clone and the database to match are one and the same.")
        ranks = SourceRanks(source) if source is not None else None
        if clone is not None:
            return rebind_workload(
                queries,
                introspect(clone),
                DatabaseRows(clone, seed),
                seed=seed,
                ranks=ranks,
                planner=Planner(clone),
            )
        if model is None:
            raise UsageError(
                "new literals need rows to come from.",
                remedy="Give --model MODEL, or --on with the DSN of the clone.",
            )
        found = Model.load(model)
        rows = MemoryRows(MemoryTables(sampled_tables(found, seed=seed)), seed)
        made = rebind_workload(queries, found.schema, rows, seed=seed, ranks=ranks)
        seeded = not found.promise.private
        stamped = replace(made.workload, confidential=made.workload.confidential or seeded)
        return replace(made, workload=stamped)


def _reading(dsn: str) -> Connection:
    connection = connect(dsn, autocommit=True, statement_timeout=600)
    connection.execute("SET default_transaction_read_only = on")
    return connection
