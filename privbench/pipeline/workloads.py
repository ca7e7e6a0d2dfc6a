"""The commands ``workload generate``, ``capture`` and ``rebind``.

Queries come from a database, a model, or logs. Workloads made from a model may be published; all
others are for the data's owner alone.
"""

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from privbench.config import Config
from privbench.errors import UsageError
from privbench.options import CaptureOptions, with_fields_of
from privbench.pipeline.accounts import ledgers_of
from privbench.pipeline.computed import texts
from privbench.pipeline.decode import CloneTable, decode
from privbench.pipeline.load import check_scale
from privbench.pipeline.model import Model
from privbench.pipeline.progress import Reporter
from privbench.postgres.introspect import introspect
from privbench.postgres.load_mark import refuse_unfinished
from privbench.postgres.reading import ROWS, reading
from privbench.report.section_plugins import Modelled
from privbench.schema import Schema
from privbench.synthesizers import get as find_synthesizer
from privbench.workload import (
    Plan,
    Workload,
    generate_from_source,
    generate_from_tables,
    kinds,
    read,
)
from privbench.workload.capture import Capture, capture_logs, capture_statements
from privbench.workload.database import refuse_computing
from privbench.workload.generators.rows import DatabaseRows, MemoryRows, RowSource
from privbench.workload.rebind import Planner, Rebinding
from privbench.workload.rebind import rebind as rebind_workload
from privbench.workload.safety import NONE, Trust


@with_fields_of(CaptureOptions)
def capture(
    dsn: str | None = None, *, logs: Sequence[str | Path] = (), options: CaptureOptions
) -> Capture:
    """Capture a workload from pg_stat_statements of a DSN, or from logs; reads no table of users.

    The workload is CONFIDENTIAL, since its literals are those of the server's users. The options,
    given by name, are those of `capture_logs`.
    """
    if (dsn is None) == (not logs):
        raise UsageError(
            "a workload is captured from a database or from logs.",
            remedy="Give either a DSN or --log FILE, one or more times.",
        )
    if dsn is None:
        return capture_logs(logs, options=options)
    if options != CaptureOptions():
        raise UsageError(
            "pg_stat_statements holds neither the values of statements nor sessions.",
            remedy="Capture logs (--log FILE), or leave the options of logs out.",
        )
    with reading(dsn) as connection:
        return capture_statements(connection)


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
    """Make a workload from a database or from a model; source, plan and seed determine it.

    A workload from a database is CONFIDENTIAL: its literals and answers come from private rows. A
    workload from a model holds only values of synthetic rows, and no row of the source is read. A
    UsageError is raised if plan and schema allow no query with an answer.

    Args:
        source: A model file, or else a DSN.
        kind: One of `privbench.workload.kinds`.
        plan: The plan of the workload; None means the default plan of the kind.
        clone: DSN of a clone whose answers a workload from a model states. If `ledgers_of` finds
            ledgers of it, it may be the source, and the workload is CONFIDENTIAL.
        scale: Size of the sample of the model from which literals are taken.
        schemas: PostgreSQL schemas of the database.
        only: Tables to query; all where none is named.
        timeout: Seconds; queries that take longer are left out.
        ledger: Directory of the ledgers; None means the user's state directory.
        reporter: Receives progress.
    """
    teller = reporter or Reporter()
    plan = plan or kinds()[kind].plan
    if not Path(source).is_file():
        if clone:
            raise UsageError(
                "answers of a clone can be stated only in a workload that is made from a model.",
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
        if on_clone is not None:
            refuse_unfinished(on_clone)
        fitted = on_clone is not None and bool(ledgers_of(on_clone, ledger))
        generated = generate_from_tables(
            tables, kind, _some(model.schema, only), plan, clone=on_clone, timeout=timeout
        )
    return replace(generated, confidential=fitted or not model.promise.private)


def sampled_tables(
    model: Model, *, scale: float = 1.0, seed: int | None = None
) -> dict[str, dict[str, pa.ChunkedArray]]:
    """Return synthetic rows of a model, the columns of each table by name."""
    computed = texts(Config.model_validate(model.config))
    return {
        item.table.key: _columns(item.without(computed.get(item.table.key, ())))
        for item in decode(model, scale=scale, seed=seed)
    }


def _some(schema: Schema, only: Sequence[str]) -> Schema:
    if not only:
        return schema
    names = {schema.table(name).name for name in only}
    return replace(schema, tables=tuple(table for table in schema if table.name in names))


def _columns(item: CloneTable) -> dict[str, pa.ChunkedArray]:
    """The columns of a table by name.

    They are taken by position, since Arrow may treat different names as equal.
    """
    batches = list(item.batches())
    if not batches:
        return {name: pa.chunked_array([], pa.string()) for name in item.columns}
    whole = pa.concat_tables(batches, promote_options="permissive")
    return {name: whole.column(place) for place, name in enumerate(item.columns)}


#: Milliseconds that a query for ranks or rows may take.
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

    The rows are those of a clone if `on` gives its DSN, and the clone's server then checks the new
    queries; otherwise they are drawn from the model. The result is CONFIDENTIAL if the model, and
    thus any clone of it, is NOT PRIVATE. It is also CONFIDENTIAL if `ledgers_of` finds ledgers of
    the clone, which may then be the source itself. `trust` names functions that queries may call
    in addition to the listed ones. A UsageError is raised if no query can be bound.
    """
    if model is None and on is None:
        raise UsageError(
            "new literals are taken from synthetic rows, and none are given.",
            remedy="Give --model MODEL, or --on with the DSN of the clone.",
        )
    queries = workload if isinstance(workload, Workload) else read(workload)
    loaded = Model.load(model) if model is not None else None
    secret = loaded is not None and not loaded.promise.private
    with ExitStack() as stack:
        clone = stack.enter_context(reading(on, _LIMIT)) if on is not None else None
        if clone is not None:
            secret = secret or bool(ledgers_of(clone, ledger))
            schema, planner = introspect(clone), Planner(clone)
            refuse_computing(clone, [table.name for table in schema], checks=True)
            rows: RowSource = DatabaseRows(clone, seed)
        elif loaded is not None:
            schema, planner = loaded.schema, None
            rows = MemoryRows(sampled_tables(loaded, seed=seed), seed)
        rebinding = rebind_workload(queries, schema, rows, seed=seed, planner=planner, trust=trust)
    return replace(rebinding, workload=replace(rebinding.workload, confidential=secret))


def modelled(path: str | Path) -> Modelled:
    """Read a model file for a comparison, whose sections may show it."""
    model = Model.load(path)
    fitted = find_synthesizer(model.synthesizer).load(model.state, model.arrays)
    codecs = {key: columns.codecs for key, columns in model.tables.items()}
    with Path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    promise = model.promise.sentence()
    return Modelled(digest, model.synthesizer, promise, fitted, codecs)
