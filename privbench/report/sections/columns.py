"""Distributions of single columns: small bar charts, drawn as SVG so that they print."""

from __future__ import annotations

from dataclasses import dataclass

from privbench.report.document import ColumnPart, ComparisonDocument, TablePart
from privbench.report.sections.base import Section
from privbench.report.text import percent

#: Size of a chart's plot area in SVG units.
WIDTH, HEIGHT = 300.0, 96.0
_LABELLED = 12


@dataclass(frozen=True, slots=True)
class Bar:
    """One cell: the two bars' place and what a pointer over them says."""

    x: float
    width: float
    real: float
    clone: float
    label: str
    hint: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One column's chart; bar heights are in SVG units."""

    column: ColumnPart
    bars: list[Bar]
    top: str
    verdict: str


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
    step = WIDTH / max(len(column.labels), 1)
    bars = [
        Bar(
            x=i * step + 0.08 * step,
            width=0.42 * step,
            real=HEIGHT * real / top,
            clone=HEIGHT * clone / top,
            label=_short(label) if len(column.labels) <= _LABELLED else "",
            hint=f"{label}: source {percent(real)}, clone {percent(clone)}",
        )
        for i, (label, real, clone) in enumerate(
            zip(column.labels, column.real, column.clone, strict=True)
        )
    ]
    return Chart(column, bars, percent(top), percent(column.tvd))


def _short(label: str) -> str:
    return label if len(label) <= 9 else f"{label[:8]}…"


SECTION = Section(
    name="columns",
    title="Columns: source and clone side by side",
    intro="The share of rows with each value (or in each bin) in the source and in the clone. "
    "“Apart” is the share of rows that would have to change to make the two equal.",
    values=_values,
)
