"""``audit``: what attacks and replays say of the guarantee, for a data protection officer."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from privbench import pipeline
from privbench.cli.console import echo
from privbench.cli.options import CommandState, config_option, network_option, read_config


@click.command()
@click.argument("source")
@click.option("-o", "--output", required=True, metavar="DIR", help="Folder for the results.")
@config_option
@click.option("--epsilon", type=float, metavar="E", help="ε of the fits.")
@click.option("--delta", type=float, metavar="D", help="δ of the fits.")
@click.option("--synthesizer", metavar="NAME", help="Learner to audit.")
@click.option("--scratch", metavar="DSN", help="An empty database for the copy of SOURCE, which is "
              "emptied again; else a PostgreSQL is started here.")  # fmt: skip
@click.option("--root", metavar="TABLE", help="Plant units of this root table.")
@click.option("--canaries", type=click.IntRange(1, 10_000), default=60,
              metavar="N", help="Planted units in each fit.")  # fmt: skip
@click.option("--fits", type=click.IntRange(1, 10_000), default=2, metavar="N",
              help="Fits with planted units.")  # fmt: skip
@click.option("--neighbours", type=click.IntRange(1, 10_000), default=8,
              metavar="N", help="Neighbours on which a fit is replayed.")  # fmt: skip
@click.option("--no-inference", is_flag=True, help="Leave out the attacks of anonymeter, which is "
              "installed into an environment of its own.")  # fmt: skip
@network_option
@click.pass_obj
def audit(
    state: CommandState,
    /,
    source: str,
    output: str,
    config_path: str | None,
    scratch: str | None,
    root: str | None,
    canaries: int,
    fits: int,
    neighbours: int,
    no_inference: bool,
    **settings: Any,
) -> None:
    """Attack fits of SOURCE and replay their mechanisms. CONFIDENTIAL.

    For the owner, inside the house. SOURCE is only read: its rows are copied into a scratch
    database, units are planted there, and all fits go into a scratch ledger. Writes audit.html and
    audit.json, which are computed from private rows and may not be published. Exit code 1 if
    anything contradicts the guarantee. Without a config it audits the roles that it proposes.

    \b
    Example:
      privbench audit "service=prod" -c privbench.toml -o audit/ --scratch "service=scratch"
    """
    from privbench_lab.audit import Effort
    from privbench_lab.audit import audit as run_audit

    config = pipeline.require_epsilon(read_config(config_path, **settings))
    if config_path is None:
        config = pipeline.inspect(source, base=config).config
    with ended_by_signals():
        found = run_audit(
            source,
            config,
            output,
            scratch=scratch,
            root=root,
            effort=Effort(canaries, fits, neighbours, not no_inference),
            reporter=state.reporter,
        )
    for line in found.lines():
        echo(line)
    echo(f"CONFIDENTIAL results: {Path(output) / 'audit.html'}")
    found.require_sound()


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """A context in which SIGTERM and SIGHUP act like Ctrl-C, so that the copy is dropped."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda given, _: sys.exit(128 + given)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
