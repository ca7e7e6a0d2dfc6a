"""The command group ``workload``: generate, capture, convert and re-bind workloads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import click

from privbench import pipeline
from privbench.cli.console import echo
from privbench.cli.options import SECONDS, CommandState, gathered, options_of
from privbench.errors import UsageError
from privbench.options import CaptureOptions
from privbench.workload import formats

if TYPE_CHECKING:
    from privbench.workload import Workload
    from privbench.workload.formats.base import WorkloadFormat
    from privbench.workload.rebind import Rebinding

_SHOWN = 10
_WEIGHTED = re.compile(r"(.+)@(\d+(?:\.\d+)?)\Z")


def _range(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    """``2`` or ``1-6``."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is neither a number nor a range such as 1-6.")
    return int(match[1]), int(match[2] or match[1])


def _operators(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    """Split a list such as ``=,between``."""
    return tuple(value.replace(" ", "").split(",")) if value else None


def _kind(context: click.Context, option: click.Parameter, value: str) -> str:
    """A kind that is installed; kinds are not imported for a help text."""
    from privbench.workload import kinds

    if value not in kinds():
        raise click.BadParameter(f"{value!r} is not one of {', '.join(sorted(kinds()))}.")
    return value


_format_names = click.Choice(formats.names())


found_in_option = click.option(
    "--ledger",
    metavar="DIR",
    help="Directory of the ledger: a clone found in it may be the source, and the workload is "
    "CONFIDENTIAL.",
)


def _form(source_form: str | None, table: str | None, columns: str | None) -> dict[str, Any]:
    """The format to read, with the table and columns that its files do not state."""
    if table is None and columns is None:
        return {"form": source_form}
    choices = formats.names() if source_form is None else (source_form,)
    named = next((form.named for form in map(formats.by_name, choices) if form.named), None)
    if named is None:
        raise UsageError("files of the format state their table and columns.")
    names = tuple(name.strip() for name in columns.split(",")) if columns else ()
    return {"form": named(table, names)}


def _reading(meaning: str) -> Callable[[Any], Any]:
    """Options of a workload that is read, handed on as ``form``."""
    return gathered(
        _form,
        click.option("--from", "source_form", type=_format_names, metavar="FORMAT", help=meaning),
        click.option("--table", metavar="NAME", help="Table, if files do not state it."),
        click.option("--columns", metavar="A,B,…", help="Names of numbered columns."),
    )


@click.group()
def workload() -> None:
    """Make workloads, and convert them between formats.

    \b
    Formats:
      native     JSON with ids, answers, weights, templates and parameters
      sql        a file of statements, or a folder of them (JOB)
      card-sql   lines of count||SQL (STATS-CEB)
      pgbench    scripts with \\set variables, and their weights

    Installed packages may add others. A format is recognised by its content. `run` and `compare`
    read them all.

    \b
    Example:
      privbench workload generate prod.privbench -o queries.json --kind joins
    """


@workload.command()
@click.argument("source", metavar="SOURCE_OR_MODEL")
@click.option("-o", "--output", required=True, metavar="FILE", help="The workload to write.")
@click.option("--kind", callback=_kind, metavar="KIND", default="mscn", help="In whose manner.")
@click.option("--queries", type=click.IntRange(1), metavar="N", help="How many.")
@click.option("--joins", callback=_range, metavar="N-M", help="Joins of a query.")
@click.option("--predicates", callback=_range, metavar="N-M", help="Predicates of a query.")
@click.option("--operators", callback=_operators, metavar="LIST",
              help="Of =, <, >, <=, >=, between, like, ilike.")  # fmt: skip
@click.option("--card-min", "least", type=click.IntRange(0), metavar="N", help="Least answer.")
@click.option("--card-max", "most", type=click.IntRange(0), metavar="N", help="Largest answer.")
@click.option("--seed", type=int, default=0, help="Seed of the draws.")
@click.option("--format", "form", type=_format_names, metavar="FORMAT", default="native",
              help="Format to write.")  # fmt: skip
@click.option("--clone", metavar="DSN", help="A clone to count on; of a model only.")
@click.option("--scale", type=float, default=1.0, help="Size of the sample "
              "of a model that literals come from.")  # fmt: skip
@click.option("--schema", "schemas", multiple=True, metavar="NAME", default=("public",),
              help="PostgreSQL schemas of a source.")  # fmt: skip
@click.option("--table", "only", multiple=True, metavar="NAME", help="A table to query; else all.")
@click.option("--timeout", type=SECONDS, metavar="FLOAT", default=20.0,
              help="Seconds; queries that take longer are left out.")  # fmt: skip
@found_in_option
@click.pass_obj
def generate(
    state: CommandState, /, source: str, output: str, kind: str, form: str, **given: Any
) -> None:
    """Make a workload for SOURCE or from a MODEL.

    That for SOURCE (a DSN) is CONFIDENTIAL, that from MODEL publishable. Of a source, literals and
    stated answers come from its rows. Of a model, literals come from rows sampled from it, no
    database is read, and answers are stated only of a --clone. Options that are not given are the
    kind's own.

    \b
    Kinds:
      mscn        joins with predicates drawn by table (Kipf et al.)
      joins       joins around rows that join: no answer is zero, however long the query
      mixed       counts, GROUP BY and ORDER BY … LIMIT

    Installed formats may add others. The same input and seed give the same workload.

    \b
    Example:
      privbench workload generate prod.privbench -o queries.json --joins 0-3 --predicates 1-6
    """
    from privbench.workload import Plan, kinds

    chosen = {part.name: given.pop(part.name) for part in fields(Plan)}
    changes = {name: value for name, value in chosen.items() if value is not None}
    plan: Plan = replace(kinds()[kind].plan, **changes)
    generated = pipeline.generate_workload(source, kind, plan, reporter=state.reporter, **given)
    _write(generated, output, form)
    if len(generated) < plan.queries:
        echo(f"{plan.queries - len(generated)} fewer than asked for: the data yields no more.")


@workload.command("import")
@click.argument("workloads", nargs=-1, required=True, metavar="WORKLOAD[@WEIGHT]...")
@click.option("-o", "--output", required=True, metavar="FILE", help="The native JSON to write.")
@_reading("Their format.")
@click.option("--name", metavar="NAME", help="Name of the workload.")
def import_(
    workloads: tuple[str, ...], output: str, name: str | None, form: str | WorkloadFormat | None
) -> None:
    """Bring workloads of any formats together into one.

    It has the native format.

    A weight multiplies those of the file's queries. Where several files are given, ids get their
    file's name in front.

    \b
    Example:
      privbench workload import select.sql@9 report.sql@1 --from pgbench -o mix.json
    """
    from privbench.workload import read, united

    workloads_read = []
    for item in workloads:
        weighted = _WEIGHTED.match(item)
        path, weight = (weighted[1], float(weighted[2])) if weighted else (item, 1.0)
        if weight <= 0:
            raise UsageError(f"the weight of {path} is not above 0.")
        imported = read(path, form)
        scaled = (replace(query, weight=query.weight * weight) for query in imported)
        workloads_read.append(replace(imported, queries=tuple(scaled)))
    whole = united(workloads_read)
    _write(replace(whole, name=name) if name else whole, output, "native")


@workload.command()
@click.argument("workload_in", metavar="IN")
@click.argument("workload_out", metavar="OUT")
@_reading("Format of IN; else detected.")
@click.option("--to", "target_form", type=_format_names, metavar="FORMAT", required=True,
              help="Format of OUT.")  # fmt: skip
def convert(
    workload_in: str, workload_out: str, target_form: str, form: str | WorkloadFormat | None
) -> None:
    """Bring a workload into another format.

    What that cannot hold is refused by name.

    native, sql, card-sql and pgbench keep the SQL text, others its meaning. What is written for
    pgbench is for a clone, never for the source.

    \b
    Example:
      privbench workload convert stats_ceb.sql stats-ceb/ --to sql
    """
    from privbench.workload import read

    _write(read(workload_in, form), workload_out, target_form)


@workload.command()
@click.argument("dsn", required=False)
@click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="FILE",
    help="A log, a pattern of logs or a folder: csv, JSON or plain; .gz too.",
)
@options_of(CaptureOptions)
@click.option("-o", "--output", required=True, metavar="FILE", help="The workload, as JSON.")
@click.pass_obj
def capture(state: CommandState, /, dsn: str | None, output: str, **given: Any) -> None:
    """Capture queries that a server ran. CONFIDENTIAL.

    They are weighted by their calls.

    Reads pg_stat_statements of DSN, or logs with statements or auto_explain's plans. Queries that
    differ only in their constants become one. Re-bind the result before it leaves the house, and
    before a capture of pg_stat_statements runs: its constants are $1, $2, ….

    \b
    Example:
      privbench workload capture "service=prod" -o captured.json
      privbench workload capture --log postgresql.csv --database shop -o captured.json
      privbench workload capture --log postgresql.csv --sessions --writes -o stream.json
    """
    from privbench.workload import write
    from privbench.workload.formats.base import CONFIDENTIAL

    with state.reporter.stage("capture"):
        found = pipeline.capture(dsn, **given)
    write(found.workload, output, "native")
    for reason, calls in found.skipped.items():
        echo(f"Left out {calls:,} calls: {reason}.")
    echo(
        f"{CONFIDENTIAL} Wrote {len(found.workload):,} queries that stand for {found.calls:,} "
        f"calls to {output}. Next: privbench workload "
        + ("convert --to pgbench; all else takes reads alone." if given["writes"] else "rebind.")
    )


