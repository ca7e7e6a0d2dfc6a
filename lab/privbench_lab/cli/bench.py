"""``bench``: a grid of synthesizers, data, ε and seeds, scored by the literature's metrics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from privbench.cli.console import echo
from privbench.cli.options import CommandState, fail_if_option

if TYPE_CHECKING:
    from privbench_lab.bench.results import Results

_SHOWN = ("auroc.mean", "kld.2", "qerror.mean", "loglik.test", "params.l1", "seconds.fit")


@click.command()
@click.argument("grid", metavar="CONFIG")
@click.option("-o", "--output", required=True, metavar="DIR", help="Folder for the results.")
@click.option("--data", "folder", metavar="DIR", help="What paths in CONFIG are relative to; its "
              "own folder otherwise.")  # fmt: skip
@click.option("--full", is_flag=True, help="The full grid of CONFIG: its section 'full' counts.")
@click.option("-j", "--jobs", type=click.IntRange(1), default=1, metavar="N",
              help="Cells at once.")  # fmt: skip
@fail_if_option("'auroc.gb[adult/privbench/1] < 0.9'")
@click.pass_obj
def bench(
    state: CommandState,
    grid: str,
    output: str,
    folder: str | None,
    full: bool,
    jobs: int,
    gates: tuple[str, ...],
) -> None:
    """Compare synthesizers on data, ε and seeds. CONFIDENTIAL.

    CONFIG names data sets (CSV, Parquet, a database, a network), installed synthesizers and peers,
    ε, seeds, metrics and thresholds. Writes bench.html, results.json and results.parquet into the
    folder.
    Started again with the same folder it goes on where it stopped; cells that failed are tried
    again.

    \b
    Example:
      privbench bench benchmarks/papers/quail.toml --data data/ -o out/ -j 2
    """
    from privbench.report import enforce
    from privbench.report.gates import parse
    from privbench.report.headlines import gate_line
    from privbench_lab.bench import bench as run_bench

    teller, wanted = state.reporter, parse(gates)
    try:
        found = run_bench(grid, output, folder=folder, full=full, at_once=jobs, reporter=teller)
    except KeyboardInterrupt as error:
        error.add_note(f"To go on: the same command; what is done is kept in {output}")
        raise
    for line in _result_lines(found):
        echo(line)
    echo(f"CONFIDENTIAL results: {Path(output) / 'bench.html'}")
    parts = [*found.check(wanted), *found.judged()]
    for part in parts:
        echo(gate_line(part))
    enforce(parts)


def _result_lines(found: Results) -> list[str]:
    """One line for every row of the tables."""
    from privbench_lab.bench.config import REAL
    from privbench_lab.bench.page import shown

    lines = []
    for line in found.lines:
        figures = [f"{name} {shown(line.figures[name])}" for name in _SHOWN if name in line.figures]
        proof = "" if line.synthesizer == REAL else f" [{found.proofs[line.synthesizer].verdict}]"
        failed = sum(line.failures.values())
        figures += [f"{failed} failed"] if failed else []
        lines.append(f"{line.place}{proof}: {', '.join(figures) or 'nothing'}")
    return lines
