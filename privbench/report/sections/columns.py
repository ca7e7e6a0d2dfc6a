"""Distributions of single columns: small bar charts, drawn as SVG so that they print."""

from __future__ import annotations

from dataclasses import dataclass

from privbench.report.document import ColumnPart, ComparisonDocument, TablePart
from privbench.report.sections.base import Section
from privbench.report.text import percent

#: Size of a chart's plot area in SVG units.
WIDTH, HEIGHT = 300.0, 96.0
# Beyond these, cells are too narrow for two bars, or for a label each.
_PAIRED, _LABELLED = 16, 7
_HOW = {
    "values": "",
    "public bins": "bins of equal width by the config",
    "source quantiles": "bins of about equal mass in the source",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One cell: its place, the heights of its two bars, and what a pointer over it says."""

    x: float
    width: float
    real: float
    clone: float
    hint: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A label under the chart."""

    x: float
    anchor: str
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One column's chart.

    Attributes:
        column: The column.
        bars: Its cells; heights are in SVG units.
        step: With many cells the clone is a line over the source's bars: the line's path.
        ticks: Labels of the cells, or of the ends of the range.
        top: Share at the upper edge.
        verdict: How far apart the two are.
        note: How values became cells.
    """

    column: ColumnPart
    bars: list[Bar]
    step: str
    ticks: list[Tick]
    top: str
    verdict: str
    note: str


def _values(document: ComparisonDocument) -> dict[str, object] | None:
    tables = [
        (table, [_chart(column) for column in table.columns])
        for table in document.tables
        if table.columns or table.left_out
    ]
    if not tables:
        return None
    return {"tables": tables, "width": WIDTH, "height": HEIGHT, "left_out": _left_out}


def _left_out(table: TablePart) -> str:
    return "; ".join(f"{name} ({reason})" for name, reason in table.left_out.items())


def _chart(column: ColumnPart) -> Chart:
    top = max([*column.real, *column.clone, 1e-12])
    cells = len(column.labels)
    paired = cells <= _PAIRED
    width = WIDTH / max(cells, 1)
    gap = 0.08 * width if paired else 0.0
    bars = [
        Bar(
            x=round(i * width + gap, 2),
            width=round(width - 2 * gap, 2),
            real=round(HEIGHT * real / top, 2),
            clone=round(HEIGHT * clone / top, 2),
            hint=f"{label}: source {percent(real)}, clone {percent(clone)}",
        )
        for i, (label, real, clone) in enumerate(
            zip(column.labels, column.real, column.clone, strict=True)
        )
    ]
    note = f"{cells} {_HOW[column.how]}" if _HOW[column.how] else ""
    step = "" if paired else _step(bars)
    return Chart(column, bars, step, _ticks(column), percent(top), percent(column.tvd), note)


def _step(bars: list[Bar]) -> str:
    """The clone's heights as the path of a step line."""
    steps = (f"H{bar.x} V{HEIGHT - bar.clone:.2f} H{bar.x + bar.width:.2f}" for bar in bars)
    return f"M0 {HEIGHT} {' '.join(steps)} V{HEIGHT}"


def _ticks(column: ColumnPart) -> list[Tick]:
    labels = column.labels
    if not labels:
        return []
    if len(labels) <= _LABELLED:
        width = WIDTH / len(labels)
        room = max(3, int(width / 5))
        return [
            Tick(round((i + 0.5) * width, 2), "middle", _cut(label, room))
            for i, label in enumerate(labels)
        ]
    ends = labels[0].partition(" – ")[0], labels[-1]
    return [
        Tick(0.0, "start", _cut(ends[0].replace("T", " "), 26)),
        Tick(WIDTH, "end", _cut(ends[1].replace("T", " "), 26)),
    ]


def _cut(label: str, room: int) -> str:
    return label if len(label) <= room else f"{label[: room - 1]}…"


SECTION = Section(
    name="columns",
    title="Columns: source and clone side by side",
    intro="The share of rows with each value (or in each bin) in the source and in the clone. "
    "“Apart” is the share of rows that would have to change to make the two equal.",
    values=_values,
)
