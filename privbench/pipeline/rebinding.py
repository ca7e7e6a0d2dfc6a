"""``workload rebind`` and ``compare --rebind``: workloads with other literals."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from privbench.errors import UsageError
from privbench.pipeline.accounts import has_releases
from privbench.pipeline.generating import sampled_tables
from privbench.pipeline.model import Model
from privbench.postgres.connect import same_database
from privbench.postgres.introspect import introspect
from privbench.postgres.reading import PRINTING, ROWS, reading
from privbench.workload import Workload, read
from privbench.workload.database import refuse_computing
from privbench.workload.generators.database import DatabaseRows
from privbench.workload.generators.memory import MemoryRows, MemoryTables
from privbench.workload.generators.rows import RowSource
from privbench.workload.rebind import Partners, Planner, Rebinding, by_rank
from privbench.workload.rebind import rebind as rebind_workload
from privbench.workload.safety import NONE, Trust

#: Milliseconds that a question about ranks or rows may take.
_LIMIT = {"statement_timeout": "600000"}


def rebind(
    workload: str | Path | Workload,
    *,
    model: str | Path | None = None,
    on: str | None = None,
    seed: int = 0,
    ledger: str | None = None,
    trust: Trust = NONE,
) -> Rebinding:
    """Replace the literals of a workload by values of synthetic rows.

    It is CONFIDENTIAL where the model is NOT PRIVATE (so are clones of it), and where the clone has
    releases in a ledger: it may be the source itself. A source that was never fitted, or whose
    ledger lies elsewhere, looks like any clone.

    Args:
        workload: A file or folder in any known format, or what was read of one.
        model: The model to draw rows from; where a clone is given too, rows are the clone's.
        on: The clone: its rows give the literals and its server checks the queries.
        seed: Of the draws.
        ledger: Directory of the ledgers; None means the user's state directory.
        trust: What the operator vouches for, of what the queries would run.

    Raises:
        UsageError: Neither model nor clone is given, or no query of the workload can be bound.
        ModelError: The model is damaged.
        LedgerError: The clone's ledger is damaged.
        DatabaseError: A server refused.
    """
    if model is None and on is None:
        raise UsageError(
            "new literals need rows to come from.",
            remedy="Give --model MODEL, or --on with the DSN of the clone.",
        )
    queries = workload if isinstance(workload, Workload) else read(workload)
    found = Model.load(model) if model is not None else None
    secret = found is not None and not found.promise.private
    with ExitStack() as stack:
        clone = stack.enter_context(reading(on, PRINTING | _LIMIT)) if on is not None else None
        if clone is not None:
            secret = secret or has_releases(clone, ledger)
            schema, planner = introspect(clone), Planner(clone)
            refuse_computing(clone, [table.name for table in schema], checks=True)
            rows: RowSource = DatabaseRows(clone, seed)
        elif found is not None:
            schema, planner = found.schema, None
            rows = MemoryRows(MemoryTables(sampled_tables(found, seed=seed)), seed)
        made = rebind_workload(queries, schema, rows, seed=seed, planner=planner, trust=trust)
    return replace(made, workload=replace(made.workload, confidential=secret))


def rebind_by_rank(workload: Workload, source: str, clone: str) -> Workload:
    """The queries that name texts which the clone lacks, with those of the same rank instead.

    Reads how often every text of these columns occurs in the source: CONFIDENTIAL.

    Args:
        workload: The queries as written.
        source: DSN of the source; only read.
        clone: DSN of the clone; only read.

    Raises:
        UsageError: Both are one database.
        DatabaseError: A server refused.
    """
    with reading(source, ROWS | _LIMIT) as here, reading(clone, ROWS | _LIMIT) as there:
        if same_database(here, there):
            raise UsageError("the clone and the source are one and the same.")
        schema = introspect(here)
        for side, tables in ((here, schema), (there, introspect(there))):
            refuse_computing(side, [table.name for table in tables])
        return by_rank(workload, schema, Partners(here, there))
