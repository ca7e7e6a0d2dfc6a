"""Reads figures that papers have printed from CSV files, to show them beside ours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from privbench_lab.bench.config import REAL, BenchConfig

_COLUMNS = ["paper", "dataset", "method", "epsilon", "metric", "value"]


@dataclass(frozen=True, slots=True)
class Printed:
    """One printed figure."""

    paper: str  # the paper, as its table calls it
    data: str  # the grid's data set
    method: str  # the method, as the paper calls it
    synthesizer: str | None  # the grid's synthesizer of that method; None where it has none
    epsilon: float | None  # ε; None where the paper says none
    metric: str  # our name of the figure
    value: float  # the figure
    note: str  # remark on the figure in the table of published figures


def read_published(grid: BenchConfig, folder: Path) -> tuple[list[Printed], list[str]]:
    """Printed figures of the grid's data sets and metrics; one line for every file that fails."""
    found: list[Printed] = []
    lines = []
    for name in grid.published.files:
        try:
            rows = pd.read_csv(folder / name, dtype=str, keep_default_na=False)
            if missing := [column for column in _COLUMNS if column not in rows.columns]:
                raise ValueError(f"no column {missing[0]!r}")
        except (OSError, ValueError) as error:
            lines.append(f"published figures of {name} are left out: {error}.")
            continue
        found += _of(grid, rows)
    return found, lines


def _of(grid: BenchConfig, rows: pd.DataFrame) -> Iterator[Printed]:
    data = {(config.published or name).lower(): name for name, config in grid.data.items()}
    metrics = {theirs: ours for ours, theirs in grid.published.metrics.items()}
    methods = {
        method: name for name, part in grid.synthesizers.items() for method in part.published
    }
    methods |= dict.fromkeys(grid.published.real, REAL)
    for row in rows.to_dict("records"):
        ours, metric = data.get(row["dataset"].lower()), metrics.get(row["metric"])
        value = _number(row["value"])
        if ours is None or metric is None or value is None:
            continue
        yield Printed(
            row["paper"],
            ours,
            row["method"],
            methods.get(row["method"]),
            _number(row["epsilon"]),
            metric,
            value,
            row.get("note", ""),
        )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
