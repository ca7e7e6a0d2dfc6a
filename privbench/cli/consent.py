"""Roles are declared or accepted (P13): ask, or take ``--yes``."""

from __future__ import annotations

import sys

import click

from privbench import pipeline
from privbench.config import Config
from privbench.errors import UsageError


def accept(config: Config, source: str, *, given: bool, yes: bool, lookups: str) -> Config:
    """The config to fit with; without a file, the accepted proposal.

    Args:
        config: From the file or empty.
        source: DSN whose catalog the proposal is made from.
        given: Whether a config file was given: its roles are then declared by the owner.
        yes: ``--yes``.
        lookups: What look-up tables become in a proposal.

    Raises:
        UsageError: No config, no ``--yes``, and nobody to ask.
    """
    if given:
        return config
    found = pipeline.inspect(source, config.database.schemas, base=config, lookups=lookups)
    click.echo(found.render(), err=True)
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                "roles are proposed but not accepted.",
                remedy="Read the proposal above, then use --yes or write a config with "
                "'privbench inspect SOURCE -o privbench.toml'.",
            )
        click.confirm("Accept these roles?", abort=True, err=True)
    return found.config
