"""``run`` and ``compare``: replay a workload and measure. Their output is CONFIDENTIAL."""

from __future__ import annotations

import json
from pathlib import Path

import click

from privbench import pipeline, report
from privbench.cli.options import State, config_option, read_config
from privbench.workload.replay import OnResult
from privbench.workload.results import QueryResult


@click.command()
@click.argument("workload", metavar="WORKLOAD")
@click.option("--on", "dsn", required=True, metavar="DSN", help="The database to run it on.")
@click.option("-o", "--output", required=True, metavar="FILE", help="Results as JSON.")
@click.option("--repeats", type=int, default=3, show_default=True, help="Timed runs a query.")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds a run.")
@click.pass_obj
def run(state: State, workload: str, dsn: str, output: str, repeats: int, timeout: float) -> None:
    """Run a workload on one database and keep counts and times.

    WORKLOAD is a file of `card||SQL` lines, a file of SQL statements, or a folder of SQL files.

    \b
    Example:
      privbench run workload.sql --on "service=clone" -o results.json
    """
    teller = state.reporter
    with teller.stage("replay"):
        found = pipeline.run(
            workload, dsn, repeats=repeats, timeout=timeout, on_result=_progress(teller)
        )
    Path(output).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    click.echo(f"Wrote {output}.")


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--workload", "-w", required=True, metavar="PATH", help="Queries to replay.")
@config_option
@click.option("-o", "--output", required=True, metavar="DIR", help="Folder for the report.")
@click.option("--fail-if", "gates", multiple=True, metavar="COND", help="'qerror.p95 > 5'.")
@click.option("--junit", metavar="FILE", help="Gates and checks as JUnit XML.")
@click.option("--repeats", type=int, default=3, show_default=True, help="Timed runs a query.")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds a run.")
@click.option("--floor", is_flag=True, help="Also run the source against itself.")
@click.pass_obj
def compare(
    state: State,
    source: str,
    target: str,
    workload: str,
    config_path: str | None,
    output: str,
    gates: tuple[str, ...],
    junit: str | None,
    repeats: int,
    timeout: float,
    floor: bool,
) -> None:
    """Replay a workload on SOURCE and TARGET and report how close they are. CONFIDENTIAL.

    Writes report.html, comparison.json and report.md into the folder. The report reads the source:
    it is for the data's owner alone, and no release may depend on it.

    \b
    Example:
      privbench compare "service=prod" "service=clone" -w job/ -o report/ --fail-if 'qerror.p95 > 5'
    """
    teller = state.reporter
    with teller.stage("compare"):
        document = report.compare(
            source,
            target,
            workload,
            read_config(config_path) if config_path else None,
            output,
            gates,
            repeats=repeats,
            timeout=timeout,
            floor=floor,
            junit=junit,
            on_result=_progress(teller),
        )
    click.echo(report.summary(document))
    click.echo(f"CONFIDENTIAL report: {Path(output) / 'report.html'}")
    report.enforce(document)


def _progress(teller: pipeline.Reporter) -> OnResult:
    def tell(result: QueryResult, done: int, total: int) -> None:
        teller.advance("queries", done, total)

    return tell
