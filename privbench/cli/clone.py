"""``clone``: fit and load in one go."""

from __future__ import annotations

import click

from privbench import pipeline
from privbench.cli.consent import accept
from privbench.cli.metrics import metrics_option, rows
from privbench.cli.options import ReleaseOptions, State, release_options, target_options


@click.command()
@click.argument("source")
@click.argument("target")
@release_options
@click.option("--scale", type=float, default=1.0, show_default=True, help="Size of the clone.")
@click.option("--replace", is_flag=True, help="Drop what the target holds, in one transaction.")
@click.option("-o", "--output", metavar="MODEL", help="Keep the model file here.")
@click.option("--force", is_flag=True, help="Replace a model file that is there already.")
@target_options
@metrics_option
@click.pass_obj
def clone(
    state: State,
    source: str,
    target: str,
    release: ReleaseOptions,
    scale: float,
    replace: bool,
    output: str | None,
    force: bool,
    as_role: str | None,
    strict: bool,
) -> None:
    """Make a synthetic clone of SOURCE in TARGET; spends budget.

    Without a config it shows its proposal of roles and asks, or takes --yes.

    \b
    Example:
      privbench clone "service=prod" "service=clone" --epsilon 3.2 --yes
    """
    config = release.config()
    if output is not None:
        pipeline.require_writable(output, overwrite=force)
    pipeline.check_target(source, target, replace=replace)
    config, seen = accept(config, source, release)
    report = pipeline.clone(
        source,
        target,
        config,
        output=output,
        scale=scale,
        replace=replace,
        resume=release.resume,
        as_role=as_role,
        strict=strict,
        seen=seen,
        reporter=state.reporter,
    )
    state.samples += rows(report.loaded)
    click.echo(report.render())
    if strict:
        report.loaded.require_whole()
