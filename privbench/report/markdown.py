"""The short form of a report in Markdown, for logs, tickets and terminals."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument
from privbench.report.headlines import headlines
from privbench.report.summary import failed
from privbench.report.templates import template

_WORST = 5


def render(document: ComparisonDocument) -> str:
    """The Markdown text."""
    wrong = [query for query in document.queries if query.qerror is not None and query.qerror > 1]
    return template("report.md.j2").render(
        document=document,
        headlines=headlines(document),
        failed=failed(document),
        worst=sorted(wrong, key=lambda query: -(query.qerror or 0))[:_WORST],
    )
