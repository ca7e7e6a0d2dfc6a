"""The short form of a report in Markdown, for logs, tickets and terminals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from privbench.report.document import ComparisonDocument, TablePart
from privbench.report.document_base import SummaryPart
from privbench.report.text import headlines, number

_WORST = 5


def render(document: ComparisonDocument) -> str:
    """The Markdown text."""
    blocks = [
        "# Comparison of a clone with its source",
        f"> **CONFIDENTIAL.** {document.confidential}",
        _sentence(document),
        _table(
            ("figure", "value", "verdict", ""),
            ((h.title, h.value, h.grade or "", h.aside) for h in headlines(document)),
        ),
        _gates(document),
        _spread(document),
        _divergence(document),
        _worst(document),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _sentence(document: ComparisonDocument) -> str:
    return (
        f"Workload `{document.workload.name}` of {document.workload.queries} queries on "
        f"`{document.source.database}` (PostgreSQL {document.source.version}) and its clone "
        f"`{document.clone.database}` (PostgreSQL {document.clone.version}), "
        f"{document.created:%Y-%m-%d %H:%M} UTC, privbench {document.privbench}."
    )


def _gates(document: ComparisonDocument) -> str:
    if not document.gates:
        return ""
    rows = (
        (f"`{gate.condition}`", number(gate.figure), "**failed**" if gate.failed else "passed")
        for gate in document.gates
    )
    return _table(("fail if", "figure", ""), rows)


def _spread(document: ComparisonDocument) -> str:
    points = ("n", "mean", "p50", "p75", "p90", "p95", "p99", "max")
    lines: dict[str, SummaryPart | None] = {
        "Q-error": document.qerror.overall,
        **{f"Q-error, {joins} joins": part for joins, part in document.qerror.by_joins.items()},
        "run time discrepancy, %": document.runtime.overall,
        "noise floor, %": document.runtime.floor,
    }
    rows = (
        (name, *(number(getattr(part, point)) for point in points))
        for name, part in lines.items()
        if part is not None
    )
    return _table(("", *points), rows)


def _divergence(document: ComparisonDocument) -> str:
    rows = (
        (t.name, number(t.source_rows), number(t.clone_rows), *_klds(t)) for t in document.tables
    )
    return _table(("table", "rows", "clone's rows", "2-way KLD", "3-way", "4-way"), rows)


def _klds(table: TablePart) -> list[str]:
    found = [table.divergence.get(way) for way in ("2", "3", "4")]
    return [number(part.kld) if part else "–" for part in found]


def _worst(document: ComparisonDocument) -> str:
    wrong = [query for query in document.queries if query.qerror is not None and query.qerror > 1]
    worst = sorted(wrong, key=lambda query: -(query.qerror or 0))[:_WORST]
    rows = (
        (query.id, number(query.qerror), number(query.source.rows), number(query.clone.rows))
        for query in worst
    )
    return _table(("worst query", "Q-error", "true", "clone"), rows) if worst else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )
