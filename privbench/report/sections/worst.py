"""The queries furthest from the source, and those without an answer."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument

_SHOWN = 10
# Longer than this, a query's text is folded.
_LONG = 1500


def values(document: ComparisonDocument) -> dict[str, object] | None:
    """What the template needs."""
    numbered = list(enumerate(document.queries))
    wrong = [(i, query) for i, query in numbered if query.qerror is not None and query.qerror > 1]
    failed = [q for q in document.queries if {q.source.status, q.clone.status} != {"ok"}]
    if not wrong and not failed:
        return None
    worst = sorted(wrong, key=lambda item: -(item[1].qerror or 0))
    return {
        "worst": worst[:_SHOWN],
        "failed": failed[:_SHOWN],
        "failures": len(failed),
        "long": _LONG,
    }
