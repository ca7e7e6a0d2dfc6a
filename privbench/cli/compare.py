"""``run`` and ``compare``: replay a workload and measure. Their output is CONFIDENTIAL."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privbench import pipeline
from privbench.cli.console import LOG, echo
from privbench.cli.metrics import metrics_option
from privbench.cli.options import (
    CommandState,
    MetricSample,
    config_option,
    fail_if_option,
    lock_option,
    options_of,
    read_config,
)
from privbench.display import json_lines
from privbench.errors import DatabaseError
from privbench.files import file_errors, write_text
from privbench.options import CompareOptions, ReplayOptions

if TYPE_CHECKING:
    from privbench.report import ComparisonDocument

_PRIVATE = "CONFIDENTIAL, like the report: it reads the source exactly."


@click.command()
@click.argument("workload", metavar="WORKLOAD")
@click.option("--on", "dsn", required=True, metavar="DSN", help="The database to run it on.")
@click.option("-o", "--output", required=True, metavar="FILE", help="Results as JSON.")
@options_of(ReplayOptions, without="floor")
@fail_if_option("'replay.errors > 0', 'replay.seconds > 60'")
@click.pass_obj
def run(state: CommandState, /, workload: str, dsn: str, output: str, **given: Any) -> None:
    """Run a workload on one database and keep counts and times.

    WORKLOAD is a file or folder in any format that privbench reads. Queries that fail are named,
    with the server's reason; the exit code is 3 if all of them do.

    \b
    Example:
      privbench run workload.sql --on "service=clone" -o results.json
    """
    from privbench.report import enforce
    from privbench.report.document import GatePart

    teller = state.reporter
    with teller.stage("replay"):
        results = pipeline.run(workload, dsn, tell=teller.advance, **given)
    if results["warning"]:
        LOG.warning(results["warning"])
    with file_errors(f"cannot write {output}"):
        write_text(Path(output), json.dumps(results, indent=1) + "\n")
    for line in _result_lines(results):
        echo(line)
    echo(f"Wrote {output}.")
    enforce(GatePart.model_validate(gate) for gate in results["gates"])
    _require_answers("database", (item["status"] for item in results["results"]))


def _result_lines(run: dict[str, Any]) -> Iterator[str]:
    """The result of a run, in a few lines."""
    from privbench.report.document import GatePart
    from privbench.report.headlines import gate_line, left_out
    from privbench.report.text import few, seconds
    from privbench.workload.query import Refusal
    from privbench.workload.results import failures

    counts = run["summary"]
    yield (
        f"{counts['queries']:,} queries: {counts['ended']:,} ended, {counts['errors']:,} failed, "
        f"{counts['timeouts']:,} timed out; medians {seconds(counts['seconds'])} together"
    )
    yield from left_out(
        run["workload"], [Refusal(**item) for item in run["refused"]], run["changed"]
    )
    results = ((item["id"], item["status"], item["message"]) for item in run["results"])
    for reason, ids in failures(results):
        yield f"{len(ids):,} of {counts['queries']:,} queries: {reason}: {few(ids)}"
    yield from (gate_line(GatePart.model_validate(gate)) for gate in run["gates"])


def _require_answers(side: str, statuses: Iterable[str]) -> None:
    """Fail if no query has an answer."""
    if "ok" not in statuses:
        raise DatabaseError(f"no query of the workload has an answer on the {side}.")


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--workload", "-w", metavar="PATH", help="Queries to replay.")
@click.option("--data-only", is_flag=True, help="Compare the rows alone, without a workload.")
@config_option
@click.option("-o", "--output", required=True, metavar="DIR", help="Folder for the report.")
@fail_if_option("'qerror.p95 > 5', 'query.qerror > 100', 'drift.qerror.p95 > 1.2'")
@click.option(
    "--model",
    "model_path",
    metavar="MODEL",
    help="Model of the clone, for sections of the report that show it.",
)
@options_of(CompareOptions)
@lock_option
@metrics_option
@click.pass_obj
def compare(
    state: CommandState,
    /,
    source: str,
    target: str,
    workload: str | None,
    data_only: bool,
    config_path: str | None,
    output: str,
    gates: tuple[str, ...],
    model_path: str | None,
    **given: Any,
) -> None:
    """Replay a workload on SOURCE and TARGET. CONFIDENTIAL.

    The report says how close they are.

    Writes report.html, comparison.json and report.md into the folder. The report reads the source:
    it is for the data's owner alone, and no release may depend on it.

    \b
    Example:
      privbench compare "service=prod" "service=clone" -w job/ -o report/ --fail-if 'qerror.p95 > 5'
    """
    from privbench import report
    from privbench.config import Config
    from privbench.sources import staged
    from privbench.workload import read

    teller = state.reporter
    if data_only == (workload is not None):
        raise click.UsageError("Give either --workload, or --data-only.")
    queries = None if workload is None else read(workload)
    config = read_config(config_path) if config_path else None
    with staged(source, config or Config()) as here:
        try:
            document = report.compare(
                here,
                target,
                queries,
                config,
                output,
                gates,
                model=pipeline.modelled(model_path) if model_path else None,
                tell=teller.advance,
                stage=teller.stage,
                **given,
            )
        except (KeyboardInterrupt, OSError) as error:
            error.add_note(f"To go on: the same command; what ran is kept in {output}")
            raise
    state.samples += samples(document)
    for side in (document.source, document.clone):
        if side.warning and workload:
            LOG.warning(side.warning)
    echo(report.summary(document))
    echo(f"CONFIDENTIAL report: {Path(output) / 'report.html'}")
    report.enforce(document.gates)
    if data_only:
        return
    _require_answers("clone", [query.clone.status for query in document.queries])
    _require_answers("source", [query.source.status for query in document.queries])


def samples(document: ComparisonDocument) -> Iterator[MetricSample]:
    """Yield every figure and gate of a comparison for ``--metrics``, each marked as CONFIDENTIAL.

    A figure ``a.b.p95`` becomes ``a_b`` with the label ``stat="p95"``; the table, and the λ of KLD
    and TVD, become labels too. A figure without a value gives no sample.
    """
    from privbench.metrics import METRICS

    titles = {metric.name: metric.title for metric in METRICS}
    about = {
        "source": document.source.database,
        "clone": document.clone.database,
        "workload": document.workload.name,
        "workload_digest": document.workload.digest,
    }
    yield "comparison_info", f"{_PRIVATE} What was compared.", about, 1
    for figure, value in document.figures.items():
        if value is not None and math.isfinite(value):
            name, labels = _place(figure)
            title = titles.get(name.split("_")[0], "Comparison of a clone with its source")
            yield name, f"{_PRIVATE} {title}: {name.replace('_', ' ')}.", labels, value
    # The same gate given twice is one sample.
    for condition, failed in {gate.condition: gate.failed for gate in document.gates}.items():
        meaning = f"{_PRIVATE} 1 where the gate failed."
        yield "gate_failed", meaning, {"condition": condition}, int(failed)


def _place(figure: str) -> tuple[str, dict[str, str]]:
    """Name and labels of a figure.

    >>> _place("kld.2[public.users]")
    ('kld', {'ways': '2', 'table': 'public.users'})
    >>> _place("runtime.floor.p95"), _place("plan.agreement")
    (('runtime_floor', {'stat': 'p95'}), ('plan_agreement', {}))
    """
    from privbench.report.figures import POINTS

    plain, _, table = figure.partition("[")
    words = plain.split(".")
    labels = {}
    if words[-1] in POINTS:
        labels["stat"] = words.pop()
    elif words[-1].isdigit():
        labels["ways"] = words.pop()
    if table:
        labels["table"] = table.removesuffix("]")
    return "_".join(words), labels


@click.command("compare-schema")
def compare_schema() -> None:
    """Print the JSON Schema of comparison.json, for programs.

    \b
    Example:
      privbench compare-schema > comparison.schema.json
    """
    from privbench.report.document import json_schema

    echo(json_lines(json_schema()))
