"""The cells of a protocol, a grid with thresholds, as a section of a Markdown page.

Nothing runs here: the section follows from the protocol's file and the files of its cells alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from privbench.errors import UsageError
from privbench_lab.bench.cell import Outcome
from privbench_lab.bench.config import BenchConfig, ThresholdConfig
from privbench_lab.bench.page import TITLES, short
from privbench_lab.bench.results import Figure, Line, Results, collect
from privbench_lab.bench.runner import jobs_of

#: The first figures of a table of answers: those of single queries come after them.
_SUMMARIES = ("answers.mean", "answers.p50")


def read_cells(grid: BenchConfig, folder: Path) -> Results:
    """The results of a protocol from the files of its cells.

    A UsageError says which cell is missing, or was made under another text of the protocol.
    """
    outcomes = []
    for job in jobs_of(grid):
        outcome = Outcome.read(job.file(folder))
        if outcome is None:
            raise UsageError(f"there is no cell of {job} in {folder}.")
        if outcome.protocol != grid.digest:
            raise UsageError(f"the cell of {job} was made under another text of the protocol.")
        outcomes.append(outcome)
    return collect(grid, outcomes, [], {}, [])


def section(results: Results) -> str:
    """The thresholds with their verdicts, what was measured beside them, and what ran on what."""
    figures = [
        "A row names database, synthesizer and ε. Every figure is of "
        f"{results.grid.seeds} releases, none of which was chosen. A row passes if their median is "
        "within its limit and no two of them differ by more than its spread. "
        f"{_passed(results, 'median')} medians are within their limits, "
        f"{_passed(results, 'spread')} differences within their spreads.",
        _table(
            ("row", "figure", "releases: least / median / most", "limit", "spread", "verdict"),
            _thresholds(results),
        ),
    ]
    failures = [
        f"- {line.place}: {count} of {results.grid.seeds} releases failed: {reason}"
        for line in results.lines
        for reason, count in line.failures.items()
    ]
    queries = [_queries(line) for line in results.lines if "answers.mean" in line.figures]
    seconds = _table(("row", "fit, s", "load, s"), map(_seconds, results.lines))
    return "\n\n".join(
        [
            *figures,
            *(["\n".join(failures)] if failures else []),
            *queries,
            "Seconds, which no threshold judges: least / median / most.",
            seconds,
            *_provenance(results.outcomes),
        ]
    )


def _passed(results: Results, kind: str) -> str:
    """How many thresholds of a kind pass, of how many."""
    parts = [part for part in results.judged() if part.condition.startswith(f"{kind}.")]
    return f"{sum(not part.failed for part in parts)} of {len(parts)}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _thresholds(results: Results) -> Iterator[tuple[str, ...]]:
    lines = {line.place: line for line in results.lines}
    verdicts = {part.condition: part.failed for part in results.judged()}
    for place, figures in results.grid.thresholds.items():
        for name, threshold in figures.items():
            figure = lines[place].figures.get(name) if place in lines else None
            gates = map(str, threshold.gates(f"{name}[{place}]"))
            kinds = sorted({gate.partition(".")[0] for gate in gates if verdicts[gate]})
            yield (
                place,
                TITLES.get(name, f"`{name}`"),
                _ends(figure),
                _limit(threshold),
                _spread(figure, threshold),
                f"**FAIL**: {', '.join(kinds)}" if kinds else "PASS",
            )


def _ends(figure: Figure | None) -> str:
    if figure is None:
        return "–"
    return " / ".join(short(value) for value in (figure.least, figure.median, figure.most))


def _limit(threshold: ThresholdConfig) -> str:
    least = [f"≥ {threshold.least:g}"] if threshold.least is not None else []
    most = [f"≤ {threshold.most:g}"] if threshold.most is not None else []
    return ", ".join([*least, *most]) or "–"


def _spread(figure: Figure | None, threshold: ThresholdConfig) -> str:
    if threshold.spread is None:
        return "–"
    own = "–" if figure is None else short(figure.most - figure.least)
    return f"{own} ≤ {threshold.spread:g}"


def _queries(line: Line) -> str:
    names = [n for n in line.figures if n.startswith("answers.") and n not in _SUMMARIES]
    rows = [(name.partition(".")[2], _ends(line.figures[name])) for name in names]
    head = f"Error of each aggregate query of {line.place}: least / median / most."
    return f"{head}\n\n{_table(('query', 'error'), rows)}"


def _seconds(line: Line) -> tuple[str, ...]:
    times = (line.figures.get(name) for name in ("seconds.fit", "seconds.sample"))
    return (line.place, *map(_ends, times))


def _provenance(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """The protocol, and what ran on what."""
    cells = list(outcomes)
    (protocol,) = {cell.protocol for cell in cells}
    yield f"The protocol has the SHA-256 `{protocol}`; it names that of every input."
    for what in ("versions", "machine"):
        counted = Counter(
            ", ".join(f"{name} {value}" for name, value in getattr(cell, what).items() if value)
            for cell in cells
        )
        yield "\n".join(f"- {count} cells: {text}" for text, count in sorted(counted.items()))
