"""The commands ``fit``, ``sample``, ``load``, and ``clone`` and ``demo``, which run all three."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from privbench import pipeline, publish
from privbench.cli.console import LOG, ask, choose, echo, show, width
from privbench.cli.metrics import metrics_option, rows
from privbench.cli.options import (
    CommandState,
    ReleaseOptions,
    choice_options,
    jobs_option,
    lock_option,
    network_option,
    options_of,
    overwrite_option,
    release_options,
    sampling_options,
    scale_table_option,
    strict_option,
    synthesizer_option,
)
from privbench.display import lines
from privbench.errors import UsageError
from privbench.options import LoadOptions

if TYPE_CHECKING:
    from privbench.config import Config, TableConfig


@click.command()
@click.argument("source")
@release_options
@click.option("-o", "--output", required=True, metavar="MODEL", help="The model file to write.")
@overwrite_option
@click.option(
    "--strict",
    is_flag=True,
    help="Exit code 4, after the totals, if finer units would make a table useful.",
)
@metrics_option
@click.pass_obj
def fit(
    state: CommandState,
    source: str,
    release: ReleaseOptions,
    output: str,
    force: bool,
    strict: bool,
) -> None:
    """Learn a model of SOURCE with differential privacy.

    It spends budget.

    \b
    Example:
      privbench fit "service=prod" -c privbench.toml --epsilon 3.2 -o prod.privbench
    """
    config = release.config()
    pipeline.require_writable(output, overwrite=force)
    state.reporter.strict, state.reporter.agreed = strict, release.yes
    config, catalog = _accept(config, source, release, state, None)
    fitted = pipeline.fit(
        source,
        config,
        output,
        reporter=state.reporter,
        resume=release.resume,
        catalog=catalog,
        since=release.since,
    )
    lost = pipeline.render_losses(pipeline.losses(fitted))
    _alarm(state)
    echo(lines(*filter(None, (lost, f"{output}: {fitted.promise.sentence()}"))))


def _alarm(state: CommandState) -> None:
    """Say first what a fit went on without."""
    if state.reporter.offered:
        echo(state.reporter.offered, alarm=True)


@click.command()
@click.argument("model", metavar="MODEL")
@click.option("-o", "--output", required=True, metavar="DIR", help="Directory for the files.")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["csv", "parquet"]),
    default="csv",
    help="File format.",
)
@choice_options
@sampling_options
@scale_table_option
@click.option("--force", is_flag=True, help="Replace files that are there already.")
@click.pass_obj
def sample(
    state: CommandState, /, model: str, output: str, factors: dict[str, float], **given: Any
) -> None:
    """Write synthetic rows of MODEL as files; needs no source.

    A table's file is SCHEMA.TABLE.csv. Bytes of names other than letters of ASCII, digits, _, - and
    $ are %XX, as in URLs, and so are capitals of names that differ in them alone. Where that is too
    long for a file's name, it is TABLE.csv in a folder SCHEMA.

    Files hold rows as drawn, and say which rules they may break: CHECKs that are not understood,
    UNIQUE indexes of expressions, EXCLUDE constraints and partition bounds are repaired by `load`,
    in a database. For files that keep them, load the model and COPY its tables out.

    Parquet has dates, times, numbers, uuids and bytes as such where all values of a column fit
    them, and a folder of such files is a source again, with its keys (parquet://DIR).

    \b
    Example:
      privbench sample prod.privbench -o clone/ --format parquet --scale 2
    """
    source = pipeline.scaled(model, factors) if factors else model
    for line in pipeline.sample(source, output, reporter=state.reporter, **given):
        echo(line)


@click.command()
@click.argument("model", metavar="MODEL")
@click.argument("target")
@options_of(LoadOptions)
@click.option(
    "--statistics-only",
    is_flag=True,
    help="Make the schema without rows, which the planner takes for a clone with all rows "
    "(PostgreSQL 18).",
)
@scale_table_option
@network_option
@jobs_option
@lock_option
@strict_option
@metrics_option
@click.pass_obj
def load(
    state: CommandState,
    /,
    model: str,
    target: str,
    factors: dict[str, float],
    dry_run: bool,
    strict: bool,
    statistics_only: bool,
    **given: Any,
) -> None:
    """Write a clone into TARGET.

    That is schema, rows, keys, indexes, sequences and statistics. A large clone is loaded into an
    empty TARGET by --jobs connections. Until it ends TARGET is marked as unfinished, and no command
    reads it; if it was killed, the same command goes on. Small clones, those that --replace what is
    there, and those with --one-transaction are written all or nothing. In the end the database's
    comment says that it is a clone.

    \b
    Example:
      privbench load prod.privbench "service=clone"
      privbench load prod.privbench "service=clone" --scale 50 --jobs 4
    """
    source = pipeline.scaled(model, factors) if factors else model
    if statistics_only and (dry_run or given["schema_only"]):
        raise UsageError("--statistics-only goes with neither --schema-only nor --dry-run.")
    try:
        if statistics_only:
            report = publish.load_statistics(source, target, reporter=state.reporter, **given)
            echo("The tables are empty. The planner takes them for:")
        else:
            options = {"dry_run": dry_run, "reporter": state.reporter, **given}
            report = pipeline.load(source, target, **options)
    except BaseException as error:
        if pipeline.STAYS in getattr(error, "__notes__", ()):
            error.add_note(f"To go on: {state.reporter.again()}")
        raise
    state.samples += () if dry_run or statistics_only else rows(report)
    if dry_run:
        echo("Nothing was written: --dry-run.")
    else:
        echo(report.render(), alarm=bool(report.alarm))
    for line in report.losses if dry_run else ():
        echo(line)
    if strict:
        report.require_whole()


@click.command()
@click.argument("source")
@click.argument("target")
@release_options
@options_of(LoadOptions, "scale", "replace", "one_transaction", "where", "as_role")
@click.option("-o", "--output", metavar="MODEL", help="Keep the model file here.")
@overwrite_option
@strict_option
@metrics_option
@click.pass_obj
def clone(
    state: CommandState,
    /,
    source: str,
    target: str,
    release: ReleaseOptions,
    replace: bool,
    output: str | None,
    force: bool,
    strict: bool,
    **given: Any,
) -> None:
    """Make a synthetic clone of SOURCE in TARGET; spends budget.

    Without a config it shows its proposal of roles and asks, or takes --yes.

    \b
    Example:
      privbench clone "service=prod" "service=clone" --epsilon 3.2 --yes
    """
    config = release.config()
    if output is not None:
        pipeline.require_writable(output, overwrite=force)
    pipeline.check_target(source, target, replace=replace, as_role=given["as_role"])

    def rehearse(catalog: pipeline.Catalog) -> pipeline.Catalog:
        options = {"replace": replace, "as_role": given["as_role"], "strict": strict}
        return pipeline.rehearse(source, target, catalog, config, **options)

    state.reporter.strict, state.reporter.agreed = strict, release.yes
    config, catalog = _accept(config, source, release, state, rehearse)
    report = pipeline.clone(
        source,
        target,
        config,
        output=output,
        replace=replace,
        resume=release.resume,
        since=release.since,
        strict=strict,
        catalog=catalog,
        reporter=state.reporter,
        **given,
    )
    state.samples += rows(report.loaded)
    _alarm(state)
    echo(report.render(), alarm=bool(report.loaded.alarm))
    if strict:
        report.loaded.require_whole()


@click.command()
@click.option("--rows", type=int, default=200_000, help="Rows of the source.")
@click.option("--epsilon", type=float, default=3.2, help="ε of the release.")
@synthesizer_option
@click.option("--queries", type=int, default=60, help="Queries to replay.")
@click.option("--out", default="demo-out", metavar="DIR", help="Output folder.")
@click.pass_obj
def demo(state: CommandState, /, out: str, **given: Any) -> None:
    """Make a source, clone it, replay a workload, and report.

    Starts a PostgreSQL of its own and stops it at the end; touches no other database.

    \b
    Example:
      privbench demo --rows 50000 --epsilon 1
    """
    echo(pipeline.demo(out, reporter=state.reporter, **given))


def _owners_in_doubt(inspection: pipeline.Inspection) -> dict[str, TableConfig]:
    """The sections of tables of which the user wants another owner than the proposed one."""
    sections = {}
    for name, item in inspection.proposal.tables.items():
        section = inspection.config.tables[name]
        if item.doubts and section.role == "private" and section.own == list(item.own or ()):
            columns, _ = item.choices[choose(*item.question())]
            if columns != (item.own or ()):
                sections[name] = section.model_copy(update={"own": list(columns)})
    return sections


def _accept(
    config: Config,
    source: str,
    release: ReleaseOptions,
    state: CommandState,
    rehearse: Callable[[pipeline.Catalog], pipeline.Catalog] | None,
) -> tuple[Config, pipeline.Catalog]:
    """The config to fit with, without a file the accepted proposal; and the catalog it is for.

    Values in the schema that would travel with the clone are shown in either case, and so is what
    a rehearsal found; accepting a proposal accepts them too. Without config and ``--yes`` somebody
    has to be there to ask.
    """
    pipeline.require_identity(source, config)
    pipeline.require_used(source, config)
    catalog = pipeline.look(source, config)
    pipeline.check_ledger(config, catalog.identity)
    if rehearse is None:
        catalog = pipeline.rehearse_apart(catalog, config, state.reporter)
    else:
        with state.reporter.stage("rehearse the schema"):
            catalog = rehearse(catalog)
    for line in catalog.findings:
        state.reporter.warn(line)
    if release.config_path is not None:
        # The file is its owner's declaration; --quiet may hide what it lets travel.
        if catalog.literals:
            LOG.info(pipeline.render_literals(catalog.literals))
        return config, catalog
    inspection = pipeline.inspect(source, base=config, lookups=release.lookups, catalog=catalog)
    show(inspection.render(whole=LOG.isEnabledFor(logging.DEBUG), width=width(sys.stderr)))
    if catalog.literals:
        show(pipeline.render_literals(catalog.literals))
    if not release.yes and sys.stdin.isatty() and (chosen := _owners_in_doubt(inspection)):
        config = config.model_copy(update={"tables": {**config.tables, **chosen}})
        inspection = pipeline.inspect(source, base=config, lookups=release.lookups, catalog=catalog)
        show(inspection.render(whole=False, width=width(sys.stderr)))
    if not release.yes:
        refused = UsageError(
            "roles are proposed but not accepted.",
            remedy="Read the proposal above, then use --yes or write a config with "
            "'privbench inspect SOURCE -o privbench.toml'.",
        )
        ask("Accept these roles, and these values as public?", refused)
    return inspection.config, pipeline.agreed_catalog(source, catalog, inspection)
