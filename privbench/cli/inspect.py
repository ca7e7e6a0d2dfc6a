"""The commands ``doctor``, ``inspect``, ``check``, ``plan``, ``config-schema``; none reads rows."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from privbench import pipeline
from privbench.cli.console import echo, width
from privbench.cli.options import (
    CommandState,
    choice_options,
    config_option,
    delta_option,
    epsilon_option,
    ledger_option,
    lookups_option,
    read_config,
    source_arguments,
    synthesizer_option,
)
from privbench.display import json_lines
from privbench.files import file_errors

summary_option = click.option(
    "--summary",
    "whole",
    is_flag=True,
    callback=lambda context, _, value: not value or context.obj.verbosity > 0,
    help="A line a table; with privbench -v a line a column all the same.",
)


@click.command()
@click.argument("source")
@config_option
@click.option("-o", "--output", metavar="FILE", help="Write the proposal as a config (TOML).")
@choice_options
@summary_option
@lookups_option
@click.option(
    "--sizes",
    is_flag=True,
    help="Show estimates of sizes, CONFIDENTIAL; what is chosen by them, ε does not cover.",
)
@click.option("--computed", is_flag=True, help="Take columns as computed whose names say so.")
def inspect(
    source: str,
    config_path: str | None,
    output: str | None,
    whole: bool,
    lookups: str,
    sizes: bool,
    computed: bool,
    **chosen: Any,
) -> None:
    """Propose roles, domains and look-ups from the catalog.

    Never reads rows. What a config decides stays as it is; one for Parquet files declares their
    keys.

    \b
    Example:
      privbench inspect "service=prod" -o privbench.toml
    """
    base = read_config(config_path, **chosen)
    proposal = pipeline.inspect(source, base=base, lookups=lookups, sizes=sizes, computed=computed)
    echo(proposal.render(whole=whole, width=width(sys.stdout)))
    if output:
        with file_errors(f"cannot write {output}"):
            Path(output).write_text(proposal.dumps(), encoding="utf-8")
        echo(f"Wrote {output}: read it, change it, then: privbench fit SOURCE -c {output} -o MODEL")


@click.command()
@source_arguments
@summary_option
def check(source: str, config_path: str | None, whole: bool) -> None:
    """Compare a config with the schema, and list every column.

    Never reads rows.

    \b
    Example:
      privbench check "service=prod" -c privbench.toml
    """
    checked = pipeline.check(read_config(config_path), source)
    echo(checked.render(whole=whole, width=width(sys.stdout)))


@click.command()
@source_arguments
@epsilon_option
@delta_option
@synthesizer_option
@click.option(
    "--rows",
    multiple=True,
    metavar="TABLE=N",
    help="Units that you expect in a table; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def plan(
    state: CommandState,
    /,
    source: str,
    config_path: str | None,
    rows: tuple[str, ...],
    as_json: bool,
    **settings: Any,
) -> None:
    """Say for which tables ε is enough, from the catalog alone.

    Without a config for the proposal. A line a table: units needed, units assumed, and the
    verdict. With privbench -v every event follows, with its share of the budget and its noise.

    \b
    Example:
      privbench plan "service=prod" -c privbench.toml --epsilon 3.2 --rows public.users=40000
    """
    chosen = pipeline.require_epsilon(read_config(config_path, **settings))
    if config_path is None:
        chosen = pipeline.inspect(source, base=chosen).config
    whole = state.verbosity > 0
    planned = pipeline.plan(chosen, source, pipeline.parse_rows(rows), whole=whole or as_json)
    echo(json_lines(planned.to_json()) if as_json else planned.render(whole=whole))
    if planned.losses and not as_json:
        color = False if "NO_COLOR" in os.environ else None
        echo(pipeline.render_losses(planned.losses), fg="red", color=color)


@click.command("config-schema")
def config_schema() -> None:
    """Print the JSON Schema of the config file, for editors.

    \b
    Example:
      privbench config-schema > privbench.schema.json
    """
    from privbench.config import json_schema

    echo(json_lines(json_schema()))


@click.command()
@click.argument("source", required=False)
@click.argument("target", required=False)
@config_option
@ledger_option
def doctor(
    source: str | None, target: str | None, config_path: str | None, ledger: str | None
) -> None:
    """Check machine, SOURCE and TARGET before budget is spent.

    Versions, space, rights, superusers, poolers and standbys in between, encodings, extensions,
    identity and ledger; a line each, with the way out. Reads catalogs and settings, no rows. Exit
    code 1 if a fit or a load would be refused.

    \b
    Example:
      privbench doctor "service=prod" "service=clone" -c privbench.toml
    """
    diagnosis = pipeline.doctor(source, target, read_config(config_path, ledger=ledger))
    echo(diagnosis.render())
    diagnosis.require_sound()
