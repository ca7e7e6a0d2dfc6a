"""``demo``: the whole flow on an embedded PostgreSQL."""

from __future__ import annotations

import click

from privbench import pipeline
from privbench.cli.options import State


@click.command()
@click.option("--rows", type=int, default=200_000, show_default=True, help="Rows of the source.")
@click.option("--epsilon", type=float, default=3.2, show_default=True, help="ε of the release.")
@click.option("--synthesizer", metavar="NAME", help="Learner to use.")
@click.option("--queries", type=int, default=60, show_default=True, help="Queries to replay.")
@click.option("--out", default="demo-out", show_default=True, metavar="DIR", help="Output folder.")
@click.pass_obj
def demo(
    state: State, rows: int, epsilon: float, synthesizer: str | None, queries: int, out: str
) -> None:
    """Make a source database, clone it, replay a workload on both, and report.

    Starts a PostgreSQL of its own and stops it at the end; touches no other database.

    \b
    Example:
      privbench demo --rows 50000 --epsilon 1
    """
    found = pipeline.demo(
        out,
        rows=rows,
        epsilon=epsilon,
        synthesizer=synthesizer,
        queries=queries,
        reporter=state.reporter,
    )
    click.echo(found.render())
