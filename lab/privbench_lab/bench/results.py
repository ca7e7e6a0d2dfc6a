"""From outcomes of cells to results: means over seeds with their scatter, files, and gates."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from privbench.files import replacing, write_text
from privbench.report.document import GatePart
from privbench.report.gates import Gate
from privbench_lab.bench.cell import Outcome
from privbench_lab.bench.classifiers import ranking_agreement
from privbench_lab.bench.config import REAL, BenchConfig
from privbench_lab.bench.fitting import ANY_DATA, options_for
from privbench_lab.bench.peers import peers
from privbench_lab.bench.published import Printed
from privbench_lab.literature.proofs import Proof, proof_of

#: Figures of predictive models: those trained on real rows have them too.
_SCORES = ("auroc", "auprc", "f1", "rmse")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of one kind of release: a mean over seeds, never the best of them."""

    mean: float  # mean over the seeds that gave the figure
    sd: float | None  # standard deviation over them; None if there is only one
    n: int  # number of these seeds
    least: float
    median: float
    most: float

    @classmethod
    def of(cls, values: list[float]) -> Figure:
        """The figure of these values, one for each seed."""
        sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
        ends = float(np.min(values)), float(np.median(values)), float(np.max(values))
        return cls(float(np.mean(values)), sd, len(values), *ends)


@dataclass(frozen=True)
class Line:
    """A row of the result tables: one synthesizer on one data set at one ε."""

    data: str  # the data set
    synthesizer: str
    epsilon: float | None  # ε; None for real rows
    figures: dict[str, Figure]  # by name
    failures: dict[str, int]  # seeds that failed, by reason
    private: bool  # whether all noise came from the operating system's entropy

    @property
    def place(self) -> str:
        """The row's name in gates, such as ``adult/privbench/1``."""
        at = "" if self.epsilon is None else f"/{self.epsilon:g}"
        return f"{self.data}/{self.synthesizer}{at}"


@dataclass(frozen=True)
class Results:
    """The results of a whole grid. CONFIDENTIAL, as its figures are computed from real rows."""

    grid: BenchConfig
    lines: list[Line]  # rows of the tables
    proofs: dict[str, Proof]  # verdicts by synthesizer
    printed: list[Printed]  # figures that papers have printed
    notes: dict[str, tuple[str, ...]]  # per data set, remarks for readers
    mistakes: list[str]  # what could not be run or read, one line each
    outcomes: list[Outcome]  # of all cells

    def figures(self) -> dict[str, float | None]:
        """Figures by the names that gates use: ``auroc.gb[adult/privbench/1]`` is the mean.

        ``median.`` before it is the median, ``spread.`` the greatest difference of two releases.
        """
        found: dict[str, float | None] = {}
        for line in self.lines:
            for name, figure in line.figures.items():
                place = f"{name}[{line.place}]"
                found[place] = figure.mean
                found[f"median.{place}"] = figure.median
                found[f"spread.{place}"] = figure.most - figure.least
        return found

    def check(self, gates: Iterable[Gate]) -> list[GatePart]:
        """Compare the means with gates; a gate whose cells all failed is failed.

        A UsageError names what the grid does not have.
        """
        found = self.figures()
        every = {name.partition("[")[0] for name in found}
        for line in self.lines:
            if not line.figures:
                found |= {f"{name}[{line.place}]": None for name in every}
        return [gate.check(found) for gate in gates]

    def judged(self) -> list[GatePart]:
        """The thresholds of the grid; one fails where a release did not give its figure."""
        gates = self.grid.gates()
        lines = {line.place: line for line in self.lines}
        known: dict[str, float | None] = dict(self.figures())
        for gate in gates:
            name, place = gate.figure.removesuffix("]").split("[")
            figures = lines[place].figures if place in lines else {}
            figure = figures.get(name.partition(".")[2])
            if figure is None or figure.n < self.grid.seeds:
                known[gate.figure] = None
        return [gate.check(known) for gate in gates]

    def printed_for(self, line: Line) -> dict[str, Printed]:
        """Printed figures of a row, by metric; the first where there are several."""
        found: dict[str, Printed] = {}
        for part in self.printed:
            same = part.data == line.data and part.synthesizer == line.synthesizer
            if same and (part.epsilon == line.epsilon or line.epsilon is None):
                found.setdefault(part.metric, part)
        return found

    def save(self, output: Path) -> None:
        """Write results.json and results.parquet."""
        rows = [
            {**asdict(outcome.job), "metric": name, "value": value}
            for outcome in self.outcomes
            for name, value in outcome.figures.items()
        ]
        columns = ["data", "synthesizer", "epsilon", "seed", "metric", "value"]
        frame = pd.DataFrame(rows, columns=columns).astype({"epsilon": float, "value": float})
        with replacing(output / "results.parquet") as file:
            frame.to_parquet(file, index=False)
        write_text(output / "results.json", json.dumps(self.to_json(), indent=1) + "\n")

    def to_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        lines = [
            {**asdict(line), "printed": {n: asdict(p) for n, p in self.printed_for(line).items()}}
            for line in self.lines
        ]
        return {
            "confidential": True,
            "grid": self.grid.model_dump(mode="json"),
            "lines": lines,
            "proofs": {name: asdict(proof) for name, proof in self.proofs.items()},
            "notes": self.notes,
            "mistakes": self.mistakes,
        }


