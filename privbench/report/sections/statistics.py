"""The planner's statistics of every column."""

from __future__ import annotations

from privbench.metrics.statistics import StatisticPart
from privbench.report.document import ComparisonDocument

_SHOWN = 200


def values(document: ComparisonDocument) -> dict[str, object] | None:
    """What the template needs."""
    found = document.statistics
    if found is None:
        return None
    order = sorted(range(len(found.columns)), key=lambda i: -_badness(found.columns[i]))
    return {
        "statistics": found,
        "order": order[:_SHOWN],
        "more": max(0, len(order) - _SHOWN),
    }


def _badness(part: StatisticPart) -> float:
    """What the planner would notice first: the sum of the differences, each near 0 to 1."""
    return (
        1 - 1 / max(part.n_distinct, 1.0)
        + part.null_frac
        + (part.mcv or 0.0)
        + (part.correlation or 0.0) / 2
    )  # fmt: skip
