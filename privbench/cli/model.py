"""``fit``, ``sample``, ``load``: the three steps of a clone, one by one."""

from __future__ import annotations

from typing import Any

import click

from privbench import pipeline
from privbench.cli.consent import accept
from privbench.cli.metrics import metrics_option, rows
from privbench.cli.options import (
    ReleaseOptions,
    State,
    choice_options,
    lock_option,
    overwrite_option,
    release_options,
    replace_option,
    scale_option,
    seed_option,
    target_options,
)
from privbench.postgres.patterns import Selection


@click.command()
@click.argument("source")
@release_options
@click.option("-o", "--output", required=True, metavar="MODEL", help="The model file to write.")
@overwrite_option
@metrics_option
@click.pass_obj
def fit(state: State, source: str, release: ReleaseOptions, output: str, force: bool) -> None:
    """Learn a model of SOURCE under differential privacy; spends budget.

    \b
    Example:
      privbench fit "service=prod" -c privbench.toml --epsilon 3.2 -o prod.privbench
    """
    config = release.config()
    pipeline.require_writable(output, overwrite=force)
    config, seen = accept(config, source, release)
    fitted = pipeline.fit(
        source, config, output, reporter=state.reporter, resume=release.resume, seen=seen
    )
    lost = pipeline.render_losses(pipeline.losses(fitted))
    click.echo("\n".join(filter(None, (lost, f"{output}: {fitted.promise.sentence()}"))))


@click.command()
@click.argument("model", metavar="MODEL")
@click.option("-o", "--output", required=True, metavar="DIR", help="Directory for the files.")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["csv", "parquet"]),
    default="csv",
    show_default=True,
    help="File format.",
)
@choice_options
@scale_option
@seed_option
@click.option("--force", is_flag=True, help="Replace files that are there already.")
@click.pass_obj
def sample(
    state: State,
    /,
    model: str,
    output: str,
    schemas: tuple[str, ...],
    tables: tuple[str, ...],
    excluded: tuple[str, ...],
    **given: Any,
) -> None:
    """Write synthetic rows of MODEL as files; needs no source.

    A table's file is SCHEMA.TABLE.csv. Bytes of names other than letters of ASCII, digits, _, - and
    $ are %XX, dots within a name among them, as in URLs: A/b is A%2Fb, and every name can be read
    back. Of names that differ in capitals alone the capitals are %XX too. Where that is too long
    for a file's name, it is TABLE.csv in a folder SCHEMA.

    Files hold rows as drawn, and say which rules they may break: CHECKs that are not understood,
    UNIQUE indexes of expressions, EXCLUDE constraints and partition bounds are repaired by `load`,
    in a database. For files that keep them, load the model and COPY its tables out.

    \b
    Example:
      privbench sample prod.privbench -o clone/ --format parquet --scale 2
    """
    choice = Selection(schemas or None, tables or None, excluded)
    written = pipeline.sample(model, output, choice=choice, reporter=state.reporter, **given)
    for line in written:
        click.echo(line)


@click.command()
@click.argument("model", metavar="MODEL")
@click.argument("target")
@scale_option
@seed_option
@replace_option
@click.option(
    "--trust-programs",
    is_flag=True,
    help="Run all of the model's DDL; without it, functions, triggers, rules and what calls them "
    "are left out and named.",
)
@click.option("--schema-only", is_flag=True, help="Make the schema, without rows.")
@click.option(
    "--dry-run", is_flag=True, help="Make the schema and undo it: what would stop or be lost shows."
)
@lock_option
@target_options
@metrics_option
@click.pass_obj
def load(
    state: State, /, model: str, target: str, dry_run: bool, strict: bool, **given: Any
) -> None:
    """Write a clone into TARGET: schema, rows, keys, indexes, sequences, ANALYZE; all or nothing.

    \b
    Example:
      privbench load prod.privbench "service=clone"
    """
    report = pipeline.load(model, target, dry_run=dry_run, reporter=state.reporter, **given)
    state.samples += () if dry_run else rows(report)
    click.echo("Nothing was written: --dry-run." if dry_run else report.render())
    for line in report.losses if dry_run else ():
        click.echo(line)
    if strict:
        report.require_whole()
