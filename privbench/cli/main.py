"""The command group."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from types import SimpleNamespace

import click

from privbench import __version__, plugins
from privbench.cli.console import configure
from privbench.cli.options import Group, State

#: Module of every command, in the order of the work.
_MODULES = {
    "demo": "model",
    "doctor": "inspect",
    "inspect": "inspect",
    "check": "inspect",
    "plan": "inspect",
    "fit": "model",
    "sample": "model",
    "load": "model",
    "clone": "model",
    "publish": "publish",
    "verify": "publish",
    "workload": "workload",
    "run": "compare",
    "compare": "compare",
    "ledger": "ledger",
    "config-schema": "inspect",
    "compare-schema": "compare",
}

#: Commands that need no data frames.
_FRAMELESS = frozenset({"clone", "fit", "load", "sample"})
#: Number of new objects after which Python's garbage collector runs. Imports create many objects
#: that stay: with Python's default of 700 a cold clone takes a tenth more processor time, and as
#: much memory.
_OBJECTS = 100_000


class Commands(Group):
    """All commands; one is imported when it is asked for: reports are half of all imports."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read a command line, which the context keeps."""
        ctx.meta["arguments"] = tuple(args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order of the work."""
        return [*_MODULES, *plugins.names(plugins.COMMANDS)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of that name."""
        if name not in _MODULES:
            added = plugins.load(plugins.COMMANDS, name)
            return added if isinstance(added, click.Command) else None
        if name in _FRAMELESS:
            gc.set_threshold(_OBJECTS)
            _spare_pandas()
        module = import_module(f"privbench.cli.{_MODULES[name]}")
        found = getattr(module, name.replace("-", "_"))
        assert isinstance(found, click.Command)
        return found


def _spare_pandas() -> None:
    """Make pyarrow's first array while pandas is hidden, since pyarrow would import pandas then.

    Importing pandas takes as long as all other imports of a small fit except NumPy and SciPy.
    Without pandas, pyarrow treats a Series as a list, until `to_pandas` looks for pandas again.
    """
    import pyarrow as pa

    def absent(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)

    hook = SimpleNamespace(find_spec=absent)
    sys.meta_path.insert(0, hook)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(hook)


@click.group(
    cls=Commands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@click.version_option(__version__, prog_name="privbench")
@click.option(
    "--log-format",
    type=click.Choice(["human", "json"]),
    default="human",
    help="How log lines look on stderr.",
)
@click.option("-v", "--verbose", count=True, show_default=False, help="Say more.")
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
    ctx.obj = State(log_format, -1 if quiet else verbose, ctx.meta["arguments"])
