"""Agreement of ``pg_stats``, which the planner reads."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument
from privbench.report.document_work import StatisticPart
from privbench.report.sections.base import Section

_SHOWN = 200


def _values(document: ComparisonDocument) -> dict[str, object] | None:
    found = document.statistics
    if found is None:
        return None
    order = sorted(range(len(found.columns)), key=lambda i: -_badness(found.columns[i]))
    kinds = {
        "n_distinct": ("distinct values, Q-error", "number"),
        "null_frac": ("share of NULL, difference", "number"),
        "mcv": ("most common values, 1 − overlap", "number"),
        "correlation": ("physical order, difference", "number"),
        "avg_width": ("average width, difference in %", "number"),
    }
    return {
        "statistics": found,
        "lines": [(label, ("statistics", name)) for name, (label, _) in kinds.items()],
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


SECTION = Section(
    name="statistics",
    title="Does the planner see the same statistics?",
    intro="The rows of pg_stats of every column on both sides, from the last ANALYZE.",
    values=_values,
)
