"""Compare a clone with its source: replay a workload on both, measure, and report."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from privbench.config import Config
from privbench.display import json_visible
from privbench.errors import UsageError
from privbench.files import file_errors, make_folder, write_text
from privbench.options import CompareOptions, with_fields_of
from privbench.report import baseline as earlier
from privbench.report import figures, html, query_parts
from privbench.report import junit as junit_xml
from privbench.report.document import (
    ComparisonDocument,
    ModelPart,
    QueryPart,
    SidePart,
    WorkloadPart,
)
from privbench.report.gates import Gate, parse
from privbench.report.headlines import markdown
from privbench.report.measuring import measure, schema_of
from privbench.report.section_plugins import Modelled
from privbench.schema import Schema
from privbench.workload import Replay, Workload, read, replay
from privbench.workload.replay import ReplayProgress, silent
from privbench.workload.results import ReplayLog


def _write(document: ComparisonDocument, folder: Path | None, junit: str | Path | None) -> None:
    """Write comparison.json, report.html and report.md into the folder, and JUnit XML if requested.

    The files are CONFIDENTIAL, so only their owner may read them. Each appears complete or not at
    all. Afterwards the log of the replay is marked done.
    """
    if folder is not None:
        _put(folder / "comparison.json", json_visible(document.model_dump_json(indent=1)) + "\n")
        _put(folder / "report.html", html.render(document))
        _put(folder / "report.md", markdown(document))
        ReplayLog.finish(folder / "replay.jsonl")
    if junit is not None:
        _put(Path(junit), junit_xml.render(document))


def _put(path: Path, text: str) -> None:
    with file_errors(f"cannot write {path}"):
        write_text(path, text)


@with_fields_of(CompareOptions)
def compare(
    source_dsn: str,
    target_dsn: str,
    workload: Workload | str | Path | None,
    config: Config | None = None,
    out_dir: str | Path | None = None,
    gates: Sequence[str] = (),
    *,
    model: Modelled | None = None,
    tell: ReplayProgress = silent,
    stage: Callable[[str], AbstractContextManager[Any]] = nullcontext,
    options: CompareOptions,
) -> ComparisonDocument:
    """Run a workload on source and clone, measure how close they are, and write the report.

    The result is CONFIDENTIAL: it holds exact figures of the source (P1), and no release may
    depend on it (P2). Both databases are only read. A comparison that was broken off goes on where
    it stopped when it is started again with the same ``out_dir``. A failed gate raises nothing
    here: see `ComparisonDocument.failed` and `privbench.report.gates.enforce`.

    Without a workload the rows alone are compared. The config names the schemas, public tables and
    public bins. The report and the replay's log go to ``out_dir``. The options are given by name.

    * ``gates``: conditions under which the comparison fails, as ``qerror.p95 > 5``.
    * ``model``: the released model that the clone was made from, which sections may show.
    * ``tell`` is called for every query that was run and every table that is read or compared,
      ``stage`` entered by the name of each stage, as that of a `Reporter`.

    Raises:
        UsageError: A gate, the workload, the baseline, the config or the model is wrong.
        DatabaseError: A database refused.
    """
    conditions = parse(gates)
    queries = workload or Workload("none", ())
    if not isinstance(queries, Workload):
        queries = read(queries)
    old = earlier.read(options.baseline) if options.baseline is not None else None
    if old is not None:
        earlier.require_same(old, queries, options.other_workload)
    folder = None if out_dir is None else Path(out_dir)
    if folder is not None:
        with file_errors(f"cannot make the folder {folder}"):
            make_folder(folder)
    left_out = _left_out(len(queries), options)
    with stage("read the schema"):
        schema = schema_of(source_dsn, config)
    _check_gates(conditions, schema, left_out, old is not None)
    if model is not None:
        _check_model(model, schema)
    dsns = {query_parts.SOURCE: source_dsn, query_parts.CLONE: target_dsn}
    with stage("replay"):
        log = folder and folder / "replay.jsonl"
        ran = replay(queries, dsns, tell=tell, log=log, finish=False, options=options)
        answered = query_parts.queries(ran.workload, ran)
    with stage("measure"):
        measured = measure(
            source_dsn,
            target_dsn,
            config,
            answered,
            model,
            distributions=options.distributions,
            tell=tell,
        )
    document = _document(queries, answered, ran, measured, model)
    if old is not None:
        drift = earlier.drift(old, document)
        named = {**document.figures, **earlier.ratios(drift)}
        document = document.model_copy(update={"figures": named, "drift": drift})
    checked = [gate.check(document.figures, document.queries) for gate in conditions]
    document = document.model_copy(update={"gates": checked})
    _write(document, folder, options.junit)
    return document


def _left_out(queries: int, options: CompareOptions) -> tuple[str, ...]:
    """Prefixes of the names of figures that this comparison does not measure."""
    replayed = ("qerror.", "runtime.", "replay.", "work.", "plan.")
    return (
        *(() if queries else replayed),
        *(() if options.floor else ("runtime.floor.", "runtime.beyond_floor", "replay.unstable")),
        *(() if options.explain else ("work.", "plan.")),
        *(() if options.distributions else ("kld.", "tvd.", "values.")),
    )


def _check_gates(
    conditions: Iterable[Gate], schema: Schema, left_out: tuple[str, ...], drift: bool
) -> None:
    """Refuse an unknown figure before the long work, not after it."""
    known = figures.names((table.key for table in schema), left_out)
    if drift:
        known |= earlier.names(known)
    for gate in conditions:
        gate.require(known)


def _check_model(model: Modelled, schema: Schema) -> None:
    """Refuse a model of another schema before the long work."""
    columns = {table.key: {column.name for column in table.columns} for table in schema}
    for key, codecs in model.codecs.items():
        missing = sorted(set(codecs) - columns.get(key, set()))
        if key not in columns or missing:
            raise UsageError(
                "the model is of another schema than the source: the source has no such "
                + ("column." if key in columns else "table."),
                table=key,
                column=missing[0] if key in columns else None,
                remedy="Give the model that the clone was made from, and the config of its fit.",
            )


def _document(
    queries: Workload,
    answered: list[QueryPart],
    ran: Replay,
    measured: dict[str, Any],
    model: Modelled | None,
) -> ComparisonDocument:
    document = ComparisonDocument(
        privbench=version("privbench"),
        created=datetime.now(UTC).replace(microsecond=0),
        source=SidePart.model_validate(ran.sides[query_parts.SOURCE], from_attributes=True),
        clone=SidePart.model_validate(ran.sides[query_parts.CLONE], from_attributes=True),
        workload=WorkloadPart(
            name=queries.name,
            queries=len(answered),
            digest=queries.digest,
            refused=list(ran.refused),
            changed=ran.changed,
        ),
        replay=query_parts.replay_part(ran, answered),
        qerror=query_parts.qerrors(answered),
        runtime=query_parts.runtimes(answered),
        queries=answered,
        figures={},
        work=query_parts.work_summary(answered),
        plans=query_parts.plans_part(answered),
        model=None if model is None else ModelPart.model_validate(model, from_attributes=True),
        **measured,
    )
    named = figures.collect(document)
    return document.model_copy(update={"figures": named})
