"""The queries that the clone answers worst."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument
from privbench.report.sections.base import Section

_SHOWN = 10


def _values(document: ComparisonDocument) -> dict[str, object] | None:
    wrong = [query for query in document.queries if query.qerror is not None and query.qerror > 1]
    failed = [
        query for query in document.queries if {query.source.status, query.clone.status} != {"ok"}
    ]
    if not wrong and not failed:
        return None
    worst = sorted(wrong, key=lambda query: -(query.qerror or 0))
    return {"worst": worst[:_SHOWN], "failed": failed[:_SHOWN], "failures": len(failed)}


SECTION = Section(
    name="worst",
    title="Worst queries",
    intro="Where the clone is furthest from the source: start here when a figure disappoints.",
    values=_values,
)
