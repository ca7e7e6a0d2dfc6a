"""The command group."""

from __future__ import annotations

from importlib import import_module

import click

from privbench import __version__
from privbench.cli.console import configure
from privbench.cli.options import Group, State

#: Module of every command, in the order of the work.
_MODULES = {
    "demo": "demo",
    "doctor": "doctor",
    "inspect": "inspect",
    "check": "inspect",
    "plan": "inspect",
    "fit": "model",
    "sample": "model",
    "load": "model",
    "clone": "clone",
    "publish": "publish",
    "verify": "publish",
    "workload": "workload",
    "run": "compare",
    "compare": "compare",
    "bench": "bench",
    "audit": "audit",
    "ledger": "ledger",
    "config-schema": "inspect",
    "compare-schema": "compare",
}


class Commands(Group):
    """All commands; one is imported when it is asked for: reports are half of all imports."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order of the work."""
        return list(_MODULES)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of that name."""
        if name not in _MODULES:
            return None
        module = import_module(f"privbench.cli.{_MODULES[name]}")
        found = getattr(module, name.replace("-", "_"))
        assert isinstance(found, click.Command)
        return found


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="privbench")
@click.option(
    "--log-format",
    type=click.Choice(["human", "json"]),
    default="human",
    show_default=True,
    help="How log lines look on stderr.",
)
@click.option("-v", "--verbose", count=True, help="Say more.")
@click.option("-q", "--quiet", is_flag=True, help="Say errors only.")
@click.pass_context
def main(ctx: click.Context, log_format: str, verbose: int, quiet: bool) -> None:
    """Publish benchmarks from private PostgreSQL databases.

    privbench makes a synthetic clone of a database under database-level differential privacy,
    replays a workload on both, and reports how close they are.

    Connections follow libpq: URI, key=value, service=NAME, PG* variables, passfile.

    Exit codes: 0 done, 1 gate failed, 2 usage or config, 3 database unreachable or refused,
    4 privacy refusal, 5 internal, 130 interrupted: the last line says how to go on.

    \b
    Example:
      privbench clone "service=prod" "service=clone" --epsilon 3.2 --yes
    """
    configure(log_format, -1 if quiet else verbose)
    ctx.obj = State(log_format, -1 if quiet else verbose)
