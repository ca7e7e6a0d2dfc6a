"""Lists of queries, columns and constraints, the worst first."""

from collections import Counter
from collections.abc import Sequence

from privbench.metrics.statistics import StatisticPart
from privbench.report.document import ComparisonDocument

#: Most queries, columns and worst queries that are listed: a page has to open fast.
QUERIES, COLUMNS, WORST = 1000, 200, 10
# Longer than this, a query's text is folded.
_LONG = 1500


def queries(document: ComparisonDocument) -> dict[str, object]:
    """All queries in a table."""
    order = _from_the_worst([query.qerror for query in document.queries])
    return {"order": order[:QUERIES], "hidden": max(0, len(order) - QUERIES)}


def worst(document: ComparisonDocument) -> dict[str, object] | None:
    """The queries furthest from the source, and those without an answer."""
    found = document.queries
    order = _from_the_worst([query.qerror for query in found])
    wrong = [i for i in order if (found[i].qerror or 0.0) > 1]
    failed = [query for query in found if {query.source.status, query.clone.status} != {"ok"}]
    if not wrong and not failed:
        return None
    return {
        "worst": [found[i] for i in wrong[:WORST]],
        "failed": failed[:WORST],
        "failures": len(failed),
        "long": _LONG,
    }


def statistics(document: ComparisonDocument) -> dict[str, object] | None:
    """The planner's statistics of every column."""
    found = document.statistics
    if found is None:
        return None
    order = _from_the_worst([_badness(part) for part in found.columns])
    return {"statistics": found, "order": order[:COLUMNS], "more": max(0, len(order) - COLUMNS)}


def integrity(document: ComparisonDocument) -> dict[str, object] | None:
    """Violations of the source's constraints, counted on the clone."""
    if not document.integrity:
        return None
    total = Counter(check.kind for check in document.integrity)
    broken = Counter(check.kind for check in document.integrity if check.violations)
    return {
        "kinds": {kind: (total[kind], broken[kind]) for kind in total},
        "violated": [check for check in document.integrity if check.violations],
    }


def _from_the_worst(figures: Sequence[float | None]) -> list[int]:
    """Places of figures, the largest first; None counts as 0."""
    return sorted(range(len(figures)), key=lambda i: -(figures[i] or 0.0))


def _badness(part: StatisticPart) -> float:
    """How much a column's statistics differ: a sum of differences, each between about 0 and 1."""
    return (
        1 - 1 / max(part.n_distinct, 1.0)
        + part.null_frac
        + (part.mcv or 0.0)
        + (part.correlation or 0.0) / 2
    )  # fmt: skip
