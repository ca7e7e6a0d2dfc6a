"""The queries that the clone answers worst, with the plans of both sides."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument, QueryPart
from privbench.report.sections.base import Section

_SHOWN = 10
# Longer than this, a query's text is folded.
_LONG = 1500


def _values(document: ComparisonDocument) -> dict[str, object] | None:
    numbered = list(enumerate(document.queries))
    wrong = [(i, query) for i, query in numbered if query.qerror is not None and query.qerror > 1]
    failed = [query for _, query in numbered if _statuses(query) != {"ok"}]
    if not wrong and not failed:
        return None
    worst = sorted(wrong, key=lambda item: -(item[1].qerror or 0))
    return {
        "worst": worst[:_SHOWN],
        "failed": failed[:_SHOWN],
        "failures": len(failed),
        "long": _LONG,
    }


def _statuses(query: QueryPart) -> set[str]:
    return {query.source.status, query.clone.status}


SECTION = Section(
    name="worst",
    title="Worst queries",
    intro="Where the clone is furthest from the source: start here when a figure disappoints. "
    "Plans are as they ran, with the rows that came out of each node (all loops together) and "
    "those that the planner expected.",
    values=_values,
)
