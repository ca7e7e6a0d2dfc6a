"""``serve``: a clone on a throwaway server, for tests."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from privbench import publish
from privbench.cli.console import echo, show
from privbench.cli.options import options_of
from privbench.errors import UsageError
from privbench.files import file_errors
from privbench.options import LoadOptions


@click.command()
@click.argument("model", metavar="MODEL|BUNDLE", required=False)
@click.argument("command", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@options_of(LoadOptions, "scale", "seed", "trust_programs")
@click.option(
    "--on",
    type=click.Choice(["auto", "docker", "machine", "embedded"]),
    default="auto",
    help="Whose PostgreSQL; auto takes a container of the source's version, or what is nearest.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="Port on 127.0.0.1.  [default: free]")
@click.option("--keep", metavar="FOLDER", help="Where data stay, and the next start goes on.")
@click.option("--prune", is_flag=True, help="Empty the cache instead.")
@click.pass_context
def serve(
    ctx: click.Context, /, model: str | None, command: tuple[str, ...], prune: bool, **given: Any
) -> None:
    """Start a throwaway server with the clone of MODEL in it.

    It prints the connection URI, and stays until Ctrl-C or SIGTERM. With COMMAND it runs that
    instead, with DATABASE_URL and the PG* variables, and ends with its exit code. Nothing is left,
    whatever ends it. The role of the URI owns the clone, may create databases, and has a password
    of this run; the server listens on 127.0.0.1. Without --seed, rows are the same in every run.

    The loaded data folder is kept in your cache, so that a second start copies it: it holds a
    clone, no private row.

    \b
    Example:
      privbench serve prod.privbench --scale 0.01
      privbench serve prod.privbench -- pytest tests
    """
    if prune:
        from privbench.publish.serving import prune as emptied

        show(f"{emptied():,} bytes were dropped from the cache.")
        return
    if model is None:
        raise UsageError("there is nothing to serve.", remedy="Name a model or a bundle.")
    if command and not shutil.which(command[0]):
        raise UsageError(f"there is no command {command[0]}.")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from psycopg.conninfo import conninfo_to_dict

    code = 0
    with publish.serve(model, reporter=ctx.obj.reporter, **given) as uri:
        if command:
            os.environ["DATABASE_URL"] = uri
            for key, value in conninfo_to_dict(uri).items():
                os.environ["PGDATABASE" if key == "dbname" else f"PG{key.upper()}"] = str(value)
            code = _run(command)
        else:
            with suppress(KeyboardInterrupt):
                echo(uri)
                while True:
                    signal.pause()
    ctx.exit(code)


def _run(command: Sequence[str]) -> int:
    """The exit code of a command."""
    # A terminal sends Ctrl-C to both: the command decides what it means.
    signal.signal(signal.SIGINT, lambda *_: None)
    with file_errors(f"{command[0]} cannot be run"), subprocess.Popen(command) as child:  # noqa: S603
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        code = child.wait()
    return 128 - code if code < 0 else code