@workload.command()
@click.argument("workload", metavar="WORKLOAD")
@click.option("--model", metavar="MODEL", help="Take the values from this model's rows.")
@click.option(
    "--on", metavar="DSN", help="Take them from this clone, which checks the queries too."
)
@click.option("--seed", type=int, default=0, help="Seed of the draws.")
@found_in_option
@click.option(
    "--allow-function",
    "functions",
    multiple=True,
    metavar="SCHEMA.NAME",
    help="Queries may call it; others with functions that are not listed are left out.",
)
@click.option("-o", "--output", required=True, metavar="FILE", help="The workload, as JSON.")
@click.pass_obj
def rebind(
    state: CommandState, /, workload: str, functions: tuple[str, ...], output: str, **given: Any
) -> None:
    """Replace literals of a workload by those of synthetic rows.

    It can then be published.

    A literal that is compared with a column becomes a value of that column in the clone or the
    model. Others become neutral constants, but for limits, units and small numbers. Comments and
    stated answers are dropped; a query that cannot be bound is left out.

    \b
    Example:
      privbench workload rebind captured.json --on "service=clone" -o public.json
    """
    from privbench.workload.safety import Trust

    with state.reporter.stage("rebind"):
        rebinding = pipeline.rebind(workload, trust=Trust.of(functions), **given)
    for line in _binding_lines(rebinding):
        echo(line)
    _write(rebinding.workload, output, "native")


