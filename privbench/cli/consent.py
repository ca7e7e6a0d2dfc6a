"""Roles are declared or accepted (P13), values in the DDL shown (P4): ask, or take ``--yes``."""

from __future__ import annotations

import logging
import sys

from privbench import pipeline
from privbench.cli.console import LOG, ask, show, width
from privbench.cli.options import ReleaseOptions
from privbench.config import Config
from privbench.errors import UsageError


def accept(config: Config, source: str, release: ReleaseOptions) -> tuple[Config, pipeline.Catalog]:
    """The config to fit with, without a file the accepted proposal; and the catalog it is for.

    Values in the schema that would travel with the clone are shown in either case; accepting a
    proposal accepts them too.

    Args:
        config: From the file or empty.
        source: DSN whose catalog the proposal is made from.
        release: Whether a config file was given (its roles are then declared by the owner), what
            look-up tables become in a proposal, and ``--yes``.

    Raises:
        PrivacyRefusal: The source is files, and no identity is declared.
        UsageError: No config, no ``--yes``, and nobody to ask.
    """
    pipeline.require_identity(source, config)
    seen = pipeline.look(source, config)
    if release.config_path is not None:
        # The file is its owner's declaration; --quiet may hide what it lets travel.
        if lines := seen.literals:
            LOG.info("%s", pipeline.render_literals(lines))
        return config, seen
    found = pipeline.inspect(source, base=config, lookups=release.lookups, seen=seen)
    show(found.render(whole=LOG.isEnabledFor(logging.DEBUG), width=width(sys.stderr)))
    if lines := seen.literals:
        show(pipeline.render_literals(lines))
    if not release.yes:
        refused = UsageError(
            "roles are proposed but not accepted.",
            remedy="Read the proposal above, then use --yes or write a config with "
            "'privbench inspect SOURCE -o privbench.toml'.",
        )
        ask("Accept these roles, and these values as public?", refused)
    return found.config, seen
