"""``demo``: the whole flow on an embedded PostgreSQL."""

from __future__ import annotations

from typing import Any

import click

from privbench import pipeline
from privbench.cli.options import State, synthesizer_option


@click.command()
@click.option("--rows", type=int, default=200_000, show_default=True, help="Rows of the source.")
@click.option("--epsilon", type=float, default=3.2, show_default=True, help="ε of the release.")
@synthesizer_option
@click.option("--queries", type=int, default=60, show_default=True, help="Queries to replay.")
@click.option("--out", default="demo-out", show_default=True, metavar="DIR", help="Output folder.")
@click.pass_obj
def demo(state: State, /, out: str, **given: Any) -> None:
    """Make a source database, clone it, replay a workload on both, and report.

    Starts a PostgreSQL of its own and stops it at the end; touches no other database.

    \b
    Example:
      privbench demo --rows 50000 --epsilon 1
    """
    click.echo(pipeline.demo(out, reporter=state.reporter, **given).render())
