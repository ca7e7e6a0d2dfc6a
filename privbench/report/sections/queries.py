"""Every query in one table."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument
from privbench.report.sections.base import Section

#: Queries beyond which only the worst are listed: a page has to open fast.
SHOWN = 1000
#: Characters of a query's text.
TEXT = 120


def _values(document: ComparisonDocument) -> dict[str, object]:
    order = sorted(range(len(document.queries)), key=lambda i: -(document.queries[i].qerror or 0.0))
    return {
        "order": order[:SHOWN],
        "hidden": max(0, len(order) - SHOWN),
        "queries": document.queries,
        "explained": document.work is not None,
        "text": TEXT,
    }


SECTION = Section(
    name="queries",
    title="All queries",
    intro="Sorted by Q-error; click a heading to sort by it.",
    values=_values,
)
