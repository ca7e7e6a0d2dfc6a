"""``clone``: fit and load in one go."""

from __future__ import annotations

import click

from privbench import pipeline
from privbench.cli.consent import accept
from privbench.cli.options import State, config_option, need_epsilon, privacy_options, read_config


@click.command()
@click.argument("source")
@click.argument("target")
@config_option
@privacy_options
@click.option("--scale", type=float, default=1.0, show_default=True, help="Size of the clone.")
@click.option("--replace", is_flag=True, help="Drop what the target holds, in one transaction.")
@click.option("-o", "--output", metavar="MODEL", help="Keep the model file here.")
@click.pass_obj
def clone(
    state: State,
    source: str,
    target: str,
    config_path: str | None,
    epsilon: float | None,
    delta: float | None,
    synthesizer: str | None,
    lookups: str,
    yes: bool,
    seed: int | None,
    ledger: str | None,
    resume: str | None,
    scale: float,
    replace: bool,
    output: str | None,
) -> None:
    """Make a synthetic clone of SOURCE in TARGET; spends budget.

    Without a config it shows its proposal of roles and asks, or takes --yes.

    \b
    Example:
      privbench clone "service=prod" "service=clone" --epsilon 3.2 --yes
    """
    config = need_epsilon(
        read_config(
            config_path,
            epsilon=epsilon,
            delta=delta,
            synthesizer=synthesizer,
            seed=seed,
            ledger=ledger,
        )
    )
    pipeline.check_target(source, target, replace=replace)
    config = accept(config, source, given=config_path is not None, yes=yes, lookups=lookups)
    report = pipeline.clone(
        source,
        target,
        config,
        output=output,
        scale=scale,
        replace=replace,
        resume=resume,
        reporter=state.reporter,
    )
    click.echo(report.render())
