"""The sections that list queries, tables and constraints, the worst first."""

import re
from collections import Counter
from collections.abc import Sequence

from privbench.metrics.fidelity import FEW_ROWS
from privbench.report.document import ComparisonDocument, QueryPart
from privbench.report.figures import learned
from privbench.report.text import number

#: Most queries and worst queries that are listed: a page has to open fast.
QUERIES, WORST = 1000, 10
# Longer than this, a query's text is folded.
_LONG = 1500


def queries(document: ComparisonDocument) -> dict[str, object]:
    """Return all queries for a table of the page."""
    order = _from_the_worst([query.qerror for query in document.queries])
    return {"order": order[:QUERIES], "hidden": max(0, len(order) - QUERIES)}


def worst(document: ComparisonDocument) -> dict[str, object] | None:
    """Return the queries furthest from the source, and those without an answer, or None."""
    queries = document.queries
    order = _from_the_worst([query.qerror for query in queries])
    wrong = [i for i in order if (queries[i].qerror or 0.0) > 1]
    failed = [query for query in queries if {query.source.status, query.clone.status} != {"ok"}]
    if not wrong and not failed:
        return None
    return {
        "why": {query.id: _why(query, document) for query in queries},
        "worst": [queries[i] for i in wrong[:WORST]],
        "failed": failed[:WORST],
        "failures": len(failed),
        "long": _LONG,
    }


def _why(query: QueryPart, document: ComparisonDocument) -> list[str]:
    words = {*re.findall(r"\w+", query.sql)}
    return [
        f"{table.name} has {number(table.source_rows)} rows: a look-up, private"
        for table in document.tables
        if not (query.clone.rows or table.public or table.source_rows >= FEW_ROWS)
        and words.issuperset(re.findall(r"\w+", table.name.split(".")[-1]))
    ]


def values(document: ComparisonDocument) -> dict[str, object]:
    """Return the tables for the section's template, the most different first.

    Tables whose figures count come before others.
    """
    there = [table for table in document.tables if table.clone_rows is not None]
    counting = learned(there)
    order = sorted(there, key=lambda table: (table in counting, table.worst), reverse=True)
    return {"tables": order, "counting": counting}


def integrity(document: ComparisonDocument) -> dict[str, object] | None:
    """Return violations of the source's constraints, counted on the clone, or None."""
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
