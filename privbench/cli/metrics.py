"""The option ``--metrics FILE``, which writes what a run did as OpenMetrics text for Prometheus.

The file is written when the command ends, also if it fails, and replaces an earlier file
atomically. Every sample has the label ``run``, the file's name without its suffix, so that files of
several runs may lie in one folder. All samples are gauges, which tools that know only Prometheus'
older text format can read too.

No sample is computed from private rows, except the figures of a comparison, which are as
CONFIDENTIAL as its report and are marked so. Budgets come from the ledger, and numbers of rows are
those of the clone. Run times and exit codes are confidential like logs: the file is for the data
owner's own monitoring.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import click

from privbench import __version__
from privbench.cli.console import LOG
from privbench.cli.options import Command, CommandState, MetricSample, exit_code
from privbench.display import visible
from privbench.errors import PrivbenchError, UsageError
from privbench.files import file_errors, write_text
from privbench.pipeline.progress import Reporter, Spending

if TYPE_CHECKING:
    from privbench.pipeline import LoadReport


def metrics_option(command: Command) -> Command:
    """Add ``--metrics`` to a command.

    The file is written when the command ends, even by an error.
    """

    @functools.wraps(command)
    def measured(*args: Any, metrics: str | None, **given: Any) -> Any:
        if metrics is None:
            return command(*args, **given)
        path, context = Path(metrics), click.get_current_context()
        if path.is_dir() or not path.parent.is_dir() or _taken(path, given.get("output")):
            remedy = "--metrics takes a file of its own in a folder."
            raise UsageError(f"cannot write {path}.", remedy=remedy)
        state = cast("CommandState", context.obj)
        write = functools.partial(_write, path, str(context.info_name), state)
        try:
            result = command(*args, **given)
        except BaseException as error:
            try:
                write(exit_code(error))
            except Exception as problem:
                # The command's own error matters more than this one.
                reason = problem if isinstance(problem, PrivbenchError) else type(problem).__name__
                LOG.warning("no metrics: %s", reason)
            raise
        write(0)
        return result

    text = "Seconds, budget, rows and exit code of the run, as OpenMetrics text."
    option = click.option("--metrics", metavar="FILE", help=text)
    return option(cast("Command", measured))


def _taken(path: Path, output: str | None) -> bool:
    """Whether a file holds, or will hold, something else, such as a model that cost budget."""
    if output is not None and path.resolve() == Path(output).resolve():
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) not in (b"", b"# ")


def rows(report: LoadReport) -> Iterator[MetricSample]:
    """Yield the numbers of rows of a clone's tables, public tables included, as samples."""
    for name, meaning, counts in (
        ("clone_rows", "Rows of the clone", report.rows),
        ("clone_rows_dropped", "Synthetic rows without a valid key, or that broke a rule",
         report.dropped),
        ("clone_rows_repaired", "Synthetic rows that were changed to keep the schema's rules",
         report.repaired),
    ):  # fmt: skip
        for table, count in counts.items():
            yield name, f"{meaning}, by table.", {"table": table}, count
    missing = "Parts of the schema that the clone lacks or has as NOT VALID."
    yield "clone_schema_losses", missing, {}, len(report.losses)


def _write(path: Path, command: str, state: CommandState, code: int) -> None:
    spending = state.reporter.spending
    samples = [
        *_run(command, state.reporter, code),
        *(_spent(spending) if spending is not None else ()),
        *state.samples,
    ]
    with file_errors(f"cannot write {path}"):
        write_text(path, _render(path.stem, samples))


def _render(run: str, samples: Iterable[MetricSample]) -> str:
    """The text; a figure without a value has no sample."""
    from prometheus_client.core import Metric
    from prometheus_client.openmetrics.exposition import generate_latest

    families: dict[str, Metric] = {}
    for name, meaning, labels, value in samples:
        if not math.isnan(value):
            name = f"privbench_{name}"
            family = families.setdefault(name, Metric(name, meaning, "gauge"))
            escaped = {label: visible(text) for label, text in {"run": run, **labels}.items()}
            family.add_sample(name, escaped, value)

    collected = SimpleNamespace(collect=families.values)
    text: bytes = generate_latest(collected)  # type: ignore[no-untyped-call]
    return text.decode()


def _run(command: str, reporter: Reporter, code: int) -> Iterator[MetricSample]:
    about = {"command": command, "version": __version__}
    yield "run_info", "Which command and version of privbench ran.", about, 1
    yield "run_exit_code", "CONFIDENTIAL, like a log: the exit code.", {}, code
    yield "run_end_time_seconds", "When the run ended, in seconds since 1970.", {}, time.time()
    seconds: dict[str, float] = {}
    for stage, took, _ in reporter.stages:
        seconds[stage] = seconds.get(stage, 0) + took
    for name, value in seconds.items():
        meaning = "CONFIDENTIAL, like a log: seconds of the stages that were done."
        yield "run_stage_seconds", meaning, {"stage": name}, value


def _spent(spending: Spending) -> Iterator[MetricSample]:
    """Samples of the ledger: losses of this release, and of all releases of the database."""
    if spending.release is not None:
        loss, budget = spending.release.loss(), spending.accountant
        yield (
            "release_epsilon",
            "ε that this release promises after its events so far.",
            {},
            loss.epsilon,
        )
        yield (
            "release_delta",
            "δ that this release promises after its events so far.",
            {},
            loss.delta,
        )
        unit = {"loss": budget.loss}
        used, left = budget.spent, max(0.0, budget.cap - budget.spent)
        yield "release_spent", "What this run has charged to its budget, in ε or ρ.", unit, used
        yield "release_left", "What this run has left of its budget, in ε or ρ.", unit, left
    from privbench.privacy import Cap

    state = spending.ledger.show()
    month = datetime.now(UTC).strftime("%Y-%m")
    cap = Cap(**state["cap"]).stricter(spending.cap)
    known = state["definitions"]
    spans = (
        ("all", [item["epsilon"] for item in known], cap.epsilon),
        ("month", [item["months"].get(month, 0.0) for item in known], cap.monthly),
    )
    for span, totals, limit in spans:
        labels, spent = {"span": span}, max(totals, default=0.0)
        meaning = "ε of the releases of this database, unfinished ones with all that they reserved"
        yield "ledger_epsilon", f"{meaning}: all, and of this month (UTC).", labels, spent
        if limit is not None:
            yield "ledger_cap_epsilon", "The lowest cap on ε: in all, and a month.", labels, limit
            left = max(0.0, limit - spent)
            yield "ledger_left_epsilon", "ε that the caps leave to further releases.", labels, left
    delta = max((item["delta"] for item in known), default=0.0)
    yield "ledger_delta", "δ of the releases of this database.", {}, delta
