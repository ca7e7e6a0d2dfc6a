"""``workload capture`` and ``workload rebind``: from production's queries to publishable ones."""

from __future__ import annotations

from typing import Any

import click

from privbench import pipeline
from privbench.cli.options import State
from privbench.report.text import few
from privbench.workload import write
from privbench.workload.formats.base import CONFIDENTIAL
from privbench.workload.rebind import Rebinding
from privbench.workload.results import failures
from privbench.workload.safety import Trust

_FORMAT = "native"
_SHOWN = 10

found_in_option = click.option(
    "--ledger",
    metavar="DIR",
    help="Directory of the ledger: a clone found in it may be the source, and the workload is "
    "CONFIDENTIAL.",
)


@click.command()
@click.argument("dsn", required=False)
@click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="FILE",
    help="A log, a pattern of logs or a folder: csv, JSON or plain; .gz too.",
)
@click.option("--prefix", metavar="TEXT", help="log_line_prefix of plain logs, if unusual.")
@click.option("--database", metavar="NAME", help="Only this database's statements, of logs.")
@click.option(
    "--samples",
    type=int,
    default=1,
    show_default=True,
    help="Executions kept a statement, of logs.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the samples.")
@click.option("-o", "--output", required=True, metavar="FILE", help="The workload, as JSON.")
@click.pass_obj
def capture(state: State, /, dsn: str | None, output: str, **given: Any) -> None:
    """Capture the queries that a server ran, weighted by their calls. CONFIDENTIAL.

    Reads pg_stat_statements of DSN, or logs with statements or auto_explain's plans. Queries that
    differ only in their constants become one. Re-bind the result before it leaves the house, and
    before a capture of pg_stat_statements runs: its constants are $1, $2, ….

    \b
    Example:
      privbench workload capture "service=prod" -o captured.json
      privbench workload capture --log postgresql.csv --database shop -o captured.json
    """
    with state.reporter.stage("capture"):
        found = pipeline.capture(dsn, **given)
    write(found.workload, output, _FORMAT)
    for reason, calls in found.skipped.items():
        click.echo(f"Left out {calls:,} calls: {reason}.")
    click.echo(
        f"{CONFIDENTIAL} Wrote {len(found.workload):,} queries that stand for {found.calls:,} "
        f"calls to {output}. Next: privbench workload rebind."
    )


@click.command()
@click.argument("workload", metavar="WORKLOAD")
@click.option("--model", metavar="MODEL", help="Take the values from this model's rows.")
@click.option(
    "--on", metavar="DSN", help="Take them from this clone, which checks the queries too."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the draws.")
@found_in_option
@click.option(
    "--allow-function",
    "functions",
    multiple=True,
    metavar="SCHEMA.NAME",
    help="Queries may call it; others with functions that are not listed are left out.",
)
@click.option("-o", "--output", required=True, metavar="FILE", help="The workload, as JSON.")
@click.pass_obj
def rebind(
    state: State, /, workload: str, functions: tuple[str, ...], output: str, **given: Any
) -> None:
    """Replace the literals of a workload by values of synthetic rows, so that it can be published.

    A literal that is compared with a column becomes a value of that column in the clone or the
    model. Others become neutral constants, but for limits, units and small numbers. Comments and
    stated answers are dropped; a query that cannot be bound is left out.

    \b
    Example:
      privbench workload rebind captured.json --on "service=clone" -o public.json
    """
    with state.reporter.stage("rebind"):
        found = pipeline.rebind(workload, trust=Trust.of(functions), **given)
    write(found.workload, output, _FORMAT)
    for line in _said(found):
        click.echo(line)
    stamp = f"{CONFIDENTIAL} " if found.workload.confidential else ""
    click.echo(f"{stamp}Wrote {len(found.workload):,} queries to {output}.")


def _said(found: Rebinding) -> list[str]:
    """What was done, in counts; what was left out, by query."""
    drawn, kept, neutral = (
        sum(getattr(item, name) for item in found.bound) for name in ("drawn", "kept", "neutral")
    )
    lines = [
        f"{len(found.workload):,} queries bound anew: {drawn:,} literals drawn from columns, "
        f"{kept:,} kept as structure, {neutral:,} made neutral."
    ]
    constants = [item for item in found.bound if item.neutral]
    if constants:
        names = few([f"{item.query.id} ({item.neutral})" for item in constants], _SHOWN)
        lines.append(f"Literals that met no column, by query: {names}.")
    if found.left_out:
        lines.append(f"Left out {len(found.left_out):,} queries:")
    reasons = failures((name, "left out", why) for name, why in found.left_out.items())
    return lines + [f"  {len(ids):,}: {why}: {few(ids, _SHOWN)}" for why, ids in reasons]
