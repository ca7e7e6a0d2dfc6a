"""The command group."""

from __future__ import annotations

import click

from privbench import __version__
from privbench.cli import clone, compare, demo, inspect, ledger, model, workload
from privbench.cli.console import configure
from privbench.cli.options import Group, State


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="privbench")
@click.option(
    "--log-format",
    type=click.Choice(["human", "json"]),
    default="human",
    show_default=True,
    help="How log lines look on stderr.",
)
@click.option("-v", "--verbose", count=True, help="Say more.")
@click.option("-q", "--quiet", is_flag=True, help="Say errors only.")
@click.pass_context
def main(ctx: click.Context, log_format: str, verbose: int, quiet: bool) -> None:
    """Publish benchmarks from private PostgreSQL databases.

    privbench makes a synthetic clone of a database under database-level differential privacy,
    replays a workload on both, and reports how close they are.

    Connections follow libpq: URI, key=value, service=NAME, PG* variables, passfile.

    Exit codes: 0 done, 1 gate failed, 2 usage or config, 3 database unreachable or refused,
    4 privacy refusal, 5 internal.

    \b
    Example:
      privbench clone "service=prod" "service=clone" --epsilon 3.2 --yes
    """
    configure(log_format, -1 if quiet else verbose)
    ctx.obj = State(log_format, -1 if quiet else verbose)


for command in (
    demo.demo,
    inspect.inspect,
    inspect.check,
    inspect.plan,
    model.fit,
    model.sample,
    model.load,
    clone.clone,
    workload.workload,
    compare.run,
    compare.compare,
    ledger.ledger,
    inspect.config_schema,
):
    main.add_command(command)
