"""The command group ``privbench``, which imports a command when it is run."""

import atexit
import gc
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from privbench import __version__, plugins
from privbench.cli.console import LOG, configure, show
from privbench.cli.options import CommandState, arguments_hidden, exit_code, show_error
from privbench.errors import PrivbenchError

# At its exit Python looks three times for cycles of garbage among all objects, in a tenth of the
# time of a small clone. Frozen, they are left to the operating system.
atexit.register(gc.freeze)

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
    "serve": "serve",
    "workload": "workload",
    "run": "compare",
    "compare": "compare",
    "ledger": "ledger",
    "config-schema": "inspect",
    "compare-schema": "compare",
}


class Commands(click.Group):
    """All commands of privbench and of installed packages, imported when they are run.

    Commands of installed packages follow privbench's own, sorted by name. They cannot replace a
    command of privbench, and a command that cannot be loaded is still listed, with the reason. All
    commands exit with the code that belongs to their error.
    """

    def make_context(self, *about: Any, **more: Any) -> click.Context:
        """Return Click's context of a command line, which `invoke` reads."""
        with arguments_hidden():
            return super().make_context(*about, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn an error into one line on stderr and an exit code."""
        try:
            with arguments_hidden():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except (Exception, KeyboardInterrupt) as error:
            show_error(error, ctx.meta.get("arguments", ()))
            LOG.debug("traceback", exc_info=True)
            for note in getattr(error, "__notes__", ()):
                show(note)
            ctx.exit(exit_code(error))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse a command line, and keep its arguments in the context for messages."""
        ctx.meta["arguments"] = tuple(args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order in which a user needs them."""
        return list(dict.fromkeys((*_MODULES, *plugins.names(plugins.COMMANDS))))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the command with this name, or None if there is no such command."""
        if name in _MODULES:
            module = import_module(f"privbench.cli.{_MODULES[name]}")
            command = getattr(module, name.replace("-", "_"))
            assert isinstance(command, click.Command)
            return command
        if points := entry_points(group=plugins.COMMANDS, name=name):
            return _loaded(next(iter(points)))
        # Among these names Click looks for one that may be meant.
        self.commands = dict.fromkeys(self.list_commands(ctx), self)
        return None


def _loaded(point: EntryPoint) -> click.Command:
    """The command of another package; if it cannot be loaded, one that says so and fails."""
    cause: BaseException | None = None
    try:
        command = point.load()
    except (Exception, SystemExit) as error:
        cause, reason = error, type(error).__name__
    else:
        if isinstance(command, click.Command):
            return command
        reason = "it is no click.Command"
    package = point.dist.name if point.dist else point.value
    refusal = PrivbenchError(
        f"the command {point.name} cannot be loaded: {reason}.",
        remedy=f"Install {package} again, or remove it.",
    )

    def fail() -> None:
        raise refusal from cause

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(point.name, settings, fail, help=f"Cannot be loaded: {reason}.")


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
    ctx.obj = CommandState(log_format, -1 if quiet else verbose, ctx.meta["arguments"])