def _binding_lines(rebinding: Rebinding) -> list[str]:
    """Lines that say how many queries were bound, and why others were left out."""
    from privbench.report.text import few
    from privbench.workload.results import failures

    all_of = sum(rebinding.literals.values(), Counter[str]())
    lines = [
        f"{len(rebinding.workload):,} queries bound anew: {all_of['drawn']:,} literals drawn from "
        f"columns, {all_of['kept']:,} kept as structure, {all_of['neutral']:,} made neutral."
    ]
    constants = {name: n for name, of in rebinding.literals.items() if (n := of["neutral"])}
    if constants:
        names = few([f"{name} ({count})" for name, count in constants.items()], _SHOWN)
        lines.append(f"Literals that met no column, by query: {names}.")
    if rebinding.left_out:
        lines.append(f"Left out {len(rebinding.left_out):,} queries:")
    reasons = failures((name, "left out", why) for name, why in rebinding.left_out.items())
    return lines + [f"  {len(ids):,}: {why}: {few(ids, _SHOWN)}" for why, ids in reasons]


def _write(workload: Workload, path: str, form: str) -> None:
    from privbench.workload import write
    from privbench.workload.formats.base import CONFIDENTIAL

    write(workload, path, form)
    stamp = f"{CONFIDENTIAL} " if workload.confidential else ""
    echo(f"{stamp}Wrote {len(workload):,} queries to {path}.")
