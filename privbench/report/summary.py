"""The report in short: a few lines of plain text for terminals, Markdown for logs and tickets."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument, GatePart
from privbench.report.headlines import headlines
from privbench.report.parts import CLONE, SOURCE
from privbench.report.templates import template
from privbench.report.text import few, number
from privbench.workload.results import failures

#: Queries that are listed.
_WORST = 5


def markdown(document: ComparisonDocument) -> str:
    """The short report in Markdown."""
    wrong = [query for query in document.queries if query.qerror is not None and query.qerror > 1]
    return template("report.md.j2").render(
        document=document,
        headlines=headlines(document),
        failed=failed(document),
        worst=sorted(wrong, key=lambda query: -(query.qerror or 0))[:_WORST],
    )


def summary(document: ComparisonDocument) -> str:
    """One line a headline (title, figure, verdict, a further figure), then one a gate.

    It holds exact figures of the source: CONFIDENTIAL.
    """
    found = headlines(document)
    title = max(len(line.title) for line in found)
    value = max(len(line.value) for line in found)
    lines = [
        f"{line.title:<{title}}  {line.value:>{value}}  {line.grade or '':<4}  {line.aside}"
        for line in found
    ]
    lines += [
        f"{len(ids)} of {document.workload.queries} queries on the {side}: {reason}: {few(ids)}"
        for side, reason, ids in failed(document)
    ]
    lines += [gate_line(gate) for gate in document.gates]
    return "\n".join(line.rstrip() for line in lines)


def failed(document: ComparisonDocument) -> list[tuple[str, str, list[str]]]:
    """Side, reason and ids of queries without an answer."""
    return [
        (side, reason, ids)
        for side in (SOURCE, CLONE)
        for reason, ids in failures(
            (query.id, part.status, part.message)
            for query in document.queries
            for part in [query.source if side == SOURCE else query.clone]
        )
    ]


def gate_line(gate: GatePart) -> str:
    """One gate in a line."""
    verdict = "FAILED" if gate.failed else "passed"
    return f"gate {verdict}: fail if {gate.condition} (it is {number(gate.figure)})"
