"""The section on distributions of single columns."""

from typing import Any

from privbench.report.document import ColumnPart, ComparisonDocument
from privbench.report.figures import learned
from privbench.report.sections.bars import bars
from privbench.report.text import percent

#: Most columns that are drawn: a page has to open fast.
COLUMNS = 300
#: Tables that are unfolded when the page opens.
UNFOLDED = 8
_HOW = {"equal widths": "bins of equal width", "logarithmic widths": "bins of logarithmic width"}


def drawn(document: ComparisonDocument) -> frozenset[str]:
    """Return the tables whose columns are drawn: those that differ most, as many as fit."""
    tables: set[str] = set()
    room = COLUMNS
    apart = {t.name: max((c.tvd for c in t.columns), default=0.0) for t in document.tables}
    for table in sorted(document.tables, key=lambda table: -apart[table.name]):
        if not tables or len(table.columns) <= room:
            tables.add(table.name)
            room -= len(table.columns)
    return frozenset(tables)


def values(document: ComparisonDocument) -> dict[str, object] | None:
    """Return the values for the section's template; None if the section is empty."""
    chosen = drawn(document)
    described = sum(bool(table.columns or table.left_out) for table in document.tables)
    tables = [
        (i, table, [_chart(*item) for item in sorted(enumerate(table.columns), key=_nearness)])
        for i, table in enumerate(document.tables)
        if table.name in chosen and (table.columns or table.left_out)
    ]
    counting = learned(document.tables)
    tables.sort(key=lambda item: (item[1] not in counting, *map(_nearness, item[2][:1]), 0.0))
    if not tables:
        return None
    return {
        "tables": tables,
        "hidden": described - len(tables),
        "unfolded": len(tables) <= UNFOLDED,
    }


def _nearness(item: tuple[Any, ...]) -> float:
    """A place and its column, sorted by this: those furthest apart come first."""
    return -float(item[1].tvd)


def _chart(place: int, column: ColumnPart) -> tuple[int, ColumnPart, dict[str, object], str]:
    """Place, column, its bars, and how values became cells."""
    top = max([*column.real, *column.clone, 1e-12])
    ends = percent(top), "0"
    drawn = bars(column.labels, column.real, column.clone, lambda share: share / top, ends)
    return place, column, drawn, _HOW.get(column.how, "")
