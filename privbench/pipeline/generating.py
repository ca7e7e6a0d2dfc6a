"""``workload generate``: from a source, for its owner's eyes, or from a model, for anyone's."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from privbench.pipeline.decode import CloneTable, decode
from privbench.pipeline.load import check_scale
from privbench.pipeline.model import Model
from privbench.pipeline.progress import Reporter
from privbench.postgres.connect import connect
from privbench.postgres.introspect import introspect
from privbench.workload import KINDS, Plan, Workload, generate_from_source, generate_from_tables


def generate_workload(
    source: str,
    kind: str,
    plan: Plan | None = None,
    *,
    clone: str | None = None,
    scale: float = 1.0,
    schemas: Sequence[str] = ("public",),
    timeout: float = 20.0,
    reporter: Reporter | None = None,
) -> Workload:
    """Make a workload from a database or from a model.

    Of a database it is CONFIDENTIAL: literals and answers are those of its rows. Of a model it
    holds what the model's synthetic rows hold, and no row of the source is read.

    Args:
        source: A model file, or else a DSN.
        kind: One of `privbench.workload.KINDS`.
        plan: What it is to be like; the kind's own where not given.
        clone: DSN of a clone whose answers a workload of a model states; nobody can tell a clone
            from its source here, so naming the source would publish its answers.
        scale: Size of the sample of a model that literals come from.
        schemas: PostgreSQL schemas of the database.
        timeout: Seconds; queries that take longer are left out.
        reporter: Told of stages.

    Returns:
        The workload. The same source, plan and seed give the same one.

    Raises:
        UsageError: The plan or the schema allows no query, or none with an answer was found.
        ModelError: The model is damaged.
        ConnectionFailed: The database is unreachable.
    """
    teller = reporter or Reporter()
    plan = plan or KINDS[kind].plan
    if not Path(source).is_file():
        with teller.stage("generate"), connect(source) as connection:
            schema = introspect(connection, tuple(schemas))
            return generate_from_source(connection, kind, schema, plan, timeout)
    check_scale(scale)
    with teller.stage("sample"):
        model = Model.load(source)
        tables = {
            item.table.key: _columns(item) for item in decode(model, scale=scale, seed=plan.seed)
        }
    with teller.stage("generate"), ExitStack() as stack:
        on_clone = stack.enter_context(connect(clone)) if clone else None
        made = generate_from_tables(
            tables, kind, model.schema, plan, clone=on_clone, timeout=timeout
        )
    return replace(made, confidential=not model.promise.private)


def _columns(item: CloneTable) -> dict[str, pa.ChunkedArray]:
    """The columns by name; several may differ only in what Arrow folds."""
    batches = list(item.batches())
    if not batches:
        return {name: pa.chunked_array([], pa.string()) for name in item.columns}
    whole = pa.concat_tables(batches, promote_options="permissive")
    return {name: whole.column(place) for place, name in enumerate(item.columns)}
