"""Distributions of single columns."""

from __future__ import annotations

from privbench.report.document import ColumnPart, ComparisonDocument, TablePart
from privbench.report.sections.bars import HEIGHT, WIDTH, Bars, bars
from privbench.report.sections.base import Section
from privbench.report.text import percent

#: Tables that are unfolded when the page opens.
UNFOLDED = 8
_HOW = {
    "values": "",
    "public bins": "bins of equal width by the config",
    "source quantiles": "bins of about equal mass in the source",
}


def _values(document: ComparisonDocument) -> dict[str, object] | None:
    tables = [
        (i, table, [_chart(column) for column in table.columns])
        for i, table in enumerate(document.tables)
        if table.columns or table.left_out
    ]
    if not tables:
        return None
    return {
        "tables": tables,
        "width": WIDTH,
        "height": HEIGHT,
        "left_out": _left_out,
        "unfolded": len(tables) <= UNFOLDED,
    }


def _left_out(table: TablePart) -> str:
    return "; ".join(f"{name} ({reason})" for name, reason in table.left_out.items())


def _chart(column: ColumnPart) -> tuple[ColumnPart, Bars, str, str]:
    """Column, its bars, the share at the upper edge, and how values became cells."""
    top = max([*column.real, *column.clone, 1e-12])
    drawn = bars(column.labels, column.real, column.clone, lambda share: share / top)
    note = f"{len(column.labels)} {_HOW[column.how]}" if _HOW[column.how] else ""
    return column, drawn, percent(top), note


SECTION = Section(
    name="columns",
    title="Columns: source and clone side by side",
    intro="The share of rows with each value (or in each bin) in the source and in the clone. "
    "“Apart” is the share of rows that would have to change to make the two equal.",
    values=_values,
)
