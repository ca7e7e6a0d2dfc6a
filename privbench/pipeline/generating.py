"""``workload generate``: from a source, for its owner's eyes, or from a model, for anyone's."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from privbench.errors import UsageError
from privbench.pipeline.accounts import has_releases
from privbench.pipeline.decode import CloneTable, decode
from privbench.pipeline.load import check_scale
from privbench.pipeline.model import Model
from privbench.pipeline.progress import Reporter
from privbench.postgres.introspect import introspect
from privbench.postgres.reading import ROWS, reading
from privbench.schema import Schema
from privbench.workload import KINDS, Plan, Workload, generate_from_source, generate_from_tables
from privbench.workload.database import refuse_computing


def generate_workload(
    source: str,
    kind: str,
    plan: Plan | None = None,
    *,
    clone: str | None = None,
    scale: float = 1.0,
    schemas: Sequence[str] = ("public",),
    only: Sequence[str] = (),
    timeout: float = 20.0,
    ledger: str | None = None,
    reporter: Reporter | None = None,
) -> Workload:
    """Make a workload from a database or from a model.

    Of a database it is CONFIDENTIAL: literals and answers are those of its rows. Of a model it
    holds what the model's synthetic rows hold, and no row of the source is read.

    Args:
        source: A model file, or else a DSN.
        kind: One of `privbench.workload.KINDS`.
        plan: What it is to be like; the kind's own where not given.
        clone: DSN of a clone whose answers a workload of a model states. Where it has releases in
            the ledger it may be the source, and the workload is CONFIDENTIAL. A source that was
            never fitted, or whose ledger lies elsewhere, looks like any clone.
        scale: Size of the sample of a model that literals come from.
        schemas: PostgreSQL schemas of the database.
        only: Tables to query; all where none is named.
        timeout: Seconds; queries that take longer are left out.
        ledger: Directory of the ledgers; None means the user's state directory.
        reporter: Told of stages.

    Returns:
        The workload. The same source, plan and seed give the same one.

    Raises:
        UsageError: The plan or the schema allows no query, none with an answer was found, or a
            clone is given with a database.
        SchemaError: There is no table of that name.
        ModelError: The model is damaged.
        LedgerError: The clone's ledger is damaged.
        ConnectionFailed: The database is unreachable.
    """
    teller = reporter or Reporter()
    plan = plan or KINDS[kind].plan
    if not Path(source).is_file():
        if clone:
            raise UsageError(
                "answers of a clone go with a workload of a model.",
                remedy="Name a model file, or leave the clone out.",
            )
        with teller.stage("generate"), reading(source, ROWS) as connection:
            schema = _some(introspect(connection, tuple(schemas)), only)
            refuse_computing(connection, [table.name for table in schema])
            return generate_from_source(connection, kind, schema, plan, timeout)
    check_scale(scale)
    with teller.stage("sample"):
        model = Model.load(source)
        tables = sampled_tables(model, scale=scale, seed=plan.seed)
    with teller.stage("generate"), ExitStack() as stack:
        on_clone = stack.enter_context(reading(clone, ROWS)) if clone else None
        fitted = on_clone is not None and has_releases(on_clone, ledger)
        made = generate_from_tables(
            tables, kind, _some(model.schema, only), plan, clone=on_clone, timeout=timeout
        )
    return replace(made, confidential=fitted or not model.promise.private)


def sampled_tables(
    model: Model, *, scale: float = 1.0, seed: int | None = None
) -> dict[str, dict[str, pa.ChunkedArray]]:
    """Synthetic rows of a model, the columns of each table by name.

    Raises:
        ModelError: The model is damaged.
    """
    return {item.table.key: _columns(item) for item in decode(model, scale=scale, seed=seed)}


def _some(schema: Schema, only: Sequence[str]) -> Schema:
    if not only:
        return schema
    kept = {schema.table(name).name for name in only}
    return replace(schema, tables=tuple(table for table in schema if table.name in kept))


def _columns(item: CloneTable) -> dict[str, pa.ChunkedArray]:
    """The columns by name; several may differ only in what Arrow folds."""
    batches = list(item.batches())
    if not batches:
        return {name: pa.chunked_array([], pa.string()) for name in item.columns}
    whole = pa.concat_tables(batches, promote_options="permissive")
    return {name: whole.column(place) for place, name in enumerate(item.columns)}
