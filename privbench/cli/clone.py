"""``clone``: fit and load in one go."""

from __future__ import annotations

from typing import Any

import click

from privbench import pipeline
from privbench.cli.consent import accept
from privbench.cli.metrics import metrics_option, rows
from privbench.cli.options import (
    ReleaseOptions,
    State,
    overwrite_option,
    release_options,
    replace_option,
    scale_option,
    target_options,
)


@click.command()
@click.argument("source")
@click.argument("target")
@release_options
@scale_option
@replace_option
@click.option("-o", "--output", metavar="MODEL", help="Keep the model file here.")
@overwrite_option
@target_options
@metrics_option
@click.pass_obj
def clone(
    state: State,
    /,
    source: str,
    target: str,
    release: ReleaseOptions,
    replace: bool,
    output: str | None,
    force: bool,
    strict: bool,
    **given: Any,
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
        replace=replace,
        resume=release.resume,
        strict=strict,
        seen=seen,
        reporter=state.reporter,
        **given,
    )
    state.samples += rows(report.loaded)
    click.echo(report.render())
    if strict:
        report.loaded.require_whole()
