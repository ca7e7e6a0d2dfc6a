"""``privbench workload``: the group."""

from __future__ import annotations

import click

from privbench.cli.workload_capture import capture, rebind


@click.group()
def workload() -> None:
    """Make, convert and re-bind workloads.

    \b
    Example:
      privbench workload capture "service=prod" -o captured.json
    """


workload.add_command(capture)
workload.add_command(rebind)