def collect(
    grid: BenchConfig,
    outcomes: list[Outcome],
    printed: list[Printed],
    notes: Mapping[str, tuple[str, ...]],
    mistakes: list[str],
) -> Results:
    """The results that follow from the outcomes of cells, in the order of the grid."""
    groups: dict[tuple[int, int, float], list[Outcome]] = defaultdict(list)
    data, names = list(grid.data), [REAL, *grid.synthesizers]
    for outcome in outcomes:
        job = outcome.job
        place = data.index(job.data), names.index(job.synthesizer), job.epsilon or 0.0
        groups[place].append(outcome)
    lines: list[Line] = []
    real: dict[int, dict[str, float]] = {}
    for place in sorted(groups):
        line = _line(groups[place], real.get(place[0], {}))
        lines.append(line)
        if line.synthesizer == REAL:
            real[place[0]] = {name: figure.mean for name, figure in line.figures.items()}
    return Results(grid, lines, _proofs(grid), printed, dict(notes), mistakes, outcomes)


def _line(outcomes: list[Outcome], real: Mapping[str, float]) -> Line:
    """The row of releases of one kind; ``real`` are the means of training on real rows."""
    values: dict[str, list[float]] = defaultdict(list)
    for outcome in outcomes:
        for name, value in {**outcome.figures, **_against(outcome.figures, real)}.items():
            values[name].append(value)
    figures = {name: Figure.of(part) for name, part in values.items()}
    failures = Counter(outcome.message for outcome in outcomes if outcome.status == "failed")
    private, job = all(outcome.private for outcome in outcomes), outcomes[0].job
    return Line(job.data, job.synthesizer, job.epsilon, figures, dict(failures), private)


def _against(figures: Mapping[str, float], real: Mapping[str, float]) -> dict[str, float]:
    """Comparisons with training on real rows: the gap of every AUROC, and agreement of ranks."""
    found = {
        f"gap.{name}": real[name] - value
        for name, value in figures.items()
        if name.startswith("auroc.") and name in real
    }
    for kind in _SCORES:
        agreed = ranking_agreement(_models(kind, real), _models(kind, figures))
        if agreed is not None:
            found[f"sra.{kind}"] = agreed
    return found


def _models(kind: str, figures: Mapping[str, float]) -> dict[str, float]:
    """Figures of one kind for single models, without the means over models."""
    means = (f"{kind}.mean", f"{kind}.no_mlp")
    return {k: v for k, v in figures.items() if k.startswith(f"{kind}.") and k not in means}


def _proofs(grid: BenchConfig) -> dict[str, Proof]:
    found = {}
    for name, settings in grid.synthesizers.items():
        use = grid.use_of(name)
        peer = peers().get(use)
        found[name] = peer.proof if peer else proof_of(use, options_for(settings.options, ANY_DATA))
    return found
