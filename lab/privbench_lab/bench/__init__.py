"""Benchmarks of synthesizers under one protocol: a grid of data, synthesizers, ε and seeds."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout

from privbench.errors import UsageError
from privbench.files import file_errors, make_folder, write_text
from privbench.pipeline.progress import Reporter
from privbench_lab.bench.config import BenchConfig
from privbench_lab.bench.results import Results

__all__ = ["BenchConfig", "Results", "bench"]


def bench(
    grid: BenchConfig | str | Path,
    output: str | Path,
    *,
    folder: str | Path | None = None,
    full: bool = False,
    at_once: int = 1,
    reporter: Reporter | None = None,
) -> Results:
    """Run the cells of a grid that are not done yet, and write the results of all.

    Args:
        grid: The grid, or its TOML file.
        output: Folder for ``results.json``, ``results.parquet``, ``bench.html`` and ``cells``.
        folder: Where the files of the grid are; those that are not there are beside the grid.
        full: Whether to run the full grid of the file.
        at_once: How many cells run at once, each in a process of its own.
        reporter: Receives progress and failures of cells.

    Returns:
        The results, which `Results.check` compares with gates. CONFIDENTIAL.

    Raises:
        ConfigError: The file is not a valid grid.
        UsageError: Nothing can be run or written, or another run writes there.
    """
    from privbench_lab.bench import page, published, results, runner

    teller = reporter or Reporter()
    if isinstance(grid, BenchConfig):
        folders = [Path(folder or ".")]
    else:
        folders = [*([Path(folder)] if folder is not None else []), Path(grid).parent]
        grid = BenchConfig.load(grid, full=full)
    place = Path(output)
    with file_errors(f"cannot write {place}"):
        make_folder(place)
    try:
        held = FileLock(place / ".lock").acquire(timeout=0)
    except Timeout:
        raise UsageError(f"another run writes to {place}.") from None
    with held:
        with teller.stage("check the grid"):
            prepared = runner.prepare(grid, folders, teller)
            printed, lines = published.read_published(grid, folders[0])
            for line in lines:
                teller.warn(line)
        if not prepared.jobs:
            raise UsageError("no cell of the grid can be run.", remedy="; ".join(prepared.lines))
        with teller.stage("cells"):
            outcomes = runner.run(prepared, place, at_once=at_once, reporter=teller)
        notes = {name: table.notes for name, table in prepared.tables.items()}
        found = results.collect(grid, outcomes, printed, notes, prepared.lines)
        found.save(place)
        write_text(place / "bench.html", page.render(found))
    return found
