"""``doctor``: what stands in the way of a fit or a load."""

from __future__ import annotations

import click

from privbench import pipeline
from privbench.cli.options import config_option, ledger_option, read_config


@click.command()
@click.argument("source", required=False)
@click.argument("target", required=False)
@config_option
@ledger_option
def doctor(
    source: str | None, target: str | None, config_path: str | None, ledger: str | None
) -> None:
    """Look at this machine, SOURCE and TARGET before anything is spent or written.

    Versions, space, rights, superusers, poolers and standbys in between, encodings, extensions,
    identity and ledger; a line each, with the way out. Reads catalogs and settings, no rows. Exit
    code 1 if a fit or a load would be refused.

    \b
    Example:
      privbench doctor "service=prod" "service=clone" -c privbench.toml
    """
    found = pipeline.doctor(source, target, read_config(config_path, ledger=ledger))
    click.echo(found.render())
    found.require_sound()
