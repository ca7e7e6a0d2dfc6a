"""Writes ``docs/cli.md`` and ``docs/configuration.md`` from the program itself.

``python -m privbench.cli.docs`` writes them, with ``--check`` it only says whether they are up to
date. It is run from a checkout; the installed program does not need it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from privbench.cli.docs_config import configuration_page
from privbench.cli.main import main as group

#: Where the pages lie in a checkout.
FOLDER = Path(__file__).parents[2] / "docs"


def pages() -> dict[str, str]:
    """The generated pages by file name."""
    return {"cli.md": cli_page(), "configuration.md": configuration_page()}


def cli_page() -> str:
    """Every command with its help, example, arguments and options, as Markdown."""
    sections = [_INTRO, "## privbench\n\n" + _body(group)]
    sections += [f"## {name}\n\n{_body(command)}" for name, command in commands(group)]
    return "\n\n".join(sections) + "\n"


def commands(parent: click.Group, path: str = "privbench") -> Iterator[tuple[str, click.Command]]:
    """Full names and commands of a group, subcommands after their group."""
    context = click.Context(parent)
    for name in parent.list_commands(context):
        command = parent.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


def parts(command: click.Command) -> tuple[str, str]:
    """A command's help text and its example, apart; either may be empty."""
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    prose, _, example = text.partition("Example:\n")
    return prose.strip(), inspect.cleandoc(example)


_INTRO = """\
# Command line

<!-- Written by scripts/docs from the program's own help. Do not edit. -->

SOURCE, TARGET and DSN follow libpq's rules: a URI (`postgresql://host/db`), `key=value` pairs,
`service=NAME`, and the `PG*` variables and password file for what is left out. `privbench` reads
the source in one read-only transaction and never writes to it."""


def _body(command: click.Command) -> str:
    prose, example = parts(command)
    blocks = [prose, f"```bash\n{example}\n```" if example else ""]
    blocks += [_table(command, click.Argument), _table(command, click.Option)]
    return "\n\n".join(block for block in blocks if block)


def _table(command: click.Command, kind: type[click.Parameter]) -> str:
    rows = [_row(parameter) for parameter in command.params if isinstance(parameter, kind)]
    if not rows:
        return ""
    if kind is click.Argument:
        return "Arguments: " + ", ".join(name for name, _ in rows) + "."
    return "\n".join(["| option | meaning |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)])


def _row(parameter: click.Parameter) -> tuple[str, str]:
    if not isinstance(parameter, click.Option):
        name = (parameter.metavar or parameter.name or "").upper()
        return f"`{name}`" + ("" if parameter.required else " (optional)"), ""
    name = ", ".join([*parameter.opts, *parameter.secondary_opts])
    if not parameter.is_flag and not parameter.count:
        name += f" {_metavar(parameter)}"
    return f"`{name}`".replace("|", "\\|"), f"{parameter.help or ''}{_notes(parameter)}"


def _metavar(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return "|".join(str(choice) for choice in option.type.choices)
    return option.metavar or option.type.name.upper()


def _notes(option: click.Option) -> str:
    notes = ["required"] if option.required else []
    notes += ["may be repeated"] if option.multiple or option.count else []
    notes += [f"default `{option.default}`"] if option.show_default else []
    return f" ({', '.join(notes)})" if notes else ""


def run(check: bool) -> int:
    """Write the pages, or say which are out of date.

    Args:
        check: Write nothing.

    Returns:
        Exit code: 1 where a page is out of date and `check` is set.
    """
    stale = [name for name, text in pages().items() if _stored(name) != text]
    for name in stale:
        if check:
            click.echo(f"docs/{name} is out of date: run scripts/docs", err=True)
        else:
            (FOLDER / name).write_text(pages()[name], encoding="utf-8")
            click.echo(f"wrote docs/{name}")
    return int(check and bool(stale))


def _stored(name: str) -> str:
    path = FOLDER / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(run("--check" in sys.argv[1:]))
