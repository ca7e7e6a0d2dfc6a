"""All queries in a table."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument

#: Queries beyond which only the worst are listed: a page has to open fast.
SHOWN = 1000


def values(document: ComparisonDocument) -> dict[str, object]:
    """What the template needs."""
    order = sorted(range(len(document.queries)), key=lambda i: -(document.queries[i].qerror or 0.0))
    return {"order": order[:SHOWN], "hidden": max(0, len(order) - SHOWN)}
